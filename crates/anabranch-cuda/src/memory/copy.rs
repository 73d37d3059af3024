//! Copies: the driver's call for each kind, and the description of a copy of rows and slices.

use crate::error::check;
use crate::ffi::cuda_types::{
    CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_UNIFIED,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUcontext, CUdeviceptr, CUmemorytype,
    CUstream,
};
use crate::ffi::{CudaFunctions, Zeroed};
use crate::handles::host_address;
use anabranch_hal::{Copy3d, CopyKind, CopyPlace, Failure, Result, Status};
use std::ffi::c_void;

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
    // SAFETY: the caller promises that the stream is live, and keeps both ranges valid until the copy has run; which of them
    // are host memory is what the kind says, and the driver refuses device addresses that it did not give.
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
    // SAFETY: the caller keeps both ranges valid until the copy has run; which of them are host memory is what the kind
    // says, and the driver
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
pub(crate) fn describe(copy: &Copy3d) -> CUDA_MEMCPY3D {
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

/// The driver's description of a copy of rows and slices between contexts.
pub(super) fn describe_peer(copy: &Copy3d, to: CUcontext, from: CUcontext) -> CUDA_MEMCPY3D_PEER {
    let one = describe(copy);
    CUDA_MEMCPY3D_PEER {
        srcXInBytes: one.srcXInBytes,
        srcY: one.srcY,
        srcZ: one.srcZ,
        srcMemoryType: one.srcMemoryType,
        srcHost: one.srcHost,
        srcDevice: one.srcDevice,
        srcContext: from,
        srcPitch: one.srcPitch,
        srcHeight: one.srcHeight,
        dstXInBytes: one.dstXInBytes,
        dstY: one.dstY,
        dstZ: one.dstZ,
        dstMemoryType: one.dstMemoryType,
        dstHost: one.dstHost,
        dstDevice: one.dstDevice,
        dstContext: to,
        dstPitch: one.dstPitch,
        dstHeight: one.dstHeight,
        WidthInBytes: one.WidthInBytes,
        Height: one.Height,
        Depth: one.Depth,
        ..CUDA_MEMCPY3D_PEER::zeroed()
    }
}

fn memory_type(place: &CopyPlace) -> CUmemorytype {
    if place.host { CU_MEMORYTYPE_HOST } else { CU_MEMORYTYPE_DEVICE }
}

/// The copy that the driver describes. `is_host` decides about an address that may be of either kind.
pub(crate) fn read(description: &CUDA_MEMCPY3D, is_host: impl Fn(CUdeviceptr) -> bool) -> Result<Copy3d> {
    let place = |kind, host: *const c_void, device: CUdeviceptr, pitch, height, origin| {
        let host = match kind {
            CU_MEMORYTYPE_HOST => Some(host.expose_provenance() as u64),
            CU_MEMORYTYPE_DEVICE => None,
            CU_MEMORYTYPE_UNIFIED => is_host(device).then_some(device),
            CU_MEMORYTYPE_ARRAY => return Err(no_place("an array")),
            other => return Err(no_place(&format!("memory of the driver's kind {other}"))),
        };
        Ok(CopyPlace { address: host.unwrap_or(device), host: host.is_some(), pitch, height, origin })
    };
    let d = description;
    Ok(Copy3d {
        source: place(
            d.srcMemoryType,
            d.srcHost,
            d.srcDevice,
            d.srcPitch,
            d.srcHeight,
            [d.srcXInBytes, d.srcY, d.srcZ],
        )?,
        destination: place(
            d.dstMemoryType,
            d.dstHost.cast_const(),
            d.dstDevice,
            d.dstPitch,
            d.dstHeight,
            [d.dstXInBytes, d.dstY, d.dstZ],
        )?,
        extent: [d.WidthInBytes, d.Height, d.Depth],
    })
}

fn no_place(what: &str) -> Failure {
    Failure::argument(
        Status::NOT_SUPPORTED,
        format!("one end of the copy is {what}, for which the contract has no type"),
    )
}

/// Whether an address is one of host memory. An address that the driver does not know counts as one.
pub(crate) fn is_host(functions: &CudaFunctions, address: CUdeviceptr) -> bool {
    let mut kind: CUmemorytype = 0;
    // SAFETY: this attribute is a number of this type, written to a variable that outlives the call; the driver refuses
    // addresses that it does not know.
    let answer = check(unsafe {
        functions.cuPointerGetAttribute((&raw mut kind).cast(), CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)
    });
    answer.is_err() || kind == CU_MEMORYTYPE_HOST
}

#[cfg(test)]
mod tests {
    use super::{describe, describe_peer, read};
    use crate::ffi::cuda_types::{
        CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_UNIFIED,
    };
    use anabranch_hal::{Copy3d, CopyPlace, Status};

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

    #[test]
    fn each_context_is_that_of_its_end() {
        let source = CopyPlace { address: 0x1000, host: false, pitch: 64, height: 8, origin: [1, 2, 3] };
        let destination = CopyPlace { address: 0x2000, host: true, pitch: 128, height: 16, origin: [4, 5, 6] };
        let copy = Copy3d { source, destination, extent: [7, 8, 9] };
        let [to, from] = [1, 2].map(std::ptr::without_provenance_mut);
        let (peer, one) = (describe_peer(&copy, to, from), describe(&copy));
        assert_eq!((peer.dstContext, peer.srcContext), (to, from));
        assert_eq!((peer.srcDevice, peer.dstHost), (one.srcDevice, one.dstHost));
        assert_eq!((peer.srcMemoryType, peer.dstMemoryType), (one.srcMemoryType, one.dstMemoryType));
        assert_eq!((peer.srcPitch, peer.srcHeight, peer.dstPitch, peer.dstHeight), (64, 8, 128, 16));
        assert_eq!((peer.srcXInBytes, peer.srcY, peer.srcZ), (1, 2, 3));
        assert_eq!((peer.dstXInBytes, peer.dstY, peer.dstZ), (4, 5, 6));
        assert_eq!((peer.WidthInBytes, peer.Height, peer.Depth), (7, 8, 9));
    }

    #[test]
    fn a_copy_comes_back_as_it_was() {
        let source = CopyPlace { address: 0x1000, host: true, pitch: 64, height: 8, origin: [1, 2, 3] };
        let destination = CopyPlace { address: 0x2000, host: false, pitch: 128, height: 16, origin: [4, 5, 6] };
        for copy in [
            Copy3d { source, destination, extent: [7, 8, 9] },
            Copy3d { source: destination, destination: source, extent: [7, 8, 9] },
        ] {
            assert_eq!(read(&describe(&copy), |_| false), Ok(copy));
        }
        let mut description = describe(&Copy3d { source: destination, destination: source, extent: [1, 1, 1] });
        description.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
        assert_eq!(read(&description, |address| address == 0x2000).map(|copy| copy.source.host), Ok(true));
        description.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        assert_eq!(read(&description, |_| false).unwrap_err().status, Status::NOT_SUPPORTED);
    }
}
