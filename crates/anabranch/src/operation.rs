//! Work that is composed before it is queued.

mod each;
mod pool;
mod run;
mod slot;
mod steps;
mod target;

pub use pool::{StreamPolicy, StreamPool};
pub use target::RunTarget;

use crate::completion::Enqueued;
use crate::error::Result;
use crate::stream::Stream;
use anabranch_core::host_work::refuse_inside;
use each::Each;
use slot::Slot;
use std::fmt;
use std::marker::PhantomData;
use steps::{Choose, Queue, Step, Steps};
use target::Place;

const OPERATION: &str = "running an operation";

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
/// Operations can be composed of any number of others: running and dropping them goes through their parts in loops, except for
/// operations that closures own, which are dropped with their closure. If a closure fails or unwinds, no later one is called; the
/// later ones, and the values that were made for them, are dropped in their order.
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
    steps: Steps<'a>,
    /// The last step fills it.
    value: Slot<T>,
}

impl<'a, T: Send + 'a> Operation<'a, T> {
    /// The steps, and then the one that makes the value. `end` makes a step of what is to be done in it.
    fn ending<F>(mut steps: Steps<'a>, end: fn(Queue<'a>) -> Step<'a>, make: F) -> Self
    where
        F: FnOnce(&Stream) -> Result<T> + Send + 'a,
    {
        let value = Slot::new();
        let filled = value.share();
        steps.push(end(Box::new(move |stream| {
            filled.fill(make(stream)?);
            Ok(())
        })));
        Self { steps, value }
    }

    /// The work that `queue` queues in the stream that it gets, and the value that it returns.
    pub fn new<F>(queue: F) -> Self
    where
        F: FnOnce(&Stream) -> Result<T> + Send + 'a,
    {
        Self::ending(Steps::default(), Step::Queue, queue)
    }

    /// No work, and that value.
    pub fn value(value: T) -> Self {
        Self::ending(Steps::default(), Step::Queue, move |_| Ok(value))
    }

    /// This work, followed by the work that `next` queues in the same stream. `next` gets the value of this operation.
    pub fn then<U: Send + 'a, F>(self, next: F) -> Operation<'a, U>
    where
        F: FnOnce(&Stream, T) -> Result<U> + Send + 'a,
    {
        let then = Then { next, value: self.value };
        Operation::ending(self.steps, Step::Queue, move |stream| then.queue(stream))
    }

    /// This work, followed by the operation that `next` returns. `next` gets the value of this operation, and decides which
    /// work follows before this work has run: the value says nothing of its results.
    pub fn and_then<U: Send + 'a, F>(self, next: F) -> Operation<'a, U>
    where
        F: FnOnce(T) -> Operation<'a, U> + Send + 'a,
    {
        let (mut steps, result) = (self.steps, Slot::new());
        let choice = AndThen { next, value: self.value, result: result.share(), chosen: PhantomData };
        steps.push(Step::Choose(Box::new(choice)));
        Operation { steps, value: result }
    }

    /// The work of both operations, and the values of both. On a [`StreamPool`] of several streams, the work of `other` is in
    /// another stream. What follows comes after both.
    pub fn zip<U: Send + 'a>(self, other: Operation<'a, U>) -> Operation<'a, (T, U)> {
        let mut steps = self.steps;
        steps.push_front(Step::Fork(1));
        steps.push(Step::Part(1));
        steps.append(other.steps);
        let (left, right) = (self.value, other.value);
        Operation::ending(steps, Step::Join, move |_| Ok((left.take()?, right.take()?)))
    }

    /// The work of all operations, and their values in the same order. On a [`StreamPool`], they are in its streams in turns,
    /// beginning with the stream of the whole. What follows comes after all of them.
    pub fn all(operations: impl IntoIterator<Item = Self>) -> Operation<'a, Vec<T>> {
        let (mut steps, mut parts) = (Steps::default(), Each::default());
        for operation in operations {
            steps.push(Step::Part(parts.len()));
            steps.append(operation.steps);
            parts.push_back(operation.value);
        }
        steps.push_front(Step::Fork(parts.len().saturating_sub(1)));
        let take_values = move |_: &Stream| {
            let mut values = Vec::with_capacity(parts.len());
            while let Some(part) = parts.pop_front() {
                values.push(part.take()?);
            }
            Ok(values)
        };
        Operation::ending(steps, Step::Join, take_values)
    }

    /// The value, and the other streams that the work is in, each once.
    fn run_at<'p>(self, place: &Place<'p>) -> Result<(T, Vec<&'p Stream>)> {
        let streams = run::run(self.steps, place)?;
        Ok((self.value.take()?, streams))
    }

    /// Queues the work and returns the value at once. In the scope of a capture, the work is captured.
    ///
    /// # Errors
    /// An error of a closure. Work that was queued before it still runs. On a pool, also that of a wait of one stream
    /// for another, such as [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED)
    /// if a stream of the pool is capturing. [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) inside a host
    /// function, where no closure is called.
    pub fn queue(self, target: &impl RunTarget) -> Result<T> {
        refuse_inside(OPERATION)?;
        target.with_place(|place| self.run_at(place).map(|(value, _)| value))
    }

    /// Queues the work, blocks until it is complete, and returns the value. Waits, as
    /// [`synchronize`](Stream::synchronize) does, for all work that is in the stream of the operation.
    ///
    /// # Errors
    /// Same as [`queue`](Self::queue) and [`synchronize`](Stream::synchronize), and a panic of a closure in any stream that the
    /// work is in. If there are panics in several streams, one is returned, and the others remain for the next calls that
    /// synchronize with their streams. In a stream that is capturing,
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED): nothing is queued,
    /// and the capture remains valid.
    pub fn run(self, target: &impl RunTarget) -> Result<T> {
        refuse_inside(OPERATION)?;
        target.with_place(|place| {
            place.stream.core().refuse_while_capturing(OPERATION)?;
            let (value, others) = self.run_at(place)?;
            place.stream.synchronize()?;
            // They have joined the stream, so that their work is complete, too.
            others.iter().try_for_each(|other| other.core().take_failure(OPERATION))?;
            Ok(value)
        })
    }

    /// Queues the work, and returns a future of the value that is ready when the work is complete. Dropping the future drops
    /// the value; buffers are freed behind the work.
    ///
    /// # Errors
    /// The future returns the errors of [`queue`](Self::queue) and of
    /// [`enqueue_async`](Stream::enqueue_async), and panics as [`run`](Self::run) does.
    pub fn run_async(self, target: &impl RunTarget) -> Enqueued<T> {
        target.with_place(|place| {
            let mut others = Vec::new();
            let queued = place.stream.enqueue_async(|_| {
                refuse_inside(OPERATION)?;
                let (value, joined) = self.run_at(place)?;
                others = joined;
                Ok(value)
            });
            // They have joined the stream, so that their work is complete when that of the stream is.
            queued.checking(others)
        })
    }
}

