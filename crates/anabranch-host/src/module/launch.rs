//! Launches: checked, and copied into an entry.

use super::attributes::check_attributes;
use super::body::Body;
use super::function::FunctionState;
use super::kernel::{KernelEntry, KernelReference, KernelWork};
use super::spares::Spares;
use crate::engine::{StreamState, work};
use crate::limits::{MAX_BLOCK_DIMENSIONS, MAX_GRID_DIMENSIONS, MAX_THREADS_PER_BLOCK};
use anabranch_hal::{Failure, FunctionHandle, KernelNode, Launch, Result, Status};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Blocks of a cluster that every device can run.
const PORTABLE_CLUSTER_SIZE: u64 = 8;
/// Blocks of a cluster when the kernel has asked for more.
const LARGEST_CLUSTER_SIZE: u64 = 16;

impl FunctionState {
    /// Enqueues a launch that was checked.
    ///
    /// # Safety
    /// Each argument's address is valid for reads of its parameter's size; what the kernel then does is sound; the
    /// kernel's module is not unloaded before it has run.
    pub(crate) unsafe fn enqueue(&self, stream: &Arc<StreamState>, launch: &Launch<'_>) {
        // SAFETY: the caller promises that the module is not unloaded before the launch has run.
        let kernel = unsafe { KernelReference::new(self) };
        let mut launched = Spares::of(stream).take().unwrap_or_else(|| Arc::new(KernelWork::new(kernel)));
        // A spare launch is nobody else's; if it were, it would be left to them.
        if Arc::get_mut(&mut launched).is_none() {
            launched = Arc::new(KernelWork::new(kernel));
        }
        if let Some(work) = Arc::get_mut(&mut launched) {
            work.kernel = kernel;
            work.grid = launch.grid;
            work.block = launch.block;
            work.cluster = self.cluster(launch).unwrap_or([1; 3]);
            work.cooperative = launch.cooperative;
            work.shared_bytes = self.body.static_shared_bytes() as usize + launch.dynamic_shared_bytes as usize;
            work.values.clear();
            let sizes = self.body.parameter_sizes();
            for (&address, &size) in launch.arguments.iter().zip(sizes).filter(|(_, size)| **size > 0) {
                // SAFETY: the caller promises that as many bytes can be read there; that it is not null was checked.
                work.values.extend_from_slice(unsafe { std::slice::from_raw_parts(address.cast::<u8>(), size) });
            }
            work.ranges.clear();
            work.ranges.extend(self.globals.used(launch.ranges));
        }
        stream.enqueue(work(KernelEntry(Some(launched))));
    }

    /// A launch as a node keeps it. Its priority is its own, or else the stream's.
    ///
    /// # Safety
    /// As for [`enqueue`](Self::enqueue).
    #[cold]
    pub(crate) unsafe fn node(&self, stream: &StreamState, launch: &Launch<'_>) -> KernelNode {
        let value = |(&address, &size): (&*const c_void, &usize)| match size {
            0 => Vec::new(),
            // SAFETY: the caller promises that as many bytes can be read there; that it is not null was checked.
            size => unsafe { std::slice::from_raw_parts(address.cast::<u8>(), size) }.to_vec(),
        };
        KernelNode {
            function: FunctionHandle::from_raw(std::ptr::from_ref(self) as usize),
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            cooperative: launch.cooperative,
            priority: launch.priority.or((stream.priority != 0).then_some(stream.priority)),
            attributes: launch.attributes.copied().unwrap_or_default(),
            arguments: launch.arguments.iter().zip(self.body.parameter_sizes()).map(value).collect(),
            ranges: launch.ranges.to_vec(),
        }
    }

    /// A launch as a graph keeps it, checked.
    ///
    /// # Safety
    /// The kernel's module is not unloaded before all that runs it has run; what it then does is sound.
    pub(crate) unsafe fn prepare(&self, node: &KernelNode) -> Result<KernelWork> {
        let arguments: SmallVec<[*const c_void; 8]> =
            node.arguments.iter().map(|value| value.as_ptr().cast()).collect();
        let launch = Launch {
            grid: node.grid,
            block: node.block,
            cluster: node.cluster,
            dynamic_shared_bytes: node.dynamic_shared_bytes,
            cooperative: node.cooperative,
            priority: node.priority,
            attributes: Some(&node.attributes),
            overlap: None,
            arguments: &arguments,
            ranges: &node.ranges,
        };
        self.check_arguments(&launch)?;
        self.check_block(&launch)?;
        check_cluster_extents(&launch)?;
        self.check_configuration(&launch)?;
        if node.arguments.iter().zip(self.body.parameter_sizes()).any(|(value, &size)| value.len() != size) {
            return Err(Failure::argument(Status::INVALID_VALUE, "an argument is not of the size of its parameter"));
        }
        // SAFETY: the caller promises that the module is not unloaded before all that runs it has run.
        let mut work = KernelWork::new(unsafe { KernelReference::new(self) });
        work.grid = node.grid;
        work.block = node.block;
        work.cluster = self.cluster(&launch).unwrap_or([1; 3]);
        work.cooperative = node.cooperative;
        work.shared_bytes = self.body.static_shared_bytes() as usize + node.dynamic_shared_bytes as usize;
        work.values.extend(node.arguments.iter().flatten().copied());
        work.ranges.extend(self.globals.used(&node.ranges));
        Ok(work)
    }

    /// Checks how many arguments there are.
    pub(crate) fn check_count(&self, arguments: usize) -> Result<()> {
        if arguments == self.body.parameter_sizes().len() {
            Ok(())
        } else {
            Err(invalid("the number of arguments is not that of the kernel's parameters"))
        }
    }

