//! Tables of the calls that captures prohibit, allow and refuse.

use super::capture_tools::{Bench, OK, UNSUPPORTED, answer, free_plain};
use super::memory_raw::HUGE;
use super::order_trace::Shape;
use crate::case::{Failed, Verdict, equal, status_of};
use crate::environment::Environment;
use crate::kernels;
use crate::live::Owner;
use anabranch::hal::{Access, CopyKind, DeclaredRange, Driver, FunctionHandle, Launch, Live, PinnedFlags, Value};
use anabranch::{
    Buffer, Capabilities, CaptureMode, ContextHandle, DevicePointer, EventWaitFlags, ExecutableGraph,
    ExecutableGraphHandle, Graph, InstantiateFlags, MemoryPool, MemoryPoolHandle, MemoryPoolOptions, Signal, Status,
    StreamFlags, WriteValueFlags,
};
use parking_lot::Mutex;

/// The objects that the calls of the tables need in addition to the bench. They are created before the capture.
pub(super) struct Things<'e> {
    pub(super) bench: Bench<'e>,
    /// Plain allocations that were not freed.
    plain: Mutex<Vec<DevicePointer>>,
    pinned: Mutex<Vec<usize>>,
    pooled: Mutex<Vec<DevicePointer>>,
    pool: Option<MemoryPool>,
    raw_pool: Mutex<Option<MemoryPoolHandle>>,
    words: Mutex<Buffer<u32>>,
    signal: Signal,
    graph: Graph,
    executable: ExecutableGraph,
    raw_executable: Mutex<Option<ExecutableGraphHandle>>,
}

/// A call and its name.
pub(super) type Call = (&'static str, fn(&Things<'_>) -> Status);

impl<'e> Things<'e> {
    pub(super) fn new(environment: &'e Environment) -> Result<Self, Failed> {
        let bench = Bench::new(environment)?;
        let (driver, context) = (environment.device().driver(), environment.context().live());
        let plain = driver.allocate(&context.into(), 4096);
        let plain = plain.map_err(|failure| Failed(format!("allocating: {failure:?}")))?;
        let pinned = driver.allocate_pinned(&context.into(), 4096, PinnedFlags::empty());
        let pinned = pinned.map_err(|failure| Failed(format!("allocating pinned memory: {failure:?}")))?;
        let (mut pool, mut raw_pool, mut pooled) = (None, None, Vec::new());
        if environment.device().capabilities().contains(Capabilities::MEMORY_POOLS) {
            let options = MemoryPoolOptions::default();
            pool = Some(environment.device().create_memory_pool(&options)?);
            raw_pool = driver.memory_pool_create(environment.device().ordinal(), &options).ok();
            pooled.extend(driver.allocate_async(&context.into(), 4096, None, bench.other.live()));
        }
        let words = bench.other.allocate_zeroed(16)?;
        let mut graph = environment.context().create_graph()?;
        graph.add((), anabranch::NodeWork::empty())?;
        let executable = graph.instantiate()?;
        let raw_executable =
            driver.graph_instantiate(&context.into(), graph.live(), InstantiateFlags::empty(), None).ok();
        bench.other.synchronize()?;
        Ok(Self {
            bench,
            plain: Mutex::new(vec![plain]),
            pinned: Mutex::new(vec![pinned as usize]),
            pooled: Mutex::new(pooled),
            pool,
            raw_pool: Mutex::new(raw_pool),
            words: Mutex::new(words),
            signal: environment.context().create_signal()?,
            graph,
            executable,
            raw_executable: Mutex::new(raw_executable),
        })
    }

    fn environment(&self) -> &'e Environment {
        self.bench.environment
    }

    fn driver(&self) -> &'e dyn Driver {
        &**self.environment().device().driver()
    }

    fn context(&self) -> Live<'e, ContextHandle> {
        self.environment().context().live()
    }
}

