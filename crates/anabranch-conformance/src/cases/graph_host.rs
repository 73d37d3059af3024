//! Host functions and values in graphs, pinned memory, and several threads.

use super::graph_tools::{add, chain, digit, graph_of, launch, note, word};
use super::order_tools::Log;
use super::order_trace::settle;
use crate::case::{Case, Failed, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::hal::Value;
use anabranch::{
    Capabilities, Context, ExecutableGraph, NodeWork, PinnedBuffer, Result, Status, ValueOperation, WaitCondition,
    WaitValueFlags, WriteValueFlags,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const BACKGROUND: &[Need] = &[Need::Capability(Capabilities::BACKGROUND_PROGRESS)];

pub(super) const CASES: &[Case] = &[
    Case::new("graph.host_node_runs_at_every_launch", "G7", host_node_runs_at_every_launch),
    Case::new("graph.host_node_sees_what_was_copied", "G7", host_node_sees_what_was_copied),
    Case::new("graph.host_nodes_in_order", "G7", host_nodes_in_order),
    Case::new("graph.host_node_holds_later_nodes_up", "G7", host_node_holds_later_nodes_up).needs(BACKGROUND),
    Case::new("graph.values_written_and_awaited", "G1", values_written_and_awaited),
    Case::new("graph.value_awaited_from_outside", "G1", value_awaited_from_outside),
    Case::new("graph.value_awaited_at_every_launch", "G1", value_awaited_at_every_launch),
    Case::new("graph.values_of_one_node_in_order", "G1", values_of_one_node_in_order),
    Case::new("graph.pinned_memory_that_a_graph_writes", "G8", pinned_memory_that_a_graph_writes),
    Case::new("graph.pinned_memory_that_a_graph_reads", "G8", pinned_memory_that_a_graph_reads),
    Case::new("graph.pinned_memory_when_the_graph_is_gone", "G8", pinned_memory_when_the_graph_is_gone),
    Case::new("graph.pinned_memory_while_a_launch_is_pending", "G8", pinned_memory_while_a_launch_is_pending),
    Case::new("graph.managed_memory_that_a_graph_writes", "G8", managed_memory_that_a_graph_writes)
        .needs(&[Need::Capability(Capabilities::MANAGED_MEMORY)]),
    Case::new("graph.threads_launch_one_executable", "G8", threads_launch_one_executable),
    Case::new("graph.threads_launch_and_change_one_executable", "G8", threads_launch_and_change_one_executable),
    Case::new("graph.threads_build_graphs_of_their_own", "G8", threads_build_graphs_of_their_own),
];

fn host_node_runs_at_every_launch(environment: &Environment) -> Verdict {
    let (stream, count) = (environment.stream()?, Arc::new(AtomicU32::new(0)));
    let inside = count.clone();
    let work = NodeWork::host_func(move || {
        inside.fetch_add(1, Ordering::SeqCst);
    });
    let graph = graph_of(environment, work)?;
    let (first, second) = (graph.instantiate()?, graph.try_clone()?.instantiate()?);
    for _ in 0..3 {
        first.launch(&stream)?;
        second.launch(&stream)?;
    }
    stream.synchronize()?;
    equal("how often it ran", count.load(Ordering::SeqCst), 6)
}

fn host_node_sees_what_was_copied(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut source = stream.upload(&[11u32; 4096])?;
    let mut pinned = environment.context().allocate_pinned::<u32>(4096)?;
    let seen = Arc::new(AtomicU32::new(0));
    let (address, inside) = (pinned.slice(4095..)?.device_pointer(), seen.clone());
    let look = NodeWork::host_func(move || {
        // SAFETY: the pinned memory lives until the case has synchronized, and only the node before writes it.
        let number = unsafe { AtomicU32::from_ptr(address.0 as usize as *mut u32) }.load(Ordering::Relaxed);
        inside.store(number, Ordering::SeqCst);
    });
    let mut graph = environment.context().create_graph()?;
    chain(&mut graph, [NodeWork::copy(&mut pinned, &source)?, look])?;
    let executable = graph.instantiate()?;
    for value in [11, 12] {
        stream.fill(&mut source, value)?;
        launch(&executable, &stream)?;
        equal("what the host function saw", seen.load(Ordering::SeqCst), value)?;
    }
    Ok(())
}

fn host_nodes_in_order(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    let mut graph = environment.context().create_graph()?;
    chain(&mut graph, (0..200).map(|number| note(&log, number)))?;
    let executable = graph.instantiate()?;
    executable.launch(&stream)?;
    executable.launch(&stream)?;
    stream.synchronize()?;
    equal("the order", log.numbers(), (0..200).chain(0..200).collect())
}

fn host_node_holds_later_nodes_up(environment: &Environment) -> Verdict {
    let (stream, idle, log) = (environment.stream()?, environment.stream()?, Log::default());
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = parking_lot::Mutex::new(ended);
    let wait = NodeWork::host_func(move || {
        // An error means that the case has ended. The function then ends too.
        let _ = ended.lock().recv();
    });
    let mut graph = environment.context().create_graph()?;
    chain(&mut graph, [wait, note(&log, 1)])?;
    let executable = graph.instantiate()?;
    crate::gate::quiesce(environment)?;
    executable.launch(&stream)?;
    let mut word = idle.allocate_zeroed::<u32>(1)?;
    // Each read takes several round trips of another stream.
    for value in 0..4u32 {
        idle.fill(&mut word, value)?;
        equal("another stream's work", idle.download(&word)?, vec![value])?;
    }
    let early = log.numbers();
    let _ = end.send(());
    stream.synchronize()?;
    equal("what has run while the host function runs", early, vec![])?;
    equal("what has run", log.numbers(), vec![1])
}

fn values_written_and_awaited(environment: &Environment) -> Verdict {
    let (stream, signal) = (environment.stream()?, environment.context().create_signal()?);
    let log = Log::default();
    let mut graph = environment.context().create_graph()?;
    let works = [
        NodeWork::write_signal(&signal, 1 << 40),
        NodeWork::wait_signal(&signal, WaitCondition::Equal, 1 << 40),
        note(&log, 1),
    ];
    chain(&mut graph, works)?;
    launch(&graph.instantiate()?, &stream)?;
    equal("the value", signal.get(), 1 << 40)?;
    equal("what has run", log.numbers(), vec![1])
}

fn value_awaited_from_outside(environment: &Environment) -> Verdict {
    let (stream, idle, log) = (environment.stream()?, environment.stream()?, Log::default());
    let gate = Gate::new(environment)?;
    let mut graph = environment.context().create_graph()?;
    chain(&mut graph, [note(&log, 1), gate.node(), note(&log, 2)])?;
    let executable = graph.instantiate()?;
    executable.launch(&stream)?;
    settle(&idle)?;
    equal("querying the stream while the gate is shut", stream.query()?, false)?;
    holds("later nodes have not run", !log.numbers().contains(&2))?;
    gate.open();
    stream.synchronize()?;
    equal("what has run", log.numbers(), vec![1, 2])
}

fn value_awaited_at_every_launch(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    let gate = Gate::new(environment)?;
    let mut graph = environment.context().create_graph()?;
    chain(&mut graph, [gate.node(), note(&log, 1)])?;
    let executable = graph.instantiate()?;
    for _ in 0..3 {
        executable.launch(&stream)?;
    }
    equal("what has run while the gate is shut", log.numbers(), vec![])?;
    gate.open();
    stream.synchronize()?;
    executable.launch(&stream)?;
    stream.synchronize()?;
    equal("what has run", log.numbers(), vec![1; 4])
}

fn values_of_one_node_in_order(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    // The driver does not accept stream-ordered memory here.
    let words = environment.context().allocate_zeroed::<u32>(&stream, 2)?;
    stream.synchronize()?;
    let first = words.device_pointer();
    let second = words.slice(1..)?.device_pointer();
    let write =
        |address, value| ValueOperation::Write { address, value: Value::U32(value), flags: WriteValueFlags::empty() };
    let wait =
        |address, value| ValueOperation::Wait { address, value: Value::U32(value), flags: WaitValueFlags::EQUAL };
    let operations = vec![write(first, 3), wait(first, 3), write(second, 4), wait(second, 4), write(first, 5)];
    // SAFETY: the numbers outlive the launch.
    let graph = graph_of(environment, unsafe { NodeWork::value_operations(operations) })?;
    launch(&graph.instantiate()?, &stream)?;
    equal("the values", stream.download(&words)?, vec![5, 4])
}

/// An executable graph that copies 100 numbers to pinned memory.
fn to_pinned(environment: &Environment) -> Result<(ExecutableGraph, PinnedBuffer<u32>)> {
    let source = environment.stream()?.upload(&[6u32; 100])?;
    let mut pinned = environment.context().allocate_pinned::<u32>(100)?;
    let executable = graph_of(environment, NodeWork::copy(&mut pinned, &source)?)?.instantiate()?;
    Ok((executable, pinned))
}

fn pinned_memory_that_a_graph_writes(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (executable, mut pinned) = to_pinned(environment)?;
    refused("a slice", pinned.as_slice(), Status::ILLEGAL_STATE)?;
    refused("a slice to write", pinned.as_mut_slice(), Status::ILLEGAL_STATE)?;
    pinned.write(|numbers| numbers.fill(1))?;
    let inside = pinned.read(|numbers| (numbers.to_vec(), executable.launch(&stream)))?;
    equal("what is read before a launch", inside.0, vec![1; 100])?;
    refused("a launch while it is read", inside.1, Status::ILLEGAL_STATE)?;
    let inside = pinned.write(|_| executable.launch(&stream))?;
    refused("a launch while it is written", inside, Status::ILLEGAL_STATE)?;
    executable.launch(&stream)?;
    equal("what is read after a launch", pinned.read(<[u32]>::to_vec)?, vec![6; 100])
}

fn pinned_memory_that_a_graph_reads(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut pinned = environment.context().allocate_pinned::<u32>(100)?;
    pinned.as_mut_slice()?.fill(4);
    let mut device = stream.allocate_zeroed::<u32>(100)?;
    let executable = graph_of(environment, NodeWork::copy(&mut device, &pinned)?)?.instantiate()?;
    equal("a slice to read", pinned.as_slice()?.to_vec(), vec![4; 100])?;
    refused("a slice to write", pinned.as_mut_slice(), Status::ILLEGAL_STATE)?;
    pinned.read(|_| executable.launch(&stream))??;
    equal("what was copied", stream.download(&device)?, vec![4; 100])?;
    let inside = pinned.write(|_| executable.launch(&stream))?;
    refused("a launch while it is written", inside, Status::ILLEGAL_STATE)?;
    pinned.write(|numbers| numbers.fill(5))?;
    executable.launch(&stream)?;
    equal("what was copied later", stream.download(&device)?, vec![5; 100])
}

fn pinned_memory_when_the_graph_is_gone(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (executable, mut pinned) = to_pinned(environment)?;
    executable.launch(&stream)?;
    drop(executable);
    stream.synchronize()?;
    // A driver may release what a graph retained a moment after its last launch.
    for _ in 0..5000 {
        environment.context().synchronize()?;
        anabranch::flush_deferred_drops();
        if pinned.as_mut_slice().is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    equal("a slice to read", pinned.as_slice()?.to_vec(), vec![6; 100])?;
    pinned.as_mut_slice()?.fill(1);
    Ok(())
}

fn pinned_memory_while_a_launch_is_pending(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (executable, pinned) = to_pinned(environment)?;
    let gate = Gate::shut(environment, &stream)?;
    executable.launch(&stream)?;
    equal("idle while the gate is shut", pinned.is_idle()?, false)?;
    let numbers = super::memory_gate::opened_during(&gate, || pinned.read(<[u32]>::to_vec))?;
    equal("what is read", numbers, vec![6; 100])?;
    Ok(stream.synchronize()?)
}

fn managed_memory_that_a_graph_writes(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let source = stream.upload(&[6u32; 100])?;
    let mut managed = environment.context().allocate_managed::<u32>(100)?;
    let executable = graph_of(environment, NodeWork::copy(&mut managed, &source)?)?.instantiate()?;
    refused("a slice", managed.as_slice(), Status::ILLEGAL_STATE)?;
    let inside = managed.read(|_| executable.launch(&stream))?;
    refused("a launch while it is read", inside, Status::ILLEGAL_STATE)?;
    launch(&executable, &stream)?;
    equal("what is read after a launch", managed.read(<[u32]>::to_vec)?, vec![6; 100])
}

const THREADS: u32 = 4;
const LAUNCHES: u32 = 50;

/// Runs `body` on several threads at the same time.
fn on_threads(body: impl Fn(u32) -> Verdict + Sync) -> Verdict {
    let body = &body;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || body(thread))).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(verdict) => verdict,
            Err(_) => Err(Failed("a thread panicked".to_owned())),
        })
    })
}

