//! Spans and events of the `tracing` crate, under the target `anabranch`. Without the cargo feature `tracing` of the
//! crate that uses these macros, they generate no code. With it, and without a subscriber, each is a load and a
//! comparison, and its fields are not evaluated.
//!
//! A subscriber is code of the program: it may unwind, which ends here. It is called inside of calls of this library, also
//! while these hold locks, so that what it calls itself is refused, and what it drops is released later, as in a host
//! function.

/// A span at level `DEBUG` around the rest of the block, for what blocks or is rare.
#[doc(hidden)]
#[macro_export]
macro_rules! __trace_span {
    ($($what:tt)*) => {
        #[cfg(feature = "tracing")]
        let _span = $crate::trace::Span::enter(|| tracing::debug_span!(target: "anabranch", $($what)*));
    };
}

/// An event at level `DEBUG`, for what is rare.
#[doc(hidden)]
#[macro_export]
macro_rules! __trace_rare {
    ($($what:tt)*) => {
        #[cfg(feature = "tracing")]
        $crate::trace::report(tracing::Level::DEBUG, || tracing::debug!(target: "anabranch", $($what)*));
    };
}

/// An event at level `TRACE`, for what is queued.
#[doc(hidden)]
#[macro_export]
macro_rules! __trace_queued {
    ($($what:tt)*) => {
        #[cfg(feature = "tracing")]
        $crate::trace::report(tracing::Level::TRACE, || tracing::trace!(target: "anabranch", $($what)*));
    };
}

pub use crate::{__trace_queued as queued, __trace_rare as rare, __trace_span as span};

#[cfg(feature = "tracing")]
pub use guarded::{Span, report};

#[cfg(feature = "tracing")]
mod guarded {
    use anabranch_hal::{InsideWork, contain};
    use tracing::Level;
    use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};

    /// Whether a subscriber may want what has this level.
    #[inline(always)]
    fn is_wanted(level: Level) -> bool {
        level <= STATIC_MAX_LEVEL && level <= LevelFilter::current()
    }

    /// Calls a subscriber.
    fn call<R>(subscriber: impl FnOnce() -> R) -> Option<R> {
        let _inside = InsideWork::enter();
        // What it throws concerns nobody else.
        contain(subscriber).ok()
    }

    /// Reports an event, unless nobody wants its level.
    #[inline(always)]
    pub fn report(level: Level, event: impl FnOnce()) {
        if is_wanted(level) {
            call(event);
        }
    }

    /// A span of level `DEBUG`, which is entered while this lives.
    #[derive(Debug)]
    pub struct Span {
        span: tracing::Span,
        is_entered: bool,
    }

    impl Span {
        /// Makes and enters a span, unless nobody wants its level.
        #[inline(always)]
        pub fn enter(span: impl FnOnce() -> tracing::Span) -> Self {
            if is_wanted(Level::DEBUG) {
                Self::enter_wanted(span)
            } else {
                Self { span: tracing::Span::none(), is_entered: false }
            }
        }

        #[cold]
        fn enter_wanted(span: impl FnOnce() -> tracing::Span) -> Self {
            let span = call(span).unwrap_or_else(tracing::Span::none);
            let entered = call(|| span.with_subscriber(|(id, subscriber)| subscriber.enter(id)));
            Self { is_entered: entered.flatten().is_some(), span }
        }
    }

    impl Drop for Span {
        #[inline(always)]
        fn drop(&mut self) {
            if self.is_entered {
                // Each on its own: what unwinds while something else unwinds ends the process.
                call(|| self.span.with_subscriber(|(id, subscriber)| subscriber.exit(id)));
            }
            let span = std::mem::replace(&mut self.span, tracing::Span::none());
            if !span.is_none() {
                call(|| drop(span));
            }
        }
    }
}
