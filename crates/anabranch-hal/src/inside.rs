//! Whether the calling thread is executing work that was given to a driver. Such work must not call a driver.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static MARKS: Cell<Marks> = const { Cell::new(Marks { of_program: 0, is_inside: false }) };
    static LAUNCHED_IN: Cell<Option<u64>> = const { Cell::new(None) };
    static HELPING: Cell<bool> = const { Cell::new(false) };
}

/// The marks of a thread, in one variable, which most calls ask for.
#[derive(Clone, Copy, Debug)]
struct Marks {
    /// How many the program has made.
    of_program: u32,
    /// Whether the thread executes work. Only unsafe code changes it, so that the program's marks cannot take it away.
    is_inside: bool,
}

impl Marks {
    /// Those of this thread. A thread that is exiting has none any more. No work runs on it.
    #[inline]
    fn get() -> Self {
        MARKS.try_with(Cell::get).unwrap_or(Self { of_program: 0, is_inside: false })
    }

    #[inline]
    fn set(self) {
        let _ = MARKS.try_with(|marks| marks.set(self));
    }
}

/// Whether any thread was ever marked. In a library that a program loads, this is found sooner than the mark of the thread, which most
/// calls ask for. A thread that is marked has set it itself.
static IS_ANY_MARKED: AtomicBool = AtomicBool::new(false);

/// Marks the thread as executing work that was given to a driver, until it is dropped. Such work is host functions,
/// kernels that are closures, and the drop of either. A thread with several marks is marked until the last of them is dropped, in
/// whatever order. One that outlives the work, or the closure of a call, in which it was made marks nothing any more.
///
/// A driver that runs such work on a thread of the process marks it by [`InsideWorkBefore::enter`], whose mark the work cannot take
/// away.
#[derive(Debug)]
#[must_use]
pub struct InsideWork {
    not_send: PhantomData<*const ()>,
}

impl InsideWork {
    /// Marks the thread.
    #[inline]
    pub fn enter() -> Self {
        note_any();
        let marks = Marks::get();
        Marks { of_program: marks.of_program.saturating_add(1), ..marks }.set();
        Self { not_send: PhantomData }
    }

    /// Returns whether the thread is marked.
    #[inline]
    pub fn is_entered() -> bool {
        IS_ANY_MARKED.load(Ordering::Relaxed) && Self::is_marked()
    }

    /// A function of its own: where it is part of others, the mark of the thread is looked for in any case.
    #[cold]
    #[inline(never)]
    fn is_marked() -> bool {
        let marks = Marks::get();
        marks.is_inside || marks.of_program > 0
    }
}

impl Drop for InsideWork {
    #[inline]
    fn drop(&mut self) {
        let marks = Marks::get();
        Marks { of_program: marks.of_program.saturating_sub(1), ..marks }.set();
    }
}

#[inline]
fn note_any() {
    // Looked at first: a store would take the variable from the processors of all other threads.
    if !IS_ANY_MARKED.load(Ordering::Relaxed) {
        IS_ANY_MARKED.store(true, Ordering::Relaxed);
    }
}

/// Gives the thread the marks back that it had, when it is dropped: code of the program may enter some, and leak them.
#[derive(Debug)]
#[must_use]
pub struct InsideWorkBefore {
    marks: Marks,
    not_send: PhantomData<*const ()>,
}

impl InsideWorkBefore {
    /// Notes how the thread is marked.
    ///
    /// # Safety
    /// It is dropped behind everything that marks the thread later, as a variable of the function that notes it is. Otherwise work
    /// that the thread executes would not count as such.
    #[inline]
    pub unsafe fn note() -> Self {
        Self { marks: Marks::get(), not_send: PhantomData }
    }

    /// The same, and marks the thread.
    ///
    /// # Safety
    /// As of [`note`](Self::note).
    #[inline]
    pub unsafe fn enter() -> Self {
        // SAFETY: the caller promises it.
        let before = unsafe { Self::note() };
        note_any();
        Marks { is_inside: true, ..before.marks }.set();
        before
    }
}

impl Drop for InsideWorkBefore {
    #[inline]
    fn drop(&mut self) {
        // Some that were there before may have been dropped meanwhile.
        let of_program = Marks::get().of_program.min(self.marks.of_program);
        Marks { of_program, is_inside: self.marks.is_inside }.set();
    }
}

/// Says in which stream the launch is whose host functions the thread runs, until it is dropped. A driver that knows it enters
/// it, with the id of the stream, around each host function of a graph: whoever reports panics asks for it.
#[derive(Debug)]
#[must_use]
pub struct LaunchedIn {
    before: Option<u64>,
    not_send: PhantomData<*const ()>,
}

impl LaunchedIn {
    /// Notes the stream.
    ///
    /// # Safety
    /// It is dropped behind the host function, as a variable of the function that calls it, and the launch is in that stream.
    /// Otherwise panics would be reported by streams that they do not belong to.
    #[inline]
    pub unsafe fn enter(stream: u64) -> Self {
        let before = LAUNCHED_IN.try_with(|launched| launched.replace(Some(stream))).unwrap_or(None);
        Self { before, not_send: PhantomData }
    }

    /// The stream, if the driver knows it.
    #[inline]
    pub fn stream() -> Option<u64> {
        LAUNCHED_IN.try_with(Cell::get).unwrap_or(None)
    }
}

impl Drop for LaunchedIn {
    #[inline]
    fn drop(&mut self) {
        let _ = LAUNCHED_IN.try_with(|launched| launched.set(self.before));
    }
}

/// Marks the thread as one that holds no lock, until it is dropped: a driver that runs work of the program in queries, because no
/// other thread does, may run some in those that the thread makes meanwhile, and in no others.
#[derive(Debug)]
#[must_use]
pub struct Helping {
    before: bool,
    not_send: PhantomData<*const ()>,
}

impl Helping {
    /// Marks the thread.
    ///
    /// # Safety
    /// While the mark is there, the thread holds no lock when it calls the driver, and is not in the middle of a change that code of the
    /// program must not see.
    #[inline]
    pub unsafe fn enter() -> Self {
        let before = HELPING.try_with(|helping| helping.replace(true)).unwrap_or(false);
        Self { before, not_send: PhantomData }
    }

    /// Returns whether the thread is marked.
    #[inline]
    pub fn is_entered() -> bool {
        HELPING.try_with(Cell::get).unwrap_or(false)
    }
}

impl Drop for Helping {
    #[inline]
    fn drop(&mut self) {
        let _ = HELPING.try_with(|helping| helping.set(self.before));
    }
}
