//! What two calls have in common, and what each of them has for itself.

use crate::external::External;
use anabranch::hal::{CompileOutput, CompileRequest, Compiler as Driver, Failure};
use anabranch::{
    Buffer, BufferSliceMut, CaptureMode, CompileOptions, Compiled, Compiler, Context, ContextFlags, Device, DualModule,
    Event, EventFlags, ExecutableGraph, Graph, GreenContext, HostFunction, Instance, Kernel, KernelFault, LaunchConfig,
    ManagedBuffer, MemoryPool, MemoryPoolOptions, Module, Multiprocessors, Node, NodeWork, PinnedBuffer, Result,
    Signal, Stream, StreamFlags, StreamPolicy, StreamPool, StreamScope, WaitCondition,
};
use fastrand::Rng;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use tempfile::TempDir;

/// How many elements each piece of memory has that a call uses.
pub(crate) const LENGTH: usize = 16;

/// The streams that calls choose from. The last is the legacy default stream.
const STREAMS: usize = 5;

/// A compiler that is quick.
#[derive(Debug)]
struct Quick;

// SAFETY: nobody loads what it returns as machine code.
unsafe impl Driver for Quick {
    fn identity(&self) -> String {
        "quick 1".to_owned()
    }

    fn version(&self) -> (u32, u32) {
        (1, 0)
    }

    fn architectures(&self) -> Result<Vec<u32>, Failure> {
        Ok(vec![90])
    }

    fn compile(&self, request: &CompileRequest<'_>) -> Result<CompileOutput, Failure> {
        Ok(CompileOutput {
            image: request.source.as_bytes().to_vec(),
            log: String::new(),
            lowered_names: request.name_expressions.to_vec(),
        })
    }
}

/// What both calls use by shared references.
pub(crate) struct World {
    pub(crate) instance: Instance,
    pub(crate) context: Context,
    /// Of another device of the same driver.
    pub(crate) other: Context,
    /// All of the other device, and a green context of one of them.
    pub(crate) multiprocessors: Multiprocessors,
    pub(crate) green: GreenContext,
    pub(crate) events: Vec<Event>,
    /// Its halves are always equal.
    pub(crate) signal: Signal,
    pub(crate) external: Option<External>,
    pub(crate) pool: MemoryPool,
    /// Written by graphs only, always the same value in every element.
    pub(crate) shared: Buffer<u32>,
    pub(crate) pinned: PinnedBuffer<u32>,
    pub(crate) managed: ManagedBuffer<u32>,
    /// Retained by no graph.
    pub(crate) plain_pinned: PinnedBuffer<u32>,
    pub(crate) plain_managed: ManagedBuffer<u32>,
    /// Fills `shared`, and copies it to `pinned` and `managed`.
    pub(crate) graph: Graph,
    pub(crate) filling: Node,
    pub(crate) copying: Node,
    pub(crate) executables: Vec<ExecutableGraph>,
    pub(crate) dual: DualModule,
    pub(crate) module: Module,
    /// Has a global variable.
    pub(crate) with_global: Module,
    /// Sets each element of its first argument to the second.
    pub(crate) set: Kernel,
    pub(crate) compiler: Compiler,
    pub(crate) options: CompileOptions,
    pub(crate) source: PathBuf,
    pub(crate) compiled: Compiled,
    /// Dropped behind memory that was allocated in their order: in a lost context, that can be freed by them only.
    pub(crate) streams: Vec<Stream>,
    /// Scopes are entered on it.
    pub(crate) scoped: Stream,
    /// Operations are run on it.
    pub(crate) lanes: StreamPool,
    _files: TempDir,
    fault: Kernel,
    meeting: AtomicUsize,
    gate: Signal,
    gates: AtomicU64,
    may_capture: AtomicBool,
    is_lost: AtomicBool,
}

