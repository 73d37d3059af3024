//! Captures of one thread, and calls of other threads during them.

use super::capture_tools::{Bench, MODES, OK, UNSUPPORTED, answer, elsewhere, shape, unsafe_call, usable};
use super::order_trace::Trace;
use crate::case::{Case, Failed, Verdict, equal};
use crate::environment::Environment;
use crate::kernels;
use anabranch::{CaptureMode, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.other_thread_of_a_global_capture", "C3", other_thread_of_a_global_capture),
    Case::new("capture.other_thread_that_is_thread_local", "C3", other_thread_that_is_thread_local),
    Case::new("capture.other_thread_that_is_relaxed", "C3", other_thread_that_is_relaxed),
    Case::new("capture.other_thread_of_a_thread_local_capture", "C3", other_thread_of_a_thread_local_capture),
    Case::new("capture.other_thread_of_a_relaxed_capture", "C3", other_thread_of_a_relaxed_capture),
    Case::new("capture.other_thread_queries_the_stream", "C7", other_thread_queries_the_stream),
    Case::new("capture.other_thread_queries_the_event", "C7", other_thread_queries_the_event),
    Case::new("capture.other_thread_synchronizes_the_context", "C7", other_thread_synchronizes_the_context),
    Case::new("capture.other_thread_launches_into_it", "C3", other_thread_launches_into_it),
    Case::new("capture.other_thread_loads_a_module", "C3", other_thread_loads_a_module),
    Case::new("capture.several_threads_capture", "C3", several_threads_capture),
];

type Ask = fn(&Bench<'_>) -> Status;

/// Calls that a capture prohibits on other threads.
const UNSAFE: [(&str, Ask); 5] = [
    ("allocating", |bench| unsafe_call(bench.environment)),
    ("querying an event", |bench| answer(bench.recorded[0].query())),
    ("querying a stream", |bench| answer(bench.other.query())),
    ("synchronizing a stream", |bench| answer(bench.other.synchronize())),
    ("allocating pinned memory", |bench| answer(bench.environment.context().allocate_pinned::<u8>(64))),
];

/// Makes a call on a thread whose mode is `own`, while this thread captures in `mode`.
fn ask(environment: &Environment, mode: CaptureMode, own: CaptureMode, question: Ask) -> Result<Asked<'_>, Failed> {
    let bench = Bench::capturing(environment, mode)?;
    let status = elsewhere(|| {
        let _mode = environment.context().exchange_capture_mode(own)?;
        Ok::<_, anabranch::Error>(question(&bench))
    })??;
    Ok(Asked { bench, status })
}

struct Asked<'e> {
    bench: Bench<'e>,
    status: Status,
}

impl Asked<'_> {
    fn invalidates(&self, what: &str, status: Status) -> Verdict {
        equal(what, self.status, status)?;
        self.bench.is_invalidated(what)
    }

    fn does_no_harm(&self, what: &str) -> Verdict {
        equal(what, self.status, OK)?;
        self.bench.ends_well(what).map(drop)
    }
}

fn other_thread_of_a_global_capture(environment: &Environment) -> Verdict {
    for (what, question) in UNSAFE {
        ask(environment, CaptureMode::Global, CaptureMode::Global, question)?.invalidates(what, UNSUPPORTED)?;
    }
    Ok(())
}

fn other_thread_that_is_thread_local(environment: &Environment) -> Verdict {
    for (what, question) in UNSAFE {
        ask(environment, CaptureMode::Global, CaptureMode::ThreadLocal, question)?.does_no_harm(what)?;
    }
    Ok(())
}

fn other_thread_that_is_relaxed(environment: &Environment) -> Verdict {
    for (what, question) in UNSAFE {
        ask(environment, CaptureMode::Global, CaptureMode::Relaxed, question)?.does_no_harm(what)?;
    }
    Ok(())
}

fn other_thread_of_a_thread_local_capture(environment: &Environment) -> Verdict {
    for own in MODES {
        for (what, question) in UNSAFE {
            ask(environment, CaptureMode::ThreadLocal, own, question)?.does_no_harm(what)?;
        }
    }
    Ok(())
}

