//! Priorities of streams.

use super::order_tools::does_not_wait;
use super::order_trace::Trace;
use crate::case::{Case, Verdict, equal, holds};
use crate::environment::Environment;
use anabranch::{LaunchConfig, StreamFlags};

pub(super) const CASES: &[Case] = &[
    Case::new("priority.range_makes_sense", "S4", range_makes_sense),
    Case::new("priority.is_clamped", "S4", is_clamped),
    Case::new("priority.default_is_the_least_urgent", "S4", default_is_the_least_urgent),
    Case::new("priority.is_clamped_for_blocking_streams", "S4", is_clamped_for_blocking_streams),
    Case::new("priority.does_not_order", "S4", does_not_order),
    Case::new("priority.does_not_reorder_a_stream", "S4", does_not_reorder_a_stream),
    Case::new("priority.of_a_launch_changes_no_result", "S4", of_a_launch_changes_no_result),
];

fn range_makes_sense(environment: &Environment) -> Verdict {
    let range = environment.device().stream_priority_range();
    equal("the least urgent", range.least, 0)?;
    holds("the most urgent is no larger", range.greatest <= range.least)
}

fn clamped(environment: &Environment, flags: StreamFlags) -> Verdict {
    let range = environment.device().stream_priority_range();
    for asked in [-100, -6, -5, -3, -1, 0, 1, 5, 100] {
        let stream = environment.context().create_stream_with_priority(flags, asked)?;
        equal(
            &format!("the priority, {asked} requested"),
            stream.priority()?,
            asked.clamp(range.greatest, range.least),
        )?;
        equal("the flags", stream.flags()?, flags)?;
    }
    Ok(())
}

fn is_clamped(environment: &Environment) -> Verdict {
    clamped(environment, StreamFlags::NON_BLOCKING)
}

fn is_clamped_for_blocking_streams(environment: &Environment) -> Verdict {
    clamped(environment, StreamFlags::empty())
}

fn default_is_the_least_urgent(environment: &Environment) -> Verdict {
    equal("of a stream created without one", environment.stream()?.priority()?, 0)
}

fn does_not_order(environment: &Environment) -> Verdict {
    let range = environment.device().stream_priority_range();
    let (context, flags) = (environment.context(), StreamFlags::NON_BLOCKING);
    let urgent = context.create_stream_with_priority(flags, range.greatest)?;
    let idle = context.create_stream_with_priority(flags, range.least)?;
    does_not_wait(environment, &urgent, &idle)?;
    does_not_wait(environment, &idle, &urgent)
}

fn does_not_reorder_a_stream(environment: &Environment) -> Verdict {
    let range = environment.device().stream_priority_range();
    let trace = Trace::new(environment)?;
    let stream = environment.context().create_stream_with_priority(StreamFlags::NON_BLOCKING, range.greatest)?;
    let other = environment.stream()?;
    for digit in 1..=6 {
        // The work alternates between an urgent stream and one that is not urgent.
        let (this, next) = if digit % 2 == 0 { (&stream, &other) } else { (&other, &stream) };
        trace.append(this, digit)?;
        next.wait_stream(this)?;
    }
    stream.synchronize()?;
    other.synchronize()?;
    equal("the order", trace.read()?, 123_456)
}

fn of_a_launch_changes_no_result(environment: &Environment) -> Verdict {
    let (stream, add) = (environment.stream()?, environment.kernel("add")?);
    let mut word = stream.allocate_zeroed::<u32>(1)?;
    for (digit, priority) in [(1u32, -100), (2, 100), (3, -5), (4, 0)] {
        // SAFETY: `add` accesses only the number that its first argument points to.
        unsafe { stream.launch(&add, &LaunchConfig::new(1, 1).priority(priority), (&mut word, 10u32, digit))? };
    }
    equal("the order", stream.download(&word)?, vec![1234])
}
