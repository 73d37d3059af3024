//! Tensor maps of the software device, as its kernels see them.

use super::{DeviceElement, GlobalSlice, HostArguments, KernelFault};
use crate::{EncodedTensorMap, MOST_TENSOR_DIMENSIONS, TensorDataType, TensorFill, TiledTensor};
use bytemuck::Zeroable;
#[cfg(feature = "half")]
use half::{bf16, f16};

/// The first word of a tensor map of the software device.
const MAGIC: u64 = u64::from_le_bytes(*b"tensor\0\x01");

/// Where the words for the dimensions begin: strides, and extents with those of the box.
const STRIDES: usize = 2;
const EXTENTS: usize = STRIDES + MOST_TENSOR_DIMENSIONS - 1;
const KIND: usize = EXTENTS + MOST_TENSOR_DIMENSIONS;

/// A type that the elements of a tensor can have.
pub trait TensorElement: DeviceElement {
    /// Its name in tensor maps.
    const DATA_TYPE: TensorDataType;

    /// What is not a number, or 0 for integers.
    #[doc(hidden)]
    const NOT_A_NUMBER: Self;
}

macro_rules! tensor_elements {
    ($($element:ty, $name:ident, $nan:expr;)*) => { $(
        impl TensorElement for $element {
            const DATA_TYPE: TensorDataType = TensorDataType::$name;
            const NOT_A_NUMBER: Self = $nan;
        }
    )* };
}

tensor_elements! {
    u8, U8, 0;
    u16, U16, 0;
    u32, U32, 0;
    i32, I32, 0;
    u64, U64, 0;
    i64, I64, 0;
    f32, F32, f32::NAN;
    f64, F64, f64::NAN;
}

#[cfg(feature = "half")]
tensor_elements! {
    f16, F16, f16::NAN;
    bf16, Bf16, bf16::NAN;
}

impl EncodedTensorMap {
    /// The tensor map of the software device. For its driver, which has checked the tensor.
    pub fn of_software_device(tensor: &TiledTensor) -> Self {
        let mut words = [0; 16];
        words[0] = MAGIC;
        words[1] = tensor.address.0;
        for (word, stride) in words[STRIDES..EXTENTS].iter_mut().zip(&tensor.strides) {
            *word = *stride;
        }
        let boxes = tensor.box_extents.iter().zip(&tensor.element_strides);
        for (word, (extent, (box_extent, step))) in
            words[EXTENTS..KIND].iter_mut().zip(tensor.extents.iter().zip(boxes))
        {
            // An extent is from 1 to 2^32: in 32 bits, one less.
            *word = extent.wrapping_sub(1) & 0xffff_ffff | u64::from(*box_extent) << 32 | u64::from(*step) << 48;
        }
        let is_nan = tensor.fill == TensorFill::NotANumber;
        words[KIND] = tensor.rank() as u64 | (tensor.data_type as u64) << 8 | u64::from(is_nan) << 16;
        Self::from_raw(words)
    }
}

/// A tensor that a launch passed to a kernel by a tensor map, and the box in which it is read and written.
///
/// A GPU copies boxes between the tensor and shared memory. Here they are read and written element by element, in the order of
/// the box: the first dimension first, whatever the swizzle, which is about the banks of shared memory. Elements are read and
/// written atomically, as those of a [`GlobalSlice`] are.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a, T> {
    memory: GlobalSlice<'a, T>,
    rank: usize,
    extents: [u64; MOST_TENSOR_DIMENSIONS],
    /// In elements.
    strides: [u64; MOST_TENSOR_DIMENSIONS],
    box_extents: [u64; MOST_TENSOR_DIMENSIONS],
    steps: [u64; MOST_TENSOR_DIMENSIONS],
    outside: T,
}