impl Drop for Things<'_> {
    fn drop(&mut self) {
        free_plain(self.environment(), self.plain.get_mut().drain(..));
        let (driver, context) = (self.driver(), self.bench.environment.context().live());
        for address in self.pinned.get_mut().drain(..) {
            // SAFETY: it was allocated and not freed, and nothing uses it.
            let _ = unsafe { driver.free_pinned(&context.into(), address as *mut u8) };
        }
        for address in self.pooled.get_mut().drain(..) {
            // SAFETY: it was allocated and not freed, and nothing uses it.
            let _ = unsafe { driver.free_async(&context.into(), address, self.bench.other.live()) };
        }
        if let Some(pool) = self.raw_pool.get_mut().take() {
            // SAFETY: the pool was created and not destroyed.
            let _ = unsafe { driver.memory_pool_destroy(pool) };
        }
        if let Some(executable) = self.raw_executable.get_mut().take() {
            // SAFETY: the executable graph was created and not destroyed.
            let _ = unsafe { driver.executable_destroy(&context.into(), executable) };
        }
    }
}

/// Makes every call of a table in a separate capture in the given mode, and checks its status and the effect on the
/// capture.
pub(super) fn ask(
    environment: &Environment,
    mode: CaptureMode,
    calls: &[Call],
    expected: Status,
    is_invalidated: bool,
) -> Verdict {
    for (what, call) in calls {
        let things = Things::new(environment)?;
        things.bench.begin(mode)?;
        let found = call(&things);
        equal(&format!("{what}, mode {mode:?}"), found, expected)?;
        if is_invalidated {
            things.bench.is_invalidated(what)?;
        } else {
            things.bench.ends_well(what)?;
        }
    }
    Ok(())
}

/// Takes an element out for a driver call, and puts it back if the call fails.
fn give_back<T: Copy>(kept: &Mutex<Vec<T>>, call: impl FnOnce(T) -> Status) -> Status {
    let Some(thing) = kept.lock().pop() else { return OK };
    let status = call(thing);
    if status != OK {
        kept.lock().push(thing);
    }
    status
}

/// Calls that a thread must not make while it has a capture that is not relaxed.
pub(super) const PROHIBITED: &[Call] = &[
    ("allocating", |things| {
        let allocated = things.driver().allocate(&things.context().into(), 4096);
        things.plain.lock().extend(allocated.iter());
        status_of(allocated)
    }),
    ("freeing", |things| {
        give_back(&things.plain, |address| {
            // SAFETY: the memory was allocated, and nothing uses it.
            status_of(unsafe { things.driver().free(&things.context().into(), address) })
        })
    }),
    ("allocating pinned memory", |things| {
        let allocated = things.driver().allocate_pinned(&things.context().into(), 4096, PinnedFlags::empty());
        things.pinned.lock().extend(allocated.iter().map(|address| *address as usize));
        status_of(allocated)
    }),
    ("freeing pinned memory", |things| {
        give_back(&things.pinned, |address| {
            // SAFETY: the memory was allocated, and nothing uses it.
            status_of(unsafe { things.driver().free_pinned(&things.context().into(), address as *mut u8) })
        })
    }),
    ("querying another stream", |things| answer(things.bench.other.query())),
    ("synchronizing another stream", |things| answer(things.bench.other.synchronize())),
    ("querying an event recorded outside", |things| answer(things.bench.recorded[0].query())),
    ("synchronizing an event recorded outside", |things| answer(things.bench.recorded[0].synchronize())),
    ("instantiating a graph", |things| answer(things.graph.instantiate())),
    ("destroying an executable graph", |things| {
        let Some(executable) = things.raw_executable.lock().take() else { return Status::UNKNOWN };
        // SAFETY: the executable graph was created and not destroyed.
        let status = status_of(unsafe { things.driver().executable_destroy(&things.context().into(), executable) });
        if status != OK {
            *things.raw_executable.lock() = Some(executable);
        }
        status
    }),
];

/// The same, for devices with memory pools.
pub(super) const PROHIBITED_POOLS: &[Call] = &[
    ("creating a pool", |things| {
        answer(things.environment().device().create_memory_pool(&MemoryPoolOptions::default()))
    }),
    ("destroying a pool", |things| {
        let Some(pool) = things.raw_pool.lock().take() else { return Status::UNKNOWN };
        // SAFETY: the pool was created and not destroyed.
        let status = status_of(unsafe { things.driver().memory_pool_destroy(pool) });
        if status != OK {
            *things.raw_pool.lock() = Some(pool);
        }
        status
    }),
    ("trimming a pool", |things| things.pool.as_ref().map_or(Status::UNKNOWN, |pool| answer(pool.trim(0)))),
    ("setting a pool's threshold", |things| {
        things.pool.as_ref().map_or(Status::UNKNOWN, |pool| answer(pool.set_release_threshold(0)))
    }),
    ("allocating in another stream", |things| {
        let stream = things.bench.other.live();
        let allocated = things.driver().allocate_async(&things.context().into(), 4096, None, stream);
        things.pooled.lock().extend(allocated.iter());
        status_of(allocated)
    }),
    ("freeing in another stream", |things| {
        give_back(&things.pooled, |address| {
            let stream = things.bench.other.live();
            // SAFETY: nothing uses the memory.
            status_of(unsafe { things.driver().free_async(&things.context().into(), address, stream) })
        })
    }),
];

