//! Tensors as arguments of kernels.

use super::arguments::KernelArgument;
use super::arguments::sealed::{ArgumentMemory, Sealed};
use crate::error::Result;
use crate::memory::{BufferSlice, BufferSliceMut};
use anabranch_core::tensor_map::encode;
use anabranch_hal::{Access, EncodedTensorMap, TensorElement, TensorFill, TensorPromotion, TensorSwizzle, TiledTensor};
use std::fmt;
use std::marker::PhantomData;

/// How a tensor lies in memory, and the box in which kernels read and write it. The first dimension is the one whose elements
/// are next to each other: the columns of a picture come before its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorLayout {
    extents: Vec<u64>,
    strides: Option<Vec<u64>>,
    box_extents: Vec<u32>,
    element_strides: Option<Vec<u32>>,
    swizzle: TensorSwizzle,
    promotion: TensorPromotion,
    fill: TensorFill,
}

impl TensorLayout {
    /// A tensor of 1 to 5 dimensions, one behind the other with no gaps, and its box. Extents are numbers of elements: up to
    /// 2^32 of the tensor, and up to 256 of the box.
    pub fn new(extents: impl Into<Vec<u64>>, box_extents: impl Into<Vec<u32>>) -> Self {
        Self {
            extents: extents.into(),
            strides: None,
            box_extents: box_extents.into(),
            element_strides: None,
            swizzle: TensorSwizzle::None,
            promotion: TensorPromotion::None,
            fill: TensorFill::Zero,
        }
    }

    /// How many bytes there are between neighbours in each dimension but the first: multiples of 16, less than 2^40.
    #[must_use]
    pub fn with_strides(self, bytes: impl Into<Vec<u64>>) -> Self {
        Self { strides: Some(bytes.into()), ..self }
    }

    /// Takes only every so many elements of the box in each dimension, 1 to 8. The first dimension is always taken whole.
    #[must_use]
    pub fn with_element_strides(self, steps: impl Into<Vec<u32>>) -> Self {
        Self { element_strides: Some(steps.into()), ..self }
    }

    /// How rows of the box are distributed over the banks of shared memory. They have no more bytes than that.
    #[must_use]
    pub fn with_swizzle(self, swizzle: TensorSwizzle) -> Self {
        Self { swizzle, ..self }
    }

    /// How much the cache of the device fetches at once.
    #[must_use]
    pub fn with_promotion(self, promotion: TensorPromotion) -> Self {
        Self { promotion, ..self }
    }

    /// What is read outside of the tensor.
    #[must_use]
    pub fn with_fill(self, fill: TensorFill) -> Self {
        Self { fill, ..self }
    }

    fn describe<T: TensorElement>(&self, slice: &BufferSlice<'_, T>) -> TiledTensor {
        let dense = || {
            // What is too large is refused later.
            let mut stride = size_of::<T>() as u64;
            let lower = self.extents.split_last().map_or(&[][..], |(_, lower)| lower);
            let next = |extent: &u64| {
                stride = stride.saturating_mul(*extent);
                stride
            };
            lower.iter().map(next).collect()
        };
        TiledTensor {
            data_type: T::DATA_TYPE,
            address: slice.device_pointer(),
            extents: self.extents.clone(),
            strides: self.strides.clone().unwrap_or_else(dense),
            box_extents: self.box_extents.clone(),
            element_strides: self.element_strides.clone().unwrap_or_else(|| vec![1; self.extents.len()]),
            swizzle: self.swizzle,
            promotion: self.promotion,
            fill: self.fill,
        }
    }
}

