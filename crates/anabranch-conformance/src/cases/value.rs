//! Value waits and value writes.

use super::order_trace::settle;
use crate::case::{Case, Need, Verdict, equal, holds};
use crate::environment::Environment;
use crate::gate::{Gate, quiesce};
use anabranch::{
    Capabilities, DevicePointer, PinnedBuffer, Result, Stream, WaitCondition, WaitValueFlags, WriteValueFlags,
};
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) const CASES: &[Case] = &[
    Case::new("value.wait_greater_or_equal", "S6", wait_greater_or_equal),
    Case::new("value.wait_greater_or_equal_is_cyclic", "S6", wait_greater_or_equal_is_cyclic),
    Case::new("value.wait_equal", "S6", wait_equal),
    Case::new("value.wait_and", "S6", wait_and),
    Case::new("value.wait_nor", "S6", wait_nor).needs(NOR),
    Case::new("value.signal_greater_or_equal", "S6", signal_greater_or_equal).needs(WIDE),
    Case::new("value.signal_greater_or_equal_is_cyclic", "S6", signal_greater_or_equal_is_cyclic).needs(WIDE),
    Case::new("value.signal_equal", "S6", signal_equal).needs(WIDE),
    Case::new("value.signal_and", "S6", signal_and).needs(WIDE),
    Case::new("value.signal_nor", "S6", signal_nor).needs(WIDE_NOR),
    Case::new("value.write_leaves_neighbours_alone", "S6", write_leaves_neighbours_alone),
    Case::new("value.write_comes_after_earlier_work", "S6", write_comes_after_earlier_work),
    Case::new("value.writes_come_in_order", "S6", writes_come_in_order),
    Case::new("value.one_stream_releases_another", "S6", one_stream_releases_another),
    Case::new("value.wait_comes_before_the_write", "S6", wait_comes_before_the_write),
    Case::new("value.on_the_legacy_stream", "S6", on_the_legacy_stream),
    Case::new("value.on_the_per_thread_stream", "S6", on_the_per_thread_stream),
    Case::new("value.host_function_releases_a_stream", "S6", host_function_releases_a_stream),
    Case::new("value.event_behind_a_wait_is_pending", "S6", event_behind_a_wait_is_pending),
];

const NOR: &[Need] = &[Need::Capability(Capabilities::STREAM_WAIT_VALUE_NOR)];
const WIDE: &[Need] = &[Need::Capability(Capabilities::STREAM_VALUE_64)];
const WIDE_NOR: &[Need] =
    &[Need::Capability(Capabilities::STREAM_VALUE_64), Need::Capability(Capabilities::STREAM_WAIT_VALUE_NOR)];

/// A 32-bit number that the host and streams access.
struct Word {
    memory: PinnedBuffer<u32>,
}

impl Word {
    fn new(environment: &Environment, value: u32) -> Result<Self> {
        quiesce(environment)?;
        let word = Self { memory: environment.context().allocate_pinned(2)? };
        word.set(value);
        Ok(word)
    }

    fn address(&self) -> DevicePointer {
        self.memory.device_pointer()
    }

    fn atomic(&self) -> &AtomicU32 {
        // SAFETY: the memory is pinned, so the host can access it at its address. It is aligned and lives as long as
        // `self`. Only atomics and devices access it.
        unsafe { AtomicU32::from_ptr(self.address().0 as usize as *mut u32) }
    }

    fn set(&self, value: u32) {
        self.atomic().store(value, Ordering::SeqCst);
    }

    fn get(&self) -> u32 {
        self.atomic().load(Ordering::SeqCst)
    }

    fn wait_in(&self, stream: &Stream, value: u32, flags: WaitValueFlags) -> Result<()> {
        // SAFETY: the cases synchronize with the stream before the word is dropped.
        unsafe { stream.wait_value_32(self.address(), value, flags) }
    }

    fn write_in(&self, stream: &Stream, value: u32) -> Result<()> {
        // SAFETY: the cases synchronize with the stream before the word is dropped.
        unsafe { stream.write_value_32(self.address(), value, WriteValueFlags::empty()) }
    }
}

