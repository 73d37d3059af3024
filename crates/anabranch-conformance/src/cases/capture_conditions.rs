//! Conditional parts of captures, and graphs that are captured as nodes.

use super::capture_tools::usable;
use crate::case::{Case, Need, Verdict, equal, refused};
use crate::environment::Environment;
use anabranch::{Buffer, CaptureMode, CaptureScope, Graph, Kernel, LaunchConfig, Result, Status, Stream};

const SETTING: &[Need] = &[Need::ConditionalSetting];

pub(super) const CASES: &[Case] = &[
    Case::new("capture.condition_if", "G1", condition_if).needs(SETTING),
    Case::new("capture.condition_if_else", "G1", condition_if_else).needs(SETTING),
    Case::new("capture.condition_switch", "G1", condition_switch).needs(SETTING),
    Case::new("capture.condition_while", "G1", condition_while).needs(SETTING),
    Case::new("capture.conditions_nest", "G1", conditions_nest).needs(SETTING),
    Case::new("capture.condition_among_forks", "G1", condition_among_forks).needs(SETTING),
    Case::new("capture.condition_that_fails", "C9", condition_that_fails).needs(SETTING),
    Case::new("capture.child_in_its_place", "G1", child_in_its_place),
    Case::new("capture.child_in_a_condition", "G1", child_in_a_condition).needs(SETTING),
    Case::new("capture.child_beside_a_condition", "G1", child_beside_a_condition).needs(SETTING),
    Case::new("capture.child_in_nested_conditions", "G1", child_in_nested_conditions).needs(SETTING),
];

/// Counters for the cases.
struct Counters<'e> {
    environment: &'e Environment,
    stream: Stream,
    add: Kernel,
}

impl<'e> Counters<'e> {
    fn new(environment: &'e Environment) -> Result<Self> {
        Ok(Self { environment, stream: environment.stream()?, add: environment.kernel("add")? })
    }

    fn number(&self, value: u32) -> Result<Buffer<u32>> {
        self.stream.upload(&[value])
    }

    fn read(&self, number: &Buffer<u32>) -> Result<u32> {
        Ok(self.stream.download(number)?.first().copied().unwrap_or_default())
    }

    /// Multiplies a number by a factor and adds a value.
    fn add<'n>(
        &self,
        stream: &Stream,
        number: impl Into<anabranch::BufferSliceMut<'n, u32>>,
        factor: u32,
        summand: u32,
    ) -> Result<()> {
        // SAFETY: `add` accesses only the number that its first argument points to.
        unsafe { stream.launch(&self.add, &LaunchConfig::new(1, 1), (number.into(), factor, summand)) }
    }
}

fn condition_if(environment: &Environment) -> Verdict {
    let counters = Counters::new(environment)?;
    let (mut wanted, mut result) = (counters.number(0)?, counters.number(0)?);
    let executable = counters.stream.capture_executable(CaptureMode::Global, |scope| {
        scope.capture_if(&wanted, |part| counters.add(part, &mut result, 10, 1))?;
        counters.add(scope, &mut result, 10, 2)
    })?;
    for value in [0, 1, 0, 7] {
        counters.stream.fill(&mut wanted, value)?;
        executable.launch(&counters.stream)?;
    }
    equal("the number", counters.read(&result)?, 212_212)?;
    usable(environment, &[&counters.stream])
}

fn condition_if_else(environment: &Environment) -> Verdict {
    let counters = Counters::new(environment)?;
    let (mut wanted, mut first, mut second) = (counters.number(0)?, counters.number(0)?, counters.number(0)?);
    let executable = counters.stream.capture_executable(CaptureMode::Global, |scope| {
        scope.capture_if_else(
            &wanted,
            |part| counters.add(part, &mut first, 1, 1),
            |part| counters.add(part, &mut second, 1, 1),
        )
    })?;
    for value in [0, 1, 0, 0] {
        counters.stream.fill(&mut wanted, value)?;
        executable.launch(&counters.stream)?;
    }
    equal("how often either part ran", (counters.read(&first)?, counters.read(&second)?), (1, 3))
}

