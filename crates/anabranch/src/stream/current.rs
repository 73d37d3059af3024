//! The current stream of a thread.

use super::Stream;
use anabranch_core::stream::OpenStream;
use anabranch_hal::InsideWork;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Weak;

thread_local! {
    static CURRENT: RefCell<Vec<(u64, Weak<OpenStream>)>> = const { RefCell::new(Vec::new()) };
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
    /// `with stream:` in CuPy and `ScopedStream` in Warp. No other call of this library uses the current stream. It is
    /// for code on top of this library that needs a default. In destructors of thread-local variables, which run while
    /// the thread ends, there may be no current stream any more.
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
        // While the thread ends, no stream is current any more.
        let _ = CURRENT.try_with(|current| current.borrow_mut().push((ticket, self.downgrade())));
        CurrentStreamGuard { ticket, stream: PhantomData }
    }

    /// Calls `body` with the thread's current stream, if there is one. Inside of a host function, there is none.
    pub fn with_current<R>(body: impl FnOnce(Option<&Stream>) -> R) -> R {
        if InsideWork::is_entered() {
            return body(None);
        }
        let stream = CURRENT.try_with(|current| {
            let current = current.borrow();
            // A stream can have ended while it was current if its guard was leaked.
            let open = current.iter().rev().filter_map(|(_, stream)| Stream::upgrade(stream));
            open.into_iter().find(|stream| stream.core().is_live())
        });
        body(stream.ok().flatten().as_ref())
    }
}
