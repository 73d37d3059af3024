//! Atomics of the standard library before whose accesses a thread may pause: what it has read before may have changed.

use crate::may_pause;
use std::ops::{Deref, DerefMut};
use std::sync::atomic;

macro_rules! delayed {
    ($($name:ident$(<$parameter:ident>)? of $value:ty;)*) => { $(
        #[doc = concat!("`", stringify!($name), "` of the standard library.")]
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name$(<$parameter>)?(atomic::$name$(<$parameter>)?);

        impl$(<$parameter>)? $name$(<$parameter>)? {
            /// With a value.
            pub const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            /// The value.
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }

        impl$(<$parameter>)? Deref for $name$(<$parameter>)? {
            type Target = atomic::$name$(<$parameter>)?;

            fn deref(&self) -> &Self::Target {
                may_pause();
                &self.0
            }
        }

        impl$(<$parameter>)? DerefMut for $name$(<$parameter>)? {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }
    )* };
}

delayed! {
    AtomicBool of bool;
    AtomicIsize of isize;
    AtomicPtr<T> of *mut T;
    AtomicU8 of u8;
    AtomicU32 of u32;
    AtomicU64 of u64;
    AtomicUsize of usize;
}
