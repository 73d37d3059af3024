//! Host references to memory that graphs use.
//!
//! A launch of a graph does not borrow the buffers in it, so the borrow checker cannot exclude that a launch and a host
//! reference overlap. This module does: while a graph retains a buffer, the host accesses it only inside a closure, and
//! launches are refused in the meantime.

use crate::error::{Error, Result};
use crate::host_work::is_inside;
use crate::ranks;
use anabranch_hal::{Access, Status};
use anabranch_sync::{Condvar, Mutex};

/// Who accesses a piece of host-visible memory.
pub struct HostAccess {
    state: Mutex<State>,
    /// Notified when no launch is being queued any more.
    queued: Condvar,
}

impl Default for HostAccess {
    fn default() -> Self {
        Self { state: Mutex::new(ranks::HOST_ACCESS, State::default()), queued: Condvar::new() }
    }
}

#[derive(Default)]
struct State {
    /// Graphs that retain the memory to read or write it.
    reading_graphs: usize,
    writing_graphs: usize,
    /// Launches that are being queued, and read the memory or write it.
    reading_launches: usize,
    writing_launches: usize,
    /// Closures of the host that are running.
    readers: usize,
    writer: bool,
    /// Threads that wait until launches are queued, to read the memory or to write it. Later launches do not come before them.
    waiting_to_read: usize,
    waiting_to_write: usize,
}

impl State {
    fn launches(&mut self, access: Access) -> &mut usize {
        match access {
            Access::Read => &mut self.reading_launches,
            Access::Write => &mut self.writing_launches,
        }
    }

    fn waiting(&mut self, access: Access) -> &mut usize {
        match access {
            Access::Read => &mut self.waiting_to_read,
            Access::Write => &mut self.waiting_to_write,
        }
    }

    /// Whether a launch is being queued that an access of the host has to wait for.
    fn conflicts_with_launches(&self, access: Access) -> bool {
        self.writing_launches > 0 || (access == Access::Write && self.reading_launches > 0)
    }
}

impl HostAccess {
    /// Notes that a graph retains the memory for nodes that use it in this way.
    pub fn graph_retains(&self, access: Access) {
        let mut state = self.state.lock();
        match access {
            Access::Read => state.reading_graphs += 1,
            Access::Write => state.writing_graphs += 1,
        }
    }

    /// Notes that a graph no longer retains the memory.
    pub fn graph_releases(&self, access: Access) {
        let mut state = self.state.lock();
        match access {
            Access::Read => state.reading_graphs = state.reading_graphs.saturating_sub(1),
            Access::Write => state.writing_graphs = state.writing_graphs.saturating_sub(1),
        }
    }

    /// Refuses a plain reference for `access` if a launch of a graph could overlap with it.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)`.
    pub fn require_no_graph(&self, access: Access) -> Result<()> {
        let state = self.state.lock();
        let graphs = match access {
            Access::Read => state.writing_graphs,
            Access::Write => state.writing_graphs + state.reading_graphs,
        };
        if graphs == 0 {
            return Ok(());
        }
        let message = "a graph uses the memory, and could be launched while the reference lives";
        Err(Error::argument(Status::ILLEGAL_STATE, "accessing memory from the host", message)
            .with_hint("use `read` or `write`, whose closure excludes launches, or drop the graph"))
    }

    /// Excludes launches that conflict until the guard is dropped.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` inside another access that conflicts; `CUDA_ERROR_NOT_PERMITTED (800)` inside a host
    /// function while a launch that conflicts is being queued.
    pub fn enter(&self, access: Access, operation: &'static str) -> Result<HostGuard<'_>> {
        let mut state = self.state.lock();
        while state.conflicts_with_launches(access) {
            if is_inside() {
                // It may run on the thread that is queueing the launch.
                let message = "a graph that uses the memory is being launched";
                return Err(Error::argument(Status::NOT_PERMITTED, operation, message)
                    .with_hint("host functions do not wait: access the memory before, or from another thread"));
            }
            *state.waiting(access) += 1;
            state = self.queued.wait(state);
            *state.waiting(access) -= 1;
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

    /// Excludes the host while a launch that uses the memory in this way is being queued, or refuses the launch because
    /// the host uses the memory. No lock is held in the meantime: if the launch joins a capture, the capture retains
    /// the memory too.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)`.
    pub fn launching(&self, access: Access) -> Result<LaunchGuard<'_>> {
        let mut state = self.state.lock();
        if state.writer
            || state.waiting_to_write > 0
            || (access == Access::Write && state.readers + state.waiting_to_read > 0)
        {
            return Err(Error::argument(
                Status::ILLEGAL_STATE,
                "launching a graph",
                "the host is using pinned or managed memory that the graph uses",
            )
            .with_hint("launch after the closure that reads or writes the memory has returned"));
        }
        *state.launches(access) += 1;
        Ok(LaunchGuard { memory: self, access })
    }
}

/// Excludes the host for as long as a launch is being queued.
pub struct LaunchGuard<'a> {
    memory: &'a HostAccess,
    access: Access,
}

impl Drop for LaunchGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.memory.state.lock();
        let launches = state.launches(self.access);
        *launches -= 1;
        if *launches == 0 {
            self.memory.queued.notify_all();
        }
    }
}

/// Excludes launches for as long as a closure of the host runs.
pub struct HostGuard<'a> {
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
