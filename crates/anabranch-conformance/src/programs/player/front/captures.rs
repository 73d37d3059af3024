//! Calls for captures.

use super::told::{plain, refused, told};
use super::{Answer, Front, FrontCall, Outcome};
use crate::programs::HostThread;
use crate::programs::slots::{ContextSlot, GraphSlot, NodeSlot};
use anabranch::{BufferSlice, CaptureScope, EdgeData, Error, LaunchConfig, Node, Result, Status, Stream};
use std::cell::RefCell;
use std::sync::Arc;

/// A part of a capture that runs depending on a number.
type Part<'a> = &'a mut dyn for<'scope> FnMut(&CaptureScope<'scope>) -> Result<()>;

impl Front {
    pub(super) fn capture_call(&mut self, call: &FrontCall) -> Option<Answer> {
        use FrontCall as C;
        Some(match call {
            C::CaptureBegin { stream, mode } => {
                let stream = self.stream(*stream)?;
                let begun = stream.begin_capture(*mode);
                self.note_capture(&stream, begun.is_ok());
                plain(begun)
            }
            C::CaptureBeginTo { stream, graph, dependencies, mode } => {
                let stream = self.stream(*stream)?;
                let dependencies = self.dependencies(*graph, dependencies, true);
                self.objects.graphs.get(graph).filter(|object| !object.is_loose)?;
                let object = self.objects.graphs.remove(graph)?;
                match stream.begin_capture_to_graph(object.graph, &dependencies, *mode) {
                    Ok(()) => {
                        self.note_capture(&stream, true);
                        plain(Ok(()))
                    }
                    Err((error, graph_back)) => {
                        self.objects.graphs.insert(*graph, super::graphs::Object { graph: graph_back, ..object });
                        refused(&error)
                    }
                }
            }
            C::CaptureEnd { stream, graph } => {
                let captured = self.stream(*stream)?.end_capture();
                self.add_graph(graph.0, captured)
            }
            C::Capture { stream, mode, graph, stops, body } => {
                let (stream, mut text) = (self.stream(*stream)?, String::new());
                let captured = stream.capture(*mode, |scope| self.part(scope, body, *stops, &mut text));
                let mut answer = self.add_graph(graph.0, captured);
                answer.detail.push_str(&format!(" {{{text}}}"));
                answer
            }
            C::CaptureInto { stream, graph, dependencies, mode, stops, body } => {
                let (stream, mut text) = (self.stream(*stream)?, String::new());
                let dependencies = self.dependencies(*graph, dependencies, true);
                let mut object = self.objects.graphs.remove(graph)?;
                let captured = stream.capture_into(&mut object.graph, &dependencies, *mode, |scope| {
                    self.part(scope, body, *stops, &mut text)
                });
                let shape = object.shape();
                self.objects.graphs.insert(*graph, object);
                self.name_nodes(*graph);
                let mut answer = plain(captured);
                answer.detail.push_str(&format!(" {shape} {{{text}}}"));
                answer
            }
            C::CaptureStatus { stream } => told(self.stream(*stream)?.capture_status(), |status| format!("{status:?}")),
            C::CaptureInfo { stream } => told(self.stream(*stream)?.capture_info(), |info| {
                let data = info.dependencies.iter().filter(|(_, data)| *data != EdgeData::default()).count();
                format!("{:?} dependencies={} data={data}", info.status, info.dependencies.len())
            }),
            C::CaptureUpdate { stream, like, update } => {
                let (stream, like) = (self.stream(*stream)?, self.stream(*like)?);
                plain(
                    like.capture_info()
                        .and_then(|info| stream.update_capture_dependencies_with_mode(&info.dependencies, *update)),
                )
            }
            _ => return None,
        })
    }

