//! Streams: order within one stream, concurrency of several streams, queries and synchronization.

use super::order_tools::spin;
use super::order_trace::Trace;
use crate::case::{Case, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::{FillPattern, LaunchConfig, Status, StreamFlags, WaitCondition};

pub(super) const CASES: &[Case] = &[
    Case::new("stream.kernels_run_in_order", "S1", kernels_run_in_order),
    Case::new("stream.work_of_all_kinds_runs_in_order", "S1", work_of_all_kinds_runs_in_order),
    Case::new("stream.streams_run_side_by_side", "S1", streams_run_side_by_side),
    Case::new("stream.one_held_up_leaves_others_alone", "S1", one_held_up_leaves_others_alone),
    Case::new("stream.new_one_is_complete", "S2", new_one_is_complete),
    Case::new("stream.query_pending", "S2", query_pending),
    Case::new("stream.true_query_is_a_synchronization", "S2", true_query_is_a_synchronization),
    Case::new("stream.synchronize_waits", "S2", synchronize_waits),
    Case::new("stream.synchronize_leaves_other_streams_out", "S2", synchronize_leaves_other_streams_out),
    Case::new("stream.several_threads_synchronize", "S2", several_threads_synchronize),
    Case::new("stream.shutdown_waits", "S2", shutdown_waits),
    Case::new("stream.flags_are_kept", "S2", flags_are_kept),
    Case::new("stream.unknown_flags_are_refused", "X2", unknown_flags_are_refused),
    Case::new("stream.refused_work_changes_nothing", "X2", refused_work_changes_nothing),
];

fn kernels_run_in_order(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let stream = environment.stream()?;
    let mut expected = 0u32;
    for value in 0..500 {
        trace.multiply_add(&stream, 31, value)?;
        expected = expected.wrapping_mul(31).wrapping_add(value);
    }
    stream.synchronize()?;
    equal("the result", trace.read()?, expected)
}

fn work_of_all_kinds_runs_in_order(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (mut word, mut copy) = (stream.allocate_zeroed::<u32>(1)?, stream.allocate_zeroed::<u32>(1)?);
    let (add, one) = (environment.kernel("add")?, LaunchConfig::new(1, 1));
    let mut expected = 0u32;
    let gate = Gate::shut(environment, &stream)?;
    for value in 1..60u32 {
        match value % 3 {
            // SAFETY: `add` accesses only the number that its first argument points to.
            0 => unsafe { stream.launch(&add, &one, (&mut word, 7u32, value))? },
            1 => stream.copy(&mut copy, &word)?,
            _ => stream.copy(&mut word, &copy)?,
        }
        if value % 3 == 0 {
            expected = expected.wrapping_mul(7).wrapping_add(value);
        }
        if value % 20 == 0 {
            stream.launch_host_func(|| ())?;
        }
        if value == 30 {
            stream.fill(&mut word, 5)?;
            expected = 5;
        }
    }
    gate.open();
    equal("the word", stream.download(&word)?, vec![expected])
}

/// Each of two streams waits for a value that the other stream writes.
fn streams_run_side_by_side(environment: &Environment) -> Verdict {
    let (left, right) = (environment.stream()?, environment.stream()?);
    let (from_left, from_right) = (environment.context().create_signal()?, environment.context().create_signal()?);
    left.wait_signal(&from_right, WaitCondition::GreaterOrEqual, 1)?;
    left.write_signal(&from_left, 2)?;
    right.write_signal(&from_right, 1)?;
    right.wait_signal(&from_left, WaitCondition::GreaterOrEqual, 2)?;
    right.write_signal(&from_right, 3)?;
    left.synchronize()?;
    right.synchronize()?;
    equal("what was written last", (from_left.get(), from_right.get()), (2, 3))
}

fn one_held_up_leaves_others_alone(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (held, other) = (environment.stream()?, environment.stream()?);
    let gate = Gate::shut(environment, &held)?;
    trace.append(&held, 9)?;
    for digit in 1..=4 {
        trace.append(&other, digit)?;
        other.synchronize()?;
    }
    equal("the number while the gate is shut", trace.read()?, 1234)?;
    gate.open();
    held.synchronize()?;
    equal("the number at the end", trace.read()?, 12349)
}

fn new_one_is_complete(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    holds("query", stream.query()?)?;
    stream.synchronize()?;
    Ok(())
}

fn query_pending(environment: &Environment) -> Verdict {
    for stream in [environment.stream()?, environment.blocking_stream()?] {
        let gate = Gate::shut(environment, &stream)?;
        equal("query while the stream has pending work", stream.query()?, false)?;
        equal("the same by its other name", stream.is_complete()?, false)?;
        gate.open();
        stream.synchronize()?;
        holds("query afterwards", stream.query()?)?;
    }
    Ok(())
}

fn true_query_is_a_synchronization(environment: &Environment) -> Verdict {
    let (stream, done) = (environment.stream()?, environment.context().create_signal()?);
    spin(environment, &stream, 1)?;
    stream.write_signal(&done, 1)?;
    while !stream.query()? {
        std::thread::yield_now();
    }
    equal("what the work wrote", done.get(), 1)
}

fn synchronize_waits(environment: &Environment) -> Verdict {
    let (stream, done) = (environment.stream()?, environment.context().create_signal()?);
    spin(environment, &stream, 5)?;
    stream.write_signal(&done, 1)?;
    stream.synchronize()?;
    equal("what the work wrote", done.get(), 1)
}

fn synchronize_leaves_other_streams_out(environment: &Environment) -> Verdict {
    for held in [environment.stream()?, environment.blocking_stream()?] {
        let other = environment.blocking_stream()?;
        let gate = Gate::shut(environment, &held)?;
        other.launch_host_func(|| ())?;
        other.synchronize()?;
        equal("the first stream still has pending work", held.query()?, false)?;
        gate.open();
        held.synchronize()?;
    }
    Ok(())
}

fn several_threads_synchronize(environment: &Environment) -> Verdict {
    let (stream, done) = (environment.stream()?, environment.context().create_signal()?);
    spin(environment, &stream, 5)?;
    stream.write_signal(&done, 1)?;
    let wait = || -> Verdict {
        stream.synchronize()?;
        equal("what the work wrote", done.get(), 1)
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(wait), scope.spawn(wait), scope.spawn(wait)];
        wait()?;
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| holds("no thread panics", false)))
    })
}

