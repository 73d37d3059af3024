//! Memory and work of other libraries. The contract of the driver, called directly, stands for the other library.

use super::memory_raw::GARBAGE;
use crate::case::{Case, Failed, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use crate::live::Owner;
use anabranch::hal::{CopyKind, FillPattern, Live};
use anabranch::{
    Buffer, CaptureMode, Context, Device, DevicePointer, Graph, Status, Stream, StreamHandle, flush_deferred_drops,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const CASES: &[Case] = &[
    Case::new("foreign.memory_is_used", "M6", memory_is_used),
    Case::new("foreign.memory_of_all_kinds", "M6", memory_of_all_kinds),
    Case::new("foreign.keeper_outlives_the_last_use", "M6", keeper_outlives_the_last_use),
    Case::new("foreign.keeper_outlives_the_graph", "M6", keeper_outlives_the_graph),
    Case::new("foreign.work_is_ordered", "M6", work_is_ordered),
    Case::new("foreign.work_is_captured", "M6", work_is_captured),
    Case::new("foreign.bad_addresses", "M6", bad_addresses),
    Case::new("foreign.memory_of_another_device", "M6", memory_of_another_device).needs(&[Need::TwoDevices]),
];

/// Memory that was allocated by the driver, and is freed when this is dropped.
struct Theirs {
    context: Context,
    address: DevicePointer,
    dropped: Arc<AtomicBool>,
}

impl Theirs {
    fn new(context: &Context, values: &[u32]) -> Result<Self, Failed> {
        let (device, call) = (context.device(), context.live());
        let (driver, bytes) = (device.driver(), size_of_val(values));
        let made = driver.allocate(&call.into(), bytes);
        let address = made.map_err(|failure| Failed(format!("allocating: {failure:?}")))?;
        let theirs = Self { context: context.clone(), address, dropped: Arc::default() };
        let source = values.as_ptr() as u64;
        // SAFETY: both are as large, and the call returns when the source can be dropped.
        let copied = unsafe { driver.copy(&call.into(), CopyKind::HostToDevice, address.0, source, bytes) };
        copied
            .and_then(|()| driver.context_synchronize(&call.into()))
            .map_err(|failure| Failed(format!("{failure:?}")))?;
        Ok(theirs)
    }

    fn into_buffer(self, length: usize) -> anabranch::Result<Buffer<u32>> {
        let (context, address) = (self.context.clone(), self.address);
        // SAFETY: it has as many elements, and frees them when it is dropped. Nobody else uses them.
        unsafe { Buffer::from_raw_parts(&context, address, length, self) }
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::SeqCst);
        // SAFETY: the memory was allocated by this, and its uses are complete.
        let _ = unsafe { self.context.device().driver().free(&self.context.live().into(), self.address) };
    }
}

/// Fills a word as another library does: by the driver, with a raw handle.
fn fill_raw(device: &Device, context: &Context, stream: StreamHandle, address: DevicePointer, value: u32) -> Status {
    // SAFETY: the stream outlives the call, and the address is that of a number whose uses are ordered.
    let filled = unsafe {
        device.driver().fill_async(&context.live().into(), address, FillPattern::U32(value), 1, Live::new(stream))
    };
    crate::case::status_of(filled)
}

fn memory_is_used(environment: &Environment) -> Verdict {
    let (stream, add) = (environment.stream()?, environment.kernel("add")?);
    let mut buffer = Theirs::new(environment.context(), &[5, 6, 7])?.into_buffer(3)?;
    equal("contents", stream.download(&buffer)?, vec![5, 6, 7])?;
    // SAFETY: `add` updates the number that its first argument points to.
    unsafe { stream.launch(&add, &anabranch::LaunchConfig::new(1, 1), (buffer.slice_mut(1..)?, 10u32, 1u32))? };
    equal("contents", stream.download(&buffer)?, vec![5, 61, 7])
}

/// Also a part of an allocation, and none of it.
fn memory_of_all_kinds(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    let own = stream.upload(&[1u32, 2, 3])?;
    let mut pinned = context.allocate_pinned::<u32>(2)?;
    pinned.as_mut_slice()?.copy_from_slice(&[4, 5]);
    stream.synchronize()?;
    let inside = own.device_pointer().byte_add(4);
    // SAFETY: the buffers stay, and are used by nothing else.
    let (part, none, host) = unsafe {
        (
            Buffer::<u32>::from_raw_parts(context, inside, 2, ())?,
            Buffer::<u32>::from_raw_parts(context, DevicePointer::NULL, 0, ())?,
            Buffer::<u32>::from_raw_parts(context, pinned.device_pointer(), 2, ())?,
        )
    };
    equal("a part of a buffer", stream.download(&part)?, vec![2, 3])?;
    equal("no memory", stream.download(&none)?, vec![])?;
    equal("pinned memory", stream.download(&host)?, vec![4, 5])
}

fn keeper_outlives_the_last_use(environment: &Environment) -> Verdict {
    let (stream, other) = (environment.stream()?, environment.stream()?);
    let theirs = Theirs::new(environment.context(), &[1])?;
    let dropped = theirs.dropped.clone();
    let mut buffer = theirs.into_buffer(1)?;
    let gate = Gate::shut(environment, &stream)?;
    stream.fill(&mut buffer, 2)?;
    let mut copy = other.allocate_zeroed::<u32>(1)?;
    other.copy(&mut copy, &buffer)?;
    drop(buffer);
    holds("it is kept while work uses it", !dropped.load(Ordering::SeqCst))?;
    gate.open();
    equal("contents", other.download(&copy)?, vec![2])?;
    flush_deferred_drops();
    holds("it is dropped then", dropped.load(Ordering::SeqCst))
}

fn keeper_outlives_the_graph(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let theirs = Theirs::new(environment.context(), &[1])?;
    let dropped = theirs.dropped.clone();
    let mut buffer = theirs.into_buffer(1)?;
    let graph = stream.capture(CaptureMode::Relaxed, |scope| scope.fill(&mut buffer, 9))?;
    drop(buffer);
    is_kept_by_the_executable(graph, &stream, &dropped)
}

/// Launches the graph, whose executable graph is the last to keep something.
pub(super) fn is_kept_by_the_executable(graph: Graph, stream: &Stream, dropped: &AtomicBool) -> Verdict {
    let executable = graph.instantiate()?;
    drop(graph);
    executable.launch(stream)?;
    flush_deferred_drops();
    holds("it is kept by the executable graph", !dropped.load(Ordering::SeqCst))?;
    drop(executable);
    stream.synchronize()?;
    flush_deferred_drops();
    holds("it is dropped with that", dropped.load(Ordering::SeqCst))
}

/// Behind the uses of other streams, and before the later ones.
fn work_is_ordered(environment: &Environment) -> Verdict {
    let (context, device) = (environment.context(), environment.device());
    let [first, theirs, last]: [Stream; 3] = [environment.stream()?, environment.stream()?, environment.stream()?];
    let mut buffer = first.upload(&[1u32])?;
    let mut copy = last.allocate_zeroed::<u32>(1)?;
    last.synchronize()?;
    let (gate, later) = (Gate::shut(environment, &first)?, Gate::new(environment)?);
    first.fill(&mut buffer, 2)?;
    let address = buffer.device_pointer();
    let (mark, filled) = theirs.submit_foreign((&mut buffer,), |stream| {
        // Whoever waits for this has not waited for the work behind it.
        let mark = theirs.record_event()?;
        later.hold(&theirs)?;
        Ok::<_, anabranch::Error>((mark, fill_raw(device, context, stream, address, 3)))
    })??;
    equal("filling", filled, Status::SUCCESS)?;
    holds("their work waits for the earlier use", !mark.query()?)?;
    last.wait_event(&mark)?;
    last.copy(&mut copy, &buffer)?;
    gate.open();
    mark.synchronize()?;
    holds("the later use waits for their work", !last.is_complete()?)?;
    later.open();
    equal("what it finds", last.download(&copy)?, vec![3])
}

fn work_is_captured(environment: &Environment) -> Verdict {
    let (context, device) = (environment.context(), environment.device());
    let (stream, fork) = (environment.stream()?, environment.stream()?);
    let mut buffer = stream.upload(&[1u32])?;
    let mut copy = stream.allocate_zeroed::<u32>(1)?;
    stream.synchronize()?;
    let address = buffer.device_pointer();
    let mut filled = Status::UNKNOWN;
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        scope.fill(&mut buffer, 2)?;
        filled = fork.submit_foreign((&mut buffer,), |fork| fill_raw(device, context, fork, address, 3))?;
        scope.copy(&mut copy, &buffer)
    })?;
    equal("filling", filled, Status::SUCCESS)?;
    // The copy follows both fills: the first one is before it in its stream.
    equal("nodes and edges", (graph.nodes()?.len(), graph.edges()?.len()), (3, 3))?;
    drop(buffer);
    graph.instantiate()?.launch(&stream)?;
    equal("what the copy finds", stream.download(&copy)?, vec![3])
}

