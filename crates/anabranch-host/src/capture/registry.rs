//! All captures of a driver.
//!
//! One lock guards them all, because a call may touch several at once. It is taken only by calls that meet a capture: a
//! stream that is a member of one is marked, and so is the legacy stream of a context while a blocking stream does.
//!
//! Nothing that callers made is dropped under the lock.

use super::graph::CaptureGraph;
use super::modes::current_thread;
use super::session::Session;
use super::target::Target;
use crate::engine::{ContextCore, Role, StreamState};
use crate::graph::GraphState;
use crate::memory::HostMemory;
use crate::ranks;
use anabranch_hal::{
    CaptureInfo, CaptureMode, CaptureStatus, Dependency, DependencyUpdate, EdgeData, Failure, GraphHandle, Live,
    RecaptureRecord, Result, Status,
};
use anabranch_sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Numbers for captures: one counter for all drivers, because numbers are unique in the process.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// All captures of a driver that are not over.
#[derive(Debug)]
pub(crate) struct CaptureRegistry {
    running: AtomicUsize,
    captures: Mutex<Captures>,
}

impl Default for CaptureRegistry {
    fn default() -> Self {
        Self { running: AtomicUsize::new(0), captures: Mutex::new(ranks::CAPTURES, Captures::default()) }
    }
}

/// A capture that is over.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) graph: Arc<GraphState>,
    /// The graph was there before, and stays its owner's unless the capture failed.
    pub(crate) existing: bool,
    /// Whether the capture failed.
    pub(crate) outcome: Result<()>,
}

#[derive(Debug, Default)]
pub(super) struct Captures {
    /// By number.
    pub(super) sessions: HashMap<u64, Session>,
    /// The captures that streams are members of, both by number.
    by_stream: HashMap<u64, u64>,
}

impl Captures {
    /// The capture that a stream is a member of.
    pub(super) fn session_of(&mut self, stream: &StreamState) -> Option<&mut Session> {
        let id = self.by_stream.get(&stream.id)?;
        self.sessions.get_mut(id)
    }

    /// The number of the capture that a stream is a member of.
    pub(super) fn id_of(&self, stream: &StreamState) -> Option<u64> {
        self.by_stream.get(&stream.id).copied()
    }

    pub(super) fn invalidate(&mut self, id: u64) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.invalidated = true;
        }
    }

    /// Makes a stream a member of a capture.
    pub(super) fn enter(&mut self, id: u64, stream: &Arc<StreamState>, dependencies: &[Dependency]) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.add_stream(stream, dependencies);
            self.by_stream.insert(stream.id, id);
            stream.meet_capture();
            if stream.role == Role::Blocking
                && let Some(legacy) = stream.core.legacy_stream()
            {
                legacy.meet_capture();
            }
        }
    }

    /// Ends a capture: its streams are as before it.
    fn remove(&mut self, id: u64) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        for stream in session.streams() {
            self.by_stream.remove(&stream.id);
            stream.leave_capture();
            if stream.role == Role::Blocking
                && let Some(legacy) = stream.core.legacy_stream()
            {
                legacy.leave_capture();
            }
        }
        Some(session)
    }
}

