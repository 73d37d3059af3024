//! How captures begin, and what they contain.

use super::capture_tools::{Bench, MODES, OK, UNSUPPORTED, answer, capture, elsewhere, is_made_of, run, shape, usable};
use super::order_tools::Log;
use super::order_trace::Trace;
use crate::case::{Case, Verdict, equal, refused, status_of};
use crate::environment::Environment;
use crate::gate::Gate;
use crate::live::Owner;
use anabranch::hal::{GraphNodeKind, Live};
use anabranch::{CaptureMode, CaptureStatus, LaunchConfig, Status, StreamHandle};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.begin_on_legacy", "C1", begin_on_legacy),
    Case::new("capture.begin_on_per_thread", "C1", begin_on_per_thread),
    Case::new("capture.stream_is_made_again", "X2", stream_is_made_again),
    Case::new("capture.begin_on_blocking", "C1", begin_on_blocking),
    Case::new("capture.begin_twice", "C1", begin_twice),
    Case::new("capture.begin_twice_in_a_fork", "C1", begin_twice_in_a_fork),
    Case::new("capture.begin_behind_pending_work", "C1", begin_behind_pending_work),
    Case::new("capture.begin_while_legacy_has_work", "C1", begin_while_legacy_has_work),
    Case::new("capture.of_nothing", "C1", of_nothing),
    Case::new("capture.work_does_not_run", "C1", work_does_not_run),
    Case::new("capture.runs_at_every_launch", "C1", runs_at_every_launch),
    Case::new("capture.order_is_kept", "C1", order_is_kept),
    Case::new("capture.kinds_of_nodes", "C1", kinds_of_nodes),
    Case::new("capture.of_ten_thousand_kernels", "C1", of_ten_thousand_kernels),
    Case::new("capture.two_in_one_thread", "C1", two_in_one_thread),
];

fn begin_on_legacy(environment: &Environment) -> Verdict {
    let legacy = environment.context().legacy_stream()?;
    let (driver, context) = (environment.device().driver(), environment.context().live());
    for mode in MODES {
        refused("beginning", legacy.begin_capture(mode), UNSUPPORTED)?;
        for handle in [Live::<StreamHandle>::NULL, Live::LEGACY] {
            let begun = driver.stream_begin_capture(&context.into(), handle, mode);
            equal("beginning through the driver", status_of(begun), UNSUPPORTED)?;
        }
        equal("the status", legacy.capture_status()?, CaptureStatus::None)?;
    }
    usable(environment, &[])
}

fn begin_on_per_thread(environment: &Environment) -> Verdict {
    let (stream, trace) = (environment.context().per_thread_stream()?, Trace::new(environment)?);
    for mode in MODES {
        let graph = capture(&stream, mode, || {
            let others = elsewhere(|| environment.context().per_thread_stream()?.capture_status())??;
            equal("the status of another thread's stream", others, CaptureStatus::None)?;
            trace.append(&stream, 1)
        })?;
        equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    }
    equal("the number", trace.read()?, 0)?;
    usable(environment, &[&stream])
}

/// Creates a second `Stream` for a capturing stream. The library must not query its id, because that would invalidate
/// the capture.
fn stream_is_made_again(environment: &Environment) -> Verdict {
    for mode in MODES {
        let (stream, trace) = (environment.context().per_thread_stream()?, Trace::new(environment)?);
        let graph = capture(&stream, mode, || {
            let again = environment.context().per_thread_stream()?;
            equal("whether both are one stream", again.id(), stream.id())?;
            equal("the status", again.capture_status()?, CaptureStatus::Active)?;
            trace.append(&again, 1)
        })?;
        equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    }
    Ok(())
}

fn begin_on_blocking(environment: &Environment) -> Verdict {
    let (stream, trace) = (environment.blocking_stream()?, Trace::new(environment)?);
    for mode in MODES {
        let graph = capture(&stream, mode, || trace.append(&stream, 1))?;
        equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    }
    usable(environment, &[&stream])
}

fn begin_twice(environment: &Environment) -> Verdict {
    for mode in MODES {
        let bench = Bench::capturing(environment, mode)?;
        refused("beginning again", bench.origin.begin_capture(mode), Status::ILLEGAL_STATE)?;
        let graph = bench.ends_well("beginning twice")?;
        equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    }
    Ok(())
}

fn begin_twice_in_a_fork(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    bench.fork(&bench.other)?;
    refused("beginning in the fork", bench.other.begin_capture(CaptureMode::Global), Status::ILLEGAL_STATE)?;
    bench.follow(&bench.origin, &bench.other)?;
    bench.ends_well("beginning in a fork").map(drop)
}

fn begin_behind_pending_work(environment: &Environment) -> Verdict {
    let (stream, trace) = (environment.stream()?, Trace::new(environment)?);
    let gate = Gate::shut(environment, &stream)?;
    trace.append(&stream, 1)?;
    let graph = capture(&stream, CaptureMode::Global, || trace.append(&stream, 2))?;
    equal("querying afterwards", stream.query()?, false)?;
    equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    let executable = graph.instantiate()?;
    executable.launch(&stream)?;
    trace.is_untouched()?;
    gate.open();
    stream.synchronize()?;
    equal("the number", trace.read()?, 12)
}

fn begin_while_legacy_has_work(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (legacy, stream) = (environment.context().legacy_stream()?, environment.blocking_stream()?);
    let gate = Gate::shut(environment, &legacy)?;
    trace.append(&legacy, 1)?;
    let graph = capture(&stream, CaptureMode::Global, || trace.append(&stream, 2))?;
    equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    gate.open();
    legacy.synchronize()?;
    usable(environment, &[&stream])
}

