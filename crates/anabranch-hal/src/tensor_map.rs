//! Tensor maps (Driver API, group TENSOR_MEMORY): descriptions of tensors in device memory, which kernels get by value.

use crate::{Call, DevicePointer, Failure, Result, Status};
use bytemuck::{Pod, Zeroable};
use std::fmt;

/// The largest number of dimensions.
pub const MOST_TENSOR_DIMENSIONS: usize = 5;

/// The addresses and strides of a tensor are multiples of so many bytes, and so is a row of a box.
const ALIGNMENT: u64 = 16;

/// The type of the elements of a tensor (`CUtensorMapDataType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorDataType {
    /// Integers of 8 bits without a sign.
    U8,
    /// Integers of 16 bits without a sign.
    U16,
    /// Integers of 32 bits without a sign.
    U32,
    /// Integers of 32 bits with a sign.
    I32,
    /// Integers of 64 bits without a sign.
    U64,
    /// Integers of 64 bits with a sign.
    I64,
    /// Floating-point numbers of 16 bits.
    F16,
    /// Floating-point numbers of 32 bits.
    F32,
    /// Floating-point numbers of 64 bits.
    F64,
    /// Floating-point numbers of 16 bits with the exponent of 32 bits.
    Bf16,
}

impl TensorDataType {
    /// The size of an element in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether the elements are floating-point numbers.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64 | Self::Bf16)
    }
}

/// How rows of a box are distributed over the banks of shared memory (`CUtensorMapSwizzle`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorSwizzle {
    /// As they are.
    #[default]
    None,
    /// Within 32 bytes.
    Bytes32,
    /// Within 64 bytes.
    Bytes64,
    /// Within 128 bytes.
    Bytes128,
}

impl TensorSwizzle {
    /// The longest row of a box in bytes.
    const fn row(self) -> u64 {
        match self {
            Self::None => u64::MAX,
            Self::Bytes32 => 32,
            Self::Bytes64 => 64,
            Self::Bytes128 => 128,
        }
    }
}

/// How much the cache of the device fetches at once (`CUtensorMapL2promotion`). It never changes results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorPromotion {
    /// What is asked for.
    #[default]
    None,
    /// 64 bytes.
    Bytes64,
    /// 128 bytes.
    Bytes128,
    /// 256 bytes.
    Bytes256,
}

/// What is read outside of a tensor (`CUtensorMapFloatOOBfill`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TensorFill {
    /// Zeros.
    #[default]
    Zero,
    /// A value that is not a number, which some instructions take for 0. For floating-point numbers.
    NotANumber,
}

/// A tensor, and the box in which it is read and written (`cuTensorMapEncodeTiled`). The first dimension is the one whose
/// elements are next to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TiledTensor {
    /// The type of the elements.
    pub data_type: TensorDataType,
    /// The address of the first element. A multiple of 16.
    pub address: DevicePointer,
    /// How many elements there are in each dimension: 1 to 2^32. There are 1 to 5 dimensions.
    pub extents: Vec<u64>,
    /// How many bytes there are between neighbours in each dimension but the first: multiples of 16, less than 2^40.
    pub strides: Vec<u64>,
    /// The extents of the box: 1 to 256. A row of it has a multiple of 16 bytes.
    pub box_extents: Vec<u32>,
    /// Every how many elements of the box are taken in each dimension: 1 to 8. That of the first dimension is ignored.
    pub element_strides: Vec<u32>,
    /// How a box is distributed in shared memory. It limits the bytes of a row.
    pub swizzle: TensorSwizzle,
    /// How much is fetched at once.
    pub promotion: TensorPromotion,
    /// What is read outside of the tensor.
    pub fill: TensorFill,
}

impl TiledTensor {
    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.extents.len()
    }

    /// The number of bytes from the first element to the last, both included. `None` if they are more than there are addresses.
    pub fn byte_len(&self) -> Option<u64> {
        let last = |(extent, stride): (&u64, u64)| extent.checked_sub(1)?.checked_mul(stride);
        let strides = std::iter::once(self.data_type.bytes()).chain(self.strides.iter().copied());
        let mut offsets = self.extents.iter().zip(strides).map(last);
        offsets.try_fold(self.data_type.bytes(), |sum, offset| sum.checked_add(offset?))
    }

    /// Checks that there are 1 to 5 dimensions, and as many strides and extents as that needs.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` with what is wrong.
    pub fn check_dimensions(&self) -> Result<()> {
        let refuse = |what: String| Err(Failure::argument(Status::INVALID_VALUE, what));
        let rank = self.rank();
        if !(1..=MOST_TENSOR_DIMENSIONS).contains(&rank) {
            return refuse(format!("a tensor has 1 to {MOST_TENSOR_DIMENSIONS} dimensions, and not {rank}"));
        }
        let lengths = [self.strides.len() + 1, self.box_extents.len(), self.element_strides.len()];
        if lengths != [rank; 3] {
            return refuse(format!(
                "a tensor of {rank} dimensions has {} strides, and extents of the box and element strides for each",
                rank - 1
            ));
        }
        Ok(())
    }

    /// Checks what NVIDIA's documentation requires.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` with what is wrong.
    pub fn check(&self) -> Result<()> {
        self.check_dimensions()?;
        let refuse = |what: String| Err(Failure::argument(Status::INVALID_VALUE, what));
        let bytes = self.data_type.bytes();
        if !self.address.0.is_multiple_of(ALIGNMENT) || self.address.is_null() {
            return refuse(format!("the address {:#x} of the tensor is not aligned to 16 bytes", self.address.0));
        }
        if let Some(extent) = self.extents.iter().find(|&&extent| extent == 0 || extent > 1 << 32) {
            return refuse(format!("an extent of the tensor is {extent}, and not from 1 to 2^32"));
        }
        if let Some(stride) =
            self.strides.iter().find(|&&stride| !stride.is_multiple_of(ALIGNMENT) || stride >= 1 << 40)
        {
            return refuse(format!("a stride of the tensor is {stride} bytes, and no multiple of 16 below 2^40"));
        }
        if let Some(extent) = self.box_extents.iter().find(|&&extent| !(1..=256).contains(&extent)) {
            return refuse(format!("an extent of the box is {extent}, and not from 1 to 256"));
        }
        let row = u64::from(self.box_extents[0]) * bytes;
        if !row.is_multiple_of(ALIGNMENT) {
            return refuse(format!("a row of the box has {row} bytes, which is no multiple of 16"));
        }
        if row > self.swizzle.row() {
            return refuse(format!(
                "a row of the box has {row} bytes, and with that swizzle at most {}",
                self.swizzle.row()
            ));
        }
        if let Some(stride) = self.element_strides.iter().find(|&&stride| !(1..=8).contains(&stride)) {
            return refuse(format!("an element stride is {stride}, and not from 1 to 8"));
        }
        if self.fill == TensorFill::NotANumber && !self.data_type.is_float() {
            return refuse("only floating-point numbers can be filled with what is not a number".to_owned());
        }
        Ok(())
    }
}

