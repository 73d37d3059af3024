//! Spans and events of the `tracing` crate, under the target `anabranch`. Without the cargo feature `tracing` these
//! macros are nothing; with it, and nobody who listens, each is a load and a comparison, and its fields are not made.

/// A span at level `DEBUG` around the rest of the block: what blocks or is rare.
macro_rules! span {
    ($($what:tt)*) => {
        #[cfg(feature = "tracing")]
        let _span = tracing::debug_span!(target: "anabranch", $($what)*).entered();
    };
}

/// An event at level `DEBUG`: what is rare.
macro_rules! rare {
    ($($what:tt)*) => {
        #[cfg(feature = "tracing")]
        tracing::debug!(target: "anabranch", $($what)*);
    };
}

/// An event at level `TRACE`: what is queued.
macro_rules! queued {
    ($($what:tt)*) => {
        #[cfg(feature = "tracing")]
        tracing::trace!(target: "anabranch", $($what)*);
    };
}

pub(crate) use {queued, rare, span};
