//! Helpers that check order, for several groups of cases.

use super::order_trace::Trace;
use crate::case::{Verdict, equal};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::{LaunchConfig, Result, Stream};
use parking_lot::Mutex;
use std::sync::Arc;

/// Checks that work submitted to `second` waits for work pending in `first`.
pub(super) fn waits(environment: &Environment, first: &Stream, second: &Stream) -> Verdict {
    let trace = Trace::new(environment)?;
    let gate = Gate::shut(environment, first)?;
    trace.append(first, 1)?;
    trace.append(second, 2)?;
    comes_second(&trace, &gate, first, second)
}

/// Checks that `second`, which appends a 2, waits for `first`, which appends a 1 after the gate.
pub(super) fn comes_second(trace: &Trace<'_>, gate: &Gate, first: &Stream, second: &Stream) -> Verdict {
    trace.is_untouched()?;
    equal("querying the second stream while the gate is shut", second.query()?, false)?;
    gate.open();
    second.synchronize()?;
    equal("the order, once the second stream is done", trace.read()?, 12)?;
    first.synchronize()?;
    Ok(())
}

/// Checks that work submitted to `second` does not wait for work pending in `first`.
pub(super) fn does_not_wait(environment: &Environment, first: &Stream, second: &Stream) -> Verdict {
    let trace = Trace::new(environment)?;
    let gate = Gate::shut(environment, first)?;
    trace.append(first, 1)?;
    trace.append(second, 2)?;
    comes_first(&trace, &gate, first, second)
}

/// Checks that `second`, which appends a 2, does not wait for `first`, which appends a 1 after the gate.
pub(super) fn comes_first(trace: &Trace<'_>, gate: &Gate, first: &Stream, second: &Stream) -> Verdict {
    second.synchronize()?;
    equal("the number while the gate is shut", trace.read()?, 2)?;
    equal("querying the first stream while the gate is shut", first.query()?, false)?;
    gate.open();
    first.synchronize()?;
    equal("the order", trace.read()?, 21)
}

/// Keeps a stream busy for the given number of milliseconds.
pub(super) fn spin(environment: &Environment, stream: &Stream, milliseconds: u64) -> Result<()> {
    let kernel = environment.kernel("spin")?;
    // SAFETY: `spin` takes a number of nanoseconds and uses no memory.
    unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 1), (milliseconds * 1_000_000,)) }
}

/// Numbers in the order in which host functions logged them.
#[derive(Clone, Default)]
pub(super) struct Log {
    numbers: Arc<Mutex<Vec<u32>>>,
}

impl Log {
    /// Logs a number on the current thread.
    pub(super) fn push(&self, number: u32) {
        self.numbers.lock().push(number);
    }

    /// Logs a number in a host function in `stream`.
    pub(super) fn push_in(&self, stream: &Stream, number: u32) -> Result<()> {
        let log = self.clone();
        stream.launch_host_func(move || log.push(number))
    }

    /// The numbers that were logged so far.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.numbers.lock().clone()
    }
}