impl<'a> HostArguments<'a> {
    /// Returns the tensor that argument `index` describes, a tensor map of 128 bytes.
    ///
    /// It is a fault of the kernel if the argument is none, if the tensor has elements of another type, or if the launch
    /// declared no memory for the argument.
    pub fn tensor<T: TensorElement>(&self, index: usize) -> TensorView<'a, T> {
        let words = *self.scalar::<EncodedTensorMap>(index).as_raw();
        let memory = self.slice::<T>(index);
        let (rank, kind) = ((words[KIND] & 0xff) as usize, words[KIND] >> 8 & 0xff);
        let has_box = |word: &u64| (1..=256).contains(&(word >> 32 & 0xffff));
        let is_map = words[0] == MAGIC
            && words[1] == memory.base.expose_provenance() as u64
            && (1..=MOST_TENSOR_DIMENSIONS).contains(&rank)
            && words[EXTENTS..EXTENTS + rank].iter().all(has_box);
        if !is_map {
            KernelFault::illegal_address(format!(
                "argument {index} was used as a tensor map, and is none of its memory"
            ))
            .raise()
        }
        if kind != T::DATA_TYPE as u64 {
            KernelFault::trap(format!(
                "argument {index} was used as a tensor of {:?}, and its elements are of another type",
                T::DATA_TYPE
            ))
            .raise()
        }
        let mut view = TensorView {
            memory,
            rank,
            extents: [1; MOST_TENSOR_DIMENSIONS],
            strides: [1; MOST_TENSOR_DIMENSIONS],
            box_extents: [1; MOST_TENSOR_DIMENSIONS],
            steps: [1; MOST_TENSOR_DIMENSIONS],
            outside: if words[KIND] >> 16 & 1 == 1 { T::NOT_A_NUMBER } else { <T as Zeroable>::zeroed() },
        };
        for dimension in 0..rank {
            let word = words[EXTENTS + dimension];
            view.extents[dimension] = (word & 0xffff_ffff) + 1;
            view.box_extents[dimension] = word >> 32 & 0xffff;
            if dimension > 0 {
                // Neighbours in the first dimension are next to each other.
                view.steps[dimension] = (word >> 48).max(1);
                view.strides[dimension] = words[STRIDES + dimension - 1] / size_of::<T>() as u64;
            }
        }
        view
    }
}

impl<T: TensorElement> TensorView<'_, T> {
    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many elements there are in each dimension.
    pub fn extents(&self) -> &[u64] {
        &self.extents[..self.rank]
    }

    /// How many elements of a box are read or written in each dimension: its extents, divided by the element strides.
    pub fn box_extents(&self) -> [usize; MOST_TENSOR_DIMENSIONS] {
        std::array::from_fn(|dimension| self.box_extents[dimension].div_ceil(self.steps[dimension]) as usize)
    }

    /// How many elements a box has.
    pub fn box_len(&self) -> usize {
        self.box_extents().iter().product()
    }

    /// Reads an element. Outside of the tensor it is the fill: 0, or what is not a number. It is a fault of the kernel if there
    /// are not as many coordinates as dimensions.
    pub fn get(&self, coordinates: &[i64]) -> T {
        self.place(coordinates).map_or(self.outside, |index| self.memory.get(index))
    }

    /// Writes an element. Outside of the tensor, nothing is written. It is a fault of the kernel if there are not as many
    /// coordinates as dimensions, or if the launch declares that the tensor is only read.
    pub fn set(&self, coordinates: &[i64], value: T) {
        if let Some(index) = self.place(coordinates) {
            self.memory.set(index, value);
        }
    }

    /// Reads the box at an origin. `put` gets each element with its place in the box.
    pub fn load(&self, origin: &[i64], mut put: impl FnMut(usize, T)) {
        self.each(origin, |place, coordinates| put(place, self.get(coordinates)));
    }

    /// Writes the box at an origin, except for what is outside of the tensor. `value` gives each element by its place in the box.
    pub fn store(&self, origin: &[i64], mut value: impl FnMut(usize) -> T) {
        self.each(origin, |place, coordinates| self.set(coordinates, value(place)));
    }

    fn each(&self, origin: &[i64], mut visit: impl FnMut(usize, &[i64])) {
        self.require_rank(origin);
        let extents = self.box_extents();
        let mut coordinates = [0; MOST_TENSOR_DIMENSIONS];
        for place in 0..self.box_len() {
            let mut rest = place;
            for dimension in 0..self.rank {
                let within = rest % extents[dimension];
                rest /= extents[dimension];
                let offset = (within as u64 * self.steps[dimension]) as i64;
                coordinates[dimension] = origin[dimension].saturating_add(offset);
            }
            visit(place, &coordinates[..self.rank]);
        }
    }

    /// Where an element is. `None`: outside of the tensor.
    fn place(&self, coordinates: &[i64]) -> Option<usize> {
        self.require_rank(coordinates);
        let mut index = 0u64;
        for (dimension, &coordinate) in coordinates.iter().enumerate() {
            let coordinate = u64::try_from(coordinate).ok().filter(|&at| at < self.extents[dimension])?;
            // What is beyond all addresses is beyond the memory, too.
            index = index.saturating_add(coordinate.saturating_mul(self.strides[dimension]));
        }
        Some(usize::try_from(index).unwrap_or(usize::MAX))
    }

    fn require_rank(&self, coordinates: &[i64]) {
        if coordinates.len() != self.rank {
            KernelFault::trap(format!(
                "a tensor of {} dimensions was used with {} coordinates",
                self.rank,
                coordinates.len()
            ))
            .raise()
        }
    }
}
