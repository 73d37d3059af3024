//! Host references to memory that graphs use.
//!
//! A launch of a graph does not borrow the buffers in it, so the borrow checker cannot keep host references and launches
//! apart. This does: while a graph keeps a buffer, the host reaches it only inside of a closure, and a launch meanwhile is
//! refused.

use crate::error::{Error, Result};
use anabranch_hal::{Access, Status};
use parking_lot::{Mutex, MutexGuard};

/// Who reaches a piece of host-visible memory.
#[derive(Default)]
pub(crate) struct HostAccess {
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    /// Graphs that keep the memory to read or write it.
    reading_graphs: usize,
    writing_graphs: usize,
    /// Closures of the host that are running.
    readers: usize,
    writer: bool,
}

impl HostAccess {
    pub(crate) fn graph_keeps(&self, access: Access) {
        let mut state = self.state.lock();
        match access {
            Access::Read => state.reading_graphs += 1,
            Access::Write => state.writing_graphs += 1,
        }
    }

    pub(crate) fn graph_lets_go(&self, access: Access) {
        let mut state = self.state.lock();
        match access {
            Access::Read => state.reading_graphs = state.reading_graphs.saturating_sub(1),
            Access::Write => state.writing_graphs = state.writing_graphs.saturating_sub(1),
        }
    }

    /// Refuses a plain reference for `access` if a graph's use could meet it.
    pub(crate) fn require_no_graph(&self, access: Access) -> Result<()> {
        let state = self.state.lock();
        let graphs = match access {
            Access::Read => state.writing_graphs,
            Access::Write => state.writing_graphs + state.reading_graphs,
        };
        if graphs == 0 {
            return Ok(());
        }
        let message = "a graph uses the memory, and could be launched while the reference lives";
        Err(Error::argument(Status::ILLEGAL_STATE, "reaching memory from the host", message)
            .with_hint("use `read` or `write`, whose closure keeps launches out, or drop the graph"))
    }

    /// Keeps launches that conflict out until the guard is dropped.
    pub(crate) fn enter(&self, access: Access, operation: &'static str) -> Result<HostGuard<'_>> {
        let mut state = self.state.lock();
        if state.writer || (access == Access::Write && state.readers > 0) {
            return Err(Error::argument(Status::ILLEGAL_STATE, operation, "the host is using the memory already"));
        }
        match access {
            Access::Read => state.readers += 1,
            Access::Write => state.writer = true,
        }
        Ok(HostGuard { access: self, kind: access })
    }

    /// Keeps the host out while a launch is being queued.
    pub(crate) fn launching(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// That the host does not use the memory in a way that conflicts with a graph's.
    pub(crate) fn require(&self, access: Access) -> Result<()> {
        if self.writer || (access == Access::Write && self.readers > 0) {
            return Err(Error::argument(
                Status::ILLEGAL_STATE,
                "launching a graph",
                "the host is using pinned or managed memory that the graph uses",
            )
            .with_hint("launch after the closure that reads or writes the memory has returned"));
        }
        Ok(())
    }
}

/// The host's share of the memory, for as long as a closure runs.
pub(crate) struct HostGuard<'a> {
    access: &'a HostAccess,
    kind: Access,
}

impl Drop for HostGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.access.state.lock();
        match self.kind {
            Access::Read => state.readers -= 1,
            Access::Write => state.writer = false,
        }
    }
}
