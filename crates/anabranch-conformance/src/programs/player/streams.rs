//! Calls for streams and events.

use super::super::answer::{Answer, Outcome};
use super::super::call::{EventCall, StreamCall, WaitSpec};
use super::super::slots::{ContextSlot, DEFAULT_STREAMS, EventSlot, New, Patience, StreamSlot};
use super::harness::{MARK_COUNT, MARKS, OPEN};
use super::{Stage, plain, told};
use anabranch::hal::{
    self, DevicePointer, EventFlags, EventRecordFlags, EventWaitFlags, Helping, HostWork, RepeatableWork, Status,
    StreamAttribute, StreamAttributeKind, StreamFlags, SynchronizationPolicy, Value, WaitValueFlags, WriteValueFlags,
};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a query is repeated of what completes by itself, and of what is held up.
const COMPLETES: Duration = Duration::from_millis(500);
const HELD: Duration = Duration::from_micros(50);

/// Asks until the answer is certain.
fn query(patience: Patience, mut ask: impl FnMut() -> hal::Result<()>) -> Answer {
    // SAFETY: nothing is locked.
    let _helping = unsafe { Helping::enter() };
    let (start, mut result) = (Instant::now(), ask());
    let limit = match patience {
        Patience::Either => Duration::ZERO,
        Patience::Held => HELD,
        Patience::Completes => COMPLETES,
    };
    while is_not_ready(&result) && start.elapsed() < limit {
        std::thread::yield_now();
        result = ask();
    }
    if patience == Patience::Either { either(result) } else { plain(result) }
}

fn is_not_ready<T>(result: &hal::Result<T>) -> bool {
    result.as_ref().is_err_and(|failure| failure.status == Status::NOT_READY)
}

/// The answer to a query, where complete and not complete count as the same.
fn either(result: hal::Result<()>) -> Answer {
    if is_not_ready(&result) { Answer::new(Outcome::Status(0)) } else { plain(result) }
}

impl Stage {
    pub(super) fn stream_call(&mut self, call: &StreamCall) -> Option<Answer> {
        let driver = self.driver.clone();
        if let StreamCall::Create { stream: New(slot), context, flags, priority } = call {
            let call = self.harness.call(*context);
            let created = driver.stream_create(&call, StreamFlags::from_bits_retain(flags.0), *priority);
            return Some(told(created, |handle| {
                self.objects.add_stream(*slot, handle, *context);
                String::new()
            }));
        }
        if let StreamCall::ContextSynchronize { context } = call {
            return Some(plain(driver.context_synchronize(&self.harness.call(*context))));
        }
        if let StreamCall::Destroy { stream } = call {
            return self.destroy_stream(*stream);
        }
        let (stream, context) = self.objects.stream(call.stream()?)?;
        let made_in = &self.call_on(call.stream()?, context);
        Some(match call {
            StreamCall::Query { patience, .. } => query(*patience, || driver.stream_query(made_in, stream)),
            StreamCall::Synchronize { .. } => plain(driver.stream_synchronize(made_in, stream)),
            StreamCall::WaitEvent { event: slot, flags, .. } => {
                let (event, _) = self.objects.event(*slot)?;
                let flags = EventWaitFlags::from_bits_retain(flags.0);
                self.note_capture_of(*slot);
                plain(driver.stream_wait_event(made_in, stream, event, flags))
            }
            StreamCall::Flags { .. } => {
                told(driver.stream_flags(made_in, stream), |flags| format!("{:#x}", flags.bits()))
            }
            StreamCall::Priority { .. } => {
                told(driver.stream_priority(made_in, stream), |priority| priority.to_string())
            }
            StreamCall::Id { .. } => plain(driver.stream_id(made_in, stream).map(drop)),
            StreamCall::Context { .. } => told(driver.stream_context(made_in, stream), |found| {
                let own = [0, 1].map(ContextSlot);
                let known = own.into_iter().find(|&slot| self.harness.context(slot).handle == found);
                known.map_or("another".to_owned(), |slot| slot.to_string())
            }),
            StreamCall::Attribute { .. } => {
                let kind = StreamAttributeKind::SynchronizationPolicy;
                told(driver.stream_attribute(made_in, stream, kind), |value| match value {
                    StreamAttribute::SynchronizationPolicy(policy) => format!("{policy:?}"),
                    _ => String::new(),
                })
            }
            StreamCall::SetPolicy { stream: slot, policy } => {
                if slot.0 < DEFAULT_STREAMS {
                    // The stream of the second thread cannot be reset by the first.
                    if slot.is_per_thread() {
                        return None;
                    }
                    self.objects.policies.insert(*slot);
                }
                let policy = match policy {
                    0 => SynchronizationPolicy::Auto,
                    1 => SynchronizationPolicy::Spin,
                    2 => SynchronizationPolicy::Yield,
                    _ => SynchronizationPolicy::BlockingSync,
                };
                plain(driver.stream_set_attribute(made_in, stream, &StreamAttribute::SynchronizationPolicy(policy)))
            }
            StreamCall::HostFunction { number, repeatable, .. } => {
                let work = if *repeatable { HostWork::from(self.repeatable(*number)) } else { self.host_work(*number) };
                plain(driver.stream_launch_host_function(made_in, stream, work))
            }
            StreamCall::Callback { number, .. } => {
                let (sum, number) = (self.harness.host_sum.clone(), u64::from(*number));
                let callback = Box::new(move |status: Status| {
                    sum.fetch_add(number.wrapping_add(status.0.unsigned_abs().into()), Ordering::AcqRel);
                });
                plain(driver.stream_add_callback(made_in, stream, callback))
            }
            StreamCall::TakeFailure { .. } => plain(driver.stream_take_failure(made_in, stream)),
            StreamCall::WaitValue { what, .. } => {
                let address = match what {
                    WaitSpec::Gate(gate) => {
                        self.objects.gates.insert(*gate);
                        self.harness.gate(*gate)
                    }
                    WaitSpec::Open => self.harness.context(context).device.byte_add(OPEN),
                    WaitSpec::Odd => self.harness.context(context).device.byte_add(OPEN + 1),
                };
                let flags = WaitValueFlags::GREATER_OR_EQUAL;
                // SAFETY: the address is that of memory of the harness.
                plain(unsafe { driver.stream_wait_value(made_in, stream, address, Value::U32(1), flags) })
            }
            StreamCall::WriteGate { gate, .. } => {
                let address = self.harness.gate(*gate);
                let flags = WriteValueFlags::empty();
                // SAFETY: the address is that of memory of the harness.
                plain(unsafe { driver.stream_write_value(made_in, stream, address, Value::U32(1), flags) })
            }
            StreamCall::WriteValue { mark, .. } => {
                let (address, value) = self.mark(context, *mark);
                let flags = WriteValueFlags::empty();
                // SAFETY: the address is that of memory of the harness.
                plain(unsafe { driver.stream_write_value(made_in, stream, address, Value::U32(value), flags) })
            }
            StreamCall::Create { .. } | StreamCall::ContextSynchronize { .. } | StreamCall::Destroy { .. } => None?,
        })
    }