fn threads_launch_one_executable(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let executable = graph_of(environment, add(environment, &mut word, 1, 1)?)?.instantiate()?;
    on_threads(|thread| {
        let own = environment.stream()?;
        for number in 0..LAUNCHES {
            executable.launch(if (thread + number) % 2 == 0 { &own } else { &stream })?;
        }
        Ok(own.synchronize()?)
    })?;
    equal("the number", stream.download(&word)?, vec![THREADS * LAUNCHES])
}

fn threads_launch_and_change_one_executable(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), add(environment, &mut word, 1, 1)?)?;
    let executable = graph.instantiate()?;
    let words = parking_lot::Mutex::new(word);
    on_threads(|thread| {
        let own = environment.stream()?;
        for number in 0..LAUNCHES {
            match (thread, number % 5) {
                (0, 0) => executable.set_node(node, add(environment, &mut words.lock(), 1, 1)?)?,
                (0, 2) => executable.set_node_enabled(node, true)?,
                (1, 0) => executable.update(&graph).map_err(|error| error.error().clone())?,
                _ => {}
            }
            executable.launch(&own)?;
        }
        Ok(own.synchronize()?)
    })?;
    equal("the number", stream.download(&*words.lock())?, vec![THREADS * LAUNCHES])
}

fn threads_build_graphs_of_their_own(environment: &Environment) -> Verdict {
    let context: &Context = environment.context();
    on_threads(|thread| {
        let (stream, mut word) = word(environment)?;
        for _ in 0..10 {
            let mut graph = context.create_graph()?;
            let works = [digit(environment, &mut word, thread + 1)?, digit(environment, &mut word, 5)?];
            chain(&mut graph, works)?;
            stream.fill_zero(&mut word)?;
            launch(&graph.try_clone()?.instantiate()?, &stream)?;
            equal("the number", stream.download(&word)?, vec![(thread + 1) * 10 + 5])?;
        }
        Ok(())
    })
}
