//! The structures of DLPack 1.x, by their names there. Those without a version are the same in DLPack 0.x.

use std::ffi::c_void;

/// A version of the format.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DLPackVersion {
    /// Other major versions have other structures.
    pub major: u32,
    /// Newer minor versions have more devices, types and flags.
    pub minor: u32,
}

impl DLPackVersion {
    /// The version that this library writes. It needs nothing of later ones.
    pub const WRITTEN: Self = Self { major: 1, minor: 0 };
}

/// The kind of memory that a tensor is in (`DLDeviceType`). It is a newtype, so that it can represent kinds that newer versions
/// add.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DLDeviceType(pub i32);

impl DLDeviceType {
    /// Memory of the host.
    pub const CPU: Self = Self(1);
    /// Memory of an NVIDIA GPU.
    pub const CUDA: Self = Self(2);
    /// Host memory that is pinned for NVIDIA GPUs.
    pub const CUDA_HOST: Self = Self(3);
    /// Memory of an AMD GPU.
    pub const ROCM: Self = Self(10);
    /// Host memory that is pinned for AMD GPUs.
    pub const ROCM_HOST: Self = Self(11);
    /// Managed memory of NVIDIA GPUs.
    pub const CUDA_MANAGED: Self = Self(13);
}

/// Where a tensor is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DLDevice {
    /// The kind of memory.
    pub device_type: DLDeviceType,
    /// The number of the device. It is 0 for memory that belongs to no one device.
    pub device_id: i32,
}

/// What the bits of an element mean (`DLDataTypeCode`).
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DLDataTypeCode(pub u8);

impl DLDataTypeCode {
    /// A signed integer.
    pub const INT: Self = Self(0);
    /// An unsigned integer.
    pub const UINT: Self = Self(1);
    /// A floating-point number of IEEE 754.
    pub const FLOAT: Self = Self(2);
    /// A `bfloat16`.
    pub const BFLOAT: Self = Self(4);
}

/// The type of the elements, in the byte order of the machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DLDataType {
    /// What the bits mean.
    pub code: DLDataTypeCode,
    /// The number of bits.
    pub bits: u8,
    /// The number of values in an element, which is 1 unless it is a vector.
    pub lanes: u16,
}

/// A tensor, which owns nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// Where the memory begins.
    pub data: *mut c_void,
    /// Where it is.
    pub device: DLDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The type of the elements.
    pub dtype: DLDataType,
    /// The extent of each dimension.
    pub shape: *mut i64,
    /// The distance in each dimension, in elements. Null stands for row-major order without gaps.
    pub strides: *mut i64,
    /// How far behind `data` the tensor begins, in bytes.
    pub byte_offset: u64,
}

/// A tensor with its owner, without a version.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// Whatever the producer needs.
    pub manager_ctx: *mut c_void,
    /// Called once, when the tensor is not used any more. There may be none.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// A tensor with its owner.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The version of this structure.
    pub version: DLPackVersion,
    /// Whatever the producer needs.
    pub manager_ctx: *mut c_void,
    /// Called once, when the tensor is not used any more. There may be none.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    /// Flags, such as [`READ_ONLY`].
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// In the flags of a tensor: the consumer must not write it.
pub const READ_ONLY: u64 = 1;

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::{DLManagedTensor, DLManagedTensorVersioned, DLTensor};
    use std::mem::offset_of;

    /// As a C compiler lays out `dlpack.h`.
    #[test]
    fn structures_are_laid_out_as_in_c() {
        assert_eq!((size_of::<DLTensor>(), size_of::<DLManagedTensor>()), (48, 64));
        assert_eq!(size_of::<DLManagedTensorVersioned>(), 80);
        assert_eq!(
            (offset_of!(DLTensor, device), offset_of!(DLTensor, ndim), offset_of!(DLTensor, dtype)),
            (8, 16, 20)
        );
        assert_eq!((offset_of!(DLTensor, shape), offset_of!(DLTensor, strides)), (24, 32));
        assert_eq!((offset_of!(DLTensor, byte_offset), offset_of!(DLManagedTensor, deleter)), (40, 56));
        let versioned = |flags| (offset_of!(DLManagedTensorVersioned, deleter), flags);
        assert_eq!(versioned(offset_of!(DLManagedTensorVersioned, flags)), (16, 24));
        assert_eq!(offset_of!(DLManagedTensorVersioned, dl_tensor), 32);
    }
}
