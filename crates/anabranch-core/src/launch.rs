//! Kernel launches.

use crate::context::other_context;
use crate::error::{Error, Result};
use crate::event::{EventCore, RecordsByLaunch};
use crate::memory::MemoryAccess;
use crate::module::KernelCore;
use crate::stream::{OpenStream, StreamCore};
use crate::submission::Submission;
use crate::trace;
use anabranch_hal::{DeclaredRange, EventFlags, KernelAttributes, Launch, LaunchOverlap, ProgrammaticEvent, Status};
use std::ffi::c_void;
use std::panic::Location;
use std::sync::Arc;

/// How a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaunchShape<'e> {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Blocks of a cluster in x, y and z, if the launch has clusters.
    pub cluster: Option<[u32; 3]>,
    /// Dynamic shared memory of a block, in bytes.
    pub dynamic_shared_bytes: u32,
    /// Whether all blocks must run at the same time.
    pub cooperative: bool,
    /// The priority of the launch, which overrides that of the stream.
    pub priority: Option<i32>,
    /// Other attributes of the kernel, if there are any.
    pub attributes: Option<KernelAttributes>,
    /// How the launch overlaps with other work, if it does.
    pub overlap: Option<Overlap<'e>>,
}

/// How a launch overlaps with other work.
#[derive(Clone, Copy, Default)]
pub struct Overlap<'e> {
    /// Whether the kernel may begin before the kernel before it in the stream is complete.
    pub programmatic_serialization: bool,
    /// An event that all blocks trigger, and whether each does so when it begins.
    pub programmatic_event: Option<(&'e EventCore, bool)>,
    /// An event that is reached when all blocks have begun.
    pub completion_event: Option<&'e EventCore>,
}

impl<'e> Overlap<'e> {
    fn events(&self) -> [Option<&'e EventCore>; 2] {
        [self.programmatic_event.map(|(event, _)| event), self.completion_event]
    }

    /// Whether the launch records events, which no node of a graph does. In a capture, they lead to edges.
    pub fn records_events(&self) -> bool {
        self.events().iter().any(Option::is_some)
    }

    fn to_driver(self) -> LaunchOverlap<'e> {
        LaunchOverlap {
            programmatic_serialization: self.programmatic_serialization,
            programmatic_event: self
                .programmatic_event
                .map(|(event, at_block_start)| ProgrammaticEvent { event: event.raw().live(), at_block_start }),
            completion_event: self.completion_event.map(|event| event.raw().live()),
        }
    }
}

impl PartialEq for Overlap<'_> {
    fn eq(&self, other: &Self) -> bool {
        let identity = |overlap: &Self| overlap.events().map(|event| event.map(std::ptr::from_ref));
        let at_block_start = |overlap: &Self| overlap.programmatic_event.is_some_and(|(_, at_start)| at_start);
        self.programmatic_serialization == other.programmatic_serialization
            && identity(self) == identity(other)
            && at_block_start(self) == at_block_start(other)
    }
}

impl std::fmt::Debug for Overlap<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [programmatic, completion] = self.events().map(|event| event.map(|event| event.raw().handle()));
        formatter
            .debug_struct("Overlap")
            .field("programmatic_serialization", &self.programmatic_serialization)
            .field("programmatic_event", &programmatic)
            .field("at_block_start", &self.programmatic_event.is_some_and(|(_, at_start)| at_start))
            .field("completion_event", &completion)
            .finish()
    }
}

/// The arguments of a kernel: values, sizes and ranges, whose number is known at run time.
#[derive(Clone, Copy)]
pub struct LaunchArguments<'a> {
    /// The address of each value, in order.
    pub values: &'a [*const c_void],
    /// The size of each value in bytes.
    pub sizes: &'a [usize],
    /// The memory that the arguments point to, for the driver and its layers.
    pub ranges: &'a [DeclaredRange],
    /// The memory that the launch uses.
    pub accesses: &'a [MemoryAccess<'a>],
}

const LAUNCHING: &str = "launching a kernel";