/// Calls that are allowed in every mode and do not invalidate the capture.
pub(super) const ALLOWED: &[Call] = &[
    ("creating an event", |things| answer(things.environment().context().create_event())),
    ("recording another event in another stream", |things| {
        answer(things.bench.other.record(&things.bench.recorded[0]))
    }),
    ("recording another event in the stream", |things| answer(things.bench.origin.record(&things.bench.recorded[0]))),
    ("measuring between events recorded outside", |things| {
        answer(things.bench.recorded[1].elapsed_since(&things.bench.recorded[0]))
    }),
    ("waiting elsewhere for an event recorded outside", |things| {
        answer(things.bench.other.wait_event(&things.bench.recorded[0]))
    }),
    ("waiting for the stream's own event", |things| answer(things.bench.origin.wait_event(&things.bench.captured))),
    ("creating and destroying a stream", |things| answer(things.environment().stream())),
    ("creating and destroying a blocking stream", |things| {
        answer(things.environment().context().create_stream_with_flags(StreamFlags::empty()))
    }),
    ("querying the stream's priority", |things| answer(things.bench.origin.priority())),
    ("querying the stream's capture status", |things| answer(things.bench.origin.capture_status())),
    ("querying another stream's capture status", |things| answer(things.bench.other.capture_info())),
    ("querying the free memory", |things| answer(things.environment().context().memory_info())),
    ("loading a module", |things| answer(kernels::program().load(things.environment().context()))),
    ("looking a kernel up", |things| answer(things.environment().kernel("spin"))),
    ("looking a variable up", |things| answer(things.environment().module().global("table"))),
    ("launching in another stream", |things| things.bench.trace.ask(&things.bench.other)),
    ("filling in another stream", |things| answer(things.bench.other.fill(&mut *things.words.lock(), 1u32))),
    ("copying nothing", |things| {
        let (driver, context, stream) = (things.driver(), things.context(), things.bench.origin.live());
        let address = things.bench.trace.address().0;
        // SAFETY: nothing is copied.
        status_of(unsafe { driver.copy_async(&context.into(), CopyKind::DeviceToDevice, address, address, 0, stream) })
    }),
    ("writing a value in another stream", |things| answer(things.bench.other.write_signal(&things.signal, 1))),
    ("launching a graph in another stream", |things| answer(things.executable.launch(&things.bench.other))),
    ("uploading a graph in another stream", |things| answer(things.executable.upload(&things.bench.other))),
    ("updating an executable graph", |things| answer(things.executable.update(&things.graph))),
    ("creating and destroying a graph", |things| answer(things.environment().context().create_graph())),
    ("cloning a graph", |things| answer(things.graph.try_clone())),
    ("looking at a graph", |things| answer(things.graph.nodes())),
    ("capturing in another stream", |things| {
        let stream = &things.bench.other;
        answer(stream.begin_capture(CaptureMode::Global).and_then(|()| stream.end_capture()))
    }),
    ("copying synchronously", |things| {
        let (driver, context) = (things.driver(), things.context());
        let (mut host, address) = ([0u8; 4], things.bench.trace.address().0);
        // SAFETY: both ranges are four bytes, and live.
        status_of(unsafe {
            driver.copy(&context.into(), CopyKind::DeviceToHost, host.as_mut_ptr() as usize as u64, address, host.len())
        })
    }),
];

