//! Memory that passes between the library and others: memory of the host that is registered, tensors, work of other libraries.

use crate::environment::LENGTH;
use crate::world::{ON_PURPOSE, PinnedSlot, World, panic_on_purpose};
use anabranch::Status;
use proptest::prelude::*;
use std::mem::replace;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Clone, Debug)]
pub(crate) enum Exchanged {
    /// Puts a vector that is registered in the place of a pinned buffer.
    Register { stream: usize, pinned: usize, value: u32 },
    /// Makes a vector of a pinned buffer, which may be one.
    IntoVec { stream: usize, pinned: usize },
    /// Copies from memory of the host, to it, or both, which is registered meanwhile.
    RegisterScope { stream: usize, to: Option<usize>, from: Option<usize>, value: u32, panics: bool },
    /// Exports a buffer as a tensor for a stream or none, and imports it for another one or none.
    Tensor { stream: usize, buffer: usize, consumer: Option<usize>, ready: Option<usize> },
    /// Work of another library, which does nothing with the memory, and may unwind.
    Submit { stream: usize, to: usize, panics: bool },
}

impl Exchanged {
    /// GPUs pin whole pages, in which vectors may meet others that are registered.
    pub(crate) fn is_for_host_devices(&self) -> bool {
        matches!(self, Self::Register { .. } | Self::RegisterScope { .. })
    }
}

pub(crate) fn exchanged() -> impl Strategy<Value = Exchanged> {
    use Exchanged::*;
    let n = || 0..4usize;
    let maybe = || prop::option::of(0..4usize);
    let sometimes = || prop::bool::weighted(0.2);
    prop_oneof![
        2 => (n(), n(), any::<u32>()).prop_map(|(stream, pinned, value)| Register { stream, pinned, value }),
        1 => (n(), n()).prop_map(|(stream, pinned)| IntoVec { stream, pinned }),
        1 => (n(), maybe(), maybe(), any::<u32>(), sometimes())
            .prop_map(|(stream, to, from, value, panics)| RegisterScope { stream, to, from, value, panics }),
        3 => (n(), n(), maybe(), maybe())
            .prop_map(|(stream, buffer, consumer, ready)| Tensor { stream, buffer, consumer, ready }),
        1 => (n(), n(), sometimes()).prop_map(|(stream, to, panics)| Submit { stream, to, panics }),
    ]
}

impl World<'_> {
    pub(crate) fn exchanged(&mut self, exchanged: &Exchanged) {
        match *exchanged {
            Exchanged::Register { stream, pinned, value } => {
                let (stream, pinned) = (self.stream(stream), self.pinned(pinned));
                let number = self.remember([value; LENGTH]);
                let place = &mut self.places[stream.device];
                let registered = place.context.register_pinned(vec![value; LENGTH]);
                let buffer = registered.map_err(|(error, _)| error).unwrap();
                drop(replace(&mut place.pinned[pinned], PinnedSlot { buffer, number }));
            }
            Exchanged::IntoVec { stream, pinned } => {
                self.let_go();
                let stream = self.stream(stream);
                let (buffer, number) = self.take_pinned(&stream, pinned);
                match buffer.into_vec() {
                    Ok(vector) => assert_eq!(vector, self.memories[number], "in a vector"),
                    Err((error, buffer)) => {
                        // A graph has it.
                        assert_eq!(error.status(), Status::ILLEGAL_STATE, "{error}");
                        let pinned = self.pinned(pinned);
                        self.places[stream.device].pinned[pinned] = PinnedSlot { buffer, number };
                    }
                }
            }
            Exchanged::RegisterScope { stream, to, from, value, panics } => {
                self.let_go();
                let stream = self.stream(stream);
                let [to, from] = [to, from].map(|buffer| buffer.map(|buffer| self.buffer(&stream, buffer)));
                let place = &mut self.places[stream.device];
                let mut host = [value; LENGTH];
                let ended = catch_unwind(AssertUnwindSafe(|| {
                    let (context, buffers) = (&place.context, &mut place.buffers);
                    context.register_scope(&mut host, |mut host| {
                        if let Some(to) = to {
                            stream.stream.copy(buffers[to].buffer.as_mut().unwrap(), host.as_slice())?;
                        }
                        if let Some(from) = from {
                            stream.stream.copy(host.reborrow(), buffers[from].buffer.as_ref().unwrap())?;
                        }
                        if panics {
                            panic_on_purpose();
                        }
                        Ok(())
                    })
                }));
                if let Some(to) = to {
                    self.memories[place.buffers[to].number].fill(value);
                }
                match ended {
                    // What the scope waits for may report a panic of earlier work.
                    Ok(result) => _ = stream.unless_panicked(result),
                    Err(payload) => assert_eq!(payload.downcast_ref::<&'static str>(), Some(&ON_PURPOSE)),
                }
                let expected = from.map_or([value; LENGTH], |from| self.memories[place.buffers[from].number]);
                assert_eq!(host, expected, "in memory that was registered");
            }
            Exchanged::Tensor { stream, buffer, consumer, ready } => self.tensor(stream, buffer, consumer, ready),
            Exchanged::Submit { stream, to, panics } => {
                let stream = self.stream(stream);
                let to = self.buffer(&stream, to);
                let memory = self.places[stream.device].buffers[to].buffer.as_mut().unwrap();
                let submit = |_| {
                    if panics {
                        panic_on_purpose()
                    }
                };
                let submitted = catch_unwind(AssertUnwindSafe(|| stream.stream.submit_foreign((memory,), submit)));
                assert_eq!(submitted.is_err(), panics);
                submitted.map_or(Ok(()), |result| result).unwrap();
            }
        }
    }

    #[cfg(feature = "dlpack")]
    fn tensor(&mut self, stream: usize, buffer: usize, consumer: Option<usize>, ready: Option<usize>) {
        use anabranch::dlpack::ManagedTensor;
        let stream = self.stream(stream);
        let [consumer, ready] = [consumer, ready].map(|other| other.map(|other| self.pair([0, other]).1));
        let of_device = |other: &Option<_>| {
            other.clone().filter(|other: &crate::streams::StreamSlot| other.device == stream.device)
        };
        let [consumer, ready] = [of_device(&consumer), of_device(&ready)];
        if consumer.is_none() {
            self.let_go();
        }
        let (memory, number) = self.take(&stream, buffer);
        let tensor =
            match ManagedTensor::export(memory, &[2, LENGTH / 2], consumer.as_ref().map(|other| &*other.stream)) {
                Ok(tensor) => tensor,
                Err((error, memory)) => {
                    // A graph has it.
                    assert_eq!(error.status(), Status::ILLEGAL_STATE, "{error}");
                    return self.put(&stream, buffer, memory, number);
                }
            };
        let context = &self.places[stream.device].context;
        let memory = tensor.into_buffer::<u32>(context, ready.as_ref().map(|other| &*other.stream)).unwrap();
        self.put(&stream, buffer, memory, number);
    }

    #[cfg(not(feature = "dlpack"))]
    fn tensor(&mut self, _: usize, _: usize, _: Option<usize>, _: Option<usize>) {}
}
