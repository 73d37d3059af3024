//! When graphs run of which a node has been disabled, alone and beside other contexts of their device.

use crate::graph::fill;
use crate::support::{DEVICE, Gpu, live};
use anabranch_hal::{
    Call, ContextFlags, ContextHandle, Contexts, Copy3d, CopyPlace, DevicePointer, EventFlags, EventHandle,
    EventRecordFlags, EventWaitFlags, Events, ExecutableGraphs, FillPattern, GreenContexts, HostWork, Live, Memory,
    NodeParameters, SplitFlags, StreamFlags, StreamHandle, Streams, Value, WaitValueFlags, WriteValueFlags,
};
use std::time::Duration;

/// What a graph of two nodes is launched behind.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Behind {
    Value,
    EventOfContext,
    EventOfAnotherContext,
    EventOfGreenContext,
}

/// What comes between that and the launch.
#[derive(Clone, Copy, Debug)]
enum Between {
    Nothing,
    Fill,
    Write,
    Record,
    HostFunction,
    SatisfiedWait,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Where {
    Stream,
    LegacyStream,
    StreamOfAnotherContext,
    GreenStream,
}

/// Which of the nodes is disabled, a fill and another one, or a copy and a fill.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Disabled {
    Neither,
    First,
    Second,
    Copy,
    EnabledAgain,
}

const SOURCE: u64 = 64;
const FIRST: u64 = 128;
const SECOND: u64 = 192;
const SCRATCH: u64 = 256;

