//! Contexts that were lost because of a fault, and the work queued after the fault.

use super::order_tools::Log;
use crate::case::{Case, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use crate::kernels;
use anabranch::{
    Buffer, Context, ContextFlags, ErrorKind, EventFlags, Kernel, LaunchConfig, Module, Result, Status, Stream,
    StreamFlags, flush_deferred_drops,
};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case::new("sticky.fault_is_reported_for_ever", "X1", fault_is_reported_for_ever).loses_context(),
    Case::new("sticky.trap_is_reported_for_ever", "X1", trap_is_reported_for_ever).loses_context(),
    Case::new("sticky.query_reports_it", "S2", query_reports_it).loses_context(),
    Case::new("sticky.error_says_so", "X3", error_says_so).loses_context(),
    Case::new("sticky.other_streams_report_it", "X1", other_streams_report_it).loses_context(),
    Case::new("sticky.streams_that_wait_wait_no_more", "X1", streams_that_wait_wait_no_more).loses_context(),
    Case::new("sticky.work_before_the_fault_is_done", "X1", work_before_the_fault_is_done).loses_context(),
    Case::new("sticky.event_behind_the_fault", "X1", event_behind_the_fault).loses_context(),
    Case::new("sticky.host_function_is_skipped", "H1", host_function_is_skipped).loses_context(),
    Case::new("sticky.host_function_is_dropped", "H1", host_function_is_dropped).loses_context(),
    Case::new("sticky.callback_runs_once_with_the_status", "H2", callback_runs_once).loses_context(),
    Case::new("sticky.refused_host_work_is_dropped", "H1", refused_host_work_is_dropped).loses_context(),
    Case::new("sticky.everything_can_be_dropped", "X1", everything_can_be_dropped).loses_context(),
];

/// A separate context that a case loses.
pub(super) struct Doomed {
    pub(super) word: Buffer<u32>,
    pub(super) stream: Stream,
    pub(super) module: Module,
    pub(super) context: Context,
    fault: Kernel,
    trap: Kernel,
}

impl Doomed {
    pub(super) fn new(environment: &Environment) -> Result<Self> {
        let context = environment.device().create_context(ContextFlags::empty())?;
        let (module, stream) = (kernels::program().load(&context)?, context.create_stream()?);
        let (fault, trap, word) = (module.kernel("fault")?, module.kernel("trap")?, stream.allocate_zeroed(1)?);
        stream.synchronize()?;
        Ok(Self { word, stream, module, context, fault, trap })
    }

    /// Queues a kernel that accesses an invalid address.
    pub(super) fn fault(&mut self) -> Result<()> {
        // SAFETY: the kernel fails on purpose. The device stops it, and the context is not used afterwards.
        unsafe { self.stream.launch(&self.fault, &LaunchConfig::new(1, 1), (&mut self.word,)) }
    }

    fn trap(&self) -> Result<()> {
        // SAFETY: the kernel fails on purpose. The device stops it, and the context is not used afterwards.
        unsafe { self.stream.launch(&self.trap, &LaunchConfig::new(1, 1), ()) }
    }

    /// Loses the context, and checks that it is lost.
    pub(super) fn lose(&mut self) -> Verdict {
        self.fault()?;
        refused("synchronizing with the fault", self.stream.synchronize(), Status::ILLEGAL_ADDRESS)
    }
}

fn fault_is_reported_for_ever(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    doomed.lose()?;
    refused("synchronizing again", doomed.stream.synchronize(), Status::ILLEGAL_ADDRESS)?;
    refused("synchronizing the context", doomed.context.synchronize(), Status::ILLEGAL_ADDRESS)?;
    refused("synchronizing once more", doomed.stream.synchronize(), Status::ILLEGAL_ADDRESS)
}

fn trap_is_reported_for_ever(environment: &Environment) -> Verdict {
    let doomed = Doomed::new(environment)?;
    doomed.trap()?;
    refused("synchronizing", doomed.stream.synchronize(), Status::LAUNCH_FAILED)?;
    refused("synchronizing the context", doomed.context.synchronize(), Status::LAUNCH_FAILED)?;
    refused("creating an event", doomed.context.create_event(), Status::LAUNCH_FAILED)
}

fn query_reports_it(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    doomed.fault()?;
    let answer = loop {
        match doomed.stream.query() {
            Ok(false) => std::thread::yield_now(),
            answer => break answer,
        }
    };
    refused("querying", answer, Status::ILLEGAL_ADDRESS)?;
    refused("querying again", doomed.stream.query(), Status::ILLEGAL_ADDRESS)
}

fn error_says_so(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    doomed.lose()?;
    let Err(error) = doomed.context.synchronize() else { return holds("the context is lost", false) };
    equal("its kind", error.kind(), ErrorKind::Asynchronous)?;
    holds("it is sticky", error.is_sticky())?;
    holds("it says that earlier work failed", error.is_asynchronous())
}

