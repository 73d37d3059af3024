//! Spans and events of the `tracing` crate, under the target `anabranch`. Without the cargo feature `tracing` of the
//! crate that uses these macros, they generate no code. With it, and without a subscriber, each is a load and a
//! comparison, and its fields are not evaluated.

/// A span at level `DEBUG` around the rest of the block, for what blocks or is rare.
#[doc(hidden)]
#[macro_export]
macro_rules! __trace_span {
    ($($what:tt)*) => {
        #[cfg(feature = "tracing")]
        let _span = tracing::debug_span!(target: "anabranch", $($what)*).entered();
    };
}

/// An event at level `DEBUG`, for what is rare.
#[doc(hidden)]
#[macro_export]
macro_rules! __trace_rare {
    ($($what:tt)*) => {
        #[cfg(feature = "tracing")]
        tracing::debug!(target: "anabranch", $($what)*);
    };
}

/// An event at level `TRACE`, for what is queued.
#[doc(hidden)]
#[macro_export]
macro_rules! __trace_queued {
    ($($what:tt)*) => {
        #[cfg(feature = "tracing")]
        tracing::trace!(target: "anabranch", $($what)*);
    };
}

pub use crate::{__trace_queued as queued, __trace_rare as rare, __trace_span as span};