fn shutdown_waits(environment: &Environment) -> Verdict {
    let (stream, done) = (environment.stream()?, environment.context().create_signal()?);
    spin(environment, &stream, 5)?;
    stream.write_signal(&done, 1)?;
    stream.shutdown()?;
    equal("what the work wrote", done.get(), 1)
}

fn flags_are_kept(environment: &Environment) -> Verdict {
    equal("of a non-blocking stream", environment.stream()?.flags()?, StreamFlags::NON_BLOCKING)?;
    equal("of a blocking stream", environment.blocking_stream()?.flags()?, StreamFlags::empty())?;
    equal("a non-blocking stream is one", environment.stream()?.is_non_blocking()?, true)?;
    equal("a blocking stream is not", environment.blocking_stream()?.is_non_blocking()?, false)
}

fn unknown_flags_are_refused(environment: &Environment) -> Verdict {
    for bits in [0x2, 0x3, 0x8] {
        let created = environment.context().create_stream_with_flags(StreamFlags::from_bits_retain(bits));
        refused(&format!("flags {bits:#x}"), created, Status::INVALID_VALUE)?;
    }
    Ok(())
}

fn refused_work_changes_nothing(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (stream, kernel) = (environment.stream()?, environment.kernel("spin")?);
    trace.append(&stream, 1)?;
    // SAFETY: a grid without blocks runs nothing; the driver refuses it.
    let launched = unsafe { stream.launch(&kernel, &LaunchConfig::new(0, 1), (1u64,)) };
    refused("launching no blocks", launched, Status::INVALID_VALUE)?;
    // SAFETY: the driver refuses the null address.
    let filled = unsafe { stream.fill_raw(anabranch::DevicePointer::NULL, FillPattern::U8(1), 1) };
    refused("filling at the null address", filled, Status::INVALID_VALUE)?;
    trace.append(&stream, 2)?;
    stream.synchronize()?;
    equal("the order", trace.read()?, 12)
}