/// A tensor in a buffer, which a kernel reads, as an argument: a tensor map (`CUtensorMap`). Kernels get it by value, as a
/// parameter `const __grid_constant__ CUtensorMap`. A launch with it uses the memory like a launch with the slice.
///
/// Kernels that are closures on the software device get it by [`HostArguments::tensor`](crate::HostArguments::tensor); the
/// parameter has 128 bytes. Swizzles are about the banks of shared memory, and mean nothing there.
///
/// ```
/// use anabranch::{DualModule, HostFunction, LaunchConfig, TensorLayout, TensorMap};
///
/// let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
/// // The sum of each box of 4 x 2 elements of a picture of 8 columns and 6 rows.
/// let function = HostFunction::new("sums", &[128, 8], |block, arguments| {
///     let (picture, sums) = (arguments.tensor::<f32>(0), arguments.slice::<f32>(1));
///     let [x, y, _] = block.index();
///     let mut sum = 0.0;
///     picture.load(&[4 * i64::from(x), 2 * i64::from(y)], |_, element| sum += element);
///     sums.set((2 * y + x) as usize, sum);
/// });
/// let kernel = DualModule::new().host_function(function).load(&stream.context())?.kernel("sums")?;
/// let picture = stream.upload(&(0..48u8).map(f32::from).collect::<Vec<_>>())?;
/// let mut sums = stream.allocate_zeroed::<f32>(6)?;
/// let tensor = TensorMap::new(&picture, &TensorLayout::new([8, 6], [4, 2]))?;
/// stream.launch_checked(&kernel, &LaunchConfig::new((2, 3), 1), (tensor, &mut sums))?;
/// assert_eq!(stream.download(&sums)?, [44.0, 76.0, 172.0, 204.0, 300.0, 332.0]);
/// # Ok::<(), anabranch::Error>(())
/// ```
///
/// Follows `cuTensorMapEncodeTiled`. Interleaved layouts, layouts for convolutions (`cuTensorMapEncodeIm2col`) and packed types
/// are not offered.
#[derive(Clone, Copy)]
pub struct TensorMap<'a, T> {
    encoded: EncodedTensorMap,
    slice: BufferSlice<'a, T>,
}

/// A tensor in a buffer, which a kernel writes and may read, as an argument. Otherwise as [`TensorMap`].
pub struct TensorMapMut<'a, T> {
    map: TensorMap<'a, T>,
    exclusive: PhantomData<&'a mut [T]>,
}

impl<'a, T: TensorElement> TensorMap<'a, T> {
    /// A tensor that begins at the beginning of the slice.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for a layout that the device cannot describe, with what
    /// is wrong with it, for a tensor that is not within the slice, and for a slice whose address is not aligned to 16 bytes;
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device has no tensor maps, which
    /// [`Capabilities::TENSOR_MAPS`](crate::Capabilities::TENSOR_MAPS) says;
    /// [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) inside a host function.
    #[track_caller]
    pub fn new(slice: impl Into<BufferSlice<'a, T>>, layout: &TensorLayout) -> Result<Self> {
        let slice = slice.into();
        let encoded = encode(slice.allocation(), slice.byte_len() as u64, &layout.describe(&slice))?;
        Ok(Self { encoded, slice })
    }

    fn memory(&self, access: Access) -> ArgumentMemory<'_> {
        let (address, bytes) = (self.slice.device_pointer().0, self.slice.byte_len() as u64);
        ArgumentMemory { memory: self.slice.allocation(), address, bytes, access }
    }
}

impl<'a, T: TensorElement> TensorMapMut<'a, T> {
    /// A tensor that begins at the beginning of the slice.
    ///
    /// # Errors
    /// Same as [`TensorMap::new`].
    #[track_caller]
    pub fn new(slice: impl Into<BufferSliceMut<'a, T>>, layout: &TensorLayout) -> Result<Self> {
        let map = TensorMap::new(slice.into(), layout)?;
        Ok(Self { map, exclusive: PhantomData })
    }
}

impl<T> fmt::Debug for TensorMap<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TensorMap").field("slice", &self.slice).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for TensorMapMut<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TensorMapMut").field("slice", &self.map.slice).finish_non_exhaustive()
    }
}

macro_rules! tensor_arguments {
    ($($argument:ty, $map:ident => $found:expr, $access:ident;)*) => { $(
        impl<T: TensorElement> Sealed for $argument {
            #[inline(always)]
            fn memory(&self) -> Option<ArgumentMemory<'_>> {
                let $map = self;
                Some(TensorMap::memory($found, Access::$access))
            }
        }

        impl<T: TensorElement> KernelArgument for $argument {
            type Value = EncodedTensorMap;

            #[inline(always)]
            fn value(&self) -> EncodedTensorMap {
                let $map = self;
                $found.encoded
            }
        }
    )* };
}

tensor_arguments! {
    TensorMap<'_, T>, map => map, Read;
    TensorMapMut<'_, T>, map => &map.map, Write;
    &mut TensorMapMut<'_, T>, map => &map.map, Write;
}
