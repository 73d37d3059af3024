//! Which elements are which type of DLPack.

use super::abi::{DLDataType, DLDataTypeCode};
use bytemuck::Pod;

mod sealed {
    pub trait Sealed {}
}

/// A type of elements that tensors have: integers and floating-point numbers of 8 to 64 bits, with the feature `half` also `f16` and
/// `bf16`.
pub trait DlpackElement: Pod + sealed::Sealed {
    /// The type, by the name of DLPack.
    const TYPE: DLDataType;
}

macro_rules! elements {
    ($($code:ident: $($element:ty)*;)*) => { $($(
        impl sealed::Sealed for $element {}

        impl DlpackElement for $element {
            const TYPE: DLDataType =
                DLDataType { code: DLDataTypeCode::$code, bits: 8 * size_of::<$element>() as u8, lanes: 1 };
        }
    )*)* };
}

elements! {
    INT: i8 i16 i32 i64;
    UINT: u8 u16 u32 u64;
    FLOAT: f32 f64;
}

#[cfg(feature = "half")]
elements! {
    FLOAT: half::f16;
    BFLOAT: half::bf16;
}
