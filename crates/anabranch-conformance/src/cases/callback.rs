//! Callbacks, the older kind of host function.

use super::order_tools::Log;
use super::order_trace::{Trace, settle};
use crate::case::{Case, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::{Gate, quiesce};
use anabranch::{Capabilities, Status};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::channel;

const BACKGROUND: &[Need] = &[Need::Capability(Capabilities::BACKGROUND_PROGRESS)];

pub(super) const CASES: &[Case] = &[
    Case::new("callback.runs_once_with_success", "H2", runs_once_with_success),
    Case::new("callback.runs_after_earlier_work", "H2", runs_after_earlier_work),
    Case::new("callback.holds_later_work_up", "H2", holds_later_work_up).needs(BACKGROUND),
    Case::new("callback.is_ordered_with_host_functions", "H2", is_ordered_with_host_functions),
    Case::new("callback.may_not_call_the_driver", "H2", may_not_call_the_driver),
    Case::new("callback.runs_when_its_stream_is_destroyed", "H2", runs_when_its_stream_is_destroyed).needs(BACKGROUND),
    Case::new("callback.sees_earlier_work", "H3", sees_earlier_work),
];

fn runs_once_with_success(environment: &Environment) -> Verdict {
    let (stream, statuses) = (environment.stream()?, Arc::new(Mutex::new(Vec::new())));
    for _ in 0..3 {
        let statuses = statuses.clone();
        stream.add_callback(move |_, status| statuses.lock().push(status))?;
    }
    stream.synchronize()?;
    environment.context().synchronize()?;
    equal("the statuses that they received", statuses.lock().clone(), vec![Status::SUCCESS; 3])
}

fn runs_after_earlier_work(environment: &Environment) -> Verdict {
    let (stream, idle, log) = (environment.stream()?, environment.stream()?, Log::default());
    let gate = Gate::shut(environment, &stream)?;
    let inside = log.clone();
    stream.add_callback(move |_, _| inside.push(1))?;
    settle(&idle)?;
    equal("what has run while the gate is shut", log.numbers(), vec![])?;
    gate.open();
    stream.synchronize()?;
    equal("what has run", log.numbers(), vec![1])
}

fn holds_later_work_up(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let stream = environment.stream()?;
    let ((start, started), (end, ended)) = (channel(), channel::<()>());
    quiesce(environment)?;
    stream.add_callback(move |_, _| {
        let _ = start.send(());
        let _ = ended.recv();
    })?;
    trace.append(&stream, 1)?;
    holds("the callback runs", started.recv().is_ok())?;
    for _ in 0..4 {
        equal("the number while the callback runs", trace.read()?, 0)?;
    }
    equal("querying the stream", stream.query()?, false)?;
    drop(end);
    stream.synchronize()?;
    equal("the number afterwards", trace.read()?, 1)
}

fn is_ordered_with_host_functions(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    for number in 0..40 {
        if number % 2 == 0 {
            log.push_in(&stream, number)?;
        } else {
            let inside = log.clone();
            stream.add_callback(move |_, _| inside.push(number))?;
        }
    }
    stream.synchronize()?;
    equal("the order", log.numbers(), (0..40).collect())
}

fn may_not_call_the_driver(environment: &Environment) -> Verdict {
    let (stream, context) = (environment.stream()?, environment.context().clone());
    let (sender, receiver) = channel();
    stream.add_callback(move |_, _| {
        let _ = sender.send((context.create_event().map(drop), context.synchronize()));
    })?;
    stream.synchronize()?;
    let Ok((made, waited)) = receiver.recv() else { return holds("the callback runs to its end", false) };
    refused("creating an event", made, Status::NOT_PERMITTED)?;
    refused("synchronizing the context", waited, Status::NOT_PERMITTED)
}

fn runs_when_its_stream_is_destroyed(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (sender, receiver) = channel();
    let gate = Gate::shut(environment, &stream)?;
    stream.add_callback(move |_, status| {
        let _ = sender.send(status);
    })?;
    drop(stream);
    gate.open();
    equal("the status that it received", receiver.recv().ok(), Some(Status::SUCCESS))
}

fn sees_earlier_work(environment: &Environment) -> Verdict {
    let (stream, word) = (environment.stream()?, Arc::new(environment.context().create_signal()?));
    let (seen, (sender, receiver)) = (word.clone(), channel());
    super::order_tools::spin(environment, &stream, 1)?;
    stream.write_signal(&word, 6)?;
    stream.add_callback(move |_, _| {
        let _ = sender.send(seen.get());
    })?;
    stream.synchronize()?;
    equal("what the callback sees", receiver.recv().ok(), Some(6))
}
