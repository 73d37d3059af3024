//! Host functions: when they run, what they can read, and what they must not do.

use super::order_tools::Log;
use super::order_trace::{Trace, settle};
use crate::case::{Case, Failed, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::{Gate, quiesce};
use anabranch::{Capabilities, Result, Status, Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

const BACKGROUND: &[Need] = &[Need::Capability(Capabilities::BACKGROUND_PROGRESS)];

pub(super) const CASES: &[Case] = &[
    Case::new("host_function.runs_after_earlier_work", "H1", runs_after_earlier_work),
    Case::new("host_function.holds_later_work_up", "H1", holds_later_work_up).needs(BACKGROUND),
    Case::new("host_function.runs_once", "H1", runs_once),
    Case::new("host_function.many_run_in_order", "H1", many_run_in_order),
    Case::new("host_function.is_dropped_when_it_has_run", "H1", is_dropped_when_it_has_run),
    Case::new("host_function.stream_is_not_complete_while_it_runs", "H1", stream_is_not_complete_while_it_runs)
        .needs(BACKGROUND),
    Case::new("host_function.may_not_wait_for_the_context", "H1", may_not_wait_for_the_context).needs(BACKGROUND),
    Case::new("host_function.may_not_make_anything", "H1", may_not_make_anything).needs(BACKGROUND),
    Case::new("host_function.may_not_allocate_or_copy", "H1", may_not_allocate_or_copy).needs(BACKGROUND),
    Case::new("host_function.may_drop_anything", "H1", may_drop_anything).needs(BACKGROUND),
    Case::new("host_function.sees_kernels", "H3", sees_kernels).needs(BACKGROUND),
    Case::new("host_function.sees_earlier_copies", "H3", sees_earlier_copies),
    Case::new("host_function.is_seen_by_later_copies", "H3", is_seen_by_later_copies),
    Case::new("host_function.sees_work_of_awaited_streams", "H3", sees_work_of_awaited_streams),
    Case::new("host_function.streams_do_not_wait_for_each_other", "H4", streams_do_not_wait_for_each_other),
];

fn runs_after_earlier_work(environment: &Environment) -> Verdict {
    let (stream, idle, log) = (environment.stream()?, environment.stream()?, Log::default());
    let gate = Gate::shut(environment, &stream)?;
    log.push_in(&stream, 1)?;
    settle(&idle)?;
    equal("what has run while the gate is shut", log.numbers(), vec![])?;
    gate.open();
    stream.synchronize()?;
    equal("what has run", log.numbers(), vec![1])
}

/// A host function that signals its start and runs until it is notified to end.
struct Running {
    started: Receiver<()>,
    end: Sender<()>,
}

impl Running {
    fn launch(environment: &Environment, stream: &Stream) -> Result<Self> {
        quiesce(environment)?;
        let ((start, started), (end, ended)) = (channel(), channel());
        stream.launch_host_func(move || {
            let _ = start.send(());
            // An error means that the case has ended. The function then ends too.
            let _ = ended.recv();
        })?;
        Ok(Self { started, end })
    }

    fn wait_until_started(&self) -> Verdict {
        self.started.recv().map_err(|_| Failed("the host function did not run".to_owned()))
    }

    fn end(self) {
        let _ = self.end.send(());
    }
}

fn holds_later_work_up(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let stream = environment.stream()?;
    let running = Running::launch(environment, &stream)?;
    trace.append(&stream, 1)?;
    running.wait_until_started()?;
    // Each read takes several round trips of another stream.
    for _ in 0..4 {
        equal("the number while the host function runs", trace.read()?, 0)?;
    }
    running.end();
    stream.synchronize()?;
    equal("the number afterwards", trace.read()?, 1)
}

fn runs_once(environment: &Environment) -> Verdict {
    let (stream, count) = (environment.stream()?, Arc::new(AtomicU32::new(0)));
    for _ in 0..20 {
        let count = count.clone();
        stream.launch_host_func(move || {
            count.fetch_add(1, Ordering::SeqCst);
        })?;
    }
    stream.synchronize()?;
    environment.context().synchronize()?;
    equal("how often they ran", count.load(Ordering::SeqCst), 20)
}

fn many_run_in_order(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    for number in 0..300 {
        log.push_in(&stream, number)?;
    }
    stream.synchronize()?;
    equal("the order", log.numbers(), (0..300).collect())
}

fn is_dropped_when_it_has_run(environment: &Environment) -> Verdict {
    let (stream, captured) = (environment.stream()?, Arc::new(()));
    let inside = captured.clone();
    stream.launch_host_func(move || drop(inside))?;
    let inside = captured.clone();
    stream.launch_host_func(move || {
        let _unused = &inside;
    })?;
    // The second function has been dropped before this one runs.
    stream.launch_host_func(|| ())?;
    stream.synchronize()?;
    equal("the number of references to what they captured", Arc::strong_count(&captured), 1)
}

fn stream_is_not_complete_while_it_runs(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let running = Running::launch(environment, &stream)?;
    let event = stream.record_event()?;
    running.wait_until_started()?;
    equal("querying the stream", stream.query()?, false)?;
    equal("querying an event after it", event.query()?, false)?;
    running.end();
    event.synchronize()?;
    holds("querying the stream afterwards", stream.query()?)
}

/// Runs `body` in a host function and returns what it found.
fn inside<T: Send + 'static>(stream: &Stream, body: impl FnOnce() -> T + Send + 'static) -> Result<T, Failed> {
    let (sender, receiver) = channel();
    stream.launch_host_func(move || {
        let _ = sender.send(body());
    })?;
    receiver.recv().map_err(|_| Failed("the host function did not run to its end".to_owned()))
}

/// Hardware refuses calls that may wait for all work, or that change state which other calls read. It accepts some
/// other calls. The documentation says not to rely on this, so the cases do not check it.
fn may_not_wait_for_the_context(environment: &Environment) -> Verdict {
    let (stream, context) = (environment.stream()?, environment.context().clone());
    let (waited, asked) = inside(&stream, move || (context.synchronize(), context.memory_info()))?;
    refused("synchronizing the context", waited, Status::NOT_PERMITTED)?;
    refused("querying free memory", asked, Status::NOT_PERMITTED)?;
    stream.synchronize()?;
    Ok(())
}

fn may_not_make_anything(environment: &Environment) -> Verdict {
    let (stream, context) = (environment.stream()?, environment.context().clone());
    let (streams, events, memory) = inside(&stream, move || {
        (context.create_stream().map(drop), context.create_event().map(drop), context.create_signal().map(drop))
    })?;
    refused("a stream", streams, Status::NOT_PERMITTED)?;
    refused("an event", events, Status::NOT_PERMITTED)?;
    refused("pinned memory", memory, Status::NOT_PERMITTED)?;
    stream.synchronize()?;
    Ok(())
}

fn may_not_allocate_or_copy(environment: &Environment) -> Verdict {
    let (stream, other) = (environment.stream()?, environment.stream()?);
    let (mut buffer, pinned) = (other.allocate_zeroed::<u32>(1)?, environment.context().allocate_pinned::<u32>(1)?);
    other.synchronize()?;
    let (allocated, copied, downloaded) = inside(&stream, move || {
        let copied = other.copy(&mut buffer, &pinned);
        (other.allocate_zeroed::<u32>(1).map(drop), copied, other.download(&buffer).map(drop))
    })?;
    refused("allocating in stream order", allocated, Status::NOT_PERMITTED)?;
    refused("copying", copied, Status::NOT_PERMITTED)?;
    refused("downloading", downloaded, Status::NOT_PERMITTED)?;
    stream.synchronize()?;
    Ok(())
}

fn may_drop_anything(environment: &Environment) -> Verdict {
    let (stream, context) = (environment.stream()?, environment.context());
    let dropped = (environment.stream()?, context.create_event()?, context.create_signal()?, context.clone());
    let buffers =
        (dropped.0.allocate_zeroed::<u32>(8)?, context.allocate_pinned::<u32>(8)?, environment.module().clone());
    dropped.0.record(&dropped.1)?;
    inside(&stream, move || {
        drop(buffers);
        drop(dropped);
    })?;
    stream.synchronize()?;
    anabranch::flush_deferred_drops();
    let after = stream.upload(&[3u32])?;
    equal("work afterwards", stream.download(&after)?, vec![3])
}

/// The first number in pinned memory, which a device may have written.
fn first_number(address: anabranch::DevicePointer) -> u32 {
    // SAFETY: the callers pass the address of pinned memory that lives until their host function has run, and nothing
    // else accesses it at the same time.
    unsafe { AtomicU32::from_ptr(address.0 as usize as *mut u32) }.load(Ordering::Relaxed)
}

fn sees_kernels(environment: &Environment) -> Verdict {
    let (stream, add) = (environment.stream()?, environment.kernel("add")?);
    let mut word = environment.context().allocate_pinned::<u32>(1)?;
    super::order_tools::spin(environment, &stream, 1)?;
    // SAFETY: `add` accesses only the number that its first argument points to.
    unsafe { stream.launch(&add, &anabranch::LaunchConfig::new(1, 1), (&mut word, 1u32, 5u32))? };
    let address = word.device_pointer();
    equal("what the host function sees", inside(&stream, move || first_number(address))?, 5)?;
    stream.synchronize()?;
    Ok(())
}

fn sees_earlier_copies(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (buffer, mut pinned) = (stream.upload(&[11u32; 4096])?, environment.context().allocate_pinned::<u32>(4096)?);
    let gate = Gate::shut(environment, &stream)?;
    stream.copy(&mut pinned, &buffer)?;
    let (sender, receiver) = channel();
    let address = pinned.slice(4095..)?.device_pointer();
    stream.launch_host_func(move || {
        let _ = sender.send(first_number(address));
    })?;
    gate.open();
    stream.synchronize()?;
    equal("what the host function sees", receiver.recv().ok(), Some(11))
}

fn is_seen_by_later_copies(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (pinned, mut buffer) = (environment.context().allocate_pinned::<u32>(1)?, stream.allocate_zeroed::<u32>(1)?);
    let address = pinned.device_pointer();
    stream.launch_host_func(move || {
        // SAFETY: the memory lives until the case has synchronized; the copy that reads it comes later in the stream.
        unsafe { AtomicU32::from_ptr(address.0 as usize as *mut u32) }.store(9, Ordering::Relaxed);
    })?;
    stream.copy(&mut buffer, &pinned)?;
    equal("what was copied", stream.download(&buffer)?, vec![9])
}

fn sees_work_of_awaited_streams(environment: &Environment) -> Verdict {
    let (first, second) = (environment.stream()?, environment.stream()?);
    let word = Arc::new(environment.context().create_signal()?);
    let gate = Gate::shut(environment, &first)?;
    first.write_signal(&word, 4)?;
    second.wait_stream(&first)?;
    let (sender, receiver) = channel();
    let seen = word.clone();
    second.launch_host_func(move || {
        let _ = sender.send(seen.get());
    })?;
    gate.open();
    second.synchronize()?;
    equal("what the host function sees", receiver.recv().ok(), Some(4))
}

fn streams_do_not_wait_for_each_other(environment: &Environment) -> Verdict {
    let (held, other, log) = (environment.stream()?, environment.stream()?, Log::default());
    let gate = Gate::shut(environment, &held)?;
    log.push_in(&held, 1)?;
    log.push_in(&other, 2)?;
    other.synchronize()?;
    equal("what has run while the gate is shut", log.numbers(), vec![2])?;
    gate.open();
    held.synchronize()?;
    equal("what has run", log.numbers(), vec![2, 1])
}
