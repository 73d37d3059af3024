//! Order in larger patterns: forks, joins, threads, and order that the library establishes.

use super::order_tools::Log;
use super::order_trace::{Trace, settle};
use crate::case::{Case, Failed, Verdict, equal, holds};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::{EventFlags, LaunchConfig};

pub(super) const CASES: &[Case] = &[
    Case::new("order.diamond", "E2", diamond),
    Case::new("order.diamond_of_buffers", "S1", diamond_of_buffers),
    Case::new("order.back_and_forth_with_one_event", "E2", back_and_forth_with_one_event),
    Case::new("order.round_of_four_streams", "E2", round_of_four_streams),
    Case::new("order.several_threads_into_one_stream", "S1", several_threads_into_one_stream),
    Case::new("order.several_threads_with_streams_of_their_own", "S1", several_threads_with_streams_of_their_own),
    Case::new("order.one_buffer_on_two_streams", "S1", one_buffer_on_two_streams),
    Case::new("order.readers_do_not_wait_for_each_other", "S1", readers_do_not_wait_for_each_other),
    Case::new("order.writer_waits_for_all_readers", "S1", writer_waits_for_all_readers),
];

fn diamond(environment: &Environment) -> Verdict {
    let (top, left, right) = (environment.stream()?, environment.stream()?, environment.stream()?);
    let (idle, log) = (environment.stream()?, Log::default());
    let gate = Gate::shut(environment, &top)?;
    log.push_in(&top, 1)?;
    let forked = top.record_event_with_flags(EventFlags::DISABLE_TIMING)?;
    for (stream, number) in [(&left, 2), (&right, 3)] {
        stream.wait_event(&forked)?;
        log.push_in(stream, number)?;
        top.wait_event(&stream.record_event()?)?;
    }
    log.push_in(&top, 4)?;
    settle(&idle)?;
    equal("what has run while the gate is shut", log.numbers(), vec![])?;
    gate.open();
    top.synchronize()?;
    let order = log.numbers();
    holds(&format!("{order:?} is an order of the diamond"), order == [1, 2, 3, 4] || order == [1, 3, 2, 4])
}

/// The same with buffers. The library establishes the order.
fn diamond_of_buffers(environment: &Environment) -> Verdict {
    const COUNT: u32 = 1024;
    let (top, left, right) = (environment.stream()?, environment.stream()?, environment.stream()?);
    let (scale, config) = (environment.kernel("scale")?, LaunchConfig::for_elements(COUNT));
    let mut source = top.allocate_zeroed::<f32>(COUNT as usize)?;
    let mut twice = left.allocate_zeroed::<f32>(COUNT as usize)?;
    let mut thrice = right.allocate_zeroed::<f32>(COUNT as usize)?;
    let gate = Gate::shut(environment, &top)?;
    top.fill(&mut source, 5.0)?;
    // SAFETY: `scale` reads and writes the given number of elements, and the buffers have that many.
    unsafe { left.launch(&scale, &config, (&mut twice, &source, 2.0f32, COUNT))? };
    // SAFETY: the buffers have the number of elements that `scale` is given.
    unsafe { right.launch(&scale, &config, (&mut thrice, &source, 3.0f32, COUNT))? };
    // SAFETY: the buffers have the number of elements that `scale` is given.
    unsafe { top.launch(&scale, &config, (&mut source, &twice, 10.0f32, COUNT))? };
    let (on_the_left, on_the_right) = (left.query(), right.query());
    gate.open();
    equal("the left side while the gate is shut", on_the_left?, false)?;
    equal("the right side while the gate is shut", on_the_right?, false)?;
    equal("three times five", top.download(&thrice)?, vec![15.0; COUNT as usize])?;
    equal("ten times two times five", top.download(&source)?, vec![100.0; COUNT as usize])
}

fn back_and_forth_with_one_event(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let streams = [environment.stream()?, environment.stream()?];
    let event = environment.context().create_event_with_flags(EventFlags::DISABLE_TIMING)?;
    let mut expected = 0u32;
    for number in 0..200u32 {
        let stream = &streams[number as usize % 2];
        stream.wait_event(&event)?;
        trace.multiply_add(stream, 17, number)?;
        stream.record(&event)?;
        expected = expected.wrapping_mul(17).wrapping_add(number);
    }
    event.synchronize()?;
    equal("the result", trace.read()?, expected)
}

fn round_of_four_streams(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let streams = [environment.stream()?, environment.stream()?, environment.stream()?, environment.stream()?];
    let mut expected = 0u32;
    for number in 0..80u32 {
        let (stream, next) = (&streams[number as usize % 4], &streams[(number as usize + 1) % 4]);
        trace.multiply_add(stream, 13, number)?;
        next.wait_stream(stream)?;
        expected = expected.wrapping_mul(13).wrapping_add(number);
    }
    streams.iter().try_for_each(anabranch::Stream::synchronize)?;
    equal("the result", trace.read()?, expected)
}

