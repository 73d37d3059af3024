//! When an executable graph that nobody has any more is destroyed.

use super::launches::Launches;
use crate::context::ContextCore;
use crate::drop_error;
use crate::error::ResultExt;
use crate::graph_object::GraphObject;
use crate::idle_memory::attempt_when_idle;
use crate::retained::RetainedByNode;
use crate::thread_capture_mode::with_relaxed_capture_mode;
use anabranch_hal::ExecutableGraphHandle;
use std::sync::Arc;

/// The handle of an executable graph that nobody has any more.
pub(super) struct DestroyedOnDrop {
    pub(super) context: Arc<ContextCore>,
    pub(super) handle: ExecutableGraphHandle,
}

impl Drop for DestroyedOnDrop {
    fn drop(&mut self) {
        let (context, operation) = (&self.context, "destroying an executable graph");
        let call = context.call(operation);
        // SAFETY: the executable graph that owned the handle was dropped, so this is its last use.
        let destroyed = with_relaxed_capture_mode(context.driver(), || unsafe {
            context.driver().executable_destroy(&call, self.handle)
        });
        drop_error::report(destroyed.during(operation, || context.place()));
    }
}

/// When it is destroyed. A driver may wait for work in the call, while others wait for the call, even those that the work waits for.
pub(super) enum Destruction {
    /// At once: the driver keeps nobody waiting, or memory of the graph is not there for its next executable graph before. NVIDIA's
    /// driver does not wait for launches of such a graph.
    AtOnce,
    /// When its launches are complete.
    BehindLaunches,
    /// When its context is idle: with conditional nodes, NVIDIA's driver waits for all work of the context.
    WhenIdle,
}

impl Destruction {
    pub(super) fn of(context: &ContextCore, has_conditions: bool, has_captured_memory: bool) -> Self {
        match (context.keeps_others_waiting(), has_captured_memory, has_conditions) {
            (true, _, true) => Self::WhenIdle,
            (true, false, false) => Self::BehindLaunches,
            _ => Self::AtOnce,
        }
    }

    /// Destroys it, and drops what its launches use when they are complete, and it is destroyed.
    pub(super) fn destroy(
        self,
        launches: &Launches,
        handle: DestroyedOnDrop,
        retained: RetainedByNode,
        source: Arc<GraphObject>,
    ) {
        match self {
            Self::AtOnce => {
                drop(handle);
                if !retained.all().is_empty() {
                    launches.drop_behind((retained, source));
                }
            }
            Self::BehindLaunches => launches.drop_behind((handle, retained, source)),
            // A launch in a stream of another context is no work of this one.
            Self::WhenIdle => {
                source.leave_executable();
                launches.drop_behind(WhenIdle(Some((handle, retained, source))));
            }
        }
    }
}

/// Dropped when the context is idle, once this is dropped.
struct WhenIdle(Option<(DestroyedOnDrop, RetainedByNode, Arc<GraphObject>)>);

impl Drop for WhenIdle {
    fn drop(&mut self) {
        if let Some((handle, retained, source)) = self.0.take() {
            let context = handle.context.clone();
            attempt_when_idle(&context, move || {
                drop(handle);
                source.has_destroyed_executable();
                drop((retained, source));
            });
        }
    }
}
