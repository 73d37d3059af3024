//! Work that is composed before it is queued.

mod pool;
mod target;

pub use pool::{StreamPolicy, StreamPool};
pub use target::RunTarget;

use crate::completion::Enqueued;
use crate::error::Result;
use crate::stream::Stream;
use std::fmt;
use target::Place;

const OPERATION: &str = "running an operation";

type Queue<'a, T> = Box<dyn FnOnce(&Place<'_>) -> Result<T> + Send + 'a>;

/// Work that is described and not yet queued. It is composed with other operations, and then run in a [`Stream`] or on a
/// [`StreamPool`]: awaited with [`run_async`](Self::run_async), blocking with [`run`](Self::run), or queued by
/// [`queue`](Self::queue), which neither waits nor tells when it is complete.
///
/// An operation has a value, such as a [`Buffer`](crate::Buffer) that its work writes. The closures that are given to it run
/// when it is queued, on the thread that queues it, one after the other: they queue work, and do not wait for it. What follows
/// gets the value at once, because later work is ordered after earlier work. On a stream, all work of the operation is in
/// that stream. On a pool, the parts of [`zip`](Self::zip) and [`all`](Self::all) are in streams of their own, which leave the
/// stream of the operation before the parts, and join it behind them.
///
/// Parts share a stream where there are more of them than streams. Therefore a part must not wait for another one by a
/// [`Signal`](crate::Signal), which may be behind it.
///
/// Running it has no thread and no scheduler of its own. Dropping it before it is run queues nothing, and dropping the future
/// gives up nothing but the waiting and the value: buffers are freed behind the work. In Rust, `cuda-async` calls it
/// `DeviceOperation`.
///
/// ```
/// use anabranch::{Buffer, Instance, Operation, StreamPolicy, StreamPool};
/// # let context = Instance::new()?.device("host")?.context()?;
/// /// A buffer that is filled, whatever with.
/// fn filled(value: u32) -> Operation<'static, Buffer<u32>> {
///     Operation::new(|stream| stream.allocate_zeroed::<u32>(4)).then(move |stream, mut buffer| {
///         stream.fill(&mut buffer, value)?;
///         Ok(buffer)
///     })
/// }
///
/// let halves = filled(1).zip(filled(2)).then(|stream, (left, right)| {
///     let mut whole = stream.allocate_zeroed::<u32>(8)?;
///     stream.copy(whole.slice_mut(..4)?, &left)?;
///     stream.copy(whole.slice_mut(4..)?, &right)?;
///     Ok(whole)
/// });
///
/// let pool = StreamPool::new(&context, 2, StreamPolicy::RoundRobin)?;
/// # futures::executor::block_on(async {
/// let whole = halves.run_async(&pool).await?;
/// assert_eq!(pool.stream().download(&whole)?, [1, 1, 1, 1, 2, 2, 2, 2]);
/// # Ok::<(), anabranch::Error>(())
/// # })?;
/// # Ok::<(), anabranch::Error>(())
/// ```
#[must_use = "an operation is not queued until one of its methods does it"]
pub struct Operation<'a, T> {
    queue: Queue<'a, T>,
}

impl<'a, T: 'a> Operation<'a, T> {
    fn composed(queue: impl FnOnce(&Place<'_>) -> Result<T> + Send + 'a) -> Self {
        Self { queue: Box::new(queue) }
    }

    /// The work that `queue` queues in the stream that it gets, and the value that it returns.
    pub fn new<F>(queue: F) -> Self
    where
        F: FnOnce(&Stream) -> Result<T> + Send + 'a,
    {
        Self::composed(move |place| queue(place.stream))
    }

    /// No work, and that value.
    pub fn value(value: T) -> Self
    where
        T: Send,
    {
        Self::composed(move |_| Ok(value))
    }

    /// This work, followed by the work that `next` queues in the same stream. `next` gets the value of this operation.
    pub fn then<U: 'a, F>(self, next: F) -> Operation<'a, U>
    where
        F: FnOnce(&Stream, T) -> Result<U> + Send + 'a,
    {
        Operation::composed(move |place| next(place.stream, (self.queue)(place)?))
    }

    /// This work, followed by the operation that `next` returns. `next` gets the value of this operation, and decides which
    /// work follows before this work has run: the value says nothing of its results.
    pub fn and_then<U: 'a, F>(self, next: F) -> Operation<'a, U>
    where
        F: FnOnce(T) -> Operation<'a, U> + Send + 'a,
    {
        Operation::composed(move |place| {
            let value = (self.queue)(place)?;
            (next(value).queue)(place)
        })
    }

    /// The work of both operations, and the values of both. On a [`StreamPool`] of several streams, the work of `other` is in
    /// another stream. What follows comes after both.
    pub fn zip<U: 'a>(self, other: Operation<'a, U>) -> Operation<'a, (T, U)> {
        Operation::composed(move |place| {
            let forks = place.fork(1)?;
            let left = (self.queue)(place)?;
            let right = (other.queue)(forks.place(0))?;
            forks.join()?;
            Ok((left, right))
        })
    }

    /// The work of all operations, and their values in the same order. On a [`StreamPool`], they are in its streams in turns,
    /// beginning with the stream of the whole. What follows comes after all of them.
    pub fn all(operations: impl IntoIterator<Item = Self>) -> Operation<'a, Vec<T>> {
        // Not collected, which reserves as much as the iterator says.
        let mut parts: Vec<Self> = Vec::new();
        operations.into_iter().for_each(|operation| parts.push(operation));
        Operation::composed(move |place| {
            let forks = place.fork(parts.len().saturating_sub(1))?;
            let mut values = Vec::with_capacity(parts.len());
            for (operation, turn) in parts.into_iter().zip((0..=forks.len()).cycle()) {
                let place = if turn == 0 { place } else { forks.place(turn - 1) };
                values.push((operation.queue)(place)?);
            }
            forks.join()?;
            Ok(values)
        })
    }

    /// Queues the work and returns the value at once. In the scope of a capture, the work is captured.
    ///
    /// # Errors
    /// An error of a closure. Work that was queued before it still runs. On a pool, also that of a wait of one stream
    /// for another, such as [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED)
    /// if a stream of the pool is capturing.
    pub fn queue(self, target: &impl RunTarget) -> Result<T> {
        target.with_place(|place| (self.queue)(place))
    }

    /// Queues the work, blocks until it is complete, and returns the value. Waits, as
    /// [`synchronize`](Stream::synchronize) does, for all work that is in the stream of the operation.
    ///
    /// # Errors
    /// Same as [`queue`](Self::queue) and [`synchronize`](Stream::synchronize). In a stream that is capturing,
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED): nothing is queued,
    /// and the capture remains valid.
    pub fn run(self, target: &impl RunTarget) -> Result<T> {
        target.with_place(|place| {
            place.stream.core().refuse_while_capturing(OPERATION)?;
            let value = (self.queue)(place)?;
            place.stream.synchronize()?;
            Ok(value)
        })
    }

    /// Queues the work, and returns a future of the value that is ready when the work is complete. Dropping the future drops
    /// the value; buffers are freed behind the work.
    ///
    /// # Errors
    /// The future returns the errors of [`queue`](Self::queue) and of
    /// [`enqueue_async`](Stream::enqueue_async).
    pub fn run_async(self, target: &impl RunTarget) -> Enqueued<T> {
        target.with_place(|place| place.stream.enqueue_async(|_| (self.queue)(place)))
    }
}

impl<T> fmt::Debug for Operation<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Operation")
    }
}
