//! The behaviour of invalidated captures, and that nothing of them remains.

use super::capture_tools::{
    Bench, INVALIDATED, MODES, OK, UNSUPPORTED, answer, capture, elsewhere, run, shape, unsafe_call, usable,
};
use super::graph_tools::is_released;
use super::order_trace::Trace;
use crate::case::{Case, Verdict, equal, refused};
use crate::environment::Environment;
use anabranch::{CaptureMode, CaptureStatus, DependencyUpdate, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.invalidated_by_an_unsafe_call", "C9", invalidated_by_an_unsafe_call),
    Case::new("capture.invalidated_fork", "C9", invalidated_fork),
    Case::new("capture.invalidated_and_only_queried", "C9", invalidated_and_only_queried),
    Case::new("capture.invalidated_beside_another", "C9", invalidated_beside_another),
    Case::new("capture.invalidated_repeatedly", "C9", invalidated_repeatedly),
    Case::new("capture.invalidated_graph_is_released", "C9", invalidated_graph_is_released),
    Case::new("capture.graph_dropped_beside_a_capture", "C9", graph_dropped_beside_a_capture),
    Case::new("capture.things_dropped_beside_a_capture", "C9", things_dropped_beside_a_capture),
    Case::new("capture.buffers_dropped_beside_a_capture", "C9", buffers_dropped_beside_a_capture),
];

fn invalidated_by_an_unsafe_call(environment: &Environment) -> Verdict {
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal] {
        let bench = Bench::capturing(environment, mode)?;
        equal("an unsafe call", unsafe_call(environment), UNSUPPORTED)?;
        equal("the status", bench.status()?, CaptureStatus::Invalidated)?;
        equal("launching", bench.trace.ask(&bench.origin), INVALIDATED)?;
        refused("beginning", bench.origin.begin_capture(mode), Status::ILLEGAL_STATE)?;
        refused("querying", bench.origin.query(), UNSUPPORTED)?;
        let update = bench.origin.update_capture_dependencies_with_mode((), DependencyUpdate::Set);
        refused("changing what it depends on", update, INVALIDATED)?;
        bench.is_invalidated("an unsafe call")?;
        refused("ending again", bench.origin.end_capture(), Status::ILLEGAL_STATE)?;
    }
    Ok(())
}

fn invalidated_fork(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    bench.fork(&bench.other)?;
    equal("an unsafe call", unsafe_call(environment), UNSUPPORTED)?;
    equal("the status of the fork", bench.other.capture_status()?, CaptureStatus::Invalidated)?;
    equal("launching in the fork", bench.trace.ask(&bench.other), INVALIDATED)?;
    bench.is_invalidated("an unsafe call")?;
    equal("the status of the fork", bench.other.capture_status()?, CaptureStatus::None)
}

/// Queries report that the capture is invalidated, and have no other effect.
fn invalidated_and_only_queried(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    equal("an unsafe call", unsafe_call(environment), UNSUPPORTED)?;
    for _ in 0..3 {
        let info = bench.origin.capture_info()?;
        equal("the status", info.status, CaptureStatus::Invalidated)?;
        equal("whether it captures", bench.origin.is_capturing()?, true)?;
    }
    bench.is_invalidated("an unsafe call")
}

/// A capture of another thread in thread-local mode continues.
fn invalidated_beside_another(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::ThreadLocal)?;
    let others = elsewhere(|| {
        let stream = environment.stream()?;
        stream.begin_capture(CaptureMode::ThreadLocal)?;
        let queried = answer(stream.query());
        Ok::<_, anabranch::Error>((queried, answer(stream.end_capture())))
    })??;
    equal("querying and ending the other", others, (UNSUPPORTED, INVALIDATED))?;
    let graph = bench.ends_well("another thread's invalidated capture")?;
    equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])
}

