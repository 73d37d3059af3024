//! Layers of the driver that unwind. `docs/safety.md` lists the classes by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{Driver, Forward, Layered};
use anabranch::{
    CaptureMode, Context, Instance, NodeWork, Result, WaitCondition, flush_deferred_drops, reset_drop_error_hook,
    set_drop_error_hook,
};
use common::assert_ends;
use futures::executor::block_on;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Unwinds in one call.
struct Unwinding {
    inner: Arc<dyn Driver>,
    /// The methods that are counted.
    counts: fn(&str) -> bool,
    /// How many calls there will be before that one.
    left: Arc<AtomicUsize>,
}

impl fmt::Debug for Unwinding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Unwinding")
    }
}

// SAFETY: all calls are forwarded as they are, or are not made.
unsafe impl Forward for Unwinding {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn called(&self, _: &'static str, method: &'static str) {
        if !(self.counts)(method) {
            return;
        }
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left == Ok(1) {
            resume_unwind(Box::new(method));
        }
    }
}

/// Never unwinds.
const NEVER: usize = 0;

/// A context of the host device under such a layer.
fn context(counts: fn(&str) -> bool, left: &Arc<AtomicUsize>) -> Context {
    let left = left.clone();
    let wrap = move |inner| Arc::new(Layered(Unwinding { inner, counts, left: left.clone() })) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().host_check_memory(true).wrap(wrap).build().unwrap();
    instance.device("host").unwrap().context().unwrap()
}

/// Calls of all kinds, each of which may fail or unwind.
fn program(context: &Context) {
    let attempt = |call: &mut dyn FnMut() -> Result<()>| _ = catch_unwind(AssertUnwindSafe(call));
    let made = catch_unwind(AssertUnwindSafe(|| -> Result<_> {
        let (stream, other) = (context.create_stream()?, context.create_stream()?);
        let (first, second) = (stream.upload(&[1u32; 64])?, other.allocate_zeroed::<u32>(64)?);
        let pinned = context.allocate_pinned::<u32>(64)?;
        Ok((stream, other, first, second, pinned, context.create_graph()?))
    }));
    let Ok(Ok((stream, other, mut first, mut second, mut pinned, mut graph))) = made else { return };
    attempt(&mut || other.copy(&mut second, &first));
    attempt(&mut || stream.fill(&mut first, 2u32));
    attempt(&mut || stream.copy(&mut pinned, &second));
    attempt(&mut || pinned.as_slice().map(drop));
    attempt(&mut || other.wait_event(&stream.record_event()?));
    attempt(&mut || stream.synchronize());
    attempt(&mut || block_on(stream.download_async(&first)).map(drop));
    attempt(&mut || block_on(other.completion_future()));
    attempt(&mut || {
        let signal = context.create_signal()?;
        signal.set(1);
        stream.wait_signal(&signal, WaitCondition::GreaterOrEqual, 1)
    });
    attempt(&mut || stream.launch_host_func(|| {}));
    attempt(&mut || {
        let of_thread = context.per_thread_stream()?;
        of_thread.fill(&mut second, 3u32)
    });
    attempt(&mut || {
        let captured = stream.capture_executable(CaptureMode::Global, |scope| {
            scope.fork(&other)?;
            scope.fill(&mut first, 4u32)?;
            other.fill(&mut second, 5u32)?;
            drop(scope.allocate_zeroed::<u32>(16)?);
            scope.capture_if(&first, |part| part.fill(&mut second, 6u32))?;
            scope.join(&other)
        });
        let captured = captured?;
        captured.launch(&stream)?;
        captured.launch(&other)
    });
    attempt(&mut || {
        let node = graph.add((), NodeWork::fill(&mut first, 7u32)?)?;
        let executable = graph.instantiate()?;
        executable.launch(&stream)?;
        executable.set_node(node, NodeWork::fill(&mut second, 8u32)?)?;
        executable.launch(&other)
    });
    attempt(&mut || other.download(&second).map(drop));
    let drops: [Box<dyn FnOnce()>; 6] = [
        Box::new(move || drop(first)),
        Box::new(move || drop(graph)),
        Box::new(move || drop(stream)),
        Box::new(move || drop(second)),
        Box::new(move || drop(pinned)),
        Box::new(move || drop(other)),
    ];
    for drop in drops {
        let _ = catch_unwind(AssertUnwindSafe(drop));
    }
}

/// The context works, on other threads too, which locks that are held would keep from it.
fn assert_works(context: &Context) -> Result<()> {
    std::thread::scope(|scope| {
        let used = scope.spawn(|| {
            let stream = context.create_stream()?;
            let mut buffer = stream.upload(&[1u32; 16])?;
            let executable = stream.capture_executable(CaptureMode::Global, |scope| scope.fill(&mut buffer, 2u32))?;
            executable.launch(&stream)?;
            assert_eq!(stream.download(&buffer)?, [2; 16]);
            context.allocate_pinned::<u32>(16).map(drop)
        });
        used.join().unwrap()
    })
}

/// The reaper's thread releases memory while a stream captures in global mode, which a thread that is not relaxed may not.
fn assert_reaper_is_relaxed(context: &Context) {
    let stream = context.create_stream().unwrap();
    let pinned = context.allocate_pinned::<u32>(64).unwrap();
    let ended = stream.capture(CaptureMode::Global, |_| {
        drop(pinned);
        flush_deferred_drops();
        Ok(())
    });
    ended.map(drop).unwrap();
}

#[test]
fn safety_82_a_layer_that_unwinds_in_any_call_breaks_nothing() {
    set_drop_error_hook(|_| ());
    // The first call that the reaper's thread makes in this process: later ones find the thread as this one leaves it.
    let first = Arc::new(AtomicUsize::new(1));
    let of_reaper = context(|method| method == "thread_exchange_capture_mode", &first);
    flush_deferred_drops();
    assert_eq!(first.load(Ordering::SeqCst), NEVER);
    assert_reaper_is_relaxed(&of_reaper);
    for call in 1.. {
        let left = Arc::new(AtomicUsize::new(NEVER));
        let context = context(|_| true, &left);
        let device = context.device().clone();
        let of_program = context.clone();
        left.store(call, Ordering::SeqCst);
        assert_ends(move || program(&of_program));
        flush_deferred_drops();
        let is_over = left.swap(NEVER, Ordering::SeqCst) != 0;
        let works = context.clone();
        assert_ends(move || assert_works(&works).unwrap_or_else(|error| panic!("call {call}: {error}")));
        context.synchronize().unwrap();
        assert_eq!(device.memory_report().unwrap().findings, [], "call {call}");
        if is_over {
            break;
        }
    }
    reset_drop_error_hook();
}
