//! The current stream of a thread.

use super::Stream;
use crate::context::Context;
use anabranch_core::stream::OpenStream;
use anabranch_hal::InsideWork;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

thread_local! {
    static CURRENT: RefCell<Vec<(u64, Weak<OpenStream>)>> = const { RefCell::new(Vec::new()) };
    /// At most one of each context, the last of which became current last.
    static MADE: RefCell<Vec<Weak<OpenStream>>> = const { RefCell::new(Vec::new()) };
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

/// Makes the previous stream current again when it is dropped. See [`Stream::enter`].
#[must_use = "the stream is current until the guard is dropped"]
#[derive(Debug)]
pub struct CurrentStreamGuard<'a> {
    ticket: u64,
    /// Not `Send`: it belongs to the thread's stack of streams.
    stream: PhantomData<(&'a Stream, *const ())>,
}

impl Drop for CurrentStreamGuard<'_> {
    fn drop(&mut self) {
        // Guards may be dropped out of order; each removes its own entry.
        let _ = CURRENT.try_with(|current| {
            let mut current = current.borrow_mut();
            let index = current.iter().rposition(|(ticket, _)| *ticket == self.ticket);
            index.map(|index| current.remove(index))
        });
    }
}

impl Stream {
    /// Makes this the thread's current stream until the guard is dropped. Calls can be nested. This corresponds to
    /// `with stream:` in CuPy and `ScopedStream` in Warp. The calls of [`current`](crate::current) use it, and code on top
    /// of this library that needs a default; no method of a stream does. In destructors of thread-local variables, which
    /// run while the thread ends, there may be no current stream any more. Inside of a host function there is none, and this
    /// does nothing.
    ///
    /// ```
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// let id = {
    ///     let _guard = stream.enter();
    ///     anabranch::Stream::with_current(|current| current.map(|stream| stream.id()))
    /// };
    /// assert_eq!(id, Some(stream.id()));
    /// assert!(anabranch::Stream::with_current(|current| current.is_none()));
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    pub fn enter(&self) -> CurrentStreamGuard<'_> {
        let ticket = NEXT.replace(NEXT.get() + 1);
        // A host function may run on a thread that waits, and that has streams of its own.
        if InsideWork::is_entered() {
            return CurrentStreamGuard { ticket, stream: PhantomData };
        }
        // While the thread ends, no stream is current any more.
        let _ = CURRENT.try_with(|current| current.borrow_mut().push((ticket, self.downgrade())));
        CurrentStreamGuard { ticket, stream: PhantomData }
    }

    /// Makes this the thread's current stream of its context, until another stream of the context is made current. This
    /// corresponds to `stream.use()` in CuPy. While the guard of a stream that was [entered](Self::enter) exists, that
    /// stream is current instead. The thread does not keep the stream open: a stream that has ended is not current any
    /// more. Inside of a host function there is none, and this does nothing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// let stream = Arc::new(context.create_stream()?);
    /// stream.make_current();
    /// assert!(anabranch::Stream::with_current_of(&context, |current| current == Some(&*stream)));
    /// drop(stream);
    /// assert!(anabranch::Stream::with_current_of(&context, |current| current.is_none()));
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    pub fn make_current(self: &Arc<Self>) {
        if InsideWork::is_entered() {
            return;
        }
        // These may become the last references, so that the streams end outside of the borrow.
        let mut known = SmallVec::<[Stream; 4]>::new();
        let _ = MADE.try_with(|made| {
            let mut made = made.borrow_mut();
            made.retain(|stream| {
                let Some(stream) = Self::upgrade(stream) else { return false };
                let stays = !stream.core().context().is_same(self.core().context());
                known.push(stream);
                stays
            });
            made.push(self.downgrade());
        });
    }

    /// Calls `body` with the thread's current stream, if there is one: the stream that was [entered](Self::enter) last, or
    /// else the stream that was [made current](Self::make_current) last. Inside of a host function, there is none.
    pub fn with_current<R>(body: impl FnOnce(Option<&Stream>) -> R) -> R {
        with_current_if(|_| true, body)
    }

    /// Like [`with_current`](Self::with_current), of the streams of one context.
    pub fn with_current_of<R>(context: &Context, body: impl FnOnce(Option<&Stream>) -> R) -> R {
        with_current_if(|stream| stream.core().context().is_same(context.core()), body)
    }
}

fn with_current_if<R>(is_meant: impl Fn(&Stream) -> bool, body: impl FnOnce(Option<&Stream>) -> R) -> R {
    if InsideWork::is_entered() {
        return body(None);
    }
    let mut others = SmallVec::<[Stream; 4]>::new();
    // A stream can have ended while it was current if its guard was leaked, and a stream that was made current at any time.
    let mut open = |stream: &Weak<OpenStream>| {
        let stream = Stream::upgrade(stream)?;
        if stream.core().is_live() && is_meant(&stream) {
            return Some(stream);
        }
        others.push(stream);
        None
    };
    let entered = CURRENT.try_with(|current| {
        let mut current = current.borrow_mut();
        // Streams that are gone are those of leaked guards.
        while current.pop_if(|(_, stream)| stream.strong_count() == 0).is_some() {}
        current.iter().rev().find_map(|(_, stream)| open(stream))
    });
    let mut made = || MADE.try_with(|made| made.borrow().iter().rev().find_map(&mut open)).ok().flatten();
    let stream = entered.ok().flatten().or_else(&mut made);
    // These may be the last references, so that the streams end here, outside of the borrows.
    drop(others);
    body(stream.as_ref())
}
