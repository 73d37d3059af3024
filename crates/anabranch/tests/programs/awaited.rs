//! Operations that own what they use until they are complete, and what becomes of their futures.

use crate::environment::{LENGTH, combined, for_each};
use crate::operation::{Fate, Kind};
use crate::run::half;
use crate::streams::StreamSlot;
use crate::world::{BUFFERS, Future, Given, World, panic_on_purpose};
use anabranch::{Buffer, Enqueued, Reads, Result, Stream};
use futures::executor::block_on;
use futures::task::noop_waker_ref;
use futures::{FutureExt, StreamExt, TryFutureExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

/// How many buffers a future owns at most.
const MOST_BUFFERS: usize = 3;

pub(crate) fn poll_once<F: std::future::Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut TaskContext::from_waker(noop_waker_ref())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

impl World<'_> {
    /// A copy that owns both buffers.
    pub(crate) fn copy_async(&mut self, stream: usize, to: (Kind, usize), from: (Kind, usize), fate: Fate) {
        let stream = self.stream(stream);
        match (to, from) {
            ((Kind::Device, to), (Kind::Device, from)) => {
                if to % BUFFERS == from % BUFFERS {
                    return;
                }
                let ((to, t), (from, f)) = (self.take(&stream, to), self.take(&stream, from));
                self.memories[t] = self.memories[f];
                let future = stream.stream.copy_async(to, from);
                let given = move |(to, from)| vec![Given::Buffer(t, to), Given::Buffer(f, from)];
                self.meet(stream, future.map_ok(given), fate);
            }
            ((Kind::Device, to), (Kind::Pinned, from)) => {
                let ((to, t), (from, f)) = (self.take(&stream, to), self.take_pinned(&stream, from));
                self.memories[t] = self.memories[f];
                let future = stream.stream.copy_async(to, from);
                let given = move |(to, from)| vec![Given::Buffer(t, to), Given::Pinned(f, from)];
                self.meet(stream, future.map_ok(given), fate);
            }
            ((Kind::Pinned, to), (Kind::Device, from)) => {
                let ((to, t), (from, f)) = (self.take_pinned(&stream, to), self.take(&stream, from));
                self.memories[t] = self.memories[f];
                let future = stream.stream.copy_async(to, from);
                let given = move |(to, from)| vec![Given::Pinned(t, to), Given::Buffer(f, from)];
                self.meet(stream, future.map_ok(given), fate);
            }
            ((Kind::Pinned, to), (Kind::Pinned, from)) => {
                let ((to, t), (from, f)) = (self.take_pinned(&stream, to), self.take_pinned(&stream, from));
                self.memories[t] = self.memories[f];
                let future = stream.stream.copy_async(to, from);
                let given = move |(to, from)| vec![Given::Pinned(t, to), Given::Pinned(f, from)];
                self.meet(stream, future.map_ok(given), fate);
            }
        }
    }

    /// A launch that owns its buffers.
    pub(crate) fn launch_async(&mut self, stream: usize, numbers: [usize; 3], value: u32, fate: Fate) {
        let stream = self.stream(stream);
        let [to, left, right] = numbers.map(|buffer| buffer % BUFFERS);
        if to == left || left == right || right == to {
            return;
        }
        let [(to, t), (left, l), (right, r)] = [to, left, right].map(|buffer| self.take(&stream, buffer));
        let (left_words, right_words) = (self.memories[l], self.memories[r]);
        for (index, word) in self.memories[t].iter_mut().enumerate() {
            *word = combined(*word, left_words[index], right_words[index], value);
        }
        let kernel = &self.kernels[stream.device].combine;
        let arguments = (to, Reads(left), Reads(right), value);
        // SAFETY: the kernel reads its three buffers, which have the same length, and writes the first.
        let future = unsafe { stream.stream.launch_async(kernel, &for_each(LENGTH), arguments) };
        let given = move |(to, Reads(left), Reads(right), _)| {
            vec![Given::Buffer(t, to), Given::Buffer(l, left), Given::Buffer(r, right)]
        };
        self.meet(stream, future.map_ok(given), fate);
    }

    /// A future that owns a buffer.
    pub(crate) fn enqueue(&mut self, stream: usize, from: usize, value: u32, panics: bool, fate: Fate) {
        let stream = self.stream(stream);
        let (mut buffer, number) = self.take(&stream, from);
        let kernel = &self.kernels[stream.device].combine;
        let queue = |stream: &Stream| -> Result<Buffer<u32>> {
            let (first, second) = buffer.slice_mut(..)?.split_at(half())?;
            let arguments = (first, second.as_slice(), second.as_slice(), value);
            // SAFETY: the kernel reads all three slices, which have the same length, and writes the first.
            unsafe { stream.launch(kernel, &for_each(half()), arguments) }?;
            if panics {
                panic_on_purpose();
            }
            Ok(buffer)
        };
        let future: std::thread::Result<Enqueued<Buffer<u32>>> =
            catch_unwind(AssertUnwindSafe(|| stream.stream.enqueue_async(queue)));
        // A graph may still have the memory when nobody else has.
        let words = &mut self.memories[number];
        for index in 0..half() {
            words[index] = combined(words[index], words[half() + index], words[half() + index], value);
        }
        // After a panic the buffer is dropped with the closure, while the kernel that uses it is queued.
        assert_eq!(future.is_err(), panics);
        if let Ok(future) = future {
            self.meet(stream, future.map_ok(move |buffer| vec![Given::Buffer(number, buffer)]), fate);
        }
    }

    /// Does with a future what its fate is.
    pub(crate) fn meet<F>(&mut self, stream: StreamSlot, future: F, fate: Fate)
    where
        F: std::future::Future<Output = Result<Vec<Given>>> + Send + 'static,
    {
        let mut future = future.boxed();
        let result = match fate {
            Fate::DroppedUnpolled => return,
            Fate::Kept => return self.futures.push(Future { stream, future }),
            Fate::Leaked(way) => return self.environment.leak(way, MOST_BUFFERS, future),
            Fate::DroppedPolled => poll_once(&mut future),
            Fate::KeptPolled => match poll_once(&mut future) {
                None => return self.futures.push(Future { stream, future }),
                result => result,
            },
            Fate::LeakedPolled(way) => match poll_once(&mut future) {
                None => return self.environment.leak(way, MOST_BUFFERS, future),
                result => result,
            },
            Fate::Finished => {
                self.let_go();
                Some(block_on(future))
            }
        };
        for given in result.and_then(|result| stream.unless_panicked(result)).into_iter().flatten() {
            self.keep(&stream, given);
        }
    }

    /// Chunks of work, of which some are taken, and the rest given up.
    pub(crate) fn pipeline(&mut self, stream: usize, depth: usize, chunks: u32, taken: usize) {
        self.let_go();
        let stream = self.stream(stream);
        let mut pipeline = stream.stream.pipeline(depth, 0..chunks, |stream, chunk| {
            let mut buffer = stream.allocate_zeroed::<u32>(LENGTH)?;
            stream.fill(&mut buffer, chunk)?;
            Ok(buffer)
        });
        for chunk in 0..taken {
            match block_on(pipeline.next()) {
                None => break,
                Some(result) => match stream.unless_panicked(result) {
                    None => break,
                    Some(buffer) => {
                        let number = self.remember([chunk as u32; LENGTH]);
                        self.compare(&stream, &buffer, number);
                    }
                },
            }
        }
    }
}
