//! One kernel launch: the short call for plain launches, the long one for those with attributes. Neither allocates.

use crate::error::check;
use crate::ffi::cuda_types::*;
use crate::ffi::{CudaFunctions, Zeroed};
use anabranch_hal::{Launch, Result};
use std::ffi::{c_uint, c_void};
use std::ptr;

/// Queues a launch.
///
/// # Safety
///
/// Function and stream are live, the stream is known by itself or by the current context, the arguments are those that the kernel declares, and what the
/// kernel does with them is sound.
#[inline]
pub(super) unsafe fn queue(
    functions: &CudaFunctions,
    stream: CUstream,
    function: CUfunction,
    launch: &Launch<'_>,
) -> Result<()> {
    if launch.cluster.is_some() || launch.cooperative || launch.priority.is_some() {
        // SAFETY: the caller promises that function and stream are live, and that the launch is sound.
        return unsafe { queue_with_attributes(functions, stream, function, launch) };
    }
    let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (launch.grid, launch.block);
    // SAFETY: the caller promises that function and stream are live, and that the launch is sound. The driver copies the
    // arguments before it returns.
    check(unsafe {
        functions.cuLaunchKernel(
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
    functions: &CudaFunctions,
    stream: CUstream,
    function: CUfunction,
    launch: &Launch<'_>,
) -> Result<()> {
    let (mut attributes, count) = attributes(launch.cluster, launch.cooperative, launch.priority);
    let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (launch.grid, launch.block);
    let config = CUlaunchConfig {
        gridDimX: grid_x,
        gridDimY: grid_y,
        gridDimZ: grid_z,
        blockDimX: block_x,
        blockDimY: block_y,
        blockDimZ: block_z,
        sharedMemBytes: launch.dynamic_shared_bytes,
        hStream: stream,
        attrs: attributes.as_mut_ptr(),
        numAttrs: count,
    };
    let parameters = parameters(launch.arguments);
    // SAFETY: the caller promises that function and stream are live, and that the launch is sound. As many attributes are
    // there as stated, and the driver reads them, and copies the arguments, before it returns.
    check(unsafe { functions.cuLaunchKernelEx(&config, function, parameters, ptr::null_mut()) })
}

/// The arguments as the driver takes them: it reads the values that they point to, and writes nothing.
#[inline]
fn parameters(arguments: &[*const c_void]) -> *mut *mut c_void {
    // Without arguments the driver is given an empty list, so that it refuses a kernel that has parameters.
    if arguments.is_empty() { ptr::null_mut() } else { arguments.as_ptr().cast_mut().cast() }
}

/// The attributes of a launch, or of a kernel node, and how many there are.
pub(crate) fn attributes(
    cluster: Option<[u32; 3]>,
    cooperative: bool,
    priority: Option<i32>,
) -> ([CUlaunchAttribute; 3], c_uint) {
    let mut attributes = [CUlaunchAttribute::zeroed(); 3];
    let mut count = 0;
    let mut add = |attribute| {
        attributes[count] = attribute;
        count += 1;
    };
    if let Some([x, y, z]) = cluster {
        let cluster = CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
        add(attribute(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, |value| value.clusterDim = cluster));
    }
    if cooperative {
        add(attribute(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, |value| value.cooperative = 1));
    }
    if let Some(priority) = priority {
        add(attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY, |value| value.priority = priority));
    }
    (attributes, count as c_uint)
}

/// One attribute. Its value is written over zeros, because the driver may read all of the union.
fn attribute(id: CUlaunchAttributeID, write: impl FnOnce(&mut CUlaunchAttributeValue)) -> CUlaunchAttribute {
    let mut attribute = CUlaunchAttribute { id, ..CUlaunchAttribute::zeroed() };
    write(&mut attribute.value);
    attribute
}

#[cfg(test)]
mod tests {
    use super::{attributes, parameters};
    use crate::ffi::cuda_types::*;
    use std::ffi::c_void;

    #[test]
    fn only_what_is_asked_for_becomes_an_attribute() {
        assert_eq!(attributes(None, false, None).1, 0);
        let (found, count) = attributes(None, false, Some(-3));
        assert_eq!((found[0].id, count), (CU_LAUNCH_ATTRIBUTE_PRIORITY, 1));
        // SAFETY: the attribute of this number has this member.
        assert_eq!(unsafe { found[0].value.priority }, -3);
    }

    #[test]
    fn all_attributes_fit() {
        let (found, count) = attributes(Some([2, 3, 4]), true, Some(0));
        let expected =
            [CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_PRIORITY];
        assert_eq!((found.map(|attribute| attribute.id), count), (expected, 3));
        // SAFETY: the attribute of this number has this member.
        let cluster = unsafe { found[0].value.clusterDim };
        assert_eq!((cluster.x, cluster.y, cluster.z), (2, 3, 4));
    }

    #[test]
    fn no_arguments_are_a_null_pointer() {
        assert!(parameters(&[]).is_null());
        let value = 7_u32;
        let arguments = [(&raw const value).cast::<c_void>()];
        assert_eq!(parameters(&arguments).addr(), arguments.as_ptr().addr());
    }
}
