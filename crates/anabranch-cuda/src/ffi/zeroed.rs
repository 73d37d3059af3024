//! C structures with every byte zero, which is how NVIDIA's interfaces spell a default.

use std::mem::MaybeUninit;

/// A C type for which all bytes zero is a value.
///
/// # Safety
///
/// A value of the type whose bytes are all zero must be valid.
pub(crate) unsafe trait Zeroed: Copy {
    /// The value whose bytes are all zero, padding and reserved fields included.
    fn zeroed() -> Self {
        // SAFETY: the implementation of the trait promises that these bytes are a valid value.
        unsafe { MaybeUninit::zeroed().assume_init() }
    }
}

/// Implements [`Zeroed`] for types of the generated bindings.
macro_rules! zeroed {
    ($($name:ident),* $(,)?) => {
        $(
            // SAFETY: bindgen makes up structures and unions of C only from integers, floating-point numbers, raw
            // pointers, optional function pointers (enumerations are integers here), arrays of those, and other such
            // structures and unions. For all of them zero bytes are valid.
            unsafe impl $crate::ffi::Zeroed for $name {}
        )*
    };
}

pub(crate) use zeroed;