/// Checks that a wait for `value` does not delay the stream while the word is `satisfied`, delays it while the word is
/// `short`, and ends when the word then becomes `satisfied`.
fn check(environment: &Environment, flags: WaitValueFlags, value: u32, short: u32, satisfied: u32) -> Verdict {
    let (stream, idle, word) = (environment.stream()?, environment.stream()?, Word::new(environment, satisfied)?);
    word.wait_in(&stream, value, flags)?;
    stream.synchronize()?;
    word.set(short);
    word.wait_in(&stream, value, flags)?;
    let settled = settle(&idle);
    let complete = stream.query();
    word.set(satisfied);
    stream.synchronize()?;
    settled?;
    equal(&format!("query while the word is {short:#x}, {value:#x} awaited"), complete?, false)
}

fn wait_greater_or_equal(environment: &Environment) -> Verdict {
    let flags = WaitValueFlags::GREATER_OR_EQUAL;
    check(environment, flags, 5, 4, 5)?;
    check(environment, flags, 5, 0, 6)
}

fn wait_greater_or_equal_is_cyclic(environment: &Environment) -> Verdict {
    let flags = WaitValueFlags::GREATER_OR_EQUAL;
    check(environment, flags, u32::MAX, u32::MAX - 1, 3)?;
    check(environment, flags, 3, u32::MAX - 1, 4)?;
    check(environment, flags, 0, 0x8000_0000, 0x7fff_ffff)
}

fn wait_equal(environment: &Environment) -> Verdict {
    check(environment, WaitValueFlags::EQUAL, 5, 6, 5)?;
    check(environment, WaitValueFlags::EQUAL, 0, 1, 0)
}

fn wait_and(environment: &Environment) -> Verdict {
    check(environment, WaitValueFlags::AND, 0b0110, 0b1001, 0b0100)?;
    check(environment, WaitValueFlags::AND, 0x8000_0000, 0x7fff_ffff, u32::MAX)
}

fn wait_nor(environment: &Environment) -> Verdict {
    check(environment, WaitValueFlags::NOR, 0, u32::MAX, u32::MAX - 1)?;
    check(environment, WaitValueFlags::NOR, 0xffff_0000, 0x0000_ffff, 0x0000_fffe)
}

/// As [`check`], with a signal.
fn check_signal(
    environment: &Environment,
    condition: WaitCondition,
    value: u64,
    short: u64,
    satisfied: u64,
) -> Verdict {
    quiesce(environment)?;
    let (stream, idle) = (environment.stream()?, environment.stream()?);
    let signal = environment.context().create_signal()?;
    equal("a new signal", signal.get(), 0)?;
    signal.set(satisfied);
    stream.wait_signal(&signal, condition, value)?;
    stream.synchronize()?;
    signal.set(short);
    stream.wait_signal(&signal, condition, value)?;
    let settled = settle(&idle);
    let complete = stream.query();
    signal.set(satisfied);
    stream.synchronize()?;
    settled?;
    equal(&format!("query while the signal is {short:#x}, {value:#x} awaited"), complete?, false)
}

fn signal_greater_or_equal(environment: &Environment) -> Verdict {
    check_signal(environment, WaitCondition::GreaterOrEqual, 1 << 40, (1 << 40) - 1, 1 << 40)
}

fn signal_greater_or_equal_is_cyclic(environment: &Environment) -> Verdict {
    check_signal(environment, WaitCondition::GreaterOrEqual, u64::MAX, u64::MAX - 1, 3)?;
    check_signal(environment, WaitCondition::GreaterOrEqual, 3, u64::MAX - 1, 4)
}

fn signal_equal(environment: &Environment) -> Verdict {
    check_signal(environment, WaitCondition::Equal, 1 << 33, 1, 1 << 33)
}

fn signal_and(environment: &Environment) -> Verdict {
    check_signal(environment, WaitCondition::And, 1 << 50, (1 << 50) - 1, u64::MAX)
}

fn signal_nor(environment: &Environment) -> Verdict {
    check_signal(environment, WaitCondition::Nor, 0, u64::MAX, u64::MAX >> 1)
}