fn other_thread_of_a_relaxed_capture(environment: &Environment) -> Verdict {
    for own in MODES {
        for (what, question) in UNSAFE {
            ask(environment, CaptureMode::Relaxed, own, question)?.does_no_harm(what)?;
        }
    }
    Ok(())
}

fn other_thread_queries_the_stream(environment: &Environment) -> Verdict {
    for (mode, own) in MODES.iter().flat_map(|mode| MODES.map(|own| (*mode, own))) {
        let asked = ask(environment, mode, own, |bench| answer(bench.origin.query()))?;
        asked.invalidates("querying the capturing stream", UNSUPPORTED)?;
    }
    Ok(())
}

fn other_thread_queries_the_event(environment: &Environment) -> Verdict {
    for (mode, own) in MODES.iter().flat_map(|mode| MODES.map(|own| (*mode, own))) {
        let asked = ask(environment, mode, own, |bench| answer(bench.captured.query()))?;
        asked.invalidates("querying the captured event", Status::CAPTURED_EVENT)?;
    }
    Ok(())
}

fn other_thread_synchronizes_the_context(environment: &Environment) -> Verdict {
    for mode in MODES {
        let synchronize: Ask = |bench| answer(bench.environment.context().synchronize());
        ask(environment, mode, CaptureMode::Global, synchronize)?.invalidates("synchronizing", UNSUPPORTED)?;
    }
    Ok(())
}

fn other_thread_launches_into_it(environment: &Environment) -> Verdict {
    for (mode, own) in MODES.iter().flat_map(|mode| MODES.map(|own| (*mode, own))) {
        let asked = ask(environment, mode, own, |bench| bench.trace.ask(&bench.origin))?;
        equal("launching", asked.status, OK)?;
        let graph = asked.bench.ends_well("launching on another thread")?;
        equal("nodes, roots and edges", shape(&graph)?, [2, 1, 1])?;
    }
    Ok(())
}

fn other_thread_loads_a_module(environment: &Environment) -> Verdict {
    for (mode, own) in MODES.iter().flat_map(|mode| MODES.map(|own| (*mode, own))) {
        let load: Ask = |bench| answer(kernels::program().load(bench.environment.context()));
        ask(environment, mode, own, load)?.does_no_harm("loading a module")?;
    }
    Ok(())
}

/// Four threads capture at the same time, each in all modes.
fn several_threads_capture(environment: &Environment) -> Verdict {
    let traces = (0..4).map(|_| Trace::new(environment)).collect::<anabranch::Result<Vec<_>>>()?;
    let streams = (0..8).map(|_| environment.stream()).collect::<anabranch::Result<Vec<_>>>()?;
    let graphs = std::thread::scope(|scope| {
        let threads: Vec<_> = traces
            .iter()
            .zip(streams.chunks(2))
            .map(|(trace, pair)| {
                scope.spawn(move || {
                    let mut graphs = Vec::new();
                    for mode in MODES.into_iter().cycle().take(30) {
                        let [stream, fork] = pair else { break };
                        stream.begin_capture(mode)?;
                        trace.append(stream, 1)?;
                        fork.wait_stream(stream)?;
                        trace.append(fork, 2)?;
                        stream.wait_stream(fork)?;
                        trace.append(stream, 3)?;
                        graphs.push(stream.end_capture()?);
                    }
                    Ok::<_, Failed>(graphs)
                })
            })
            .collect();
        let joined =
            threads.into_iter().map(|thread| thread.join().map_err(|_| Failed("a thread panicked".to_owned())));
        joined.map(|graphs| graphs.and_then(|graphs| graphs)).collect::<Result<Vec<_>, Failed>>()
    })?;
    for ((trace, graphs), pair) in traces.iter().zip(&graphs).zip(streams.chunks(2)) {
        equal("how many graphs a thread has captured", graphs.len(), 30)?;
        for graph in graphs {
            equal("nodes, roots and edges", shape(graph)?, [3, 1, 3])?;
        }
        let (Some(graph), Some(stream)) = (graphs.last(), pair.first()) else { continue };
        super::capture_tools::run(graph, stream)?;
        equal("the order", trace.read()?, 123)?;
    }
    usable(environment, &streams.iter().collect::<Vec<_>>())
}
