//! One kernel launch: the short call for plain launches, the long one for those with attributes. Neither allocates.

use super::attributes::{Attributes, kernel_attributes};
use crate::driver::CudaDriver;
use crate::error::{Answer, check};
use crate::ffi::cuda_types::*;
use anabranch_hal::{Driver, KernelAttributes, Launch, Result};
use std::ffi::{c_int, c_void};
use std::ptr;

/// Queues a launch.
///
/// # Safety
///
/// Function and stream are live, the stream is known by itself or by the current context, the arguments are those that the kernel declares, and what the
/// kernel does with them is sound.
#[inline]
pub(super) unsafe fn queue(
    driver: &CudaDriver,
    stream: CUstream,
    function: CUfunction,
    launch: &Launch<'_>,
) -> Result<()> {
    let has_attributes = launch.attributes.is_some() || launch.overlap.is_some();
    if launch.cluster.is_some() || launch.cooperative || launch.priority.is_some() || has_attributes {
        // SAFETY: the caller promises that function and stream are live, and that the launch is sound.
        return unsafe { queue_with_attributes(driver, stream, function, launch) };
    }
    let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (launch.grid, launch.block);
    // SAFETY: the caller promises that function and stream are live, and that the launch is sound. The driver copies the
    // arguments before it returns.
    check(unsafe {
        driver.functions.cuLaunchKernel(
            function,
            grid_x,
            grid_y,
            grid_z,
            block_x,
            block_y,
            block_z,
            launch.dynamic_shared_bytes,
            stream,
            parameters(launch.arguments),
            ptr::null_mut(),
        )
    })
}

/// # Safety
///
/// As for [`queue`].
#[inline(never)]
unsafe fn queue_with_attributes(
    driver: &CudaDriver,
    stream: CUstream,
    function: CUfunction,
    launch: &Launch<'_>,
) -> Result<()> {
    let (none, version) = (KernelAttributes::NONE, driver.version());
    let others = launch.attributes.unwrap_or(&none);
    let mut attributes = kernel_attributes(version, launch.cluster, launch.cooperative, launch.priority, others)?;
    if let Some(overlap) = launch.overlap {
        attributes.add_overlap(version, overlap)?;
    }
    let config = config(stream, launch, &mut attributes);
    let parameters = parameters(launch.arguments);
    // SAFETY: the caller promises that function and stream are live, and that the launch is sound. As many attributes are
    // there as stated, and the driver reads them, and copies the arguments, before it returns.
    check(unsafe { driver.functions.cuLaunchKernelEx(&config, function, parameters, ptr::null_mut()) })
}

/// The configuration of a launch. It points to the attributes.
fn config(stream: CUstream, launch: &Launch<'_>, attributes: &mut Attributes) -> CUlaunchConfig {
    let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (launch.grid, launch.block);
    CUlaunchConfig {
        gridDimX: grid_x,
        gridDimY: grid_y,
        gridDimZ: grid_z,
        blockDimX: block_x,
        blockDimY: block_y,
        blockDimZ: block_z,
        sharedMemBytes: launch.dynamic_shared_bytes,
        hStream: stream,
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.count(),
    }
}

/// What the driver computes about the clusters of a launch in the current context.
pub(super) fn ask_about_clusters(
    driver: &CudaDriver,
    launch: &Launch<'_>,
    ask: impl FnOnce(&mut c_int, &CUlaunchConfig) -> Answer,
) -> Result<u32> {
    let none = KernelAttributes::NONE;
    let others = launch.attributes.unwrap_or(&none);
    let mut attributes =
        kernel_attributes(driver.version(), launch.cluster, launch.cooperative, launch.priority, others)?;
    let mut number = 0;
    check(ask(&mut number, &config(ptr::null_mut(), launch, &mut attributes)))?;
    Ok(u32::try_from(number).unwrap_or(0))
}

/// The arguments as the driver takes them: it reads the values that they point to, and writes nothing.
#[inline]
fn parameters(arguments: &[*const c_void]) -> *mut *mut c_void {
    // Without arguments the driver is given an empty list, so that it refuses a kernel that has parameters.
    if arguments.is_empty() { ptr::null_mut() } else { arguments.as_ptr().cast_mut().cast() }
}

#[cfg(test)]
mod tests {
    use super::parameters;
    use std::ffi::c_void;

    #[test]
    fn no_arguments_are_a_null_pointer() {
        assert!(parameters(&[]).is_null());
        let value = 7_u32;
        let arguments = [(&raw const value).cast::<c_void>()];
        assert_eq!(parameters(&arguments).addr(), arguments.as_ptr().addr());
    }
}