fn condition_switch(environment: &Environment) -> Verdict {
    let counters = Counters::new(environment)?;
    let (mut value, mut first, mut second) = (counters.number(0)?, counters.number(0)?, counters.number(0)?);
    let executable = counters.stream.capture_executable(CaptureMode::Global, |scope| {
        scope.capture_switch(
            &value,
            &mut [&mut |part| counters.add(part, &mut first, 1, 1), &mut |part| counters.add(part, &mut second, 1, 1)],
        )
    })?;
    for chosen in [1, 5, 0, 1, 2] {
        counters.stream.fill(&mut value, chosen)?;
        executable.launch(&counters.stream)?;
    }
    equal("how often either part ran", (counters.read(&first)?, counters.read(&second)?), (1, 2))
}

fn condition_while(environment: &Environment) -> Verdict {
    let counters = Counters::new(environment)?;
    let (mut left, mut rounds) = (counters.number(5)?, counters.number(0)?);
    let executable = counters.stream.capture_executable(CaptureMode::Global, |scope| {
        scope.capture_while(&mut left, |part, left| {
            counters.add(part, &mut rounds, 1, 1)?;
            counters.add(part, left.reborrow(), 1, u32::MAX)
        })
    })?;
    executable.launch(&counters.stream)?;
    equal("the rounds of the first launch", (counters.read(&rounds)?, counters.read(&left)?), (5, 0))?;
    executable.launch(&counters.stream)?;
    equal("with nothing left", counters.read(&rounds)?, 5)?;
    counters.stream.fill(&mut left, 300u32)?;
    executable.launch(&counters.stream)?;
    equal("with more", counters.read(&rounds)?, 305)
}

fn conditions_nest(environment: &Environment) -> Verdict {
    let counters = Counters::new(environment)?;
    let (mut left, mut rounds) = (counters.number(4)?, counters.number(0)?);
    let (mut later, mut extra) = (counters.number(0)?, counters.number(0)?);
    let executable = counters.stream.capture_executable(CaptureMode::Global, |scope| {
        scope.capture_while(&mut left, |part, left| {
            counters.add(part, &mut rounds, 1, 1)?;
            part.capture_if(&later, |inner| counters.add(inner, &mut extra, 1, 10))?;
            part.fill(&mut later, 1u32)?;
            counters.add(part, left.reborrow(), 1, u32::MAX)
        })
    })?;
    executable.launch(&counters.stream)?;
    equal("the rounds, all and inside", (counters.read(&rounds)?, counters.read(&extra)?), (4, 30))
}

fn condition_among_forks(environment: &Environment) -> Verdict {
    let counters = Counters::new(environment)?;
    let (other, inside) = (environment.stream()?, environment.stream()?);
    let wanted = counters.number(1)?;
    let (mut first, mut second, mut third) = (counters.number(0)?, counters.number(0)?, counters.number(0)?);
    let executable = counters.stream.capture_executable(CaptureMode::Global, |scope| {
        scope.fork(&other)?;
        other.fill(&mut first, 1u32)?;
        scope.capture_if(&wanted, |part| {
            part.fork(&inside)?;
            part.copy(&mut second, &first)?;
            inside.copy(&mut third, &first)?;
            part.join(&inside)
        })?;
        other.fill(&mut first, 9u32)?;
        scope.join(&other)
    })?;
    for _ in 0..10 {
        executable.launch(&counters.stream)?;
        let found = [counters.read(&first)?, counters.read(&second)?, counters.read(&third)?];
        equal("the numbers", found, [9, 1, 1])?;
    }
    usable(environment, &[&counters.stream, &other, &inside])
}

