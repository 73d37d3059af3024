//! What `anabranch::other_libraries` says of members of other libraries' streams, where no test elsewhere shows it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;
#[path = "pages/cuda_core.rs"]
mod cuda_core;
#[path = "pages/cupy.rs"]
mod cupy;
#[path = "pages/mojo.rs"]
mod mojo;
#[path = "pages/rust.rs"]
mod rust;
#[path = "pages/warp.rs"]
mod warp;

/// Whether a type has a trait, for types and traits that are named here.
macro_rules! has_trait {
    ($type:ty: $($trait:tt)+) => {{
        /// What a type has that is not of the trait.
        #[allow(dead_code, reason = "not reached by types with the trait")]
        trait Otherwise {
            const HAS: bool = false;
        }
        impl<T> Otherwise for Is<T> {}
        struct Is<T>(std::marker::PhantomData<T>);
        #[allow(dead_code, reason = "not reached by types without the trait")]
        impl<T: $($trait)+> Is<T> {
            const HAS: bool = true;
        }
        <Is<$type>>::HAS
    }};
}
pub(crate) use has_trait;