fn other_streams_report_it(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let context = doomed.context.clone();
    let (idle, legacy) = (context.create_stream()?, context.legacy_stream()?);
    let used = context.create_stream_with_flags(StreamFlags::empty())?;
    used.launch_host_func(|| ())?;
    used.synchronize()?;
    doomed.lose()?;
    for stream in [&idle, &used, &legacy] {
        refused("querying", stream.query(), Status::ILLEGAL_ADDRESS)?;
        refused("synchronizing", stream.synchronize(), Status::ILLEGAL_ADDRESS)?;
    }
    Ok(())
}

fn streams_that_wait_wait_no_more(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let held = doomed.context.create_stream()?;
    let gate = Gate::shut(environment, &held)?;
    held.launch_host_func(|| ())?;
    doomed.lose()?;
    refused("synchronizing with a stream that waits for a gate", held.synchronize(), Status::ILLEGAL_ADDRESS)?;
    gate.open();
    Ok(())
}

fn work_before_the_fault_is_done(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let word = doomed.context.create_signal()?;
    let gate = Gate::shut(environment, &doomed.stream)?;
    doomed.stream.write_signal(&word, 1)?;
    doomed.fault()?;
    doomed.stream.write_signal(&word, 2)?;
    gate.open();
    refused("synchronizing", doomed.stream.synchronize(), Status::ILLEGAL_ADDRESS)?;
    equal("what was written", word.get(), 1)
}

fn event_behind_the_fault(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let gate = Gate::shut(environment, &doomed.stream)?;
    doomed.fault()?;
    let event = doomed.stream.record_event_with_flags(EventFlags::DISABLE_TIMING)?;
    equal("querying it while the stream has pending work", event.query()?, false)?;
    gate.open();
    refused("synchronizing it", event.synchronize(), Status::ILLEGAL_ADDRESS)?;
    refused("querying it", event.query(), Status::ILLEGAL_ADDRESS)
}

fn host_function_is_skipped(environment: &Environment) -> Verdict {
    let (mut doomed, log) = (Doomed::new(environment)?, Log::default());
    let gate = Gate::shut(environment, &doomed.stream)?;
    log.push_in(&doomed.stream, 1)?;
    doomed.fault()?;
    log.push_in(&doomed.stream, 2)?;
    gate.open();
    refused("synchronizing", doomed.stream.synchronize(), Status::ILLEGAL_ADDRESS)?;
    equal("what has run", log.numbers(), vec![1])
}

/// Releases a lost context and everything that belongs to it.
fn let_go(doomed: Doomed) {
    drop(doomed);
    // The module is released first, and then the context that it retained.
    for _ in 0..3 {
        flush_deferred_drops();
    }
}

fn host_function_is_dropped(environment: &Environment) -> Verdict {
    let (mut doomed, captured) = (Doomed::new(environment)?, Arc::new(()));
    let inside = captured.clone();
    let gate = Gate::shut(environment, &doomed.stream)?;
    doomed.fault()?;
    doomed.stream.launch_host_func(move || drop(inside))?;
    gate.open();
    refused("synchronizing", doomed.stream.synchronize(), Status::ILLEGAL_ADDRESS)?;
    drop(gate);
    let_go(doomed);
    equal("the number of references to what it captured", Arc::strong_count(&captured), 1)
}

fn callback_runs_once(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let (sender, receiver) = channel();
    let gate = Gate::shut(environment, &doomed.stream)?;
    doomed.fault()?;
    doomed.stream.add_callback(move |_, status| {
        let _ = sender.send(status);
    })?;
    gate.open();
    refused("synchronizing", doomed.stream.synchronize(), Status::ILLEGAL_ADDRESS)?;
    let told = receiver.recv_timeout(Duration::from_secs(30));
    equal("the status that it received", told.ok(), Some(Status::ILLEGAL_ADDRESS))?;
    drop(gate);
    let_go(doomed);
    holds("it does not run again", receiver.try_recv().is_err())
}

fn refused_host_work_is_dropped(environment: &Environment) -> Verdict {
    let (mut doomed, captured, log) = (Doomed::new(environment)?, Arc::new(()), Log::default());
    doomed.lose()?;
    let (inside, ran) = (captured.clone(), log.clone());
    let launched = doomed.stream.launch_host_func(move || {
        ran.push(1);
        drop(inside);
    });
    refused("launching a host function", launched, Status::ILLEGAL_ADDRESS)?;
    let (inside, ran) = (captured.clone(), log.clone());
    let added = doomed.stream.add_callback(move |_, _| {
        ran.push(2);
        drop(inside);
    });
    refused("adding a callback", added, Status::ILLEGAL_ADDRESS)?;
    anabranch::flush_deferred_drops();
    equal("the number of references to what they captured", Arc::strong_count(&captured), 1)?;
    equal("what has run", log.numbers(), vec![])
}

fn everything_can_be_dropped(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let context = &doomed.context;
    let others = (context.create_stream()?, context.create_event()?, context.allocate_pinned::<u8>(64)?);
    let memory = (context.allocate_zeroed::<u8>(&others.0, 64)?, others.0.upload(&[1u8; 64])?);
    let kept = context.create_stream()?;
    doomed.lose()?;
    drop(others);
    drop(memory);
    refused("synchronizing a stream that still exists", kept.synchronize(), Status::ILLEGAL_ADDRESS)?;
    drop(kept);
    let_go(doomed);
    Ok(())
}