/// A conditional part that fails does not affect the surrounding capture.
fn condition_that_fails(environment: &Environment) -> Verdict {
    let counters = Counters::new(environment)?;
    let (wanted, mut result, mut verdict) = (counters.number(1)?, counters.number(0)?, Ok(()));
    let executable = counters.stream.capture_executable(CaptureMode::Relaxed, |scope| {
        let failed = scope.capture_if(&wanted, |part| {
            part.fill(&mut result, 1u32)?;
            part.add_callback(|_, _| {})
        });
        verdict = refused("a callback inside", failed, Status::STREAM_CAPTURE_UNSUPPORTED);
        let fork = environment.stream()?;
        let unjoined = scope.capture_if(&wanted, |part| {
            part.fork(&fork)?;
            fork.fill(&mut result, 2u32)
        });
        verdict = verdict.clone().and(refused("a part left unjoined", unjoined, Status::STREAM_CAPTURE_UNJOINED));
        scope.fill(&mut result, 3u32)
    })?;
    verdict?;
    executable.launch(&counters.stream)?;
    equal("the number", counters.read(&result)?, 3)?;
    usable(counters.environment, &[&counters.stream])
}

/// A graph that is captured runs behind what its stream has captured, and before what it captures next.
fn child_in_its_place(environment: &Environment) -> Verdict {
    let counters = Counters::new(environment)?;
    let (other, mut result, mut beside) = (environment.stream()?, counters.number(0)?, counters.number(0)?);
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        let child = counters.stream.capture(mode, |scope| counters.add(scope, &mut result, 10, 2))?;
        let executable = counters.stream.capture_executable(mode, |scope| {
            scope.fork(&other)?;
            counters.add(&other, &mut beside, 1, 1)?;
            counters.add(scope, &mut result, 10, 1)?;
            scope.capture_child(&child)?;
            counters.add(scope, &mut result, 10, 3)?;
            scope.join(&other)
        })?;
        drop(child);
        counters.stream.fill(&mut result, 0)?;
        for _ in 0..3 {
            executable.launch(&counters.stream)?;
        }
        equal("the number", counters.read(&result)?, 123_123_123)?;
    }
    equal("the number beside it", counters.read(&beside)?, 9)?;
    usable(environment, &[&counters.stream, &other])
}

/// Runs a graph in a condition in a few ways, and returns what was added to the number.
fn run_child(
    environment: &Environment,
    capture: impl Fn(&CaptureScope<'_>, &Buffer<u32>, &Graph) -> Result<()>,
) -> Verdict {
    let counters = Counters::new(environment)?;
    let (mut wanted, mut result) = (counters.number(0)?, counters.number(0)?);
    let child = counters.stream.capture(CaptureMode::Global, |scope| counters.add(scope, &mut result, 10, 1))?;
    let executable = counters.stream.capture_executable(CaptureMode::Global, |scope| {
        capture(scope, &wanted, &child)?;
        counters.add(scope, &mut result, 10, 2)
    })?;
    drop(child);
    for value in [0, 1, 0] {
        counters.stream.fill(&mut wanted, value)?;
        executable.launch(&counters.stream)?;
    }
    equal("the number", counters.read(&result)?, 2122)?;
    usable(environment, &[&counters.stream])
}

fn child_in_a_condition(environment: &Environment) -> Verdict {
    run_child(environment, |scope, wanted, child| scope.capture_if(wanted, |part| part.capture_child(child)))
}

fn child_beside_a_condition(environment: &Environment) -> Verdict {
    let counters = Counters::new(environment)?;
    let (wanted, mut result) = (counters.number(1)?, counters.number(0)?);
    let child = counters.stream.capture(CaptureMode::Global, |scope| counters.add(scope, &mut result, 10, 1))?;
    let captured = counters.stream.capture(CaptureMode::Global, |scope| {
        // A part with conditions of its own is copied node by node.
        scope.capture_if(&wanted, |part| {
            part.capture_child(&child)?;
            part.capture_if(&wanted, |_| Ok(()))
        })
    });
    refused("a graph beside a condition", captured, Status::NOT_SUPPORTED)?;
    usable(environment, &[&counters.stream])
}

fn child_in_nested_conditions(environment: &Environment) -> Verdict {
    run_child(environment, |scope, wanted, child| {
        scope.capture_if(wanted, |part| part.capture_if(wanted, |inner| inner.capture_child(child)))
    })
}
