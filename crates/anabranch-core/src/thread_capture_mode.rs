//! A thread's capture mode: the calls that change it, and what guards of the thread are to restore.

use anabranch_hal::{CaptureMode, Driver};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;

thread_local! {
    /// What the guards of this thread restore, in the order in which they were made.
    static GUARDS: RefCell<Vec<Guarded>> = const { RefCell::new(Vec::new()) };
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

/// What a guard restores.
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

/// Notes what a new guard restores. Returns the ticket for [`restored`].
pub(crate) fn guard(driver: &Arc<dyn Driver>, before: CaptureMode) -> u64 {
    let ticket = NEXT.replace(NEXT.get() + 1);
    let guarded = Guarded { ticket, driver: driver.clone(), before };
    // A thread that is ending does not know the order of its guards any more.
    let _ = GUARDS.try_with(|guards| guards.borrow_mut().push(guarded));
    ticket
}

/// The mode that the thread is to have without a guard, which would restore `before`. `None`: another guard decides.
pub(crate) fn restored(ticket: u64, before: CaptureMode) -> Option<CaptureMode> {
    let restored = GUARDS.try_with(|guards| {
        let mut guards = guards.borrow_mut();
        let Some(place) = guards.iter().rposition(|guarded| guarded.ticket == ticket) else {
            return (Some(before), None);
        };
        let own = guards.remove(place);
        // Guards may be dropped out of order: what this one would restore, the next one restores then.
        let mode = match guards[place..].iter_mut().find(|guarded| guarded.changes_the_same_as(&own)) {
            Some(next) => {
                next.before = own.before;
                None
            }
            None => Some(own.before),
        };
        // Outside of the borrow: it may be the last reference to a driver.
        (mode, Some(own))
    });
    restored.map_or(Some(before), |(mode, _own)| mode)
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
        let take = |guards: &mut Vec<Guarded>| if guards.len() > self.guards { guards.pop() } else { None };
        while let Ok(Some(left)) = GUARDS.try_with(|guards| take(&mut guards.borrow_mut())) {
            let _ = set(&*left.driver, left.before);
        }
    }
}

/// Sets the thread's capture mode, and returns the mode before.
///
/// The mode belongs to the thread, not to one call: a thread that goes on in the wrong mode invalidates captures of
/// others. A layer that unwinds in the call must not bring this about, so the call is made again.
pub(crate) fn set(driver: &dyn Driver, mode: CaptureMode) -> Option<CaptureMode> {
    const ATTEMPTS: usize = 3;
    (0..ATTEMPTS).find_map(|_| driver.thread_exchange_capture_mode(mode).ok())
}

/// Relaxes the capture mode of a thread of this library, which releases and asks only what no capture can depend on.
pub(crate) fn relax_this_thread(driver: &dyn Driver) {
    // A driver too old to capture has no captures to invalidate.
    let _ = set(driver, CaptureMode::Relaxed);
}

/// Calls `action` with the thread's capture mode relaxed, for calls that no capture can depend on. These calls are then
/// not prohibited by captures of this or other threads, and do not invalidate them.
pub fn with_relaxed_capture_mode<R>(driver: &dyn Driver, action: impl FnOnce() -> R) -> R {
    // A driver too old to capture prohibits nothing.
    let before = set(driver, CaptureMode::Relaxed);
    let result = action();
    match before {
        Some(CaptureMode::Relaxed) | None => {}
        Some(before) => _ = set(driver, before),
    }
    result
}