/// A graph that gives all memory that is shared one value.
fn fills(world: [&mut BufferSliceMut<'_, u32>; 3], context: &Context, value: u32) -> Result<(Graph, Node, Node)> {
    let [shared, pinned, managed] = world;
    let mut graph = context.create_graph()?;
    let filling = graph.add((), NodeWork::fill(shared.reborrow(), value)?)?;
    let copying = graph.add(filling, NodeWork::copy(pinned.reborrow(), shared.as_slice())?)?;
    graph.add(filling, NodeWork::copy(managed.reborrow(), shared.as_slice())?)?;
    Ok((graph, filling, copying))
}

pub(crate) fn modules() -> DualModule {
    let set = HostFunction::new("set", &[8, 4], |_, arguments| {
        let (to, value) = (arguments.slice::<u32>(0), arguments.scalar::<u32>(1));
        (0..to.len()).for_each(|index| to.set(index, value));
    });
    let fault = HostFunction::new("fault", &[], |_, _| KernelFault::trap("on purpose").raise());
    DualModule::new().host_function(set).host_function(fault)
}

impl World {
    pub(crate) fn new(instance: &Instance) -> Result<Self> {
        let [device, second] = [0, 1].map(|number| instance.devices()[number].clone());
        let (context, other) = (device.create_context(ContextFlags::empty())?, second.context()?);
        let multiprocessors = second.multiprocessors()?;
        let green = other.create_green_context(&multiprocessors.split(1, 1)?.0)?;
        let mut streams = (0..STREAMS - 2).map(|_| context.create_stream()).collect::<Result<Vec<_>>>()?;
        streams.push(context.create_stream_with_flags(StreamFlags::empty())?);
        streams.push(context.legacy_stream()?);
        let mut shared = streams[0].allocate_zeroed::<u32>(LENGTH)?;
        let mut pinned = context.allocate_pinned(LENGTH)?;
        let mut managed = context.allocate_managed(LENGTH)?;
        let mut slices = [(&mut shared).into(), (&mut pinned).into(), (&mut managed).into()];
        let (graph, filling, copying) = fills(slices.each_mut(), &context, 1)?;
        let (second, ..) = fills(slices.each_mut(), &context, 2)?;
        let executables = vec![graph.instantiate()?, second.instantiate()?];
        let dual = modules();
        let module = dual.load(&context)?;
        let with_global = modules().host_global("table", LENGTH * 4).load(&context)?;
        let files = tempfile::tempdir().unwrap();
        let (compiler, source) = (Compiler::from_driver(Arc::new(Quick)), files.path().join("kernel.cu"));
        std::fs::write(&source, "a source").unwrap();
        let options = CompileOptions::new().cache_directory(files.path().join("cache")).name_expression("a");
        let compiled = compiler.compile("a source", &options)?;
        let timed = context.create_event()?;
        let events = vec![timed, context.create_event_with_flags(EventFlags::DISABLE_TIMING)?, context.create_event()?];
        for event in &events {
            streams[0].record(event)?;
        }
        Ok(Self {
            instance: instance.clone(),
            scoped: context.create_stream()?,
            lanes: StreamPool::new(&context, 2, StreamPolicy::LeastLoaded)?,
            signal: context.create_signal()?,
            external: External::import(&context, files.path())?,
            pool: device.create_memory_pool(&MemoryPoolOptions::default())?,
            plain_pinned: context.allocate_pinned(LENGTH)?,
            plain_managed: context.allocate_managed(LENGTH)?,
            set: module.kernel("set")?,
            fault: module.kernel("fault")?,
            gate: context.create_signal()?,
            meeting: AtomicUsize::new(0),
            gates: AtomicU64::new(0),
            may_capture: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            _files: files,
            context,
            other,
            multiprocessors,
            green,
            streams,
            events,
            shared,
            pinned,
            managed,
            graph,
            filling,
            copying,
            executables,
            dual,
            module,
            with_global,
            compiler,
            options,
            source,
            compiled,
        })
    }

    pub(crate) fn device(&self) -> &Device {
        self.context.device()
    }

    /// Chooses the stream that both calls are likely to use.
    pub(crate) fn meet(&self, random: &mut Rng) {
        self.meeting.store(random.usize(..self.streams.len()), SeqCst);
    }

    /// One of the streams.
    pub(crate) fn stream(&self, random: &mut Rng) -> &Stream {
        let any = random.usize(..self.streams.len());
        &self.streams[if random.bool() { self.meeting.load(SeqCst) } else { any }]
    }

    pub(crate) fn event(&self, random: &mut Rng) -> &Event {
        &self.events[random.usize(..self.events.len())]
    }

    pub(crate) fn executable(&self, random: &mut Rng) -> &ExecutableGraph {
        &self.executables[random.usize(..self.executables.len())]
    }

    /// To be called before a stream may begin to capture.
    pub(crate) fn captures(&self) {
        self.may_capture.store(true, SeqCst);
    }

    /// Whether a stream may capture, so that what is submitted may be captured and not run.
    pub(crate) fn may_capture(&self) -> bool {
        self.may_capture.load(SeqCst)
    }

    pub(crate) fn is_over(&self) {
        self.may_capture.store(false, SeqCst);
    }

    /// Holds some of the streams up until [`let_go`](Self::let_go).
    pub(crate) fn hold(&self, random: &mut Rng) -> Result<()> {
        let gate = self.gates.fetch_add(1, SeqCst) + 1;
        let mut held = self.streams[..STREAMS - 1].iter().filter(|_| random.bool());
        held.try_for_each(|stream| stream.wait_signal(&self.gate, WaitCondition::GreaterOrEqual, gate))
    }

    pub(crate) fn let_go(&self) {
        self.gate.set(self.gates.load(SeqCst));
    }

    /// Begins a capture on one of the streams.
    pub(crate) fn capture(&self, random: &mut Rng) -> Result<()> {
        self.captures();
        let stream = &self.streams[random.usize(..STREAMS - 1)];
        stream.begin_capture(mode(random))
    }

    /// Loses the context.
    pub(crate) fn lose(&self) {
        self.is_lost.store(true, SeqCst);
        let stream = &self.streams[0];
        let _ = stream.launch_checked(&self.fault, &LaunchConfig::new(1, 1), ());
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(SeqCst)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // After a failure too, so that nothing waits for ever.
        self.let_go();
    }
}

pub(crate) fn mode(random: &mut Rng) -> CaptureMode {
    [CaptureMode::Relaxed, CaptureMode::ThreadLocal, CaptureMode::Global][random.usize(..3)]
}

/// What may be in a piece of memory, the same in every element.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    OneOf(Vec<u32>),
    Anything,
}