impl OpenStream {
    /// Launches a kernel.
    ///
    /// # Safety
    /// Each argument has the type that the kernel declares. The kernel uses only memory among the accesses, in the
    /// declared way, or memory that the caller guarantees. Its threads do not race. With programmatic serialization, the kernel
    /// waits for the end of earlier work before it uses the same memory, and before each of its blocks ends.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the arguments, the grid, the block or the shared memory are not valid for the
    /// kernel or the device; `CUDA_ERROR_INVALID_HANDLE (400)` if the kernel or memory belongs to another context;
    /// `CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE (720)` and `CUDA_ERROR_INVALID_CLUSTER_SIZE (912)` for cooperative
    /// grids and clusters that do not fit on the device.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn launch(
        &self,
        kernel: &KernelCore,
        shape: &LaunchShape<'_>,
        arguments: &LaunchArguments<'_>,
    ) -> Result<()> {
        let location = Location::caller();
        trace::queued!(stream = self.id(), kernel = kernel.name(), grid = ?shape.grid, block = ?shape.block, "{LAUNCHING}");
        if let Some(overlap) = &shape.overlap {
            // SAFETY: the caller promises the same.
            return unsafe { self.launch_overlapping(kernel, shape, overlap, arguments, location) };
        }
        let submission = self.begin_launch(kernel, arguments, location)?;
        // SAFETY: the caller promises the same.
        unsafe { self.submit_launch(&submission, kernel, shape, None, arguments) }
    }

    /// Launches a kernel that may begin before earlier work is complete, or that records events. Those may be reached before
    /// the kernel is complete, so nothing is ever known of such a record: whoever waits for the event still waits for the
    /// launch where memory is used.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch).
    #[cold]
    unsafe fn launch_overlapping(
        &self,
        kernel: &KernelCore,
        shape: &LaunchShape<'_>,
        overlap: &Overlap<'_>,
        arguments: &LaunchArguments<'_>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let to_driver = overlap.to_driver();
        if !overlap.records_events() {
            let submission = self.begin_launch(kernel, arguments, location)?;
            // SAFETY: the caller promises the same.
            return unsafe { self.submit_launch(&submission, kernel, shape, Some(&to_driver), arguments) };
        }
        self.require_usable(LAUNCHING)?;
        for event in overlap.events().into_iter().flatten() {
            self.check_event(event)?;
        }
        // Locked before the submission begins, as for other records.
        let records = RecordsByLaunch::begin(overlap.events())?;
        let submission = self.begin_launch(kernel, arguments, location)?;
        // SAFETY: the caller promises the same.
        unsafe { self.submit_launch(&submission, kernel, shape, Some(&to_driver), arguments) }?;
        match submission.capturing().filter(|_| self.is_capturing()) {
            Some(capturing) => records.are_captured(self, capturing),
            None => records.are_made(self),
        }
        Ok(())
    }

    /// Refuses an event that no launch can record.
    fn check_event(&self, event: &EventCore) -> Result<()> {
        if !event.context().is_same(self.context()) {
            return Err(other_context(LAUNCHING, "event", self.place()));
        }
        let suits =
            |flags: EventFlags| flags.contains(EventFlags::DISABLE_TIMING) && !flags.contains(EventFlags::INTERPROCESS);
        if event.flags().is_none_or(suits) {
            return Ok(());
        }
        let message = "the event measures time, or is for several processes";
        Err(Error::argument(Status::INVALID_VALUE, LAUNCHING, message)
            .with_hint("make the event with EventFlags::DISABLE_TIMING only")
            .at(self.place()))
    }

    /// Checks a launch, and begins its submission.
    #[inline(always)]
    fn begin_launch<'a>(
        &'a self,
        kernel: &'a KernelCore,
        arguments: &LaunchArguments<'_>,
        location: &'static Location<'static>,
    ) -> Result<Submission<'a>> {
        let operation = LAUNCHING;
        let context = self.context();
        if !Arc::ptr_eq(kernel.context(), context) && !kernel.context().is_same(context) {
            return Err(other_context(operation, "kernel", self.place()));
        }
        kernel.check(arguments.sizes)?;
        Ok(Submission::begin_at(self, operation, location)?.with_label(kernel.name()))
    }

    /// # Safety
    /// As for [`launch`](Self::launch).
    #[inline(always)]
    unsafe fn submit_launch(
        &self,
        submission: &Submission<'_>,
        kernel: &KernelCore,
        shape: &LaunchShape<'_>,
        overlap: Option<&LaunchOverlap<'_>>,
        arguments: &LaunchArguments<'_>,
    ) -> Result<()> {
        let context = self.context();
        let launch = shape.as_launch(overlap, arguments.values, arguments.ranges);
        // SAFETY: the caller promises that each argument has the type that the kernel declares, and that the kernel uses only memory
        // among the accesses, or that the caller keeps valid. The module is unloaded behind the launch.
        let launched = submission.submit_retaining(arguments.accesses, [kernel.module()], |call, stream| unsafe {
            context.driver().launch(call, stream, kernel.live(), &launch)
        });
        launched.map_err(|error| shape.explain(error, self))
    }
}