    /// Checks that a launch is complete, as hardware does before anything else.
    pub(crate) fn check_arguments(&self, launch: &Launch<'_>) -> Result<()> {
        let sizes = self.body.parameter_sizes();
        self.check_count(launch.arguments.len())?;
        if launch.arguments.iter().zip(sizes).any(|(address, &size)| address.is_null() && size > 0) {
            return Err(invalid("the address of an argument is null"));
        }
        match &self.body {
            Body::Closures(_) => Ok(()),
            Body::Ptx(kernel) => kernel.check(launch),
        }
    }

    /// Checks the block of a launch, of which no grid can be made if it is wrong.
    pub(crate) fn check_block(&self, launch: &Launch<'_>) -> Result<()> {
        if fits(launch.block, MAX_BLOCK_DIMENSIONS) && product(launch.block) <= u64::from(MAX_THREADS_PER_BLOCK) {
            return Ok(());
        }
        Err(invalid("an extent of the block is 0 or too large, or the block has more than 1024 threads"))
    }

    /// Checks that the device can run a launch of blocks that were checked, as hardware does.
    pub(crate) fn check_configuration(&self, launch: &Launch<'_>) -> Result<()> {
        if !fits(launch.grid, MAX_GRID_DIMENSIONS) {
            return Err(invalid("an extent of the grid is 0 or too large"));
        }
        let cluster = self.cluster(launch);
        if let Some(cluster) = cluster {
            self.check_cluster(launch.grid, cluster)?;
        }
        if let Some(attributes) = launch.attributes {
            check_attributes(attributes, launch.grid, cluster)?;
        }
        if i32::try_from(launch.dynamic_shared_bytes).is_err() {
            return Err(invalid("no device has so much shared memory"));
        }
        if launch.cooperative {
            let limit = self.max_resident_blocks(launch);
            if product(launch.grid) > limit {
                return Err(Failure::argument(
                    Status::COOPERATIVE_LAUNCH_TOO_LARGE,
                    format!("no more than {limit} blocks of this size can run at the same time"),
                ));
            }
        }
        if launch.dynamic_shared_bytes > self.max_dynamic_shared_bytes.load(Ordering::Relaxed) {
            return Err(invalid("the block has more dynamic shared memory than the kernel is set to have at most"));
        }
        Ok(())
    }

    /// How many blocks of a launch can run at the same time.
    fn max_resident_blocks(&self, launch: &Launch<'_>) -> u64 {
        let per_multiprocessor =
            self.max_active_blocks(product(launch.block) as u32, launch.dynamic_shared_bytes as usize);
        u64::from(per_multiprocessor) * u64::from(u32::try_from(self.core.engine.workers()).unwrap_or(u32::MAX).max(1))
    }

    /// How many clusters of a launch can run at the same time.
    pub(crate) fn max_active_clusters(&self, launch: &Launch<'_>) -> Result<u32> {
        self.check_block(launch)?;
        check_cluster_extents(launch)?;
        let cluster = self.cluster(launch).unwrap_or([1; 3]);
        self.check_cluster(launch.grid, cluster)?;
        Ok(u32::try_from(self.max_resident_blocks(launch) / product(cluster)).unwrap_or(u32::MAX))
    }

    /// How many blocks a cluster of a launch can have.
    pub(crate) fn max_cluster_size(&self, launch: &Launch<'_>) -> Result<u32> {
        self.check_block(launch)?;
        let largest = self.largest_cluster();
        Ok(if self.max_resident_blocks(launch) == 0 { 0 } else { u32::try_from(largest).unwrap_or(u32::MAX) })
    }

    /// The size of the clusters of a launch: its own, or that which the kernel was compiled for.
    fn cluster(&self, launch: &Launch<'_>) -> Option<[u32; 3]> {
        launch.cluster.or_else(|| self.body.required_cluster())
    }

    fn largest_cluster(&self) -> u64 {
        let non_portable = self.non_portable_cluster_size.load(Ordering::Relaxed);
        if non_portable { LARGEST_CLUSTER_SIZE } else { PORTABLE_CLUSTER_SIZE }
    }

    fn check_cluster(&self, grid: [u32; 3], cluster: [u32; 3]) -> Result<()> {
        let largest = self.largest_cluster();
        let blocks = product(cluster);
        let divides = grid.iter().zip(cluster).all(|(blocks, extent)| blocks.is_multiple_of(extent));
        if divides && blocks <= largest {
            return Ok(());
        }
        Err(Failure::argument(
            Status::INVALID_CLUSTER_SIZE,
            format!("the extents of a cluster divide those of the grid, and it has no more than {largest} blocks"),
        ))
    }
}

pub(super) fn invalid(what: &str) -> Failure {
    Failure::argument(Status::INVALID_VALUE, what)
}

fn fits(extents: [u32; 3], limits: [u32; 3]) -> bool {
    extents.iter().zip(limits).all(|(&extent, limit)| (1..=limit).contains(&extent))
}

/// `CUDA_ERROR_INVALID_CLUSTER_SIZE (912)` for a cluster of no blocks.
pub(crate) fn check_cluster_extents(launch: &Launch<'_>) -> Result<()> {
    if launch.cluster.is_some_and(|cluster| cluster.contains(&0)) {
        return Err(Failure::argument(Status::INVALID_CLUSTER_SIZE, "an extent of the cluster is 0"));
    }
    Ok(())
}

/// How many blocks, or threads, there are, or the largest number.
fn product(extents: [u32; 3]) -> u64 {
    extents.iter().fold(1, |product: u64, &extent| product.saturating_mul(extent.into()))
}
