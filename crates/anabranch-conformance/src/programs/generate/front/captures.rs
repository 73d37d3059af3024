//! Calls for captures.

use super::Front;
use super::model::Kind;
use crate::programs::call::{FrontCall, PartSpec};
use crate::programs::slots::{ContextSlot, StreamSlot};
use anabranch::hal::{CaptureMode, DependencyUpdate};

impl Front<'_> {
    pub(super) fn mode(&mut self) -> CaptureMode {
        self.one_of([CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed, CaptureMode::Relaxed])
    }

    pub(super) fn capture(&mut self) -> FrontCall {
        if let Some(&stream) = self.model.capturing.first() {
            return self.capturing(stream);
        }
        let (stream, context) = self.any_stream();
        match self.below(12) {
            0..=5 => {
                let (mode, stops) = (self.mode(), self.chance(1, 2));
                let body = self.captured(stream, context);
                FrontCall::Capture { stream, mode, graph: self.new_graph(context, 3, false), stops, body }
            }
            6 | 7 => {
                let (graph, mode, stops) = (self.any_graph(), self.mode(), self.chance(1, 2));
                let (dependencies, body) = (self.nodes_of(graph), self.captured(stream, context));
                FrontCall::CaptureInto { stream, graph: graph.slot, dependencies, mode, stops, body }
            }
            8 => {
                let (graph, mode) = (self.any_graph(), self.mode());
                self.model.capturing.push(stream);
                FrontCall::CaptureBeginTo { stream, graph: graph.slot, dependencies: self.nodes_of(graph), mode }
            }
            9 => FrontCall::CaptureInfo { stream },
            _ => {
                self.model.capturing.push(stream);
                FrontCall::CaptureBegin { stream, mode: self.mode() }
            }
        }
    }

    /// Calls while a stream probably captures.
    fn capturing(&mut self, stream: StreamSlot) -> FrontCall {
        let other = self.stream();
        match self.below(12) {
            0..=4 => {
                self.model.capturing.clear();
                let context = self.model.streams.iter().find(|(known, _)| *known == stream);
                let context = context.map_or(ContextSlot(0), |(_, context)| *context);
                FrontCall::CaptureEnd { stream, graph: self.new_graph(context, 3, false) }
            }
            5 => FrontCall::StreamWait { stream: other, other: stream },
            6 => FrontCall::StreamWait { stream, other },
            7 => FrontCall::CaptureStatus { stream: other },
            8 => FrontCall::CaptureInfo { stream },
            9 => {
                let update = self.one_of([DependencyUpdate::Add, DependencyUpdate::Set]);
                FrontCall::CaptureUpdate { stream, like: other, update }
            }
            _ => {
                self.model.focus = vec![stream];
                let call = self.work();
                self.model.focus.clear();
                call
            }
        }
    }

    /// What a stream captures, often with another one that joins the capture.
    fn captured(&mut self, stream: StreamSlot, context: ContextSlot) -> Vec<FrontCall> {
        let others: Vec<StreamSlot> =
            self.model.streams.iter().filter(|(_, of)| *of == context).map(|(slot, _)| *slot).collect();
        let other = self.generator.numbers.pick(&others).filter(|other| *other != stream);
        let other = other.filter(|_| self.generator.numbers.chance(1, 2));
        let mut body = Vec::new();
        let before = std::mem::replace(&mut self.model.focus, vec![stream]);
        if let Some(other) = other {
            body.push(FrontCall::StreamWait { stream: other, other: stream });
            self.model.focus.push(other);
        }
        for _ in 0..1 + self.below(4) {
            let call = match self.below(16) {
                0 => self.simple(),
                1 | 2 => self.condition(),
                3 => self.allocate(),
                _ => self.work(),
            };
            body.push(call);
        }
        if let Some(other) = other.filter(|_| !self.chance(1, 12)) {
            body.push(FrontCall::StreamWait { stream, other });
        }
        self.model.focus = before;
        body
    }

    /// A part of a capture that runs depending on a number.
    fn condition(&mut self) -> FrontCall {
        let fitting: Vec<_> = self.model.memory.iter().copied().filter(|memory| memory.kind == Kind::Device).collect();
        let Some(memory) = self.generator.numbers.pick(&fitting) else { return self.work() };
        let condition = PartSpec { memory: memory.slot, start: 0, end: memory.length };
        // The stream of a part has no name.
        let mut body = || (0..1 + self.below(2)).map(|_| self.work()).collect::<Vec<_>>();
        let (first, second) = (body(), body());
        match self.below(5) {
            0 | 1 => FrontCall::CaptureIf { condition, body: first },
            2 => FrontCall::CaptureIfElse { condition, body: first, otherwise: second },
            3 => FrontCall::CaptureWhile { condition, body: first },
            _ => FrontCall::CaptureSwitch { value: condition, bodies: vec![first, second] },
        }
    }
}
