//! Calls on executable graphs.

use super::{ContextState, HostDriver, present, resolve, usable};
use crate::error::permitted;
use crate::executable::{ExecutableState, refused};
use crate::graph::GraphState;
use anabranch_hal::{
    Call, Detail, ExecutableGraphHandle, ExecutableGraphs, Failure, GraphHandle, GraphInstantiateResult,
    GraphNodeHandle, InstantiateFlags, Live, NodeParameters, Result, Status, StreamHandle,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An executable graph for a call.
fn executable_of<'a>(call: &Call<'_>, executable: Live<'a, ExecutableGraphHandle>) -> Result<&'a ExecutableState> {
    usable(call)?;
    ExecutableState::of(executable)
}

impl HostDriver {
    fn instantiate(
        &self,
        call: &Call<'_>,
        graph: &GraphState,
        flags: InstantiateFlags,
        upload: Option<Live<'_, StreamHandle>>,
    ) -> Result<Arc<ExecutableState>> {
        if !InstantiateFlags::all().contains(flags) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        if flags.contains(InstantiateFlags::DEVICE_LAUNCH | InstantiateFlags::AUTO_FREE_ON_LAUNCH) {
            let message = "a graph that the device launches cannot free its memory at each launch";
            return Err(Failure::argument(Status::INVALID_VALUE, message));
        }
        if !flags.contains(InstantiateFlags::UPLOAD) {
            self.shared.captures.before_unsafe_call()?;
            return ExecutableState::new(graph, flags, &ContextState::of(call.context)?.core);
        }
        // With an upload, the call is one of the stream, and no potentially unsafe one.
        let stream = resolve(&self.shared, call.context, upload.unwrap_or(Live::LEGACY))?;
        self.shared.captures.refuse(&stream)?;
        let executable = ExecutableState::new(graph, flags, &stream.core)?;
        executable.memory.map(&self.shared.memory)?;
        Ok(executable)
    }
}

impl ExecutableGraphs for HostDriver {
    fn graph_instantiate(
        &self,
        call: &Call<'_>,
        graph: Live<'_, GraphHandle>,
        flags: InstantiateFlags,
        upload: Option<Live<'_, StreamHandle>>,
    ) -> Result<ExecutableGraphHandle> {
        let graph = GraphState::of(graph)?;
        let executable =
            usable(call).and_then(|_| self.instantiate(call, graph, flags, upload)).map_err(|failure| {
                // Hardware gives a reason whatever is wrong. Where it knows none better, it says that the code is the reason.
                match failure.detail.as_deref() {
                    Some(Detail::Instantiate { .. }) => failure,
                    _ => refused(failure.status, GraphInstantiateResult::ERROR, None),
                }
            })?;
        Ok(ExecutableGraphHandle::from_raw(self.executables.insert(executable)))
    }

    unsafe fn executable_destroy(&self, call: &Call<'_>, executable: ExecutableGraphHandle) -> Result<()> {
        permitted()?;
        ContextState::of(call.context)?;
        // SAFETY: the caller promises that the executable graph exists.
        ExecutableState::of(unsafe { Live::new(executable) })?;
        self.shared.captures.before_unsafe_call()?;
        let removed = self.executables.remove(executable.as_raw()).ok_or(Failure::new(Status::INVALID_VALUE))?;
        removed.destroyed.store(true, Ordering::Release);
        // Queued launches hold references of their own.
        drop(removed);
        Ok(())
    }

    fn executable_flags(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
    ) -> Result<InstantiateFlags> {
        // Also of a lost context.
        present(call)?;
        let executable = ExecutableState::of(executable)?;
        // Hardware does not report the others.
        Ok(executable.flags & (InstantiateFlags::AUTO_FREE_ON_LAUNCH | InstantiateFlags::DEVICE_LAUNCH))
    }

    fn executable_upload(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        self.shared.captures.refuse(&stream)?;
        executable_of(call, executable)?.memory.map(&self.shared.memory)
    }

    unsafe fn executable_launch(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        self.shared.captures.refuse(&stream)?;
        let executable = ExecutableState::of(executable)?.share().ok_or(Failure::new(Status::INVALID_VALUE))?;
        for (node, record) in executable.captured_waits(&stream.core) {
            if let Err(refused) = self.shared.captures.join_by_launch(&stream, &record) {
                executable.launch_before(node, &stream)?;
                return Err(refused);
            }
        }
        executable.launch(&stream)
    }

    unsafe fn executable_update(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        graph: Live<'_, GraphHandle>,
    ) -> Result<()> {
        // Also of a lost context.
        present(call)?;
        ExecutableState::of(executable)?.update(GraphState::of(graph)?)
    }

    unsafe fn executable_set_node_parameters(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        node: Live<'_, GraphNodeHandle>,
        parameters: &NodeParameters,
    ) -> Result<()> {
        // SAFETY: the caller promises that the objects of the handles in the parameters exist, and that the node is sound.
        unsafe { executable_of(call, executable)?.set_parameters(node, parameters.clone()) }
    }

    unsafe fn executable_set_node_enabled(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        node: Live<'_, GraphNodeHandle>,
        enabled: bool,
    ) -> Result<()> {
        // Also in a lost context.
        present(call)?;
        ExecutableState::of(executable)?.set_enabled(node, enabled)
    }

    fn executable_node_enabled(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        node: Live<'_, GraphNodeHandle>,
    ) -> Result<bool> {
        // Also in a lost context.
        present(call)?;
        ExecutableState::of(executable)?.is_enabled(node)
    }
}