/// A tensor map as kernels get it, by value (`CUtensorMap`). What it contains is the driver's. The headers of CUDA 12 align it
/// to 64 bytes, and those of CUDA 13 to 128.
#[derive(Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(128))]
pub struct EncodedTensorMap([u64; 16]);

impl EncodedTensorMap {
    /// A driver makes one from its own representation.
    pub const fn from_raw(raw: [u64; 16]) -> Self {
        Self(raw)
    }

    /// The driver's representation.
    pub const fn as_raw(&self) -> &[u64; 16] {
        &self.0
    }
}

impl fmt::Debug for EncodedTensorMap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EncodedTensorMap").finish_non_exhaustive()
    }
}

/// Makes tensor maps.
pub trait TensorMaps {
    /// Makes a tensor map (`cuTensorMapEncodeTiled`). It is valid as long as the memory is.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` for what [`TiledTensor::check`] refuses; `CUDA_ERROR_NOT_SUPPORTED (801)` if the
    /// driver has no tensor maps. What a driver answers for a device without them is not documented: see
    /// [`Capabilities::TENSOR_MAPS`](crate::Capabilities::TENSOR_MAPS).
    fn tensor_map_encode(&self, call: &Call<'_>, tensor: &TiledTensor) -> Result<EncodedTensorMap>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor() -> TiledTensor {
        TiledTensor {
            data_type: TensorDataType::F32,
            address: DevicePointer(0x1000),
            extents: vec![10, 6, 3],
            strides: vec![48, 320],
            box_extents: vec![4, 2, 1],
            element_strides: vec![1, 1, 1],
            swizzle: TensorSwizzle::None,
            promotion: TensorPromotion::None,
            fill: TensorFill::NotANumber,
        }
    }

    #[test]
    fn a_tensor_ends_behind_its_last_element() {
        assert_eq!(tensor().byte_len(), Some(9 * 4 + 5 * 48 + 2 * 320 + 4));
        assert_eq!(TiledTensor { extents: vec![0], ..tensor() }.byte_len(), None);
        assert_eq!(TiledTensor { extents: vec![2; 3], strides: vec![u64::MAX; 2], ..tensor() }.byte_len(), None);
    }

    #[test]
    fn what_the_documentation_forbids_is_refused_by_name() {
        assert_eq!(tensor().check(), Ok(()));
        type Change = fn(&mut TiledTensor);
        let wrong: [(Change, &str); 16] = [
            (|tensor| tensor.extents.clear(), "dimensions"),
            (|tensor| tensor.extents = vec![1; 6], "dimensions"),
            (|tensor| _ = tensor.strides.pop(), "2 strides"),
            (|tensor| tensor.box_extents.push(1), "for each"),
            (|tensor| tensor.element_strides.clear(), "for each"),
            (|tensor| tensor.address = DevicePointer(0x1008), "0x1008"),
            (|tensor| tensor.address = DevicePointer::NULL, "aligned"),
            (|tensor| tensor.extents[2] = 0, "extent of the tensor is 0"),
            (|tensor| tensor.extents[0] = (1 << 32) + 1, "2^32"),
            (|tensor| tensor.strides[1] = 328, "328 bytes"),
            (|tensor| tensor.strides[1] = 1 << 40, "2^40"),
            (|tensor| tensor.box_extents[1] = 257, "257"),
            (|tensor| tensor.box_extents[0] = 5, "20 bytes"),
            (|tensor| (tensor.box_extents[0], tensor.swizzle) = (12, TensorSwizzle::Bytes32), "at most 32"),
            (|tensor| tensor.element_strides[2] = 9, "element stride is 9"),
            (|tensor| tensor.data_type = TensorDataType::I32, "floating-point"),
        ];
        for (change, expected) in wrong {
            let mut tensor = tensor();
            change(&mut tensor);
            let failure = tensor.check().unwrap_err();
            assert_eq!(failure.status, Status::INVALID_VALUE);
            assert!(failure.to_string().contains(expected), "{failure}, {expected}");
        }
    }
}
