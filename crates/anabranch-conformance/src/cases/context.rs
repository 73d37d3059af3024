//! Contexts: synchronizing all work of one, and isolation between several.

use super::order_tools::{Log, spin};
use crate::case::{Case, Verdict, equal, holds, refused, status_of};
use crate::environment::Environment;
use crate::gate::Gate;
use crate::kernels;
use crate::live::Owner;
use anabranch::hal::Launch;
use anabranch::{ContextFlags, LaunchConfig, Status, StreamFlags, flush_deferred_drops};
use std::sync::mpsc::channel;
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case::new("context.synchronize_covers_non_blocking_streams", "S2", synchronize_covers_non_blocking_streams),
    Case::new("context.synchronize_covers_all_kinds_of_streams", "S2", synchronize_covers_all_kinds_of_streams),
    Case::new("context.synchronize_leaves_other_contexts_out", "S2", synchronize_leaves_other_contexts_out),
    Case::new("context.primary_is_one", "S5", primary_is_one),
    Case::new("context.own_one_is_another", "S5", own_one_is_another),
    Case::new("context.flags_of_waiting", "S2", flags_of_waiting),
    Case::new("context.stream_of_another_is_asked", "S2", stream_of_another_is_asked),
    Case::new("context.event_of_another_is_asked", "E5", event_of_another_is_asked),
    Case::new("context.kernel_of_another_is_refused", "X2", kernel_of_another_is_refused),
    Case::new("context.kernel_of_another_is_refused_by_the_driver", "X2", kernel_is_refused_by_the_driver),
    Case::new("context.memory_of_another_is_refused", "X2", memory_of_another_is_refused),
    Case::new("context.lives_as_long_as_its_stream", "S3", lives_as_long_as_its_stream),
    Case::new("context.work_is_completed_before_it_goes", "S3", work_is_completed_before_it_goes),
];

fn synchronize_covers_non_blocking_streams(environment: &Environment) -> Verdict {
    let (stream, done) = (environment.stream()?, environment.context().create_signal()?);
    spin(environment, &stream, 5)?;
    stream.write_signal(&done, 1)?;
    environment.context().synchronize()?;
    equal("what the stream writes last", done.get(), 1)
}

fn synchronize_covers_all_kinds_of_streams(environment: &Environment) -> Verdict {
    let (context, log) = (environment.context(), Log::default());
    let streams =
        [environment.stream()?, environment.blocking_stream()?, context.legacy_stream()?, context.per_thread_stream()?];
    for stream in &streams {
        spin(environment, stream, 1)?;
        log.push_in(stream, 1)?;
    }
    context.synchronize()?;
    equal("what has run", log.numbers(), vec![1; 4])
}

fn synchronize_leaves_other_contexts_out(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let stream = other.create_stream()?;
    let gate = Gate::shut(environment, &stream)?;
    environment.context().synchronize()?;
    equal("the other context's stream is still blocked", stream.query()?, false)?;
    gate.open();
    other.synchronize()?;
    holds("the other context's stream is complete", stream.query()?)
}

fn primary_is_one(environment: &Environment) -> Verdict {
    let again = environment.device().context()?;
    holds("opened again, it is the same", again == *environment.context())?;
    let (stream, event) = (again.create_stream()?, environment.context().create_event()?);
    stream.record(&event)?;
    stream.synchronize()?;
    drop(again);
    environment.context().synchronize()?;
    Ok(())
}

fn own_one_is_another(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    holds("it is not the primary one", other != *environment.context())?;
    let (own, foreign) = (environment.context().legacy_stream()?, other.legacy_stream()?);
    holds("their legacy streams differ", own != foreign && own.id() != foreign.id())
}

fn flags_of_waiting(environment: &Environment) -> Verdict {
    let all = [ContextFlags::SCHEDULE_SPIN, ContextFlags::SCHEDULE_YIELD, ContextFlags::SCHEDULE_BLOCKING_SYNC];
    for flags in all {
        let context = environment.device().create_context(flags)?;
        let stream = context.create_stream()?;
        equal("a round trip", stream.download(&stream.upload(&[1u32, 2])?)?, vec![1, 2])?;
        context.synchronize()?;
    }
    let unknown = environment.device().create_context(ContextFlags::from_bits_retain(0x4000_0000));
    refused("unknown flags", unknown, Status::INVALID_VALUE)
}

