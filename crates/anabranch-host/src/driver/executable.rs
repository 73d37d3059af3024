//! Calls on executable graphs.

use super::{ContextState, HostDriver, resolve, usable};
use crate::error::permitted;
use crate::executable::ExecutableState;
use crate::graph::GraphState;
use anabranch_hal::{
    Call, ExecutableGraphHandle, ExecutableGraphs, Failure, GraphHandle, GraphNodeHandle, InstantiateFlags,
    NodeParameters, Result, Status, StreamHandle,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An executable graph for a call.
///
/// # Safety
/// The handle rule.
unsafe fn executable_of<'a>(call: &Call<'_>, executable: ExecutableGraphHandle) -> Result<&'a ExecutableState> {
    // SAFETY: the caller guarantees it.
    unsafe { usable(call) }?;
    // SAFETY: the caller guarantees it.
    unsafe { ExecutableState::of(executable) }
}

impl ExecutableGraphs for HostDriver {
    unsafe fn graph_instantiate(
        &self,
        call: &Call<'_>,
        graph: GraphHandle,
        flags: InstantiateFlags,
        upload: Option<StreamHandle>,
    ) -> Result<ExecutableGraphHandle> {
        // SAFETY: the handle rule.
        let (_, graph) = unsafe { (usable(call)?, GraphState::of(graph)?) };
        self.shared.captures.before_unsafe_call()?;
        if !InstantiateFlags::all().contains(flags) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        if flags.contains(InstantiateFlags::DEVICE_LAUNCH) {
            return Err(Failure::new(Status::NOT_SUPPORTED));
        }
        let executable = ExecutableState::new(graph, flags)?;
        if flags.contains(InstantiateFlags::UPLOAD) {
            // SAFETY: the handle rule.
            let stream = unsafe { resolve(&self.shared, call.context, upload.unwrap_or(StreamHandle::LEGACY)) }?;
            if let Some(recording) = self.shared.captures.recording(&stream)? {
                return recording.refuse();
            }
            executable.memory.map()?;
        }
        Ok(ExecutableGraphHandle::from_raw(self.executables.insert(executable)))
    }

    unsafe fn executable_destroy(&self, call: &Call<'_>, executable: ExecutableGraphHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { ContextState::of(call.context) }?;
        // SAFETY: the handle rule.
        let core = Arc::clone(&unsafe { ExecutableState::of(executable) }?.core);
        self.shared.captures.before_unsafe_call()?;
        let removed = self.executables.remove(executable.as_raw()).ok_or(Failure::new(Status::INVALID_VALUE))?;
        removed.destroyed.store(true, Ordering::Release);
        // Queued launches hold references of their own.
        drop(removed);
        core.check()
    }

    unsafe fn executable_flags(&self, call: &Call<'_>, executable: ExecutableGraphHandle) -> Result<InstantiateFlags> {
        // SAFETY: the handle rule.
        let executable = unsafe { executable_of(call, executable) }?;
        // Hardware does not report the others.
        Ok(executable.flags & InstantiateFlags::AUTO_FREE_ON_LAUNCH)
    }

    unsafe fn executable_upload(
        &self,
        call: &Call<'_>,
        executable: ExecutableGraphHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        // SAFETY: the handle rule.
        let executable = unsafe { executable_of(call, executable) }?;
        match self.shared.captures.recording(&stream)? {
            Some(recording) => recording.refuse(),
            None => executable.memory.map(),
        }
    }

    unsafe fn executable_launch(
        &self,
        call: &Call<'_>,
        executable: ExecutableGraphHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        // SAFETY: the handle rule.
        let executable = unsafe { ExecutableState::of(executable) }?;
        if let Some(recording) = self.shared.captures.recording(&stream)? {
            return recording.refuse();
        }
        executable.share().ok_or(Failure::new(Status::INVALID_VALUE))?.launch(&stream)
    }

    unsafe fn executable_update(
        &self,
        call: &Call<'_>,
        executable: ExecutableGraphHandle,
        graph: GraphHandle,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        unsafe { executable_of(call, executable)?.update(GraphState::of(graph)?) }
    }

    unsafe fn executable_set_node_parameters(
        &self,
        call: &Call<'_>,
        executable: ExecutableGraphHandle,
        node: GraphNodeHandle,
        parameters: &NodeParameters,
    ) -> Result<()> {
        // SAFETY: the handle rule, and the caller vouches for the parameters.
        unsafe { executable_of(call, executable)?.set_parameters(node, parameters.clone()) }
    }

    unsafe fn executable_set_node_enabled(
        &self,
        call: &Call<'_>,
        executable: ExecutableGraphHandle,
        node: GraphNodeHandle,
        enabled: bool,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        unsafe { executable_of(call, executable)?.set_enabled(node, enabled) }
    }

    unsafe fn executable_node_enabled(
        &self,
        call: &Call<'_>,
        executable: ExecutableGraphHandle,
        node: GraphNodeHandle,
    ) -> Result<bool> {
        // SAFETY: the handle rule.
        unsafe { executable_of(call, executable)?.is_enabled(node) }
    }
}
