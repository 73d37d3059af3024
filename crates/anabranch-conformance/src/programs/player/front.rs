//! Calls of the safe API.

mod captures;
mod copies;
mod events;
mod executables;
mod futures;
mod graphs;
mod host_access;
mod kernels;
mod memory;
mod signals;
mod streams;
mod told;

use super::super::HostThread;
use super::super::answer::{Answer, Outcome};
use super::super::call::{FrontCall, PartSpec};
use super::super::slots::{
    ContextSlot, EventSlot, ExecutableSlot, FutureSlot, GateSlot, GraphSlot, MemorySlot, NodeSlot, PoolSlot, StreamSlot,
};
use anabranch::{
    CaptureScope, Context, ContextFlags, Device, Event, MemoryPool, Node, NodeWork, Result, Signal, Stream,
    flush_deferred_drops,
};
use kernels::Kernels;
use memory::Memory;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use told::told;

/// What all programs of a device share, and the objects of one program.
pub(super) struct Front {
    contexts: [FrontContext; 2],
    objects: Objects,
    thread: HostThread,
    /// The streams in which captures have begun, and on which thread.
    captures: Vec<(Weak<Stream>, HostThread)>,
    /// Whether the program has used default streams of its threads.
    has_default_streams: bool,
    /// Whether the program has dropped executable graphs.
    has_dropped_executables: bool,
    /// Whether a call is made inside of another one.
    is_inside: bool,
    /// Whether signals may hold streams up.
    is_held_up: bool,
    /// Whether kernels can set conditional values.
    has_conditions: bool,
    /// The sum of the numbers of all host functions that have run.
    host_sum: Arc<AtomicU64>,
    /// How many mistakes in the use of memory the device had found after the last program.
    findings: usize,
    /// What is to be said of the end of the program.
    ending: Vec<String>,
}

/// One of the two contexts.
struct FrontContext {
    context: Context,
    kernels: Kernels,
    /// A stream that reads contents.
    reader: Stream,
    /// How many orders between streams the library had added when this was last asked.
    orders: u64,
}

/// The objects of a program, by slot. Streams and events are shared, because calls may be made while one is borrowed.
#[derive(Default)]
struct Objects {
    streams: BTreeMap<StreamSlot, Arc<Stream>>,
    events: BTreeMap<EventSlot, Arc<Event>>,
    memory: BTreeMap<MemorySlot, Memory>,
    pools: BTreeMap<PoolSlot, MemoryPool>,
    graphs: BTreeMap<GraphSlot, graphs::Object>,
    nodes: BTreeMap<NodeSlot, Node>,
    executables: BTreeMap<ExecutableSlot, executables::Object>,
    futures: BTreeMap<FutureSlot, futures::Held>,
    signals: BTreeMap<GateSlot, Signal>,
}

impl FrontContext {
    fn open(context: Context) -> Result<Self> {
        let reader = context.create_stream()?;
        let kernels = Kernels::load(&context, &reader)?;
        Ok(Self { context, kernels, reader, orders: 0 })
    }

    /// Whether kernels can set conditional values, which takes a library on a GPU.
    fn can_set_conditions(&self) -> Result<()> {
        let conditional = self.context.create_graph()?.create_conditional(None)?;
        NodeWork::set_conditional(conditional, &self.reader.allocate_zeroed::<u32>(1)?).map(drop)
    }
}

impl Front {
    pub(super) fn open(device: &Device) -> Result<Self> {
        let contexts = [device.context()?, device.create_context(ContextFlags::empty())?];
        let [first, second] = contexts.map(FrontContext::open);
        let contexts = [first?, second?];
        let has_conditions = contexts[0].can_set_conditions().is_ok();
        Ok(Self {
            contexts,
            captures: Vec::new(),
            has_default_streams: false,
            has_dropped_executables: false,
            is_inside: false,
            is_held_up: false,
            has_conditions,
            objects: Objects::default(),
            thread: HostThread::First,
            host_sum: Arc::default(),
            findings: 0,
            ending: Vec::new(),
        })
    }