/// The streams and the memory of the cases.
struct Setup<'a> {
    gpu: &'a Gpu,
    /// A flag that is waited for, a source, two destinations and scratch memory, 64 bytes each.
    memory: DevicePointer,
    event: Live<'static, EventHandle>,
    end: Live<'static, EventHandle>,
    other: Live<'static, ContextHandle>,
    own: [Live<'static, StreamHandle>; 2],
    far: [Live<'static, StreamHandle>; 2],
    green: [Live<'static, StreamHandle>; 2],
    elsewhere: Live<'static, EventHandle>,
}

impl Setup<'_> {
    fn at(&self, offset: u64) -> DevicePointer {
        DevicePointer(self.memory.0 + offset)
    }

    /// What went wrong, if anything did.
    fn run(&self, place: Where, behind: Behind, between: Between, disabled: Disabled) -> Option<String> {
        let gpu = self.gpu;
        let (own, far): (Call<'_>, Call<'_>) = (gpu.context.into(), self.other.into());
        let [first, second] = [FIRST, SECOND].map(|offset| self.at(offset));
        gpu.upload(self.memory, &[0; 320]);
        gpu.upload(self.at(SOURCE), &[2; 64]);
        // SAFETY: every handle is made here or lives longer, and the work is waited for before what it uses is freed.
        unsafe {
            let graph = gpu.graph();
            let side = |address: DevicePointer| CopyPlace {
                address: address.0,
                host: false,
                pitch: 64,
                height: 1,
                origin: [0; 3],
            };
            let copy = Copy3d { source: side(self.at(SOURCE)), destination: side(first), extent: [64, 1, 1] };
            let work = if disabled == Disabled::Copy { NodeParameters::Copy(copy) } else { fill(first, 2, 16) };
            let one = gpu.node(graph, &[], &work);
            let two = gpu.node(graph, &[one], &fill(second, 2, 16));
            let executable = gpu.executable(graph);
            let enable = |node, enabled| {
                gpu.executable_set_node_enabled(&own, executable, live(node), enabled).expect("it can be disabled");
            };
            match disabled {
                Disabled::Neither => {}
                Disabled::First | Disabled::Copy => enable(one, false),
                Disabled::Second => enable(two, false),
                Disabled::EnabledAgain => [false, true].map(|enabled| enable(one, enabled)).into_iter().collect(),
            }

            let (stream, call) = match place {
                Where::Stream => (self.own[0], &own),
                Where::LegacyStream => (Live::LEGACY, &own),
                Where::StreamOfAnotherContext => (self.far[0], &far),
                Where::GreenStream => (self.green[0], &own),
            };
            let hold = |call: &Call<'_>, stream| {
                let (flag, wanted) = (self.memory, WaitValueFlags::GREATER_OR_EQUAL);
                gpu.stream_wait_value(call, stream, flag, Value::U32(1), wanted).expect("a value wait");
            };
            let follow = |held: &Call<'_>, stream_held, event| {
                hold(held, stream_held);
                gpu.event_record(held, event, stream_held, EventRecordFlags::empty()).expect("a record");
                gpu.stream_wait_event(call, stream, event, EventWaitFlags::empty()).expect("a wait");
            };
            match behind {
                Behind::Value => hold(call, stream),
                Behind::EventOfContext => follow(&own, self.own[1], self.event),
                Behind::EventOfAnotherContext => follow(&far, self.far[1], self.elsewhere),
                Behind::EventOfGreenContext => follow(&own, self.green[1], self.event),
            }
            let scratch = self.at(SCRATCH);
            match between {
                Between::Nothing => {}
                Between::Fill => gpu.fill_async(call, scratch, FillPattern::U32(3), 4, stream).expect("a fill"),
                Between::Write => {
                    gpu.stream_write_value(call, stream, scratch, Value::U32(3), WriteValueFlags::empty())
                        .expect("a write");
                }
                Between::Record => {
                    let end = if place == Where::StreamOfAnotherContext { self.elsewhere } else { self.end };
                    gpu.event_record(call, end, stream, EventRecordFlags::empty()).expect("a record");
                }
                Between::HostFunction => {
                    gpu.stream_launch_host_function(call, stream, HostWork::new(|| {})).expect("a host function");
                }
                Between::SatisfiedWait => {
                    let wanted = WaitValueFlags::GREATER_OR_EQUAL;
                    gpu.stream_wait_value(call, stream, scratch, Value::U32(0), wanted).expect("a value wait");
                }
            }
            gpu.executable_launch(call, executable, stream).expect("a launch");
            let end = if place == Where::StreamOfAnotherContext { self.elsewhere } else { self.end };
            gpu.event_record(call, end, stream, EventRecordFlags::empty()).expect("a record");
            std::thread::sleep(Duration::from_millis(3));
            let ended = gpu.event_query(call, end).is_ok();
            let read = || [first, second].map(|address| gpu.download(address, 4)[0]);
            let early = read() != [0, 0];
            let flag = Value::U32(1);
            gpu.stream_write_value(&own, gpu.stream, self.memory, flag, WriteValueFlags::empty()).expect("a write");
            gpu.event_synchronize(call, end).expect("the work succeeds");
            gpu.stream_synchronize(call, stream).expect("the work succeeds");
            let expected = match disabled {
                Disabled::Neither | Disabled::EnabledAgain => [2, 2],
                Disabled::First | Disabled::Copy => [0, 2],
                Disabled::Second => [2, 0],
            };
            let found = read();
            gpu.destroy(graph, &[executable]);
            let mut wrong = Vec::new();
            if early || ended {
                wrong.push(if ended { "early, and what came behind it".to_owned() } else { "early".to_owned() });
            }
            if found != expected {
                wrong.push(format!("{found:?} instead of {expected:?} in the end"));
            }
            (!wrong.is_empty()).then(|| format!("{between:?}: {}", wrong.join(", ")))
        }
    }
}

/// What went wrong in which cases, all of which are printed.
fn run_all(streams: &Setup<'_>, places: &[Where], before: &[Behind]) -> Vec<(Disabled, String)> {
    let mut wrong = Vec::new();
    for &place in places {
        for &behind in before {
            for disabled in
                [Disabled::Neither, Disabled::First, Disabled::Second, Disabled::Copy, Disabled::EnabledAgain]
            {
                let between = [
                    Between::Nothing,
                    Between::Fill,
                    Between::Write,
                    Between::Record,
                    Between::HostFunction,
                    Between::SatisfiedWait,
                ];
                let outcomes: Vec<String> =
                    between.into_iter().filter_map(|between| streams.run(place, behind, between, disabled)).collect();
                let case = format!("{place:?}, behind {behind:?}, disabled {disabled:?}");
                if outcomes.is_empty() {
                    println!("{case}: in its turn");
                } else {
                    let outcome = format!("{case}: {}", outcomes.join("; "));
                    println!("{outcome}");
                    wrong.push((disabled, outcome));
                }
            }
        }
    }
    wrong
}