/// Calls that are refused in every mode and invalidate the capture.
pub(super) const REFUSED: &[Call] = &[
    ("querying the stream", |things| answer(things.bench.origin.query())),
    ("synchronizing the stream", |things| answer(things.bench.origin.synchronize())),
    ("synchronizing the context", |things| answer(things.environment().context().synchronize())),
    ("querying the stream's flags", |things| answer(things.bench.origin.flags())),
    ("querying the stream's id", |things| {
        status_of(things.driver().stream_id(&things.context().into(), things.bench.origin.live()))
    }),
    ("adding a callback", |things| answer(things.bench.origin.add_callback(|_, _| ()))),
    ("launching a graph in the stream", |things| answer(things.executable.launch(&things.bench.origin))),
    ("uploading a graph in the stream", |things| answer(things.executable.upload(&things.bench.origin))),
    ("copying between contexts", |things| {
        let (context, address) = (things.context(), things.bench.trace.address());
        let (driver, stream) = (things.driver(), things.bench.origin.live());
        // SAFETY: the driver refuses it.
        status_of(unsafe { driver.copy_peer_async(&context.into(), address, context, address, context, 4, stream) })
    }),
];

/// Invalid launches, which also invalidate the capture.
pub(super) const BAD_LAUNCHES: &[Call] = &[
    ("launching no blocks", |things| {
        things.bench.trace.ask_with(&things.bench.origin, Shape { blocks: 0, ..Shape::default() })
    }),
    ("launching too many threads", |things| {
        things.bench.trace.ask_with(&things.bench.origin, Shape { threads: 2048, ..Shape::default() })
    }),
    ("launching with too much shared memory", |things| {
        things.bench.trace.ask_with(&things.bench.origin, Shape { shared_bytes: 1 << 20, ..Shape::default() })
    }),
];

/// Calls with invalid arguments that do not invalidate the capture.
pub(super) const BAD_ARGUMENTS: &[Call] = &[
    ("copying past the end", |things| copy(things, things.bench.trace.address().0, 1 << 40)),
    ("copying to nowhere", |things| copy(things, 0, 4)),
    ("writing a value that is not aligned", |things| {
        let (driver, context, stream) = (things.driver(), things.context(), things.bench.origin.live());
        let address = DevicePointer(things.bench.trace.address().0 + 1);
        // SAFETY: the driver refuses it.
        status_of(unsafe {
            driver.stream_write_value(&context.into(), stream, address, Value::U32(1), WriteValueFlags::empty())
        })
    }),
];

/// The same, for devices with memory pools.
pub(super) const BAD_ALLOCATIONS: &[Call] = &[("allocating too much", |things| {
    let stream = things.bench.origin.live();
    status_of(things.driver().allocate_async(&things.context().into(), HUGE, None, stream))
})];

/// Calls with invalid handles that do not invalidate the capture.
pub(super) const BAD_HANDLES: &[Call] = &[("launching no kernel", |things| {
    let address = things.bench.trace.address();
    let arguments = [(&raw const address).cast()];
    let ranges = [DeclaredRange { argument: 0, address: address.0, bytes: 4, access: Access::Write }];
    let launch = Launch {
        grid: [1, 1, 1],
        block: [1, 1, 1],
        cluster: None,
        dynamic_shared_bytes: 0,
        cooperative: false,
        priority: None,
        attributes: None,
        overlap: None,
        arguments: &arguments,
        ranges: &ranges,
    };
    let (driver, context, stream) = (things.driver(), things.context(), things.bench.origin.live());
    // SAFETY: the driver refuses a null function.
    status_of(unsafe { driver.launch(&context.into(), stream, Live::<FunctionHandle>::NULL, &launch) })
})];

/// Calls in an invalid state that do not invalidate the capture.
pub(super) const BAD_STATES: &[Call] = &[
    ("an external wait elsewhere", |things| {
        answer(things.bench.other.wait_event_with_flags(&things.bench.captured, EventWaitFlags::EXTERNAL))
    }),
    ("beginning again", |things| answer(things.bench.origin.begin_capture(CaptureMode::Relaxed))),
];

fn copy(things: &Things<'_>, to: u64, bytes: usize) -> Status {
    let (driver, context, stream) = (things.driver(), things.context(), things.bench.origin.live());
    let from = things.bench.trace.address().0;
    // SAFETY: the driver refuses the range.
    status_of(unsafe { driver.copy_async(&context.into(), CopyKind::DeviceToDevice, to, from, bytes, stream) })
}

/// The status that prohibited calls return in a mode.
pub(super) fn prohibition(mode: CaptureMode) -> Status {
    if mode == CaptureMode::Relaxed { OK } else { UNSUPPORTED }
}