fn write_leaves_neighbours_alone(environment: &Environment) -> Verdict {
    let (stream, word) = (environment.stream()?, Word::new(environment, 0)?);
    word.write_in(&stream, u32::MAX)?;
    stream.synchronize()?;
    equal("both words", word.memory.as_slice()?, &[u32::MAX, 0])
}

fn write_comes_after_earlier_work(environment: &Environment) -> Verdict {
    let (stream, idle, word) = (environment.stream()?, environment.stream()?, Word::new(environment, 0)?);
    let gate = Gate::shut(environment, &stream)?;
    word.write_in(&stream, 9)?;
    let settled = settle(&idle);
    let early = word.get();
    gate.open();
    stream.synchronize()?;
    settled?;
    equal("the word while the gate is shut", early, 0)?;
    equal("the word afterwards", word.get(), 9)
}

fn writes_come_in_order(environment: &Environment) -> Verdict {
    let (stream, word) = (environment.stream()?, Word::new(environment, 0)?);
    for value in 1..=50 {
        word.write_in(&stream, value)?;
        // The condition is true only if the previous write was the last one.
        word.wait_in(&stream, value, WaitValueFlags::EQUAL)?;
    }
    stream.synchronize()?;
    equal("the last value", word.get(), 50)
}

fn one_stream_releases_another(environment: &Environment) -> Verdict {
    let (first, second) = (environment.stream()?, environment.stream()?);
    let (signal, word) = (environment.context().create_signal()?, environment.context().create_signal()?);
    second.wait_signal(&signal, WaitCondition::Equal, 7)?;
    second.write_signal(&word, 2)?;
    super::order_tools::spin(environment, &first, 1)?;
    first.write_signal(&word, 1)?;
    first.write_signal(&signal, 7)?;
    second.synchronize()?;
    equal("the last writer", word.get(), 2)?;
    first.synchronize()?;
    equal("the last writer, once both are done", word.get(), 2)
}

/// Work after a wait does not run early, even if the awaited write is in the same stream.
fn wait_comes_before_the_write(environment: &Environment) -> Verdict {
    let (stream, idle, word) = (environment.stream()?, environment.stream()?, Word::new(environment, 0)?);
    word.wait_in(&stream, 1, WaitValueFlags::EQUAL)?;
    word.write_in(&stream, 2)?;
    let settled = settle(&idle);
    let early = word.get();
    word.set(1);
    stream.synchronize()?;
    settled?;
    equal("the word during the wait", early, 0)?;
    equal("the word afterwards", word.get(), 2)
}

fn on_the_legacy_stream(environment: &Environment) -> Verdict {
    on(environment, &environment.context().legacy_stream()?)
}

fn on_the_per_thread_stream(environment: &Environment) -> Verdict {
    on(environment, &environment.context().per_thread_stream()?)
}

fn on(environment: &Environment, stream: &Stream) -> Verdict {
    let word = Word::new(environment, 0)?;
    word.wait_in(stream, 1, WaitValueFlags::GREATER_OR_EQUAL)?;
    word.write_in(stream, 5)?;
    let complete = stream.query();
    word.set(1);
    stream.synchronize()?;
    equal("query during the wait", complete?, false)?;
    equal("the word afterwards", word.get(), 5)
}

fn host_function_releases_a_stream(environment: &Environment) -> Verdict {
    let (first, second) = (environment.stream()?, environment.stream()?);
    let signal = std::sync::Arc::new(environment.context().create_signal()?);
    second.wait_signal(&signal, WaitCondition::GreaterOrEqual, 1)?;
    let inside = signal.clone();
    first.launch_host_func(move || inside.set(1))?;
    second.synchronize()?;
    first.synchronize()?;
    Ok(())
}

fn event_behind_a_wait_is_pending(environment: &Environment) -> Verdict {
    let (stream, word) = (environment.stream()?, Word::new(environment, 0)?);
    word.wait_in(&stream, 1, WaitValueFlags::EQUAL)?;
    let event = stream.record_event()?;
    let complete = event.query();
    word.set(1);
    event.synchronize()?;
    equal("query during the wait", complete?, false)?;
    holds("the stream is complete", stream.query()?)
}
