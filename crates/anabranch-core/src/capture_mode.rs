//! A thread's own capture mode.

use crate::context::ContextCore;
use crate::error::{Result, ResultExt};
use crate::host_work::refuse_inside;
use crate::thread_capture_mode;
use anabranch_hal::{CaptureMode, Driver};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

const EXCHANGING: &str = "exchanging the thread's capture mode";

thread_local! {
    /// What the guards of this thread restore, in the order in which they were made.
    static GUARDS: RefCell<Vec<Guarded>> = const { RefCell::new(Vec::new()) };
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

struct Guarded {
    ticket: u64,
    driver: Arc<dyn Driver>,
    before: CaptureMode,
}

impl Guarded {
    /// Whether both change the same mode of the thread. All instances of one kind of driver have it in common.
    fn changes_the_same_as(&self, other: &Self) -> bool {
        self.driver.kind() == other.driver.kind()
    }
}

/// Gives the thread the modes back that it had, when it is dropped: code of the program may change them, and leak what would
/// restore them, on a thread of the library.
pub(crate) struct ModesBefore {
    guards: usize,
    thread: PhantomData<*const ()>,
}

impl ModesBefore {
    pub(crate) fn note() -> Self {
        let guards = GUARDS.try_with(|guards| guards.borrow().len()).unwrap_or(usize::MAX);
        Self { guards, thread: PhantomData }
    }
}

impl Drop for ModesBefore {
    fn drop(&mut self) {
        let take = || {
            GUARDS.try_with(|guards| {
                let mut guards = guards.borrow_mut();
                if guards.len() > self.guards { guards.pop() } else { None }
            })
        };
        while let Ok(Some(left)) = take() {
            let _ = thread_capture_mode::set(&*left.driver, left.before);
        }
    }
}

/// Ends a thread's capture mode when it is dropped: the thread then has the mode of the guard that was made last of those that
/// there still are, or the mode that it had before all of them.
#[must_use = "the mode holds until the guard is dropped"]
pub struct CaptureModeGuard {
    context: Arc<ContextCore>,
    before: CaptureMode,
    ticket: u64,
    /// It belongs to one thread.
    thread: PhantomData<*const ()>,
}

impl CaptureModeGuard {
    /// Exchanges the thread's mode.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn enter(context: &Arc<ContextCore>, mode: CaptureMode) -> Result<Self> {
        refuse_inside(EXCHANGING).map_err(|error| error.at(context.place()))?;
        let before = context.driver().thread_exchange_capture_mode(mode).during(EXCHANGING, || context.place())?;
        let ticket = NEXT.replace(NEXT.get() + 1);
        let driver = context.shared_driver().clone();
        // A thread that is ending does not know the order of its guards any more.
        let _ = GUARDS.try_with(|guards| guards.borrow_mut().push(Guarded { ticket, driver, before }));
        Ok(Self { context: context.clone(), before, ticket, thread: PhantomData })
    }

    /// The mode that the thread had when the guard was made.
    pub fn before(&self) -> CaptureMode {
        self.before
    }

    /// The mode that the thread is to have without this guard. `None`: another guard decides.
    fn restored(&self) -> Option<CaptureMode> {
        let restored = GUARDS.try_with(|guards| {
            let mut guards = guards.borrow_mut();
            let Some(place) = guards.iter().rposition(|guarded| guarded.ticket == self.ticket) else {
                return Some(self.before);
            };
            let own = guards.remove(place);
            // Guards may be dropped out of order: what this one would restore, the next one restores then.
            match guards[place..].iter_mut().find(|guarded| guarded.changes_the_same_as(&own)) {
                Some(next) => {
                    next.before = own.before;
                    None
                }
                None => Some(own.before),
            }
        });
        restored.unwrap_or(Some(self.before))
    }
}

impl Drop for CaptureModeGuard {
    fn drop(&mut self) {
        if let Some(mode) = self.restored() {
            // Exchanging modes does not fail where it succeeded before.
            let _ = thread_capture_mode::set(self.context.driver(), mode);
        }
    }
}

impl fmt::Debug for CaptureModeGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CaptureModeGuard(before: {:?})", self.before)
    }
}
