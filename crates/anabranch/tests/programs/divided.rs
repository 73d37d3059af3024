//! Captures of several threads, with conditions.
//!
//! Each use of a buffer holds a lock of the program, in which it is noted. So their order is known, and what the graph writes: what
//! a refused condition would have done does not count. One more thread writes a buffer in a stream that has joined nothing. Which
//! part of the capture it joins by that is not known, so that nobody reads this buffer: but nothing may write it before the launch.

use crate::captured::Effect;
use crate::edited::{Work, work};
use crate::environment::LENGTH;
use crate::tally::note;
use crate::world::World;
use anabranch::{Buffer, CaptureMode, ExecutableGraph, PinnedBuffer, Result, Stream};
use proptest::prelude::*;
use std::iter;
use std::sync::Mutex;

/// The last one is written only.
const BUFFERS: usize = 4;
const LAST: usize = BUFFERS - 1;

#[derive(Clone, Debug)]
pub(crate) struct Divided {
    stream: usize,
    /// What each thread captures, the first one in the origin.
    threads: Vec<Vec<Part>>,
    /// How often a stream that has joined nothing writes the last buffer.
    outside: usize,
}

#[derive(Clone, Debug)]
enum Part {
    Use(Work),
    If(Vec<Work>),
}

pub(crate) fn divided() -> impl Strategy<Value = Divided> {
    let part = prop_oneof![
        2 => work().prop_map(Part::Use),
        3 => prop::collection::vec(work(), 1..4).prop_map(Part::If),
    ];
    let threads = prop::collection::vec(prop::collection::vec(part, 1..8), 2..4);
    (0..4usize, threads, prop_oneof![2 => Just(0), 1 => 1..20usize]).prop_map(|(stream, threads, outside)| Divided {
        stream,
        threads,
        outside,
    })
}

/// What the threads share.
struct Divide {
    buffers: Vec<Mutex<Buffer<u32>>>,
    /// Not zero.
    condition: PinnedBuffer<u32>,
    /// What was captured. `None`: in a condition that was refused.
    effects: Mutex<Vec<Option<Effect>>>,
}

impl Divide {
    /// Uses buffers, and returns the number of the use if it is captured.
    fn use_buffers(&self, stream: &Stream, work: Work) -> Option<usize> {
        let to = work.to % BUFFERS;
        let from = work.from.map(|from| from % LAST).filter(|&from| from != to);
        let mut held: Vec<_> = (0..BUFFERS)
            .map(|buffer| (buffer == to || Some(buffer) == from).then(|| self.buffers[buffer].lock().unwrap()))
            .collect();
        let (queued, effect) = match from {
            Some(from) => {
                let [to_buffer, from_buffer] = held.get_disjoint_mut([to, from]).unwrap();
                let queued = stream.copy(&mut **to_buffer.as_mut().unwrap(), &**from_buffer.as_ref().unwrap());
                (queued, Effect::Copy { to, from })
            }
            None => {
                let queued = stream.fill(&mut **held[to].as_mut().unwrap(), work.value);
                (queued, Effect::Fill { to, value: work.value })
            }
        };
        if let Err(error) = queued {
            assert!(!error.is_sticky(), "{error}");
            note("uses of divided captures refused");
            return None;
        }
        let mut effects = self.effects.lock().unwrap();
        effects.push(Some(effect));
        Some(effects.len() - 1)
    }

    /// A refused one changes nothing.
    fn write_outside(&self, stream: &Stream) {
        if stream.fill(&mut *self.buffers[LAST].lock().unwrap(), 3).is_ok() {
            note("divided captures joined");
        }
    }

    fn run(&self, stream: &Stream, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Use(work) => _ = self.use_buffers(stream, *work),
                Part::If(work) => {
                    let Ok(scope) = stream.capture_scope(CaptureMode::Relaxed) else { continue };
                    let mut uses = Vec::new();
                    let queued = scope.capture_if(&self.condition, |part| {
                        uses.extend(work.iter().filter_map(|work| self.use_buffers(part.stream(), *work)));
                        Ok(())
                    });
                    note(if queued.is_ok() { "divided conditions" } else { "divided conditions refused" });
                    if queued.is_err() {
                        let mut effects = self.effects.lock().unwrap();
                        uses.into_iter().for_each(|number| effects[number] = None);
                    }
                }
            }
        }
    }

    fn capture(&self, origin: &Stream, others: &[Stream], divided: &Divided) -> Result<ExecutableGraph> {
        let (outside, forked) = others.split_last().unwrap();
        origin.capture_executable(CaptureMode::Relaxed, |scope| {
            for (number, buffer) in self.buffers.iter().enumerate() {
                scope.fill(&mut *buffer.lock().unwrap(), 9)?;
                self.effects.lock().unwrap().push(Some(Effect::Fill { to: number, value: 9 }));
            }
            forked.iter().try_for_each(|stream| scope.fork(stream))?;
            std::thread::scope(|threads| {
                for (stream, parts) in forked.iter().zip(&divided.threads[1..]) {
                    threads.spawn(|| self.run(stream, parts));
                }
                threads.spawn(|| (0..divided.outside).for_each(|_| self.write_outside(outside)));
                self.run(scope.stream(), &divided.threads[0]);
            });
            for stream in others {
                if stream.is_capturing()? {
                    scope.join(stream)?;
                }
            }
            Ok(())
        })
    }
}

impl World<'_> {
    pub(crate) fn divided(&mut self, divided: &Divided) {
        self.let_go();
        let device = self.stream(divided.stream).device;
        let context = &self.places[device].context;
        // Others may capture meanwhile.
        let _mode = context.exchange_capture_mode(CaptureMode::Relaxed).unwrap();
        let new_stream = || context.create_stream().unwrap();
        let (origin, others): (_, Vec<_>) = (new_stream(), divided.threads.iter().map(|_| new_stream()).collect());
        let mut condition = context.allocate_pinned(1).unwrap();
        condition.write(|words| words.fill(1)).unwrap();
        let divide = Divide {
            buffers: (0..BUFFERS).map(|_| Mutex::new(origin.upload(&[1; LENGTH]).unwrap())).collect(),
            condition,
            effects: Mutex::default(),
        };
        match divide.capture(&origin, &others, divided) {
            Ok(executable) => {
                note("divided captures");
                let last = divide.buffers[LAST].lock().unwrap();
                assert_eq!(origin.download(&*last).unwrap(), [1; LENGTH], "written outside of the capture that has it");
                executable.launch(&origin).unwrap();
            }
            Err(error) => {
                assert!(!error.is_sticky(), "{error}");
                return note("divided captures refused");
            }
        }
        let mut expected = [0; BUFFERS];
        for effect in divide.effects.lock().unwrap().iter().flatten() {
            match *effect {
                Effect::Copy { to, from } => expected[to] = expected[from],
                Effect::Fill { to, value } => expected[to] = value,
                Effect::Combine { .. } => unreachable!("nothing here combines"),
            }
        }
        for (buffer, value) in iter::zip(&divide.buffers[..LAST], expected) {
            let found = origin.download(&*buffer.lock().unwrap()).unwrap();
            assert_eq!(found, [value; LENGTH], "in a buffer of a divided capture");
        }
    }
}
