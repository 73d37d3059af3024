//! Calls for captures.

use super::super::answer::{Answer, Outcome};
use super::super::call::CaptureCall;
use super::super::slots::{DependencySlot, EdgeSpec, GraphSlot, New, NodeSlot, StreamSlot};
use super::objects::{Capture, GraphOwner, live};
use super::{Stage, plain, told};
use anabranch::hal::{Call, CaptureStatus, Dependency, EdgeData, EdgeKind, GraphHandle, Live, Status, StreamHandle};

/// The data of an edge, as the driver takes it.
pub(super) fn edge_data(spec: EdgeSpec) -> EdgeData {
    EdgeData { from_port: spec.0, to_port: spec.1, kind: EdgeKind(spec.2) }
}

/// The data of an edge, as it is printed.
pub(super) fn edge_text(data: EdgeData) -> String {
    EdgeSpec(data.from_port, data.to_port, data.kind.0).to_string()
}

impl Stage {
    pub(super) fn capture_call(&mut self, call: &CaptureCall) -> Option<Answer> {
        let driver = self.driver.clone();
        Some(match call {
            CaptureCall::Begin { stream: slot, mode, graph: New(graph) } => {
                let (stream, context) = self.objects.stream(*slot)?;
                let begun = driver.stream_begin_capture(&self.call_on(*slot, context), stream, *mode);
                told(begun, |()| {
                    let info = driver.stream_capture_info(&self.harness.call(context), stream, true);
                    let handle = info.ok().and_then(|info| info.graph).unwrap_or(GraphHandle::from_raw(0));
                    self.objects.add_graph(*graph, handle, context, GraphOwner::Capture);
                    self.begun(*slot, *graph, false);
                    String::new()
                })
            }
            CaptureCall::BeginToGraph { stream: slot, graph, dependencies, mode } => {
                let (stream, context) = self.objects.stream(*slot)?;
                let (handle, _) = self.objects.graph(*graph)?;
                let dependencies = self.dependencies(dependencies)?;
                let call = self.call_on(*slot, context);
                let begun =
                    // SAFETY: graphs that a capture adds to are not lent, and the nodes exist.
                    unsafe { driver.stream_begin_capture_to_graph(&call, stream, handle, &dependencies, *mode) };
                told(begun, |()| {
                    self.begun(*slot, *graph, true);
                    String::new()
                })
            }
            CaptureCall::End { stream } => self.end_capture(*stream)?,
            CaptureCall::Status { stream: slot } => {
                let (stream, context) = self.objects.stream(*slot)?;
                told(driver.stream_capture_status(&self.call_on(*slot, context), stream), |status| {
                    format!("{status:?}")
                })
            }
            CaptureCall::Info { stream: slot, edge_data, first } => {
                let (stream, context) = self.objects.stream(*slot)?;
                self.capture_info(stream, &self.call_on(*slot, context), *edge_data, *first)
            }
            CaptureCall::Update { stream: slot, dependencies, update } => {
                let (stream, context) = self.objects.stream(*slot)?;
                let dependencies = self.dependencies(dependencies)?;
                let call = self.call_on(*slot, context);
                // SAFETY: the nodes exist. Nodes of a graph that is captured are not destroyed.
                plain(unsafe { driver.stream_update_capture_dependencies(&call, stream, &dependencies, *update) })
            }
            CaptureCall::ExchangeMode { mode } => {
                told(driver.thread_exchange_capture_mode(*mode), |before| format!("{before:?}"))
            }
        })
    }

    fn begun(&mut self, stream: StreamSlot, graph: GraphSlot, is_into: bool) {
        self.objects.captures.push(Capture { stream, thread: self.thread, graph, is_into });
    }

    /// Nodes that others depend on, if all exist.
    pub(super) fn dependencies(&self, slots: &[DependencySlot]) -> Option<Vec<Dependency>> {
        slots
            .iter()
            .map(|slot| {
                let (node, _) = self.objects.open_node(slot.node).filter(|_| self.exists(slot.node.graph))?;
                Some(Dependency { node: node.handle(), data: edge_data(slot.data) })
            })
            .collect()
    }