impl KernelCore {
    /// How many clusters of a launch can reside on the device at the same time.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_CLUSTER_SIZE (912)` for a cluster that does not fit; `CUDA_ERROR_INVALID_VALUE (1)` for a block that no
    /// device has.
    pub fn max_active_clusters(&self, shape: &LaunchShape<'_>) -> Result<u32> {
        self.module().ask("computing how many clusters fit", |driver, call| {
            driver.function_max_active_clusters(call, self.live(), &shape.as_launch(None, &[], &[]))
        })
    }

    /// How many blocks the largest cluster of a launch can have.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for a block that no device has.
    pub fn max_cluster_size(&self, shape: &LaunchShape<'_>) -> Result<u32> {
        self.module().ask("computing the largest cluster", |driver, call| {
            driver.function_max_cluster_size(call, self.live(), &shape.as_launch(None, &[], &[]))
        })
    }
}

impl LaunchShape<'_> {
    #[inline(always)]
    fn as_launch<'a>(
        &'a self,
        overlap: Option<&'a LaunchOverlap<'a>>,
        arguments: &'a [*const c_void],
        ranges: &'a [DeclaredRange],
    ) -> Launch<'a> {
        Launch {
            grid: self.grid,
            block: self.block,
            cluster: self.cluster,
            dynamic_shared_bytes: self.dynamic_shared_bytes,
            cooperative: self.cooperative,
            priority: self.priority,
            attributes: self.attributes.as_ref(),
            overlap,
            arguments,
            ranges,
        }
    }

    /// Adds which part of the configuration a driver has refused.
    #[cold]
    #[inline(never)]
    fn explain(&self, error: Error, stream: &StreamCore) -> Error {
        if error.status() != Status::INVALID_VALUE {
            return error;
        }
        let device = stream.context().device().properties();
        let threads = self.block.iter().fold(1u64, |threads, &extent| threads.saturating_mul(extent.into()));
        let exceeds = |extents: &[u32; 3], limits: &[u32; 3]| (0..3).any(|axis| extents[axis] > limits[axis]);
        let message = if self.grid.contains(&0) {
            format!("the grid {:?} has no blocks; make every extent at least 1", self.grid)
        } else if self.block.contains(&0) {
            format!("the block {:?} has no threads; make every extent at least 1", self.block)
        } else if threads > u64::from(device.max_threads_per_block)
            || exceeds(&self.block, &device.max_block_dimensions)
        {
            format!(
                "the block {:?} has {threads} threads, and the device allows {} and extents up to {:?}",
                self.block, device.max_threads_per_block, device.max_block_dimensions
            )
        } else if exceeds(&self.grid, &device.max_grid_dimensions) {
            format!("the grid {:?} exceeds the device's {:?}", self.grid, device.max_grid_dimensions)
        } else if self.dynamic_shared_bytes > device.max_shared_memory_per_block_optin {
            format!(
                "{} bytes of shared memory are more than the {} that a block of this device can have",
                self.dynamic_shared_bytes, device.max_shared_memory_per_block_optin
            )
        } else if self.dynamic_shared_bytes > device.max_shared_memory_per_block {
            format!(
                "{} bytes of shared memory need Kernel::set_attribute(MaxDynamicSharedBytes) first",
                self.dynamic_shared_bytes
            )
        } else if error.message().is_some() {
            return error;
        } else {
            "the grid, the block or the shared memory is more than this kernel can have; see Kernel::info".to_owned()
        };
        error.with_message(message)
    }
}
