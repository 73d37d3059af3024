//! A number to which kernels append digits. It shows the order in which they ran.

use super::graph_tools::raw_digit;
use crate::case::{Verdict, equal, status_of};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::{Access, DeclaredRange, Launch};
use anabranch::{Buffer, DevicePointer, Kernel, NodeParameters, NodeWork, Result, Status, Stream};

/// A number in device memory, to which kernels append decimal digits. The launches bypass the library, which would
/// order all uses of one buffer. The order is therefore that of the streams alone.
pub(super) struct Trace<'e> {
    environment: &'e Environment,
    add: Kernel,
    home: Stream,
    number: Buffer<u32>,
}

/// The grid and block of a launch.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) blocks: u32,
    pub(super) threads: u32,
    pub(super) shared_bytes: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self { blocks: 1, threads: 1, shared_bytes: 0 }
    }
}

impl<'e> Trace<'e> {
    /// Creates the number with the value 0. Create it before any gate is shut: it must be dropped after the gates,
    /// because its drop waits for the work that uses it.
    pub(super) fn new(environment: &'e Environment) -> Result<Self> {
        let home = environment.stream()?;
        let number = home.allocate_zeroed(1)?;
        home.synchronize()?;
        Ok(Self { environment, add: environment.kernel("add")?, home, number })
    }

    /// Appends a digit, ordered only by `stream`.
    pub(super) fn append(&self, stream: &Stream, digit: u32) -> Verdict {
        self.multiply_add(stream, 10, digit)
    }

    /// Multiplies by `factor` and adds `value`, ordered only by `stream`.
    pub(super) fn multiply_add(&self, stream: &Stream, factor: u32, value: u32) -> Verdict {
        equal("launching `add`", self.launch(stream, factor, value, Shape::default()), Status::SUCCESS)
    }

    /// The status of appending a 0.
    pub(super) fn ask(&self, stream: &Stream) -> Status {
        self.launch(stream, 10, 0, Shape::default())
    }

    /// The status of appending a 0 with a different grid or block, which the driver should refuse.
    pub(super) fn ask_with(&self, stream: &Stream, shape: Shape) -> Status {
        self.launch(stream, 10, 0, shape)
    }

    fn launch(&self, stream: &Stream, factor: u32, value: u32, shape: Shape) -> Status {
        let address = self.number.device_pointer();
        let arguments = [(&raw const address).cast(), (&raw const factor).cast(), (&raw const value).cast()];
        let ranges = [DeclaredRange { argument: 0, address: address.0, bytes: 4, access: Access::Write }];
        let launch = Launch {
            grid: [shape.blocks, 1, 1],
            block: [shape.threads, 1, 1],
            cluster: None,
            dynamic_shared_bytes: shape.shared_bytes,
            cooperative: false,
            priority: None,
            attributes: None,
            overlap: None,
            arguments: &arguments,
            ranges: &ranges,
        };
        let (driver, context) = (self.environment.device().driver(), self.environment.context().live());
        // SAFETY: all handles are live, and the arguments are those of `add`. The drop of `self` waits for the launch
        // before it frees the number, and cases that capture the launch run the graph before that.
        status_of(unsafe { driver.launch(&context.into(), stream.live(), self.add.live(), &launch) })
    }

    /// The address of the number.
    pub(super) fn address(&self) -> DevicePointer {
        self.number.device_pointer()
    }

    /// A node that appends a digit. The library does not know that it uses the number.
    pub(super) fn node(&self, digit: u32) -> Result<NodeWork<'static>> {
        let node = raw_digit(self.environment, self.number.device_pointer(), digit)?;
        // SAFETY: the arguments are those of `add`; the drop of `self` waits for launches before the number is freed.
        Ok(unsafe { NodeWork::from_parameters(NodeParameters::Kernel(node)) })
    }

    /// Reads the number at this moment, regardless of pending work.
    pub(super) fn read(&self) -> Result<u32> {
        Ok(self.home.download(&self.number)?.first().copied().unwrap_or_default())
    }

    /// Checks that the number is still 0 after everything that can run has had time to run.
    pub(super) fn is_untouched(&self) -> Verdict {
        settle(&self.home)?;
        equal("the number while the gate is shut", self.read()?, 0)
    }
}

impl Drop for Trace<'_> {
    fn drop(&mut self) {
        // A lost context has no pending work, and the error was already reported.
        let _ = self.environment.context().synchronize();
    }
}

/// Gives work in other streams that wrongly does not wait time to run: several round trips of an idle stream.
pub(super) fn settle(idle: &Stream) -> Verdict {
    for _ in 0..4 {
        idle.launch_host_func(|| ())?;
        idle.synchronize()?;
    }
    Ok(())
}