    /// Calls that a capture has only inside of its closure.
    pub(super) fn scope_call(&mut self, call: &FrontCall, scope: Option<&CaptureScope<'_>>) -> Option<Answer> {
        use FrontCall as C;
        let scope = scope?;
        if !self.has_conditions {
            return None;
        }
        let (condition, mut text, mut other) = (call.condition()?, String::new(), String::new());
        let memory = self.objects.memory.remove(&condition.memory)?;
        let captured = memory.slice(condition).and_then(|slice: BufferSlice<'_, u32>| match call {
            C::CaptureIf { body, .. } => scope.capture_if(slice, |part| self.part(part, body, true, &mut text)),
            C::CaptureSwitch { bodies, .. } => {
                // Each is called once, one after the other.
                let shared = RefCell::new((&mut *self, &mut text));
                let mut parts: Vec<_> = bodies
                    .iter()
                    .map(|body| {
                        let shared = &shared;
                        move |part: &CaptureScope<'_>| {
                            let (front, text) = &mut *shared.borrow_mut();
                            front.part(part, body, true, text)
                        }
                    })
                    .collect();
                let mut parts: Vec<Part<'_>> = parts.iter_mut().map(|part| part as Part<'_>).collect();
                scope.capture_switch(slice, &mut parts)
            }
            C::CaptureIfElse { body, otherwise, .. } => {
                let front = RefCell::new(&mut *self);
                scope.capture_if_else(
                    slice,
                    |part| front.borrow_mut().part(part, body, true, &mut text),
                    |part| front.borrow_mut().part(part, otherwise, true, &mut other),
                )
            }
            _ => Ok(()),
        });
        let captured = match call {
            C::CaptureWhile { body, .. } => self.capture_while(scope, memory, condition, body, &mut text),
            _ => {
                self.objects.memory.insert(condition.memory, memory);
                captured
            }
        };
        let mut answer = plain(captured);
        answer.detail.push_str(&format!(" {{{text}}} {{{other}}}"));
        Some(answer)
    }

    /// Captures a loop that runs at most once.
    fn capture_while(
        &mut self,
        scope: &CaptureScope<'_>,
        mut memory: super::Memory,
        condition: &super::PartSpec,
        body: &[FrontCall],
        text: &mut String,
    ) -> Result<()> {
        let add = self.add_kernel(&memory);
        let captured = memory.slice_mut(condition).and_then(|slice| {
            scope.capture_while(slice, |part, condition| {
                // SAFETY: the kernel has these parameters, and uses the first element.
                unsafe { part.launch(&add, &LaunchConfig::new(1, 1), (condition.reborrow(), 0u32, 0u32)) }?;
                self.part(part, body, true, text)
            })
        });
        self.objects.memory.insert(condition.memory, memory);
        captured
    }

    /// Makes the calls of a capture. If it stops at errors, the first one is its own.
    fn part(&mut self, scope: &CaptureScope<'_>, body: &[FrontCall], stops: bool, text: &mut String) -> Result<()> {
        let around = std::mem::replace(&mut self.is_inside, true);
        let mut failed = None;
        for (index, call) in body.iter().enumerate() {
            let answer = self.make(call, Some(scope)).unwrap_or(Answer::new(Outcome::Skipped));
            text.push_str(if index > 0 { ", " } else { "" });
            text.push_str(&answer.to_string());
            failed = Some(answer.outcome).filter(|outcome| !matches!(outcome, Outcome::Status(0) | Outcome::Skipped));
            if stops && failed.is_some() {
                break;
            }
        }
        self.is_inside = around;
        match failed {
            Some(Outcome::Status(status)) if stops => {
                Err(Error::argument(Status(status), "capturing a part", "a call of the part has failed"))
            }
            _ => Ok(()),
        }
    }

    fn note_capture(&mut self, stream: &Arc<Stream>, has_begun: bool) {
        if has_begun {
            self.captures.push((Arc::downgrade(stream), self.thread));
        }
    }

    /// Ends the captures that a thread has begun and not ended.
    pub(in crate::programs::player) fn leave_thread(&mut self, thread: HostThread) {
        self.thread = thread;
        for (stream, _) in self.captures.extract_if(.., |(_, of)| *of == thread).collect::<Vec<_>>() {
            let Some(stream) = stream.upgrade() else { continue };
            if stream.capture_status().is_ok_and(|status| status == anabranch::CaptureStatus::None) {
                continue;
            }
            let answer = plain(stream.end_capture().map(drop));
            self.ending.push(format!("capture {answer}"));
        }
        if !self.has_default_streams {
            return;
        }
        // One that no stream of the program stands for any more.
        for number in [0, 1].map(ContextSlot) {
            let default = self.context(number).per_thread_stream();
            let capturing = default.ok().filter(|stream| stream.is_capturing().unwrap_or(true));
            if let Some(stream) = capturing {
                let answer = plain(stream.end_capture().map(drop));
                self.ending.push(format!("default stream {answer}"));
            }
        }
    }

    /// Nodes that others depend on. `ordered`: and all nodes of the graph that no other one depends on, so that the contents of
    /// memory do not depend on the order of nodes without one.
    pub(super) fn dependencies(&self, graph: GraphSlot, slots: &[NodeSlot], ordered: bool) -> Vec<Node> {
        let mut nodes: Vec<Node> = slots.iter().filter_map(|slot| self.objects.nodes.get(slot).copied()).collect();
        if ordered && let Some(object) = self.objects.graphs.get(&graph) {
            for node in object.sinks() {
                if !nodes.contains(&node) {
                    nodes.push(node);
                }
            }
        }
        nodes
    }
}