fn invalidated_repeatedly(environment: &Environment) -> Verdict {
    let (stream, fork, trace) = (environment.stream()?, environment.stream()?, Trace::new(environment)?);
    for mode in MODES.into_iter().cycle().take(60) {
        stream.begin_capture(mode)?;
        trace.append(&stream, 1)?;
        fork.wait_stream(&stream)?;
        trace.append(&fork, 2)?;
        refused("querying", stream.query(), UNSUPPORTED)?;
        refused("ending", stream.end_capture(), INVALIDATED)?;
    }
    let graph = capture(&stream, CaptureMode::Global, || trace.append(&stream, 3))?;
    run(&graph, &stream)?;
    equal("the number", trace.read()?, 3)?;
    usable(environment, &[&stream, &fork])
}

/// A failed capture releases what it retained.
fn invalidated_graph_is_released(environment: &Environment) -> Verdict {
    let (stream, kept) = (environment.stream()?, std::sync::Arc::new(()));
    stream.begin_capture(CaptureMode::Relaxed)?;
    let inside = kept.clone();
    let launched = stream.launch_repeatable_host_func(move || {
        let _unused = &inside;
    });
    let queried = stream.query();
    let ended = stream.end_capture();
    launched?;
    refused("querying", queried, UNSUPPORTED)?;
    refused("ending", ended, INVALIDATED)?;
    usable(environment, &[&stream])?;
    is_released(environment, "the references to what was captured", &kept)
}

fn graph_dropped_beside_a_capture(environment: &Environment) -> Verdict {
    for mode in MODES {
        let bench = Bench::new(environment)?;
        let graph = capture(&bench.origin, mode, || bench.put(&bench.origin))?;
        let copy = graph.try_clone()?;
        bench.begin(mode)?;
        drop(graph);
        let captured_meanwhile = capture(&bench.other, mode, || bench.put(&bench.other))?;
        drop(captured_meanwhile);
        drop(copy);
        let graph = bench.ends_well("dropping graphs")?;
        equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    }
    Ok(())
}

/// Objects that the library destroys when they are dropped do not invalidate captures, because nothing captured can
/// depend on them.
fn things_dropped_beside_a_capture(environment: &Environment) -> Verdict {
    for mode in MODES {
        let context = environment.context();
        let bench = Bench::new(environment)?;
        let mut graph = context.create_graph()?;
        graph.add((), anabranch::NodeWork::empty())?;
        let (executable, event, stream) = (graph.instantiate()?, context.create_event()?, environment.stream()?);
        let (signal, pinned) = (context.create_signal()?, context.allocate_pinned::<u32>(64)?);
        let module = crate::kernels::program().load(context)?;
        let pool = context.device().create_memory_pool(&anabranch::MemoryPoolOptions::default());
        bench.begin(mode)?;
        drop((executable, event, stream, graph));
        drop((signal, pinned, module, pool.ok()));
        anabranch::flush_deferred_drops();
        bench.ends_well("dropping all kinds of objects")?;
    }
    Ok(())
}

/// Buffers do not invalidate captures either, whether of the same stream or another, and whether the capture uses them
/// or not.
fn buffers_dropped_beside_a_capture(environment: &Environment) -> Verdict {
    for mode in MODES {
        let bench = Bench::new(environment)?;
        let of_origin = bench.origin.allocate_zeroed::<u32>(64)?;
        let (of_other, of_gone) = (bench.other.allocate_zeroed::<u32>(64)?, {
            let stream = environment.stream()?;
            stream.allocate_zeroed::<u32>(64)?
        });
        let plain = environment.context().allocate_zeroed::<u32>(&bench.other, 64)?;
        let mut used = bench.other.upload(&[1u32; 64])?;
        bench.other.synchronize()?;
        bench.begin(mode)?;
        drop((of_origin, of_other, of_gone, plain));
        bench.origin.fill(&mut used, 2u32)?;
        drop(used);
        anabranch::flush_deferred_drops();
        let graph = bench.ends_well("dropping buffers")?;
        equal("nodes, roots and edges", shape(&graph)?, [2, 1, 1])?;
        run(&graph, &bench.origin)?;
        equal("an unsafe call", unsafe_call(environment), OK)?;
    }
    Ok(())
}
