//! Tables of functions that are looked up once, when a library is loaded.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use super::missing_symbol::MissingSymbol;

/// A function of a library, at one version of its signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    /// The name of the function, which stays the same when its signature changes.
    pub(crate) entry_point: &'static CStr,
    /// The name under which the library exports this signature.
    pub(crate) exported: &'static CStr,
    /// The CUDA version that introduced the signature, as `1000 * major + 10 * minor`.
    pub(crate) since: u32,
}

/// Something that knows where the functions of a library are.
///
/// # Safety
///
/// An address that is returned must be that of the function described, with the signature that it has under its
/// exported name, and must stay callable for the rest of the program.
pub(crate) unsafe trait SymbolSource {
    /// The address of a function, or none if the library does not have it.
    fn address(&self, symbol: &Symbol) -> Option<NonNull<c_void>>;
}

/// A structure of optional function pointers.
pub(crate) trait FunctionTable: Sized {
    /// Looks every function up.
    fn resolve(source: &dyn SymbolSource) -> Self;

    /// The functions that were not found.
    fn missing(&self) -> Vec<MissingSymbol>;
}

/// Declares a table: a structure with an optional pointer per function, and a method per function that calls it.
///
/// A method costs what a call through a pointer costs, and a test of that pointer: looking up happened earlier.
macro_rules! symbol_table {
    (
        $(#[$attribute:meta])*
        pub(crate) struct $Table:ident {
            $(
                #[entry_point($entry_point:literal, exported = $exported:literal, since = $since:literal)]
                fn $name:ident($($parameter:ident: $kind:ty),* $(,)?) -> $output:ty;
            )*
        }
    ) => {
        $(#[$attribute])*
        pub(crate) struct $Table {
            $(pub(crate) $name: Option<unsafe extern "C" fn($($parameter: $kind),*) -> $output>,)*
        }

        impl $crate::ffi::symbol_table::FunctionTable for $Table {
            fn resolve(source: &dyn $crate::ffi::symbol_table::SymbolSource) -> Self {
                Self {
                    $($name: source
                        .address(&$crate::ffi::symbol_table::Symbol {
                            entry_point: $entry_point,
                            exported: $exported,
                            since: $since,
                        })
                        // SAFETY: the source promises the function under this exported name, whose signature the
                        // generator of this table read from the headers and compared with the one declared here, and
                        // that the function stays. A function pointer has the size of a data pointer on every system
                        // that loads libraries at run time.
                        .map(|address| unsafe {
                            std::mem::transmute::<
                                std::ptr::NonNull<std::ffi::c_void>,
                                unsafe extern "C" fn($($parameter: $kind),*) -> $output,
                            >(address)
                        }),)*
                }
            }

            fn missing(&self) -> Vec<$crate::ffi::MissingSymbol> {
                let found = [$((self.$name.is_some(), stringify!($name), $since)),*];
                found
                    .into_iter()
                    .filter(|(is_found, ..)| !is_found)
                    .map(|(_, name, since)| $crate::ffi::MissingSymbol { name, since })
                    .collect()
            }
        }

        #[allow(dead_code, reason = "the table is a list of what may be called, not of what is")]
        #[allow(clippy::too_many_arguments, reason = "these are the functions of a C library")]
        impl $Table {
            $(
                /// Calls the function of this name, if the library has it.
                ///
                /// # Safety
                ///
                /// NVIDIA's documentation of the function says what the arguments must be.
                // Always inlined, so that a call is no more than loading the pointer, testing it and jumping to it.
                #[inline(always)]
                pub(crate) unsafe fn $name(
                    &self,
                    $($parameter: $kind),*
                ) -> Result<$output, $crate::ffi::MissingSymbol> {
                    match self.$name {
                        // SAFETY: the pointer is that of this function, and the caller promises that the arguments are those
                        // that it may be given.
                        Some(function) => Ok(unsafe { function($($parameter),*) }),
                        None => Err($crate::ffi::MissingSymbol { name: stringify!($name), since: $since }),
                    }
                }
            )*
        }
    };
}

pub(crate) use symbol_table;

#[cfg(test)]
mod tests {
    use std::ffi::{c_int, c_void};
    use std::ptr::NonNull;

    use super::{FunctionTable, Symbol, SymbolSource};
    use crate::ffi::MissingSymbol;

    symbol_table! {
        /// Two functions.
        pub(crate) struct TwoFunctions {
            #[entry_point(c"increment", exported = c"increment_v2", since = 12000)]
            fn increment(number: c_int) -> c_int;

            #[entry_point(c"decrement", exported = c"decrement", since = 13000)]
            fn decrement(number: c_int) -> c_int;
        }
    }

    unsafe extern "C" fn increment(number: c_int) -> c_int {
        number.wrapping_add(1)
    }

    struct OnlyIncrement;

    // SAFETY: the one address returned is that of a function of this program with the signature in the table.
    unsafe impl SymbolSource for OnlyIncrement {
        fn address(&self, symbol: &Symbol) -> Option<NonNull<c_void>> {
            let function = increment as unsafe extern "C" fn(c_int) -> c_int;
            (symbol.exported == c"increment_v2").then(|| NonNull::new(function as *mut c_void)).flatten()
        }
    }

    #[test]
    fn a_function_that_is_there_is_called() {
        let table = TwoFunctions::resolve(&OnlyIncrement);
        // SAFETY: the function takes any number.
        assert_eq!(unsafe { table.increment(41) }, Ok(42));
    }

    #[test]
    fn a_function_that_is_not_there_is_named() {
        let table = TwoFunctions::resolve(&OnlyIncrement);
        let error = MissingSymbol { name: "decrement", since: 13000 };
        // SAFETY: the function takes any number.
        assert_eq!(unsafe { table.decrement(42) }, Err(error));
        assert_eq!(table.missing(), [error]);
    }
}