    /// Notes that the capture that began in a stream has failed. The driver has destroyed its graph, also one that existed
    /// before. A graph around that is not usable any more: drivers crash when it is instantiated or destroyed.
    pub(super) fn capture_failed(&mut self, stream: StreamSlot) {
        let thread = self.thread;
        let began_here = |capture: &mut Capture| capture.began_in(stream, thread);
        let failed = self.objects.captures.extract_if(.., began_here).collect::<Vec<_>>();
        for capture in failed {
            let outermost = self.objects.outermost(capture.graph);
            self.objects.forget_graph(outermost);
        }
    }

    /// Ends the capture of a stream, on this thread.
    pub(super) fn end_capture(&mut self, slot: StreamSlot) -> Option<Answer> {
        let (stream, context) = self.objects.stream(slot)?;
        let ended = self.driver.stream_end_capture(&self.call_on(slot, context), stream);
        Some(match ended {
            Ok(handle) => {
                let began_here = |capture: &Capture| capture.began_in(slot, self.thread);
                let position = self.objects.captures.iter().position(began_here);
                match position.map(|position| self.objects.captures.remove(position)) {
                    Some(capture) => self.captured(&capture, handle),
                    None => Answer::with(Outcome::Status(0), "the graph of no capture"),
                }
            }
            Err(failure) => {
                if ![Status::STREAM_CAPTURE_UNMATCHED, Status::ILLEGAL_STATE].contains(&failure.status) {
                    self.capture_failed(slot);
                }
                Answer::new(Outcome::Status(failure.status.0))
            }
        })
    }

    fn captured(&mut self, capture: &Capture, handle: GraphHandle) -> Answer {
        let same = self.objects.graphs.get_mut(&capture.graph).map(|graph| {
            let same = graph.handle == handle;
            if !capture.is_into {
                (graph.handle, graph.owner) = (handle, GraphOwner::Program);
            }
            same
        });
        let detail = match self.summary(capture.graph) {
            Ok(summary) => summary,
            Err(status) => format!("summary={}", status.0),
        };
        match same {
            Some(false) => Answer::with(Outcome::Status(0), format!("another graph {detail}")),
            _ => Answer::with(Outcome::Status(0), detail),
        }
    }

    fn capture_info(
        &mut self,
        stream: Live<'static, StreamHandle>,
        call: &Call<'_>,
        edge_data: bool,
        first: u16,
    ) -> Answer {
        let info = self.driver.stream_capture_info(call, stream, edge_data);
        told(info, |info| {
            let mut text = format!("{:?}", info.status);
            if info.status != CaptureStatus::Active {
                return text;
            }
            let Some(handle) = info.graph else { return text + " no graph" };
            text.push_str(if info.id == 0 { " no id" } else { "" });
            let graph = self.objects.graphs.iter().find(|(_, graph)| graph.handle == handle).map(|(&slot, _)| slot);
            let Some(graph) = graph else { return text + " unknown graph" };
            text.push_str(&format!(" {graph} deps="));
            for (index, &node) in info.dependencies.iter().enumerate() {
                self.objects.find_node(NodeSlot { graph, index: first }, node);
                let kind = self.driver.graph_node_kind(call, live(node));
                let kind =
                    kind.map_or_else(|failure| format!("failed {}", failure.status.0), |kind| kind.0.to_string());
                let data = info.edge_data.as_ref().and_then(|data| data.get(index)).copied().unwrap_or_default();
                let name = self.objects.node_name(graph, node);
                text.push_str(&format!("{}{name}:{kind}{}", if index > 0 { "," } else { "" }, edge_text(data)));
            }
            text
        })
    }

    /// Whether a graph and its nodes certainly exist. Those of a capture that was invalidated may not.
    pub(super) fn exists(&self, slot: GraphSlot) -> bool {
        let capturing = |capture: &&Capture| {
            self.objects.is_inside(capture.graph, slot) || self.objects.is_inside(slot, capture.graph)
        };
        self.objects.captures.iter().filter(capturing).all(|capture| {
            let is_known_here = capture.began_in(capture.stream, self.thread);
            let origin = self.objects.stream(capture.stream).filter(|_| is_known_here);
            origin.is_some_and(|(stream, context)| {
                let status = self.driver.stream_capture_status(&self.harness.call(context), stream);
                status.is_ok_and(|status| status == CaptureStatus::Active)
            })
        })
    }
}
