//! Spans and events of the `tracing` crate, under the target `anabranch`. Without the cargo feature `tracing` of the
//! crate that uses these macros, they generate no code. With it, and without a subscriber, each is a load and a
//! comparison, and its fields are not evaluated.
//!
//! A subscriber is code of the program: it may unwind, which ends here. It is called inside of calls of this library, so that what
//! it calls itself is refused, and what it drops is released later, as in a host function. No lock is held meanwhile, because another
//! thread may have locked what the subscriber uses, such as the standard output, and call the library. What happens while locks are
//! held is reported by the thread that releases things later.

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

/// An event at level `DEBUG`, for what is rare and happens while locks are held. First come values that it owns, with their names.
#[doc(hidden)]
#[macro_export]
macro_rules! __trace_rare_elsewhere {
    ($($name:ident = $value:expr),+; $($what:tt)*) => {
        #[cfg(feature = "tracing")]
        $crate::trace::report_elsewhere(tracing::Level::DEBUG, || {
            $(let $name = $value;)+
            move || tracing::debug!(target: "anabranch", $($what)*)
        });
    };
}

/// Like [`rare_elsewhere`], at level `TRACE`, for what is queued.
#[doc(hidden)]
#[macro_export]
macro_rules! __trace_queued_elsewhere {
    ($($name:ident = $value:expr),+; $($what:tt)*) => {
        #[cfg(feature = "tracing")]
        $crate::trace::report_elsewhere(tracing::Level::TRACE, || {
            $(let $name = $value;)+
            move || tracing::trace!(target: "anabranch", $($what)*)
        });
    };
}

/// While it exists, the thread reports nothing: for a call that holds a lock and consists of others. It is reported as one, before
/// that.
#[must_use]
pub struct Whole {
    #[cfg(feature = "tracing")]
    was_quiet: bool,
}

impl Whole {
    /// Begins to be quiet.
    #[inline(always)]
    pub fn begin() -> Self {
        Self {
            #[cfg(feature = "tracing")]
            was_quiet: guarded::be_quiet(true),
        }
    }
}

impl Drop for Whole {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(feature = "tracing")]
        guarded::be_quiet(self.was_quiet);
    }
}

pub use crate::{
    __trace_queued as queued, __trace_queued_elsewhere as queued_elsewhere, __trace_rare as rare,
    __trace_rare_elsewhere as rare_elsewhere, __trace_span as span,
};

#[cfg(feature = "tracing")]
pub use guarded::{Span, report, report_elsewhere};

#[cfg(feature = "tracing")]
mod guarded {
    use crate::reaper;
    use anabranch_hal::{InsideWorkBefore, contain};
    use anabranch_sync::{Rank, require_none_held};
    use std::cell::Cell;
    use tracing::dispatcher::{get_default, with_default};
    use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};
    use tracing::{Dispatch, Level};

    thread_local! {
        static IS_QUIET: Cell<bool> = const { Cell::new(false) };
        /// Whether a subscriber runs, which may call the library: what it does is not reported, to itself perhaps.
        static IS_IN_SUBSCRIBER: Cell<bool> = const { Cell::new(false) };
    }

    /// See [`Whole`](super::Whole). Returns what was so before.
    pub(super) fn be_quiet(is_quiet: bool) -> bool {
        IS_QUIET.replace(is_quiet)
    }

    /// Whether a subscriber may want what has this level.
    #[inline(always)]
    fn is_wanted(level: Level) -> bool {
        level <= STATIC_MAX_LEVEL && level <= LevelFilter::current() && !IS_IN_SUBSCRIBER.get()
    }

    /// Whether to report now what has this level. In builds with debug assertions, that no lock is held is checked whether anybody
    /// wants it or not.
    #[inline(always)]
    #[track_caller]
    fn is_reported(level: Level) -> bool {
        if cfg!(debug_assertions) && !IS_QUIET.get() {
            require_none_held(Rank::LOWEST);
        }
        is_wanted(level) && !IS_QUIET.get()
    }

    /// Calls a subscriber.
    #[track_caller]
    fn call<R>(subscriber: impl FnOnce() -> R) -> Option<R> {
        require_none_held(Rank::LOWEST);
        let before = IS_IN_SUBSCRIBER.replace(true);
        // SAFETY: it is a variable of this function.
        let inside = unsafe { InsideWorkBefore::enter() };
        // What it throws concerns nobody else.
        let result = contain(subscriber).ok();
        drop(inside);
        IS_IN_SUBSCRIBER.set(before);
        result
    }

    /// Reports an event, unless nobody wants its level.
    #[inline(always)]
    #[track_caller]
    pub fn report(level: Level, event: impl FnOnce()) {
        if is_reported(level) {
            call(event);
        }
    }

    /// Reports an event on the reaper's thread, unless nobody wants its level.
    #[inline(always)]
    pub fn report_elsewhere<E: FnOnce() + Send + 'static>(level: Level, event: impl FnOnce() -> E) {
        if is_wanted(level) {
            // The subscriber is this thread's.
            let (event, dispatch) = (event(), get_default(Dispatch::clone));
            reaper::elsewhere(move || _ = call(move || with_default(&dispatch, event)));
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
        #[track_caller]
        pub fn enter(span: impl FnOnce() -> tracing::Span) -> Self {
            if is_reported(Level::DEBUG) {
                Self::enter_wanted(span)
            } else {
                Self { span: tracing::Span::none(), is_entered: false }
            }
        }

        #[cold]
        #[track_caller]
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
