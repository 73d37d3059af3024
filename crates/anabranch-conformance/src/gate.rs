//! A gate: work of a stream that waits until the case says so. Nothing here depends on time.

use crate::environment::Environment;
use anabranch::{NodeWork, Result, Signal, Stream, WaitCondition, flush_deferred_drops};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many gates there are, open ones that still live included.
static GATES: AtomicUsize = AtomicUsize::new(0);

/// Holds a stream up until it is opened, which dropping it does too, so that a failing case never hangs.
#[derive(Debug)]
pub(crate) struct Gate {
    signal: Signal,
}

impl Gate {
    /// Makes later work of `stream` wait until the gate is opened.
    pub(crate) fn shut(environment: &Environment, stream: &Stream) -> Result<Self> {
        let gate = Self::new(environment)?;
        gate.hold(stream)?;
        Ok(gate)
    }

    /// A gate that nothing waits for yet.
    pub(crate) fn new(environment: &Environment) -> Result<Self> {
        if GATES.load(Ordering::SeqCst) == 0 {
            quiesce(environment)?;
        }
        let gate = Self { signal: environment.context().create_signal()? };
        GATES.fetch_add(1, Ordering::SeqCst);
        Ok(gate)
    }

    /// A node of a graph that waits until the gate is opened.
    pub(crate) fn node(&self) -> NodeWork<'static> {
        NodeWork::wait_signal(&self.signal, WaitCondition::GreaterOrEqual, 1)
    }

    /// Makes later work of another stream wait for the same gate.
    pub(crate) fn hold(&self, stream: &Stream) -> Result<()> {
        stream.wait_signal(&self.signal, WaitCondition::GreaterOrEqual, 1)
    }

    /// Lets the work go on.
    pub(crate) fn open(&self) {
        self.signal.set(1);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
        GATES.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits until everything that was dropped before has been given back. To be called before a stream is held up: freeing
/// pinned memory, which the library does in the background, then waits for that stream, and on real hardware every other
/// thread's calls wait for the freeing, so that nobody would ever let the stream go on.
pub(crate) fn quiesce(environment: &Environment) -> Result<()> {
    // A module is given back first, then the context that it kept, then what the context kept.
    for _ in 0..3 {
        environment.context().synchronize()?;
        flush_deferred_drops();
    }
    Ok(())
}