/// Queries and synchronization also take a context, which need not be that of the stream.
fn stream_of_another_is_asked(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let (stream, driver) = (other.create_stream()?, environment.device().driver());
    let (context, handle) = (environment.context().live(), stream.live());
    let gate = Gate::shut(environment, &stream)?;
    let pending = status_of(driver.stream_query(&context.into(), handle));
    gate.open();
    equal("synchronizing", status_of(driver.stream_synchronize(&context.into(), handle)), Status::SUCCESS)?;
    equal("querying while it is blocked", pending, Status::NOT_READY)?;
    equal("querying", status_of(driver.stream_query(&context.into(), handle)), Status::SUCCESS)
}

fn event_of_another_is_asked(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let (stream, driver) = (other.create_stream()?, environment.device().driver());
    let (event, context) = (stream.record_event()?, environment.context().live());
    let synchronized = driver.event_synchronize(&context.into(), event.live());
    equal("synchronizing", status_of(synchronized), Status::SUCCESS)?;
    equal("querying", status_of(driver.event_query(&context.into(), event.live())), Status::SUCCESS)
}

fn kernel_of_another_is_refused(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let (stream, kernel) = (other.create_stream()?, environment.kernel("spin")?);
    // SAFETY: `spin` takes a number and uses no memory.
    let launched = unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 1), (1u64,)) };
    refused("launching", launched, Status::INVALID_HANDLE)
}

fn kernel_is_refused_by_the_driver(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let (stream, kernel, nanoseconds) = (other.create_stream()?, environment.kernel("spin")?, 1u64);
    let launch = Launch {
        grid: [1, 1, 1],
        block: [1, 1, 1],
        cluster: None,
        dynamic_shared_bytes: 0,
        cooperative: false,
        priority: None,
        attributes: None,
        overlap: None,
        arguments: &[(&raw const nanoseconds).cast()],
        ranges: &[],
    };
    let driver = environment.device().driver();
    // SAFETY: all handles are live, and the arguments are those of `spin`, which uses no memory.
    let launched = unsafe { driver.launch(&other.live().into(), stream.live(), kernel.live(), &launch) };
    equal("launching", status_of(launched), Status::INVALID_HANDLE)?;
    stream.synchronize()?;
    Ok(())
}

fn memory_of_another_is_refused(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let (own, foreign) = (environment.stream()?, other.create_stream()?);
    let mut buffer = foreign.upload(&[1u32])?;
    refused("filling", own.fill(&mut buffer, 2), Status::INVALID_HANDLE)?;
    refused("downloading", own.download(&buffer), Status::INVALID_HANDLE)?;
    equal("its own stream reads it", foreign.download(&buffer)?, vec![1])
}

fn lives_as_long_as_its_stream(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let stream = other.create_stream_with_flags(StreamFlags::empty())?;
    drop(other);
    flush_deferred_drops();
    let buffer = stream.upload(&[4u32, 5])?;
    equal("a round trip", stream.download(&buffer)?, vec![4, 5])
}

fn work_is_completed_before_it_goes(environment: &Environment) -> Verdict {
    let (sender, receiver) = channel();
    let other = environment.device().create_context(ContextFlags::empty())?;
    let (module, stream) = (kernels::program().load(&other)?, other.create_stream()?);
    // SAFETY: `spin` takes a number of nanoseconds and uses no memory.
    unsafe { stream.launch(&module.kernel("spin")?, &LaunchConfig::new(1, 1), (2_000_000u64,))? };
    stream.launch_host_func(move || {
        let _ = sender.send(());
    })?;
    drop((stream, module, other));
    holds("the work queued last is run", receiver.recv_timeout(Duration::from_secs(30)).is_ok())
}
