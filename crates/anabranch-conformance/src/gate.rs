//! Gates: a gate makes work in streams wait until the case opens it. Gates do not depend on time.

use crate::environment::Environment;
use anabranch::{NodeWork, Result, Signal, Stream, WaitCondition, flush_deferred_drops};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of gates that exist, including open ones.
static GATES: AtomicUsize = AtomicUsize::new(0);

/// Blocks a stream until the gate is opened. Dropping the gate opens it, so that a failing case never hangs.
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

    /// Creates a gate that no stream waits for yet.
    pub(crate) fn new(environment: &Environment) -> Result<Self> {
        if GATES.load(Ordering::SeqCst) == 0 {
            quiesce(environment)?;
        }
        let gate = Self { signal: environment.context().create_signal()? };
        GATES.fetch_add(1, Ordering::SeqCst);
        Ok(gate)
    }

    /// A graph node that waits until the gate is opened.
    pub(crate) fn node(&self) -> NodeWork<'static> {
        NodeWork::wait_signal(&self.signal, WaitCondition::GreaterOrEqual, 1)
    }

    /// Makes later work of another stream wait for this gate.
    pub(crate) fn hold(&self, stream: &Stream) -> Result<()> {
        stream.wait_signal(&self.signal, WaitCondition::GreaterOrEqual, 1)
    }

    /// Opens the gate.
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

/// Waits until everything that was dropped has been released. Call this before blocking a stream. The library frees
/// pinned memory in the background, and that call waits for all pending work. On real hardware, driver calls of all
/// other threads would then wait for it, and nothing could unblock the stream.
pub(crate) fn quiesce(environment: &Environment) -> Result<()> {
    // A module is released first, then the context that it retained, then what the context retained.
    for _ in 0..3 {
        environment.context().synchronize()?;
        flush_deferred_drops();
    }
    Ok(())
}