fn of_nothing(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    for mode in MODES {
        let graph = capture(&stream, mode, || Ok(()))?;
        equal("nodes, roots and edges", shape(&graph)?, [0, 0, 0])?;
        run(&graph, &stream)?;
    }
    usable(environment, &[&stream])
}

fn work_does_not_run(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    let source = stream.upload(&[5u32, 6])?;
    let (mut copied, mut filled) = (stream.upload(&[1u32, 2])?, stream.upload(&[3u32])?);
    let mut stored = stream.upload(&[4u32])?;
    let signal = Arc::new(environment.context().create_signal()?);
    let store = environment.kernel("store")?;
    let inside = log.clone();
    let graph = stream.capture(CaptureMode::Global, |scope| {
        scope.copy(&mut copied, &source)?;
        scope.fill(&mut filled, 7u32)?;
        // SAFETY: `store` writes only the number that its first argument points to.
        unsafe { scope.launch(&store, &LaunchConfig::new(1, 1), (&mut stored, 8u32)) }?;
        scope.launch_repeatable_host_func(move || inside.push(9))?;
        scope.write_signal(&signal, 10)
    })?;
    stream.synchronize()?;
    let contents = || -> anabranch::Result<_> {
        let device = (stream.download(&copied)?, stream.download(&filled)?, stream.download(&stored)?);
        Ok((device, log.numbers(), signal.get()))
    };
    equal("before the launch", contents()?, ((vec![1, 2], vec![3], vec![4]), vec![], 0))?;
    run(&graph, &stream)?;
    equal("after the launch", contents()?, ((vec![5, 6], vec![7], vec![8]), vec![9], 10))
}

fn runs_at_every_launch(environment: &Environment) -> Verdict {
    let (stream, count) = (environment.stream()?, Arc::new(AtomicU32::new(0)));
    let (mut word, add) = (stream.allocate_zeroed::<u32>(1)?, environment.kernel("add")?);
    let inside = count.clone();
    let graph = stream.capture(CaptureMode::Global, |scope| {
        // SAFETY: `add` accesses only the number that its first argument points to.
        unsafe { scope.launch(&add, &LaunchConfig::new(1, 1), (&mut word, 10u32, 1u32)) }?;
        scope.launch_repeatable_host_func(move || {
            inside.fetch_add(1, Ordering::SeqCst);
        })
    })?;
    let executable = graph.instantiate()?;
    for _ in 0..5 {
        executable.launch(&stream)?;
    }
    stream.synchronize()?;
    equal("how often the host function ran", count.load(Ordering::SeqCst), 5)?;
    equal("the number", stream.download(&word)?, vec![11111])
}

/// The nodes captured in one stream form a chain and run in that order.
fn order_is_kept(environment: &Environment) -> Verdict {
    let (stream, trace) = (environment.stream()?, Trace::new(environment)?);
    let graph = capture(&stream, CaptureMode::Global, || (1..=9).try_for_each(|digit| trace.append(&stream, digit)))?;
    equal("nodes, roots and edges", shape(&graph)?, [9, 1, 8])?;
    run(&graph, &stream)?;
    equal("the order", trace.read()?, 123_456_789)
}

fn kinds_of_nodes(environment: &Environment) -> Verdict {
    let bench = Bench::new(environment)?;
    let (mut words, source) = (bench.other.allocate_zeroed::<u32>(4)?, bench.other.upload(&[1u32; 4])?);
    let signal = environment.context().create_signal()?;
    bench.begin(CaptureMode::Global)?;
    bench.origin.copy(&mut words, &source)?;
    bench.origin.copy(words.slice_mut(..0)?, source.slice(..0)?)?;
    bench.origin.fill(&mut words, 3u32)?;
    bench.origin.fill(words.slice_mut(..0)?, 3u32)?;
    bench.origin.launch_repeatable_host_func(|| ())?;
    bench.origin.write_signal(&signal, 1)?;
    let graph = bench.ends_well("capturing one of each kind")?;
    use GraphNodeKind as Kind;
    is_made_of(&graph, &[Kind::KERNEL, Kind::COPY, Kind::FILL, Kind::HOST, Kind::VALUE_OPERATIONS])?;
    run(&graph, &bench.origin)?;
    equal("the signal", signal.get(), 1)?;
    equal("the words", bench.other.download(&words)?, vec![3; 4])
}

fn of_ten_thousand_kernels(environment: &Environment) -> Verdict {
    let (stream, trace) = (environment.stream()?, Trace::new(environment)?);
    let graph =
        capture(&stream, CaptureMode::Relaxed, || (0..10_000).try_for_each(|_| trace.multiply_add(&stream, 1, 1)))?;
    equal("nodes, roots and edges", shape(&graph)?, [10_000, 1, 9999])?;
    run(&graph, &stream)?;
    equal("the sum", trace.read()?, 10_000)
}

fn two_in_one_thread(environment: &Environment) -> Verdict {
    let (first, second, trace) = (environment.stream()?, environment.stream()?, Trace::new(environment)?);
    for modes in MODES.iter().flat_map(|a| MODES.iter().map(move |b| (*a, *b))) {
        first.begin_capture(modes.0)?;
        equal("beginning the second", answer(second.begin_capture(modes.1)), OK)?;
        trace.append(&first, 1)?;
        trace.append(&second, 2)?;
        trace.append(&second, 3)?;
        let (first, second) = (first.end_capture()?, second.end_capture()?);
        equal("the nodes of the first", first.nodes()?.len(), 1)?;
        equal("the nodes of the second", second.nodes()?.len(), 2)?;
    }
    usable(environment, &[&first, &second])
}
