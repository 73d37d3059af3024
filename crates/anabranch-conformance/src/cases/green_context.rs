//! Green contexts: how multiprocessors are split, and the streams that run on a part of them.

use crate::case::{Case, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use anabranch::{
    Capabilities, CaptureMode, Context, ContextFlags, EventFlags, GreenContext, Result, Status, flush_deferred_drops,
};

const GREEN: &[Need] = &[Need::Capability(Capabilities::GREEN_CONTEXTS)];

pub(super) const CASES: &[Case] = &[
    Case::new("green_context.split", "S9", split).needs(GREEN),
    Case::new("green_context.split_refused", "S9", split_refused).needs(GREEN),
    Case::new("green_context.has_its_multiprocessors", "S9", has_its_multiprocessors).needs(GREEN),
    Case::new("green_context.refused", "S9", refused_contexts).needs(GREEN),
    Case::new("green_context.streams_are_of_the_primary_context", "S9", streams_are_of_the_primary_context)
        .needs(GREEN),
    Case::new("green_context.captured_work_outlives_it", "S9", captured_work_outlives_it).needs(GREEN),
];

fn primary(environment: &Environment) -> Result<Context> {
    environment.device().context()
}

/// A green context of the smallest group that there is.
fn smallest(context: &Context) -> Result<GreenContext> {
    let (groups, _) = context.device().multiprocessors()?.split(1, 0)?;
    context.create_green_context(&groups)
}

fn split(environment: &Environment) -> Verdict {
    let all = environment.device().multiprocessors()?;
    equal("all", all.count(), environment.device().properties().multiprocessor_count)?;
    for (wanted, minimum) in [(1, 0), (1, 1), (2, 1), (1, all.count() / 2), (1, all.count()), (10_000, 1)] {
        let (groups, remainder) = all.split(wanted, minimum)?;
        let size = groups.first().map_or(0, |group| group.count());
        let is_large_enough = size >= minimum.max(1) || groups.is_empty();
        holds(&format!("{wanted} of {minimum}: a group of {size}"), is_large_enough)?;
        holds("one size", groups.iter().all(|group| group.count() == size))?;
        holds("not more than asked for", groups.len() <= wanted as usize)?;
        let rest = remainder.map_or(0, |remainder| remainder.count());
        equal("together", groups.iter().map(|group| group.count()).sum::<u32>() + rest, all.count())?;
    }
    Ok(())
}

fn split_refused(environment: &Environment) -> Verdict {
    let all = environment.device().multiprocessors()?;
    refused("no groups", all.split(0, 1), Status::INVALID_VALUE)?;
    refused("too many", all.split(1, all.count() + 1), Status::INVALID_RESOURCE_CONFIGURATION)?;
    let (groups, _) = all.split(1, 0)?;
    if let [group, ..] = &groups[..] {
        refused("what was split", group.split(1, 0), Status::INVALID_RESOURCE_CONFIGURATION)?;
    }
    Ok(())
}

fn has_its_multiprocessors(environment: &Environment) -> Verdict {
    let context = primary(environment)?;
    let (groups, _) = environment.device().multiprocessors()?.split(1, 0)?;
    let green = context.create_green_context(&groups)?;
    let count = groups.iter().map(|group| group.count()).sum::<u32>();
    equal("the green context", green.multiprocessors()?.count(), count)?;
    let stream = green.create_stream()?;
    equal("its stream", stream.multiprocessors()?.count(), count)?;
    drop(green);
    equal("a stream keeps it", stream.multiprocessors()?.count(), count)?;
    let all = environment.device().multiprocessors()?.count();
    equal("another stream", context.create_stream()?.multiprocessors()?.count(), all)?;
    Ok(())
}

fn refused_contexts(environment: &Environment) -> Verdict {
    let context = primary(environment)?;
    let all = environment.device().multiprocessors()?;
    refused("of nothing", context.create_green_context([]), Status::INVALID_VALUE)?;
    let separate = environment.device().create_context(ContextFlags::empty())?;
    refused("of another context", separate.create_green_context([&all]), Status::INVALID_CONTEXT)
}

fn streams_are_of_the_primary_context(environment: &Environment) -> Verdict {
    let context = primary(environment)?;
    let green = smallest(&context)?;
    let (own, other) = (green.create_stream()?, context.create_stream()?);
    holds("the context", own.context() == context)?;
    holds("non-blocking", own.is_non_blocking()?)?;
    // Buffers and events, in both directions.
    let mut buffer = other.upload(&[1u32, 2, 3])?;
    own.fill(&mut buffer, 7u32)?;
    equal("filled", other.download(&buffer)?, vec![7; 3])?;
    let event = context.create_event_with_flags(EventFlags::DISABLE_TIMING)?;
    own.record(&event)?;
    other.wait_event(&event)?;
    other.synchronize()?;
    holds("the event", event.query()?)
}

fn captured_work_outlives_it(environment: &Environment) -> Verdict {
    let context = primary(environment)?;
    let green = smallest(&context)?;
    let own = green.create_stream()?;
    let mut buffer = own.upload(&[1u32, 2, 3])?;
    own.synchronize()?;
    let executable = own.capture_executable(CaptureMode::Global, |_| own.fill(&mut buffer, 5u32))?;
    drop((green, own));
    flush_deferred_drops();
    let other = context.create_stream()?;
    executable.launch(&other)?;
    equal("filled by the graph", other.download(&buffer)?, vec![5; 3])
}
