//! Calls that return futures.

use super::memory::{Memory, any};
use super::told::{contents, elements, plain, refused, told};
use super::{Answer, Front, FrontCall};
use crate::programs::call::FrontKernel;
use crate::programs::slots::{FutureSlot, MemorySlot, New};
use anabranch::{LaunchConfig, Result};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::Thread;

/// What a future returns: a text, and buffers that get slots.
#[derive(Default)]
pub(super) struct Given {
    text: String,
    memory: Vec<(MemorySlot, Memory)>,
}

/// A future of the program.
pub(super) type Held = Pin<Box<dyn Future<Output = Result<Given>> + Send>>;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = TaskContext::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

impl Front {
    pub(super) fn future_call(&mut self, call: &FrontCall) -> Option<Answer> {
        use FrontCall as C;
        Some(match call {
            C::FutureOf { future, stream, checked } => {
                let stream = self.stream(*stream)?;
                let completion = if *checked { stream.checked_completion_future() } else { stream.completion_future() };
                self.hold(*future, async { completion.await.map(|()| Given::default()) })
            }
            C::FutureOfEvent { future, event } => {
                let completion = self.event(*event)?.completed();
                self.hold(*future, async { completion.await.map(|()| Given::default()) })
            }
            C::FutureOfLaunch { future, executable, stream } => {
                let stream = self.stream(*stream)?;
                let completion = self.launched(*executable, &stream)?;
                self.hold(*future, async { completion.await.map(|()| Given::default()) })
            }
            C::DownloadAsync { future, stream, from } => {
                let (stream, memory) = (self.stream(*stream)?, self.objects.memory.get(&from.memory)?);
                match memory.slice(from) {
                    Ok(slice) => {
                        let download = stream.download_async(slice);
                        let given = |elements: Vec<u32>| Given { text: contents(&elements), ..Given::default() };
                        self.hold(*future, async move { download.await.map(given) })
                    }
                    Err(error) => refused(&error),
                }
            }
            C::UploadAsync { future, memory, stream, length, seed } => {
                let (slot, upload) = (memory.0, self.stream(*stream)?.upload_async(elements(*length, *seed)));
                self.hold(*future, async move { Ok(Given::of([(slot, Memory::Device(upload.await?))])) })
            }
            C::CopyAsync { future, stream, to, from } => {
                let stream = self.stream(*stream)?;
                if to == from || !self.objects.memory.contains_key(from) {
                    return None;
                }
                let (slots, destination) = ((*to, *from), self.objects.memory.remove(to)?);
                let source = self.objects.memory.remove(from)?;
                any!(destination, destination => any!(source, source => {
                    let copied = stream.copy_async(destination, source);
                    self.hold(*future, async move {
                        let (destination, source) = copied.await?;
                        Ok(Given::of([(slots.0, destination.into()), (slots.1, source.into())]))
                    })
                }))
            }
            C::FillAsync { future, stream, memory, value } => {
                let (slot, stream) = (*memory, self.stream(*stream)?);
                any!(self.objects.memory.remove(memory)?, buffer => {
                    let filled = stream.fill_async(buffer, *value);
                    self.hold(*future, async move { Ok(Given::of([(slot, filled.await?.into())])) })
                })
            }
            C::LaunchAsync { future, stream, launch } => {
                let FrontKernel::Add { factor, value } = launch.kernel else { return None };
                let (slot, stream) = (launch.part.memory, self.stream(*stream)?);
                if self.objects.memory.get(&slot)?.is_empty() {
                    return None;
                }
                let (kernel, config) = (self.kernels(launch.context).add, LaunchConfig::new(1, 1));
                any!(self.objects.memory.remove(&slot)?, buffer => {
                    // SAFETY: the kernel has these parameters, and the buffer has an element.
                    let launched = unsafe { stream.launch_async(&kernel, &config, (buffer, factor, value)) };
                    self.hold(*future, async move {
                        let (buffer, _, _) = launched.await?;
                        Ok(Given::of([(slot, buffer.into())]))
                    })
                })
            }
            C::EnqueueAsync { future, stream, body } => {
                let (stream, mut text) = (self.stream(*stream)?, None);
                let enqueued = stream.enqueue_async(|_| {
                    text = Some(self.body(body));
                    Ok(())
                });
                let answer = self.hold(*future, async { enqueued.await.map(|()| Given::default()) });
                Answer::with(answer.outcome, text.map_or("not called".to_owned(), |text| format!("{{{text}}}")))
            }
            C::FutureAwait { future } => {
                let result = block_on(self.objects.futures.remove(future)?);
                told(result, |Given { text, memory }| {
                    self.objects.memory.extend(memory);
                    text
                })
            }
            C::FutureDrop { future } => {
                drop(self.objects.futures.remove(future)?);
                plain(Ok(()))
            }
            _ => return None,
        })
    }

    fn hold(&mut self, slot: New<FutureSlot>, future: impl Future<Output = Result<Given>> + Send + 'static) -> Answer {
        self.objects.futures.insert(slot.0, Box::pin(future));
        plain(Ok(()))
    }
}

impl Given {
    fn of<const N: usize>(memory: [(MemorySlot, Memory); N]) -> Self {
        Self { text: String::new(), memory: memory.into() }
    }
}
