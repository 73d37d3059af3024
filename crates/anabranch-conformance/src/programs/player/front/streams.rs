//! Calls for streams.

use super::told::{completes, plain, told};
use super::{Answer, Front, FrontCall, Outcome};
use crate::programs::slots::{New, StreamSlot};
use anabranch::{EventWaitFlags, Result, Stream, StreamFlags};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Front {
    pub(super) fn stream_call(&mut self, call: &FrontCall) -> Option<Answer> {
        use FrontCall as C;
        Some(match call {
            C::StreamCreate { stream, context, flags, priority } => {
                let flags = StreamFlags::from_bits_retain(flags.0);
                self.add_stream(*stream, self.context(*context).create_stream_with_priority(flags, *priority))
            }
            C::StreamLegacy { stream, context } => self.add_stream(*stream, self.context(*context).legacy_stream()),
            C::StreamPerThread { stream, context } => {
                self.has_default_streams = true;
                self.add_stream(*stream, self.context(*context).per_thread_stream())
            }
            C::StreamDrop { stream } => {
                drop(self.objects.streams.remove(stream)?);
                plain(Ok(()))
            }
            C::StreamShutdown { stream } => match Arc::try_unwrap(self.objects.streams.remove(stream)?) {
                Ok(owned) => plain(owned.shutdown()),
                // A call around this one uses it.
                Err(shared) => {
                    self.objects.streams.insert(*stream, shared);
                    Answer::new(Outcome::Skipped)
                }
            },
            C::StreamQuery { stream } => {
                let stream = self.stream(*stream)?;
                completes(|| stream.query())
            }
            C::StreamSynchronize { stream } => plain(self.stream(*stream)?.synchronize()),
            C::StreamProperties { stream } => {
                let stream = self.stream(*stream)?;
                let properties = || Ok((stream.flags()?, stream.is_non_blocking()?, stream.priority()?));
                told(properties(), |(flags, is_non_blocking, priority)| {
                    format!("{:#x} {is_non_blocking} {priority}", flags.bits())
                })
            }
            C::StreamWait { stream, other } => plain(self.stream(*stream)?.wait_stream(&*self.stream(*other)?)),
            C::StreamWaitEvent { stream, event, flags } => {
                let flags = EventWaitFlags::from_bits_retain(flags.0);
                plain(self.stream(*stream)?.wait_event_with_flags(&*self.event(*event)?, flags))
            }
            C::HostFunction { stream, number, repeatable } => {
                let (stream, run) = (self.stream(*stream)?, self.host_function(*number));
                plain(if *repeatable { stream.launch_repeatable_host_func(run) } else { stream.launch_host_func(run) })
            }
            C::Callback { stream, number } => {
                let run = self.host_function(*number);
                plain(self.stream(*stream)?.add_callback(move |_, _| run()))
            }
            _ => return None,
        })
    }

    fn add_stream(&mut self, slot: New<StreamSlot>, stream: Result<Stream>) -> Answer {
        told(stream, |stream| {
            self.objects.streams.insert(slot.0, Arc::new(stream));
            String::new()
        })
    }

    /// A host function that adds a number, so that it does not matter in which order such functions run.
    pub(super) fn host_function(&self, number: u32) -> impl Fn() + Send + Sync + 'static {
        let sum = self.host_sum.clone();
        move || {
            sum.fetch_add(number.into(), Ordering::AcqRel);
        }
    }
}
