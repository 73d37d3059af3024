//! Copies: the driver's call for each kind, and the description of a copy of rows and slices.

use crate::error::check;
use crate::ffi::cuda_types::{CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST, CUDA_MEMCPY3D, CUmemorytype, CUstream};
use crate::ffi::{CudaFunctions, Zeroed};
use crate::handles::host_address;
use anabranch_hal::{Copy3d, CopyKind, CopyPlace, Result};

/// Queues a copy.
///
/// # Safety
///
/// The stream is live and known by itself or by the current context, and both ranges stay valid until the copy has run.
#[inline]
pub(super) unsafe fn queue(
    functions: &CudaFunctions,
    kind: CopyKind,
    destination: u64,
    source: u64,
    bytes: usize,
    stream: CUstream,
) -> Result<()> {
    // SAFETY: the caller vouches for the stream and the ranges; which of them are host memory is what the kind says, and
    // the driver refuses device addresses that it did not give.
    check(unsafe {
        match kind {
            CopyKind::HostToDevice => {
                functions.cuMemcpyHtoDAsync(destination, host_address(source).cast_const(), bytes, stream)
            }
            CopyKind::DeviceToHost => functions.cuMemcpyDtoHAsync(host_address(destination), source, bytes, stream),
            CopyKind::DeviceToDevice => functions.cuMemcpyDtoDAsync(destination, source, bytes, stream),
            CopyKind::Inferred => functions.cuMemcpyAsync(destination, source, bytes, stream),
        }
    })
}

/// Copies on the legacy default stream.
///
/// # Safety
///
/// A context is current, and both ranges stay valid until the copy has run.
pub(super) unsafe fn perform(
    functions: &CudaFunctions,
    kind: CopyKind,
    destination: u64,
    source: u64,
    bytes: usize,
) -> Result<()> {
    // SAFETY: the caller vouches for the ranges; which of them are host memory is what the kind says, and the driver
    // refuses device addresses that it did not give.
    check(unsafe {
        match kind {
            CopyKind::HostToDevice => functions.cuMemcpyHtoD(destination, host_address(source).cast_const(), bytes),
            CopyKind::DeviceToHost => functions.cuMemcpyDtoH(host_address(destination), source, bytes),
            CopyKind::DeviceToDevice => functions.cuMemcpyDtoD(destination, source, bytes),
            CopyKind::Inferred => functions.cuMemcpy(destination, source, bytes),
        }
    })
}

/// The driver's description of a copy of rows and slices.
pub(super) fn describe(copy: &Copy3d) -> CUDA_MEMCPY3D {
    let mut description = CUDA_MEMCPY3D::zeroed();

    let source = &copy.source;
    [description.srcXInBytes, description.srcY, description.srcZ] = source.origin;
    description.srcMemoryType = memory_type(source);
    if source.host {
        description.srcHost = host_address(source.address).cast_const();
    } else {
        description.srcDevice = source.address;
    }
    description.srcPitch = source.pitch;
    description.srcHeight = source.height;

    let destination = &copy.destination;
    [description.dstXInBytes, description.dstY, description.dstZ] = destination.origin;
    description.dstMemoryType = memory_type(destination);
    if destination.host {
        description.dstHost = host_address(destination.address);
    } else {
        description.dstDevice = destination.address;
    }
    description.dstPitch = destination.pitch;
    description.dstHeight = destination.height;

    [description.WidthInBytes, description.Height, description.Depth] = copy.extent;
    description
}

fn memory_type(place: &CopyPlace) -> CUmemorytype {
    if place.host { CU_MEMORYTYPE_HOST } else { CU_MEMORYTYPE_DEVICE }
}

#[cfg(test)]
mod tests {
    use super::describe;
    use crate::ffi::cuda_types::{CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST};
    use anabranch_hal::{Copy3d, CopyPlace};

    #[test]
    fn each_end_lands_in_its_own_fields() {
        let source = CopyPlace { address: 0x1000, host: true, pitch: 64, height: 8, origin: [1, 2, 3] };
        let destination = CopyPlace { address: 0x2000, host: false, pitch: 128, height: 16, origin: [4, 5, 6] };
        let description = describe(&Copy3d { source, destination, extent: [7, 8, 9] });

        assert_eq!(description.srcMemoryType, CU_MEMORYTYPE_HOST);
        assert_eq!((description.srcHost.addr(), description.srcDevice), (0x1000, 0));
        assert_eq!((description.srcPitch, description.srcHeight), (64, 8));
        assert_eq!((description.srcXInBytes, description.srcY, description.srcZ), (1, 2, 3));

        assert_eq!(description.dstMemoryType, CU_MEMORYTYPE_DEVICE);
        assert_eq!((description.dstHost.addr(), description.dstDevice), (0, 0x2000));
        assert_eq!((description.dstPitch, description.dstHeight), (128, 16));
        assert_eq!((description.dstXInBytes, description.dstY, description.dstZ), (4, 5, 6));

        assert_eq!((description.WidthInBytes, description.Height, description.Depth), (7, 8, 9));
    }
}
