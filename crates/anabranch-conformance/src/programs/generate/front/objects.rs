//! Calls that make objects, ask and wait for them, and drop them.

use super::Front;
use super::model::Kind;
use crate::programs::call::FrontCall;
use crate::programs::slots::{ContextSlot, Flags, New, StreamSlot};

impl Front<'_> {
    fn new_stream(&mut self, context: ContextSlot) -> New<StreamSlot> {
        let slot = self.generator.model.new_stream();
        self.model.streams.push((slot, context));
        New(slot)
    }

    pub(super) fn create_stream(&mut self, context: ContextSlot) -> FrontCall {
        let flags = Flags(self.one_of([0, 1, 1]));
        FrontCall::StreamCreate { stream: self.new_stream(context), context, flags, priority: 0 }
    }

    pub(super) fn create(&mut self) -> FrontCall {
        let context = self.context();
        match self.below(8) {
            0 => self.create_stream(context),
            1 => {
                let (flags, priority) = (self.one_of([0, 1, 2, 3, 0x10]), self.one_of([0, -1, -5, 3, i32::MIN]));
                FrontCall::StreamCreate { stream: self.new_stream(context), context, flags: Flags(flags), priority }
            }
            2 if !self.model.counts_orders => FrontCall::StreamLegacy { stream: self.new_stream(context), context },
            3 if !self.model.counts_orders => FrontCall::StreamPerThread { stream: self.new_stream(context), context },
            4 => {
                let flags = Flags(self.one_of([0, 1, 2, 3, 8, 4]));
                FrontCall::EventCreate { event: self.new_event(context), context, flags }
            }
            5 => {
                let (stream, context) = self.any_stream();
                let flags = Flags(self.one_of([0, 2]));
                FrontCall::EventRecordNew { stream, event: self.new_event(context), flags }
            }
            6 if !self.model.pools.is_empty() => {
                let pool = self.model.pools[0];
                FrontCall::PoolTrim { pool, keep: self.one_of([0, 4096]) }
            }
            _ => {
                let pool = self.generator.model.new_pool();
                self.model.pools.push(pool);
                FrontCall::PoolCreate { pool: New(pool), max_bytes: self.one_of([0, 0, 1 << 25]) }
            }
        }
    }

    /// Orders streams.
    pub(super) fn order(&mut self) -> FrontCall {
        let (stream, context) = self.any_stream();
        match self.below(8) {
            0..=2 => {
                let flags = Flags(self.one_of([0, 0, 0, 0, 0, 0, 0, 1, 2]));
                FrontCall::EventRecord { stream, event: self.event_of(context), flags }
            }
            3..=5 => {
                let flags = Flags(self.one_of([0, 0, 0, 0, 0, 0, 0, 1, 2]));
                FrontCall::StreamWaitEvent { stream, event: self.event(), flags }
            }
            _ => FrontCall::StreamWait { stream, other: self.stream() },
        }
    }

    pub(super) fn ask(&mut self) -> FrontCall {
        match self.below(6) {
            0 | 1 => FrontCall::StreamQuery { stream: self.stream() },
            2 => FrontCall::StreamProperties { stream: self.stream() },
            3 => FrontCall::EventElapsed { end: self.event(), start: self.event() },
            _ => FrontCall::EventQuery { event: self.event() },
        }
    }

    pub(super) fn wait(&mut self) -> FrontCall {
        match self.below(8) {
            0..=3 => FrontCall::StreamSynchronize { stream: self.stream() },
            4..=6 => FrontCall::EventSynchronize { event: self.event() },
            _ => FrontCall::ContextSynchronize { context: self.context() },
        }
    }

    pub(super) fn drop_something(&mut self) -> FrontCall {
        let model = &mut self.model;
        let numbers = &mut self.generator.numbers;
        match numbers.below(6) {
            0 if model.streams.len() > 2 => {
                let (stream, _) = model.streams.swap_remove(numbers.below(model.streams.len()));
                if numbers.chance(1, 3) {
                    FrontCall::StreamShutdown { stream }
                } else {
                    FrontCall::StreamDrop { stream }
                }
            }
            1 if model.events.len() > 1 => {
                let (event, _) = model.events.swap_remove(numbers.below(model.events.len()));
                FrontCall::EventDrop { event }
            }
            2 if !model.pools.is_empty() => {
                FrontCall::PoolDrop { pool: model.pools.swap_remove(numbers.below(model.pools.len())) }
            }
            _ if model.memory.len() > 3 => {
                let at = numbers.below(model.memory.len());
                if model.counts_orders && model.memory[at].kind != Kind::Device {
                    return self.wait();
                }
                FrontCall::MemoryDrop { memory: model.memory.swap_remove(at).slot }
            }
            _ => self.wait(),
        }
    }
}
