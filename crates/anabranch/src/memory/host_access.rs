//! Host references to memory that graphs use.
//!
//! A launch of a graph does not borrow the buffers in it, so the borrow checker cannot keep host references and launches
//! apart. This does: while a graph keeps a buffer, the host reaches it only inside of a closure, and a launch meanwhile is
//! refused.

use crate::error::{Error, Result};
use anabranch_hal::{Access, Status};
use parking_lot::{Condvar, Mutex};

/// Who reaches a piece of host-visible memory.
#[derive(Default)]
pub(crate) struct HostAccess {
    state: Mutex<State>,
    /// No launch is being queued any more.
    queued: Condvar,
}

#[derive(Default)]
struct State {
    /// Graphs that keep the memory to read or write it.
    reading_graphs: usize,
    writing_graphs: usize,
    /// Launches that are being queued.
    launches: usize,
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
        while state.launches > 0 {
            self.queued.wait(&mut state);
        }
        if state.writer || (access == Access::Write && state.readers > 0) {
            return Err(Error::argument(Status::ILLEGAL_STATE, operation, "the host is using the memory already"));
        }
        match access {
            Access::Read => state.readers += 1,
            Access::Write => state.writer = true,
        }
        Ok(HostGuard { access: self, kind: access })
    }

    /// Keeps the host out while a launch is being queued that uses the memory so, or refuses the launch because the host uses
    /// the memory. It is no lock that is held: where the launch is drawn into a capture, that keeps the memory too.
    pub(crate) fn launching(&self, access: Access) -> Result<LaunchGuard<'_>> {
        let mut state = self.state.lock();
        if state.writer || (access == Access::Write && state.readers > 0) {
            return Err(Error::argument(
                Status::ILLEGAL_STATE,
                "launching a graph",
                "the host is using pinned or managed memory that the graph uses",
            )
            .with_hint("launch after the closure that reads or writes the memory has returned"));
        }
        state.launches += 1;
        Ok(LaunchGuard(self))
    }
}

/// A launch's share of the memory, for as long as it is being queued.
pub(crate) struct LaunchGuard<'a>(&'a HostAccess);

impl Drop for LaunchGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.launches -= 1;
        if state.launches == 0 {
            self.0.queued.notify_all();
        }
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