fn several_threads_into_one_stream(environment: &Environment) -> Verdict {
    const THREADS: u32 = 4;
    const EACH: u32 = 100;
    let (stream, log) = (environment.stream()?, Log::default());
    let put_in = |thread: u32| (0..EACH).try_for_each(|number| log.push_in(&stream, thread * EACH + number));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || put_in(thread))).collect();
        threads.into_iter().try_for_each(|thread| -> Verdict {
            thread.join().map_err(|_| Failed("a thread panicked".to_owned()))?.map_err(Failed::from)
        })
    })?;
    stream.synchronize()?;
    let numbers = log.numbers();
    equal("how many ran", numbers.len() as u32, THREADS * EACH)?;
    for thread in 0..THREADS {
        let own: Vec<u32> = numbers.iter().copied().filter(|number| number / EACH == thread).collect();
        equal("the order of one thread's", own, (thread * EACH..(thread + 1) * EACH).collect())?;
    }
    Ok(())
}

fn several_threads_with_streams_of_their_own(environment: &Environment) -> Verdict {
    let work = |thread: u32| -> Result<Vec<u32>, Failed> {
        let (stream, add) = (environment.stream()?, environment.kernel("add")?);
        let mut word = stream.upload(&[thread])?;
        for digit in 1..=4u32 {
            // SAFETY: `add` accesses only the number that its first argument points to.
            unsafe { stream.launch(&add, &LaunchConfig::new(1, 1), (&mut word, 10u32, digit))? };
        }
        Ok(stream.download(&word)?)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=4u32).map(|thread| (thread, scope.spawn(move || work(thread)))).collect();
        threads.into_iter().try_for_each(|(thread, handle)| {
            let found = handle.join().map_err(|_| Failed("a thread panicked".to_owned()))??;
            equal("a thread's result", found, vec![thread * 10_000 + 1234])
        })
    })
}

fn one_buffer_on_two_streams(environment: &Environment) -> Verdict {
    let (first, second, add) = (environment.stream()?, environment.stream()?, environment.kernel("add")?);
    let mut word = first.allocate_zeroed::<u32>(1)?;
    let gate = Gate::shut(environment, &first)?;
    for digit in 1..=8u32 {
        let stream = if digit % 2 == 1 { &first } else { &second };
        // SAFETY: `add` accesses only the number that its first argument points to.
        unsafe { stream.launch(&add, &LaunchConfig::new(1, 1), (&mut word, 10u32, digit))? };
    }
    let early = second.query();
    gate.open();
    equal("the second stream while the gate is shut", early?, false)?;
    equal("the order", second.download(&word)?, vec![12_345_678])
}

fn readers_do_not_wait_for_each_other(environment: &Environment) -> Verdict {
    let (held, other) = (environment.stream()?, environment.stream()?);
    let source = other.upload(&[1u32, 2, 3])?;
    let (mut first, mut second) = (held.allocate_zeroed::<u32>(3)?, other.allocate_zeroed::<u32>(3)?);
    let gate = Gate::shut(environment, &held)?;
    held.copy(&mut first, &source)?;
    other.copy(&mut second, &source)?;
    other.synchronize()?;
    equal("the first reader is still blocked", held.query()?, false)?;
    equal("what the second one read", other.download(&second)?, vec![1, 2, 3])?;
    gate.open();
    equal("what the first one read", held.download(&first)?, vec![1, 2, 3])
}

fn writer_waits_for_all_readers(environment: &Environment) -> Verdict {
    let (left, right, writer) = (environment.stream()?, environment.stream()?, environment.stream()?);
    let mut source = writer.upload(&[1u32; 16])?;
    let (mut on_the_left, mut on_the_right) = (left.allocate_zeroed::<u32>(16)?, right.allocate_zeroed::<u32>(16)?);
    let (near, far) = (Gate::shut(environment, &left)?, Gate::shut(environment, &right)?);
    left.copy(&mut on_the_left, &source)?;
    right.copy(&mut on_the_right, &source)?;
    writer.fill(&mut source, 9)?;
    near.open();
    left.synchronize()?;
    equal("the writer while one reader is blocked", writer.query()?, false)?;
    far.open();
    equal("what the writer wrote", writer.download(&source)?, vec![9; 16])?;
    equal("what the readers read", left.download(&on_the_left)?, vec![1; 16])?;
    equal("what the readers read", right.download(&on_the_right)?, vec![1; 16])
}