impl Expected {
    pub(crate) fn check(&self, found: &[u32]) {
        assert!(found.iter().all(|&element| element == found[0]), "not one value: {found:?}");
        if let Self::OneOf(values) = self {
            assert!(values.contains(&found[0]), "found {}, expected one of {values:?}", found[0]);
        }
    }

    fn or(&mut self, other: Self) {
        match (self, other) {
            (Self::OneOf(values), Self::OneOf(more)) => values.extend(more),
            (this, _) => *this = Self::Anything,
        }
    }
}

/// Memory of which each thread has one half.
pub(crate) struct Halves {
    pub(crate) device: Buffer<u32>,
    pub(crate) pinned: PinnedBuffer<u32>,
    pub(crate) managed: ManagedBuffer<u32>,
    /// For both threads, of each of the above.
    pub(crate) expected: [[Expected; 3]; 2],
}

impl Halves {
    pub(crate) fn new(world: &World) -> Result<Self> {
        Ok(Self {
            device: world.streams[0].allocate_zeroed(2 * LENGTH)?,
            pinned: world.context.allocate_pinned(2 * LENGTH)?,
            managed: world.context.allocate_managed(2 * LENGTH)?,
            expected: [(); 2].map(|()| [(); 3].map(|()| Expected::OneOf(vec![0]))),
        })
    }

    /// One half of each.
    pub(crate) fn split(&mut self) -> Result<[Memories<'_>; 2]> {
        let (device, device_2) = self.device.slice_mut(..)?.split_at(LENGTH)?;
        let (pinned, pinned_2) = self.pinned.slice_mut(..)?.split_at(LENGTH)?;
        let (managed, managed_2) = self.managed.slice_mut(..)?.split_at(LENGTH)?;
        let [one, two] = &mut self.expected;
        Ok([
            Memories { slices: [device, pinned, managed], expected: one },
            Memories { slices: [device_2, pinned_2, managed_2], expected: two },
        ])
    }
}

pub(crate) struct Memories<'m> {
    slices: [BufferSliceMut<'m, u32>; 3],
    expected: &'m mut [Expected; 3],
}

/// What one of the threads has for itself.
pub(crate) struct Side<'m, 'env> {
    pub(crate) random: Rng,
    pub(crate) memories: Memories<'m>,
    /// Plain memory that outlives the scope.
    pub(crate) from: &'env [u32],
    pub(crate) into: &'env mut [u32],
}

impl<'env> Side<'_, 'env> {
    /// Writes one of the thread's own halves, by a call that is given a stream, the memory and the value.
    pub(crate) fn write<T>(
        &mut self,
        world: &World,
        call: impl FnOnce(&Stream, BufferSliceMut<'_, u32>, u32) -> Result<T>,
    ) -> Result<T> {
        let value = self.random.u32(..);
        let stream = world.stream(&mut self.random);
        self.write_one_of(world, Expected::OneOf(vec![value]), |memory| call(stream, memory, value))
    }

    /// Copies memory that is shared to one of the thread's own halves.
    pub(crate) fn copy<T>(
        &mut self,
        world: &World,
        call: impl FnOnce(&Stream, BufferSliceMut<'_, u32>) -> Result<T>,
    ) -> Result<T> {
        let stream = world.stream(&mut self.random);
        self.write_one_of(world, Expected::Anything, |memory| call(stream, memory))
    }

    pub(crate) fn write_one_of<T>(
        &mut self,
        world: &World,
        expected: Expected,
        call: impl FnOnce(BufferSliceMut<'_, u32>) -> Result<T>,
    ) -> Result<T> {
        let chosen = self.random.usize(..3);
        let result = call(self.memories.slices[chosen].reborrow());
        if result.is_ok() && !world.may_capture() {
            self.memories.expected[chosen] = expected;
        } else {
            self.memories.expected[chosen].or(expected);
        }
        result
    }

    /// The thread's own half of the device memory.
    pub(crate) fn own(&mut self) -> BufferSliceMut<'_, u32> {
        self.memories.slices[0].reborrow()
    }

    /// Plain memory for one more copy, or `None` if there is no more.
    pub(crate) fn into(&mut self) -> Option<&'env mut [u32]> {
        let (one, rest) = std::mem::take(&mut self.into).split_at_mut_checked(LENGTH)?;
        self.into = rest;
        Some(one)
    }

    /// A half of a value for the signal: waits compare as if such values were behind zero.
    pub(crate) fn value(&mut self) -> u64 {
        u64::from(self.random.u32(..) >> 1)
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.random.bool()
    }
}

/// A world, and a scope that both threads share.
pub(crate) struct Shared<'scope, 'env> {
    pub(crate) world: &'env World,
    pub(crate) scope: &'scope StreamScope<'scope, 'env>,
}

impl Deref for Shared<'_, '_> {
    type Target = World;

    fn deref(&self) -> &World {
        self.world
    }
}