    /// Where a stream writes a number, and the number, which is always the same for that place.
    pub(super) fn mark(&self, context: ContextSlot, mark: u8) -> (DevicePointer, u32) {
        let mark = usize::from(mark) % MARK_COUNT;
        (self.harness.context(context).device.byte_add(MARKS + mark * 8), 100 + mark as u32)
    }

    /// A host function that runs once, and adds a number.
    fn host_work(&self, number: u32) -> HostWork {
        let sum = self.harness.host_sum.clone();
        HostWork::new(move || {
            sum.fetch_add(number.into(), Ordering::AcqRel);
        })
    }

    /// A host function that runs any number of times, until the program is over.
    pub(super) fn repeatable(&mut self, number: u32) -> RepeatableWork {
        let sum = self.harness.host_sum.clone();
        let work = RepeatableWork::new(move || {
            sum.fetch_add(number.into(), Ordering::AcqRel);
        });
        self.objects.host_work.push(work.clone());
        work
    }

    /// Notes that a capture may refer to an event.
    fn note_capture_of(&mut self, slot: Option<EventSlot>) {
        if let Some(event) = slot.and_then(|slot| self.objects.events.get_mut(&slot)) {
            event.is_in_graph |= !self.objects.captures.is_empty();
        }
    }

    fn destroy_stream(&mut self, slot: StreamSlot) -> Option<Answer> {
        let (handle, context) = self.objects.take_stream(slot)?;
        // SAFETY: the slot is empty now, so that nobody uses the stream any more.
        let answer = plain(unsafe { self.driver.stream_destroy(&self.call_on(slot, context), handle) });
        // A capture that began in it is over.
        self.capture_failed(slot);
        Some(answer)
    }

    pub(super) fn event_call(&mut self, call: &EventCall) -> Option<Answer> {
        let driver = self.driver.clone();
        Some(match call {
            EventCall::Create { event: New(slot), context, flags } => {
                let created = driver.event_create(&self.harness.call(*context), EventFlags::from_bits_retain(flags.0));
                told(created, |handle| {
                    self.objects.add_event(*slot, handle, *context);
                    String::new()
                })
            }
            EventCall::Destroy { event } => {
                if self.objects.events.get(event)?.is_in_graph {
                    return None;
                }
                let (handle, context) = self.objects.take_event(*event)?;
                // SAFETY: the slot is empty now, and no graph refers to the event.
                plain(unsafe { driver.event_destroy(&self.call_for(context), handle) })
            }
            EventCall::Record { event, stream, flags } => {
                let (handle, _) = self.objects.event(*event)?;
                let call = self.call_on(*stream, self.objects.stream(*stream)?.1);
                let (stream, _) = self.objects.stream(*stream)?;
                self.note_capture_of(*event);
                let flags = EventRecordFlags::from_bits_retain(flags.0);
                plain(driver.event_record(&call, handle, stream, flags))
            }
            EventCall::Query { event, patience } => {
                let (event, context) = self.objects.event(*event)?;
                let call = self.call_for(context);
                query(*patience, || driver.event_query(&call, event))
            }
            EventCall::Synchronize { event } => {
                let (event, context) = self.objects.event(*event)?;
                plain(driver.event_synchronize(&self.call_for(context), event))
            }
            EventCall::Elapsed { start, end } => {
                let (start, context) = self.objects.event(Some(*start))?;
                let (end, _) = self.objects.event(Some(*end))?;
                either(driver.event_elapsed(&self.call_for(context), start, end).map(drop))
            }
        })
    }
}

impl StreamCall {
    /// The stream that the call is made for.
    fn stream(&self) -> Option<StreamSlot> {
        match self {
            Self::Create { .. } | Self::ContextSynchronize { .. } => None,
            Self::Destroy { stream }
            | Self::Query { stream, .. }
            | Self::Synchronize { stream }
            | Self::WaitEvent { stream, .. }
            | Self::Flags { stream }
            | Self::Priority { stream }
            | Self::Id { stream }
            | Self::Context { stream }
            | Self::Attribute { stream, .. }
            | Self::SetPolicy { stream, .. }
            | Self::HostFunction { stream, .. }
            | Self::Callback { stream, .. }
            | Self::TakeFailure { stream }
            | Self::WaitValue { stream, .. }
            | Self::WriteGate { stream, .. }
            | Self::WriteValue { stream, .. } => Some(*stream),
        }
    }
}