    /// How many orders between streams of a context the library has added since this was last asked.
    fn new_orders(&mut self, slot: ContextSlot) -> u64 {
        let context = &mut self.contexts[usize::from(slot.0 % 2)];
        let orders = context.context.orders_inserted();
        orders - std::mem::replace(&mut context.orders, orders)
    }

    fn context(&self, slot: ContextSlot) -> &Context {
        &self.of(slot).context
    }

    fn of(&self, slot: ContextSlot) -> &FrontContext {
        &self.contexts[usize::from(slot.0 % 2)]
    }

    fn stream(&self, slot: StreamSlot) -> Option<Arc<Stream>> {
        self.objects.streams.get(&slot).cloned()
    }

    fn event(&self, slot: EventSlot) -> Option<Arc<Event>> {
        self.objects.events.get(&slot).cloned()
    }

    /// Makes a call on a thread. No answer if an object that it uses does not exist.
    pub(super) fn call(&mut self, thread: HostThread, call: &FrontCall) -> Option<Answer> {
        self.thread = thread;
        self.make(call, None)
    }

    /// Makes calls inside of another one, and says what was answered.
    fn body(&mut self, calls: &[FrontCall]) -> String {
        let around = std::mem::replace(&mut self.is_inside, true);
        let answer = |call| self.make(call, None).unwrap_or(Answer::new(Outcome::Skipped)).to_string();
        let text = calls.iter().map(answer).collect::<Vec<_>>().join(", ");
        self.is_inside = around;
        text
    }

    /// Makes a call, also one of the capture that it is made in.
    fn make(&mut self, call: &FrontCall, scope: Option<&CaptureScope<'_>>) -> Option<Answer> {
        use FrontCall as C;
        if self.is_held_up && !call.is_immediate() && !self.is_copy_on_device(call) {
            self.set_signals();
        }
        match call {
            C::ContextSynchronize { context } => Some(told::plain(self.context(*context).synchronize())),
            C::StrictOrder { context, strict } => {
                self.context(*context).set_strict_order(*strict);
                Some(told::plain(Ok(())))
            }
            C::OrdersInserted { context } => {
                let orders = self.new_orders(*context);
                Some(told(Ok(()), |()| orders.to_string()))
            }
            C::InMode { context, mode, body } => match self.context(*context).exchange_capture_mode(*mode) {
                Ok(_guard) => {
                    let text = self.body(body);
                    Some(told(Ok(()), |()| format!("{{{text}}}")))
                }
                Err(error) => Some(told::refused(&error)),
            },
            C::ModuleLoad { context, kernel } => Some(self.load_module(*context, kernel)),
            C::StreamCreate { .. }
            | C::StreamLegacy { .. }
            | C::StreamPerThread { .. }
            | C::StreamDrop { .. }
            | C::StreamShutdown { .. }
            | C::StreamQuery { .. }
            | C::StreamSynchronize { .. }
            | C::StreamProperties { .. }
            | C::StreamWait { .. }
            | C::StreamWaitEvent { .. }
            | C::HostFunction { .. }
            | C::Callback { .. } => self.stream_call(call),
            C::EventCreate { .. }
            | C::EventDrop { .. }
            | C::EventRecord { .. }
            | C::EventRecordNew { .. }
            | C::EventQuery { .. }
            | C::EventSynchronize { .. }
            | C::EventElapsed { .. } => self.event_call(call),
            C::Allocate { .. }
            | C::AllocateOn { .. }
            | C::Upload { .. }
            | C::MemoryDrop { .. }
            | C::PoolCreate { .. }
            | C::PoolDrop { .. }
            | C::PoolTrim { .. } => self.memory_call(call),
            C::Copy { .. }
            | C::CopyPeer { .. }
            | C::CopyWithin { .. }
            | C::CopyRegion { .. }
            | C::Fill { .. }
            | C::FillZero { .. }
            | C::CopyFromHost { .. }
            | C::CopyToHost { .. }
            | C::Download { .. }
            | C::Prefetch { .. } => self.copy_call(call),
            C::Launch { stream, launch } => self.launch(*stream, launch, false),
            C::LaunchChecked { stream, launch } => self.launch(*stream, launch, true),
            C::HostRead { .. } | C::HostWrite { .. } | C::ReadWhile { .. } | C::WriteWhile { .. } | C::Scope { .. } => {
                self.host_access_call(call)
            }
            C::CaptureBegin { .. }
            | C::CaptureBeginTo { .. }
            | C::CaptureEnd { .. }
            | C::Capture { .. }
            | C::CaptureInto { .. }
            | C::CaptureStatus { .. }
            | C::CaptureInfo { .. }
            | C::CaptureUpdate { .. } => self.capture_call(call),
            C::CaptureIf { .. } | C::CaptureIfElse { .. } | C::CaptureWhile { .. } | C::CaptureSwitch { .. } => {
                self.scope_call(call, scope)
            }
            C::GraphCreate { .. }
            | C::GraphDrop { .. }
            | C::GraphClone { .. }
            | C::GraphShape { .. }
            | C::GraphAdd { .. }
            | C::GraphAddConditional { .. }
            | C::GraphSetNode { .. }
            | C::GraphRemoveNode { .. }
            | C::GraphAddEdges { .. }
            | C::GraphRemoveEdges { .. }
            | C::GraphNode { .. } => self.graph_call(call),
            C::Instantiate { .. }
            | C::ExecutableDrop { .. }
            | C::ExecutableLaunch { .. }
            | C::ExecutableUpload { .. }
            | C::ExecutableUpdate { .. }
            | C::ExecutableSetNode { .. }
            | C::ExecutableSetEnabled { .. }
            | C::ExecutableNode { .. } => self.executable_call(call),
            C::FutureOf { .. }
            | C::FutureOfEvent { .. }
            | C::FutureOfLaunch { .. }
            | C::DownloadAsync { .. }
            | C::UploadAsync { .. }
            | C::CopyAsync { .. }
            | C::FillAsync { .. }
            | C::LaunchAsync { .. }
            | C::EnqueueAsync { .. }
            | C::FutureAwait { .. }
            | C::FutureDrop { .. } => self.future_call(call),
            C::SignalCreate { .. }
            | C::SignalDrop { .. }
            | C::SignalSet { .. }
            | C::SignalWait { .. }
            | C::SignalWrite { .. } => self.signal_call(call),
        }
    }

