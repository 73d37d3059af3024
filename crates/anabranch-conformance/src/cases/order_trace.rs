//! A number to which kernels append digits: it tells afterwards in which order they ran.

use super::graph_tools::raw_digit;
use crate::case::{Verdict, equal, status_of};
use crate::environment::Environment;
use anabranch::hal::{Access, DeclaredRange, Launch};
use anabranch::{Buffer, DevicePointer, Kernel, NodeParameters, NodeWork, Result, Status, Stream};

/// A number in device memory, to which kernels append decimal digits. The library, which would order all uses of one
/// buffer, is passed by, so that the order is the streams' own.
pub(super) struct Trace<'e> {
    environment: &'e Environment,
    add: Kernel,
    home: Stream,
    number: Buffer<u32>,
}

/// The shape of a launch.
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
    /// A number that is 0. Make it before any gate is shut: it must be dropped after the gates, because its drop waits
    /// for the work that uses it.
    pub(super) fn new(environment: &'e Environment) -> Result<Self> {
        let home = environment.stream()?;
        let number = home.allocate_zeroed(1)?;
        home.synchronize()?;
        Ok(Self { environment, add: environment.kernel("add")?, home, number })
    }

    /// Appends a digit, in the order of `stream` alone.
    pub(super) fn append(&self, stream: &Stream, digit: u32) -> Verdict {
        self.multiply_add(stream, 10, digit)
    }

    /// Multiplies by `factor` and adds `value`, in the order of `stream` alone.
    pub(super) fn multiply_add(&self, stream: &Stream, factor: u32, value: u32) -> Verdict {
        equal("launching `add`", self.launch(stream, factor, value, Shape::default()), Status::SUCCESS)
    }

    /// What appending a 0 answers.
    pub(super) fn ask(&self, stream: &Stream) -> Status {
        self.launch(stream, 10, 0, Shape::default())
    }

    /// What appending a 0 answers with a grid of another shape, which the driver is to refuse.
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
            arguments: &arguments,
            ranges: &ranges,
        };
        let (driver, context) = (self.environment.device().driver(), self.environment.context().as_raw());
        // SAFETY: all handles are live; the arguments are those of `add`; the drop of `self` waits for the launch before
        // the number is freed, and whoever captures launches no later than that.
        status_of(unsafe { driver.launch(context, stream.as_raw(), self.add.as_raw(), &launch) })
    }

    /// Where the number is.
    pub(super) fn address(&self) -> DevicePointer {
        self.number.device_pointer()
    }

    /// A node that appends a digit, of which the library does not know that it uses the number.
    pub(super) fn node(&self, digit: u32) -> Result<NodeWork<'static>> {
        let node = raw_digit(self.environment, self.number.device_pointer(), digit)?;
        // SAFETY: the arguments are those of `add`; the drop of `self` waits for launches before the number is freed.
        Ok(unsafe { NodeWork::from_parameters(NodeParameters::Kernel(node)) })
    }

    /// The number at this moment, whatever is still pending.
    pub(super) fn read(&self) -> Result<u32> {
        Ok(self.home.download(&self.number)?.first().copied().unwrap_or_default())
    }

    /// That the number is still 0 after everything that could run had its chance.
    pub(super) fn is_untouched(&self) -> Verdict {
        settle(&self.home)?;
        equal("the number while the gate is shut", self.read()?, 0)
    }
}

impl Drop for Trace<'_> {
    fn drop(&mut self) {
        // A lost context has no work left, and others have reported it.
        let _ = self.environment.context().synchronize();
    }
}

/// Gives work of other streams that wrongly does not wait the chance to run: several round trips of an idle stream.
pub(super) fn settle(idle: &Stream) -> Verdict {
    for _ in 0..4 {
        idle.launch_host_func(|| ())?;
        idle.synchronize()?;
    }
    Ok(())
}
