//! The types of elements.

use crate::error::is_of_program;
use anabranch::FillElement;
use anabranch::dlpack::{DLDataType, DlpackElement};
use half::{bf16, f16};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyType};

macro_rules! types {
    ($($variant:ident $element:ty, $name:literal, $format:literal, $code:literal;)*) => {
        /// A type of elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum DType { $(#[doc = $name] $variant),* }

        impl DType {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name, as NumPy has it.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Its format in the module `struct`. A `memoryview` does not know those of 16 bits.
            pub(crate) fn format(self) -> &'static str {
                match self { $(Self::$variant => $format),* }
            }

            /// Its name in the array interface. NumPy has none for `bfloat16`.
            pub(crate) fn typestr(self) -> &'static str {
                match self { $(Self::$variant => $code),* }
            }

            /// The bytes of an element.
            pub(crate) fn size(self) -> usize {
                match self { $(Self::$variant => size_of::<$element>()),* }
            }

            fn data_type(self) -> DLDataType {
                match self { $(Self::$variant => <$element as DlpackElement>::TYPE),* }
            }

            /// Calls `call` with the type.
            pub(crate) fn with<C: TypedCall>(self, call: C) -> C::Output {
                match self { $(Self::$variant => call.call::<$element>()),* }
            }
        }
    };
}

types! {
    I8 i8, "int8", "b", "|i1";
    I16 i16, "int16", "h", "<i2";
    I32 i32, "int32", "i", "<i4";
    I64 i64, "int64", "q", "<i8";
    U8 u8, "uint8", "B", "|u1";
    U16 u16, "uint16", "H", "<u2";
    U32 u32, "uint32", "I", "<u4";
    U64 u64, "uint64", "Q", "<u8";
    F16 f16, "float16", "e", "<f2";
    BF16 bf16, "bfloat16", "", "<V2";
    F32 f32, "float32", "f", "<f4";
    F64 f64, "float64", "d", "<f8";
}

/// A call that is generic over the type of elements.
pub(crate) trait TypedCall {
    type Output;

    fn call<T: Element>(self) -> Self::Output;
}

/// An element of a buffer.
pub(crate) trait Element: DlpackElement + FillElement + Send + Sync {
    /// A number of Python as an element.
    fn of_python(value: &Bound<'_, PyAny>) -> PyResult<Self>;
}

macro_rules! elements {
    ($($element:ty)*) => { $(
        impl Element for $element {
            fn of_python(value: &Bound<'_, PyAny>) -> PyResult<Self> {
                value.extract().map_err(|error| out_of_range(value, error, stringify!($element)))
            }
        }
    )* };
}

elements! { i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 }

impl Element for f16 {
    fn of_python(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self::from_f64(value.extract()?))
    }
}

impl Element for bf16 {
    fn of_python(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self::from_f64(value.extract()?))
    }
}

impl DType {
    /// The type that an argument names: by a text such as `float32` or `f4`, a type of NumPy, or `int` and `float` of Python.
    pub(crate) fn of_python(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(text) = value.cast::<PyString>() {
            return Self::of_text(text.to_str()?).ok_or_else(|| unknown(&format!("{text:?}")));
        }
        if let Ok(class) = value.cast::<PyType>() {
            if class.is(value.py().get_type::<PyInt>()) {
                return Ok(Self::I64);
            }
            if class.is(value.py().get_type::<PyFloat>()) {
                return Ok(Self::F64);
            }
            if class.is(value.py().get_type::<PyBool>()) {
                return Err(unknown("bool"));
            }
            let name = class.name()?;
            return Self::of_text(name.to_str()?).ok_or_else(|| unknown(&name.to_string()));
        }
        if let Some(isnative) = value.getattr_opt("isnative")?
            && !isnative.is_truthy()?
        {
            return Err(unknown(value.str()?.to_str()?));
        }
        let name = value.getattr_opt("name")?;
        let Some(Ok(name)) = name.as_ref().map(|name| name.cast::<PyString>()) else {
            return Err(PyTypeError::new_err(format!("a dtype was expected, and not {}", value.get_type().name()?)));
        };
        let name = name.to_str()?;
        Self::of_text(name).ok_or_else(|| unknown(name))
    }

    /// By its name, or by a format of the module `struct` or of the array interface.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        let text = text.strip_prefix(['@', '=', '<', '|']).unwrap_or(text);
        let found = |is_it: &dyn Fn(&Self) -> bool| Self::ALL.iter().copied().find(|dtype| is_it(dtype));
        found(&|dtype| dtype.name() == text)
            .or_else(|| found(&|dtype| !dtype.format().is_empty() && dtype.format() == text))
            .or_else(|| found(&|dtype| *dtype != Self::BF16 && &dtype.typestr()[1..] == text))
            .or(match (text, size_of::<std::ffi::c_long>()) {
                ("l" | "n", 8) => Some(Self::I64),
                ("L" | "N", 8) => Some(Self::U64),
                ("l", 4) => Some(Self::I32),
                ("L", 4) => Some(Self::U32),
                ("c", _) => Some(Self::U8),
                _ => None,
            })
    }

    /// The type that a tensor has.
    pub(crate) fn of_tensor(data_type: DLDataType) -> Option<Self> {
        Self::ALL.iter().copied().find(|dtype| dtype.data_type() == data_type)
    }

    /// The type that the array interface calls so.
    pub(crate) fn of_typestr(typestr: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|dtype| dtype.typestr() == typestr)
    }
}

/// The exception for a number that an element cannot be.
fn out_of_range(value: &Bound<'_, PyAny>, error: PyErr, element: &str) -> PyErr {
    if is_of_program(value.py(), &error) || !error.is_instance_of::<PyOverflowError>(value.py()) {
        return error;
    }
    PyOverflowError::new_err(format!("{} does not fit in an element of type {element}", shown(value)))
}

/// The beginning of a number. Python shows none of more digits than `sys.get_int_max_str_digits` allows.
pub(crate) fn shown(number: &Bound<'_, PyAny>) -> String {
    // A string of Python ignores a precision.
    number.repr().map_or_else(|_| "the number".to_owned(), |text| format!("{:.40}", text.to_string()))
}

fn unknown(name: &str) -> PyErr {
    let names: Vec<_> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
    PyValueError::new_err(format!("there is no dtype {name}; there are {}", names.join(", ")))
}