fn bad_addresses(environment: &Environment) -> Verdict {
    let context = environment.context();
    let theirs = Theirs::new(context, &[1, 2, 3, 4])?;
    let address = theirs.address;
    // SAFETY: what is refused is not used.
    let at = |address, length| unsafe { Buffer::<u32>::from_raw_parts(context, address, length, ()) };
    for (what, address, length) in [
        ("null", DevicePointer::NULL, 1),
        ("garbage", GARBAGE, 1),
        ("not aligned", address.byte_add(2), 1),
        ("more than there is", address.byte_add(4), 1 << 40),
    ] {
        refused(what, at(address, length), Status::INVALID_VALUE)?;
    }
    refused("more than the address space", at(address, usize::MAX), Status::OUT_OF_MEMORY)?;
    let dropped = theirs.dropped.clone();
    refused("too many of its own", theirs.into_buffer(1 << 40), Status::INVALID_VALUE)?;
    holds("the keeper is dropped", dropped.load(Ordering::SeqCst))
}

fn memory_of_another_device(environment: &Environment) -> Verdict {
    let other = environment.peer()?.context()?;
    let theirs = Theirs::new(&other, &[1])?;
    // SAFETY: what is refused is not used.
    let used = unsafe { Buffer::<u32>::from_raw_parts(environment.context(), theirs.address, 1, ()) };
    refused("memory of another device", used, Status::INVALID_DEVICE)
}