    /// Ends the program: waits, reads the contents, and drops the objects.
    pub(super) fn end(&mut self) -> Answer {
        self.set_signals();
        (self.has_default_streams, self.has_dropped_executables) = (false, false);
        let mut detail = std::mem::take(&mut self.ending);
        let mut outcome = Ok(());
        for number in [0, 1].map(ContextSlot) {
            self.context(number).set_strict_order(false);
            outcome = outcome.and(self.context(number).synchronize());
        }
        detail.extend(self.objects.memory.iter().map(|(slot, memory)| {
            let reader = &self.contexts[usize::from(memory.context_id() != self.contexts[0].context.id())].reader;
            format!("{slot}={}", memory.contents(reader))
        }));
        detail.push(format!("host {}", self.host_sum.swap(0, Ordering::AcqRel)));
        self.objects = Objects::default();
        for number in [0, 1].map(ContextSlot) {
            outcome = outcome.and(self.context(number).synchronize());
        }
        // What is freed in the background must not be done beside the calls of the next program.
        flush_deferred_drops();
        for context in [0, 1].map(ContextSlot) {
            self.new_orders(context);
        }
        // A host device that checks how memory is used keeps what it has found.
        let report = self.contexts[0].context.device().memory_report();
        let findings = report.map_or(0, |report| report.findings.len());
        let before = std::mem::replace(&mut self.findings, findings);
        if findings > before {
            detail.push(format!("{} findings in memory", findings - before));
        }
        let mut answer = told(outcome, |()| String::new());
        if !answer.detail.is_empty() {
            detail.insert(0, answer.detail);
        }
        answer.detail = detail.join(" ");
        answer
    }
}