impl CaptureRegistry {
    /// Whether nothing captures.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Captures> {
        self.captures.lock()
    }

    /// Makes a stream capture.
    pub(crate) fn begin(&self, stream: &Arc<StreamState>, memory: &Arc<HostMemory>, mode: CaptureMode) -> Result<()> {
        self.begin_with(stream, mode, || Ok((CaptureGraph::create(&stream.core, memory), &[][..])))
    }

    /// Makes a stream capture into a graph that exists, below some nodes of it.
    ///
    /// # Safety
    /// The nodes of `dependencies` exist until the capture ends.
    pub(crate) unsafe fn begin_in(
        &self,
        stream: &Arc<StreamState>,
        mode: CaptureMode,
        graph: Live<'_, GraphHandle>,
        dependencies: &[Dependency],
    ) -> Result<()> {
        self.begin_with(stream, mode, || {
            let graph = CaptureGraph::existing(graph)?;
            // SAFETY: the caller promises that the nodes of `dependencies` exist.
            unsafe { graph.check(dependencies) }?;
            Ok((graph, dependencies))
        })
    }

    /// Makes a stream capture the nodes of a graph again.
    pub(crate) fn begin_again(
        &self,
        stream: &Arc<StreamState>,
        mode: CaptureMode,
        graph: Live<'_, GraphHandle>,
        record: &RecaptureRecord,
    ) -> Result<()> {
        self.begin_with(stream, mode, || Ok((CaptureGraph::recaptured(graph, record)?, &[][..])))
    }

    fn begin_with<'d>(
        &self,
        stream: &Arc<StreamState>,
        mode: CaptureMode,
        graph: impl FnOnce() -> Result<(CaptureGraph, &'d [Dependency])>,
    ) -> Result<()> {
        let mut captures = self.lock();
        if stream.role == Role::Legacy {
            captures.use_legacy(&stream.core)?;
            return Err(Failure::new(Status::STREAM_CAPTURE_UNSUPPORTED));
        }
        if captures.id_of(stream).is_some() {
            return Err(Failure::new(Status::ILLEGAL_STATE));
        }
        let (graph, dependencies) = graph()?;
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        captures.sessions.insert(id, Session::new(id, graph, mode, current_thread(), stream.id));
        captures.enter(id, stream, dependencies);
        self.running.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Changes what the next node of a stream will depend on.
    ///
    /// # Safety
    /// The nodes of `dependencies` exist until the capture ends.
    pub(crate) unsafe fn update(
        &self,
        stream: &Arc<StreamState>,
        dependencies: &[Dependency],
        update: DependencyUpdate,
    ) -> Result<()> {
        let Target::Capture(mut recording) = self.target(stream)? else {
            return Err(Failure::new(Status::ILLEGAL_STATE));
        };
        let session = recording.session()?;
        // SAFETY: the caller promises that the nodes of `dependencies` exist.
        unsafe { session.graph.check(dependencies) }?;
        match update {
            DependencyUpdate::Add => session.add_dependencies(stream, dependencies),
            DependencyUpdate::Set => session.set_dependencies(stream, dependencies),
        }
        Ok(())
    }

    /// Ends the capture that began in a stream, in a lost context too.
    pub(crate) fn end(&self, stream: &StreamState) -> Result<Ended> {
        let mut captures = self.lock();
        if stream.role == Role::Legacy {
            captures.use_legacy(&stream.core)?;
        }
        let Some(session) = captures.session_of(stream) else {
            drop(captures);
            return Err(stream.core.check().err().unwrap_or(Failure::new(Status::ILLEGAL_STATE)));
        };
        if session.origin != stream.id {
            session.invalidated = true;
            return Err(Failure::new(Status::STREAM_CAPTURE_UNMATCHED));
        }
        let status = if session.invalidated {
            Status::STREAM_CAPTURE_INVALIDATED
        } else if !session.is_joined() {
            Status::STREAM_CAPTURE_UNJOINED
        } else if session.mode != CaptureMode::Relaxed && session.thread != current_thread() {
            Status::STREAM_CAPTURE_WRONG_THREAD
        } else if !session.graph.is_complete() {
            Status::INVALID_VALUE
        } else {
            Status::SUCCESS
        };
        let id = session.id;
        if status == Status::SUCCESS {
            // While the nodes are known to exist.
            session.renew_sinks();
        }
        let session = captures.remove(id);
        self.running.fetch_sub(1, Ordering::Release);
        drop(captures);
        let session = session.ok_or(Failure::new(Status::ILLEGAL_STATE))?;
        let (graph, existing) = session.graph.finish();
        let outcome = stream.core.check().and_then(|()| status.result().map_err(Failure::from));
        Ok(Ended { graph, existing, outcome })
    }

    /// Discards every capture that can no longer be ended. Returns the graphs that were there before, which end with them.
    fn abandon_those(&self, matches: impl Fn(&mut Session) -> bool) -> Vec<Arc<GraphState>> {
        if self.is_idle() {
            return Vec::new();
        }
        let mut captures = self.lock();
        let over: Vec<u64> =
            captures.sessions.values_mut().filter_map(|session| matches(session).then_some(session.id)).collect();
        let over: Vec<_> = over.into_iter().filter_map(|id| captures.remove(id)).collect();
        self.running.fetch_sub(over.len(), Ordering::Release);
        drop(captures);
        over.into_iter()
            .map(|session| session.graph.finish())
            .filter_map(|(graph, existing)| existing.then_some(graph))
            .collect()
    }

    /// The stream is destroyed. A capture that began in it is over, and the graph that it was to add to is to be destroyed;
    /// one that it has joined is left to its origin.
    pub(crate) fn stream_gone(&self, stream: &StreamState) -> Vec<Arc<GraphState>> {
        self.abandon_those(|session| {
            session.note_destroyed(stream);
            session.origin == stream.id
        })
    }

    /// The context is destroyed: captures that began in it are over, and those that its streams have joined are invalidated.
    pub(crate) fn context_gone(&self, core: &ContextCore) {
        drop(self.abandon_those(|session| {
            session.invalidated |= session.has_stream_of(core);
            session.began_in(core)
        }));
    }

    /// Whether a stream captures. The capture stays valid.
    pub(crate) fn status(&self, stream: &StreamState) -> Result<CaptureStatus> {
        Ok(self.info(stream, true)?.status)
    }

    /// What is known of the capture of a stream.
    pub(crate) fn info(&self, stream: &StreamState, with_edge_data: bool) -> Result<CaptureInfo> {
        if !stream.meets_capture() {
            return Ok(CaptureInfo::default());
        }
        let mut captures = self.lock();
        if stream.role == Role::Legacy {
            return captures.see_legacy(&stream.core).map(|()| CaptureInfo::default());
        }
        let Some(session) = captures.session_of(stream) else { return Ok(CaptureInfo::default()) };
        if session.invalidated {
            return Ok(CaptureInfo { status: CaptureStatus::Invalidated, ..CaptureInfo::default() });
        }
        let dependencies = session.dependencies(stream);
        if !with_edge_data && dependencies.iter().any(|dependency| dependency.data != EdgeData::default()) {
            return Err(Failure::new(Status::LOSSY_QUERY));
        }
        Ok(CaptureInfo {
            status: CaptureStatus::Active,
            id: session.id,
            graph: Some(session.graph.handle()),
            dependencies: dependencies.iter().map(|dependency| dependency.node).collect(),
            edge_data: with_edge_data.then(|| dependencies.iter().map(|dependency| dependency.data).collect()),
        })
    }
}
