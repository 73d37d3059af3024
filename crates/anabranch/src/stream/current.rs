//! The current stream of a thread.

use super::{BorrowedStream, Stream, StreamCore};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

thread_local! {
    static CURRENT: RefCell<Vec<(u64, Arc<StreamCore>)>> = const { RefCell::new(Vec::new()) };
    static NEXT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Makes the stream before it current again when it is dropped. See [`Stream::enter`].
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
        let removed = CURRENT.try_with(|current| {
            let mut current = current.borrow_mut();
            let index = current.iter().rposition(|(ticket, _)| *ticket == self.ticket);
            index.map(|index| current.remove(index))
        });
        // Dropped outside of the borrow, since it may end a stream.
        drop(removed);
    }
}

impl Stream {
    /// Makes this the thread's current stream until the guard is dropped. Nests. It is what `with stream:` is in CuPy
    /// and `ScopedStream` in Warp. No call of this library uses the current stream unasked; it is there for code
    /// layered above that wants a default.
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
        CURRENT.with(|current| current.borrow_mut().push((ticket, self.core.clone())));
        CurrentStreamGuard { ticket, stream: PhantomData }
    }

    /// Calls `body` with the thread's current stream, if there is one.
    pub fn with_current<R>(body: impl FnOnce(Option<&Stream>) -> R) -> R {
        let core = CURRENT.with(|current| {
            let current = current.borrow();
            // A stream has ended here only if its guard was leaked.
            current.iter().rev().map(|(_, core)| core).find(|core| core.is_live()).cloned()
        });
        match core {
            None => body(None),
            Some(core) => {
                // A second handle: dropping it must not end the stream that was entered.
                let stream = BorrowedStream::of_core(&core);
                body(Some(&stream))
            }
        }
    }
}