/// What a closure queues with a value. The closure is dropped first, as a slot requires.
struct Then<T, F> {
    next: F,
    value: Slot<T>,
}

impl<T, F> Then<T, F> {
    fn queue<U>(self, stream: &Stream) -> Result<U>
    where
        F: FnOnce(&Stream, T) -> Result<U>,
    {
        (self.next)(stream, self.value.take()?)
    }
}

/// The steps of the operation that a closure returns, and one that hands its value on. The closure is dropped first, as a slot
/// requires.
struct AndThen<'a, T, U, F> {
    next: F,
    value: Slot<T>,
    result: Slot<U>,
    chosen: PhantomData<Steps<'a>>,
}

impl<'a, T, U, F> Choose for AndThen<'a, T, U, F>
where
    T: Send,
    U: Send + 'a,
    F: FnOnce(T) -> Operation<'a, U> + Send,
{
    fn choose<'s>(self: Box<Self>) -> Result<Steps<'s>>
    where
        Self: 's,
    {
        let Self { next, value, result, .. } = *self;
        let Operation { mut steps, value: chosen } = next(value.take()?);
        steps.push(Step::Queue(Box::new(move |_| {
            result.fill(chosen.take()?);
            Ok(())
        })));
        Ok(steps)
    }
}

impl<T> fmt::Debug for Operation<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Operation")
    }
}