/// The library relies on the order where the device has no other context, and disables no fills. What happens with disabled fills is
/// printed.
#[test]
fn graphs_with_disabled_copies_run_in_their_turn_in_a_context_alone() {
    let Some(gpu) = Gpu::find() else { return };
    let own: Call<'_> = gpu.context.into();
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let stream = || live(gpu.stream_create(&own, StreamFlags::NON_BLOCKING, 0).expect("a stream"));
        let event = || live(gpu.event_create(&own, EventFlags::DISABLE_TIMING).expect("an event"));
        let (memory, both) = (gpu.allocate(320), [stream(), stream()]);
        let (held, end) = (event(), event());
        let streams = Setup {
            gpu: &gpu,
            memory,
            event: held,
            end,
            other: gpu.context,
            own: both,
            far: both,
            green: both,
            elsewhere: held,
        };
        let places = [Where::Stream, Where::LegacyStream];
        let mut wrong = run_all(&streams, &places, &[Behind::Value, Behind::EventOfContext]);
        wrong.retain(|(disabled, _)| !matches!(disabled, Disabled::First | Disabled::Second));
        for stream in both {
            gpu.stream_destroy(&own, stream.handle()).expect("it is ours");
        }
        for event in [held, end] {
            gpu.event_destroy(&own, event.handle()).expect("it is ours");
        }
        gpu.free(&own, memory).expect("the memory is free to go");
        assert!(wrong.is_empty(), "these did not run in their turn: {wrong:#?}");
    }
}

/// The library launches none that has a disabled node where the device has other contexts.
#[test]
fn graphs_without_disabled_nodes_run_in_their_turn_beside_other_contexts() {
    let Some(gpu) = Gpu::find() else { return };
    let Ok(all) = gpu.device_multiprocessors(DEVICE) else { return eprintln!("skipped: there are no green contexts") };
    let own: Call<'_> = gpu.context.into();
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let other = live(gpu.context_create(DEVICE, ContextFlags::empty()).expect("a context"));
        let far: Call<'_> = other.into();
        let split = gpu.multiprocessors_split(&all, 1, 0, SplitFlags::empty()).expect("it has several");
        let green = live(gpu.green_context_create(DEVICE, &split.groups).expect("a green context"));
        let stream = |call: &Call<'_>| {
            [(); 2].map(|()| live(gpu.stream_create(call, StreamFlags::NON_BLOCKING, 0).expect("a stream")))
        };
        let greens = [(); 2]
            .map(|()| live(gpu.green_context_stream_create(green, StreamFlags::NON_BLOCKING, 0).expect("a stream")));
        let event = |call: &Call<'_>| live(gpu.event_create(call, EventFlags::DISABLE_TIMING).expect("an event"));
        let memory = gpu.allocate(320);
        let streams = Setup {
            gpu: &gpu,
            memory,
            event: event(&own),
            end: event(&own),
            other,
            own: stream(&own),
            far: stream(&far),
            green: greens,
            elsewhere: event(&far),
        };
        let places = [Where::Stream, Where::LegacyStream, Where::StreamOfAnotherContext, Where::GreenStream];
        let before =
            [Behind::Value, Behind::EventOfContext, Behind::EventOfAnotherContext, Behind::EventOfGreenContext];
        let mut wrong = run_all(&streams, &places, &before);
        wrong.retain(|(disabled, _)| *disabled == Disabled::Neither);
        for stream in [streams.own, streams.green].concat() {
            gpu.stream_destroy(&own, stream.handle()).expect("it is ours");
        }
        for event in [streams.event, streams.end] {
            gpu.event_destroy(&own, event.handle()).expect("it is ours");
        }
        gpu.free(&own, memory).expect("the memory is free to go");
        gpu.green_context_destroy(green.handle()).expect("it is ours");
        gpu.context_destroy(&far).expect("it is ours");
        assert!(wrong.is_empty(), "these did not run in their turn: {wrong:#?}");
    }
}
