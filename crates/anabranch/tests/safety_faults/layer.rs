//! A layer that lets calls of the driver fail, and runs code of a test beside them.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the layer forwards what it is given")]

use anabranch::hal::*;
use anabranch::{Context, Instance};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

/// The end of a call of `event_record`.
pub(crate) const RECORDED: &str = "event_record has returned";

/// The end of a call of `executable_update`.
pub(crate) const UPDATED: &str = "executable_update has returned";

type Action = Box<dyn FnOnce() + Send>;

/// What happens to calls, by method. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Faults {
    rules: Arc<Mutex<Rules>>,
}

#[derive(Default)]
struct Rules {
    /// How many calls still succeed.
    failing: HashMap<&'static str, usize>,
    beside: HashMap<&'static str, Action>,
}

impl Faults {
    /// A host device that checks memory, with the layer.
    pub(crate) fn context(&self) -> Context {
        let faults = self.clone();
        let wrap = move |inner| Arc::new(Layered(Faulty { inner, faults: faults.clone() })) as Arc<dyn Driver>;
        let instance = Instance::builder().cuda(false).isolated().host_check_memory(true).wrap(wrap).build().unwrap();
        instance.device("host").unwrap().context().unwrap()
    }

    /// Calls of the method fail from now on, and do nothing.
    pub(crate) fn fail(&self, method: &'static str) {
        self.fail_after(0, method);
    }

    /// As [`fail`](Self::fail), after that many calls.
    pub(crate) fn fail_after(&self, calls: usize, method: &'static str) {
        self.rules.lock().unwrap().failing.insert(method, calls);
    }

    /// Calls of the method succeed again.
    pub(crate) fn mend(&self, method: &'static str) {
        self.rules.lock().unwrap().failing.remove(method);
    }

    /// Runs `action` in the next call of the method, before it is forwarded.
    pub(crate) fn beside(&self, method: &'static str, action: impl FnOnce() + Send + 'static) {
        self.rules.lock().unwrap().beside.insert(method, Box::new(action));
    }

    fn called(&self, method: &'static str) {
        let action = self.rules.lock().unwrap().beside.remove(method);
        if let Some(action) = action {
            action();
        }
    }

    fn check(&self, method: &'static str) -> Result<()> {
        match self.rules.lock().unwrap().failing.get_mut(method) {
            Some(0) => Err(Failure::new(Status::OUT_OF_MEMORY)),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

struct Faulty {
    inner: Arc<dyn Driver>,
    faults: Faults,
}

impl fmt::Debug for Faulty {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Faulty")
    }
}

// SAFETY: all calls go to the one driver, with what they were given, or fail and do nothing.
unsafe impl Forward for Faulty {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn called(&self, _: &'static str, method: &'static str) {
        self.faults.called(method);
    }

    fn event_record(
        &self,
        call: &Call<'_>,
        event: Live<'_, EventHandle>,
        stream: Live<'_, StreamHandle>,
        flags: EventRecordFlags,
    ) -> Result<()> {
        self.faults.check("event_record")?;
        self.inner.event_record(call, event, stream, flags)?;
        self.faults.called(RECORDED);
        Ok(())
    }

    unsafe fn stream_update_capture_dependencies(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        dependencies: &[Dependency],
        update: DependencyUpdate,
    ) -> Result<()> {
        self.faults.check("stream_update_capture_dependencies")?;
        unsafe { self.inner.stream_update_capture_dependencies(call, stream, dependencies, update) }
    }

    fn graph_node_kind(&self, call: &Call<'_>, node: Live<'_, GraphNodeHandle>) -> Result<GraphNodeKind> {
        self.faults.check("graph_node_kind")?;
        self.inner.graph_node_kind(call, node)
    }

    fn graph_node_parameters(&self, call: &Call<'_>, node: Live<'_, GraphNodeHandle>) -> Result<NodeParameters> {
        self.faults.check("graph_node_parameters")?;
        self.inner.graph_node_parameters(call, node)
    }

    fn stream_capture_info(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        with_edge_data: bool,
    ) -> Result<CaptureInfo> {
        self.faults.check("stream_capture_info")?;
        self.inner.stream_capture_info(call, stream, with_edge_data)
    }

    unsafe fn graph_add_node(
        &self,
        call: &Call<'_>,
        graph: Live<'_, GraphHandle>,
        dependencies: &[Dependency],
        parameters: &NodeParameters,
    ) -> Result<AddedNode> {
        self.faults.check("graph_add_node")?;
        unsafe { self.inner.graph_add_node(call, graph, dependencies, parameters) }
    }

    unsafe fn graph_add_edges(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>, edges: &[Edge]) -> Result<()> {
        self.faults.check("graph_add_edges")?;
        unsafe { self.inner.graph_add_edges(call, graph, edges) }
    }

    unsafe fn executable_update(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        graph: Live<'_, GraphHandle>,
    ) -> Result<()> {
        unsafe { self.inner.executable_update(call, executable, graph) }?;
        self.faults.called(UPDATED);
        Ok(())
    }
}
