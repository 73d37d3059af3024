//! Captured conditions: parts of a capture that run depending on a value in device memory.

use super::part::{CapturedCondition, Part};
use super::state::Whole;
use super::{CaptureScope, CaptureState};
use crate::error::{Error, Result, ResultExt};
use crate::graph::setting_kernel;
use crate::memory::{Allocation, BufferSlice, BufferSliceMut};
use crate::stream::Operation;
use anabranch_hal::{
    Access, AddedNode, CaptureStatus, ConditionalHandle, ConditionalKind, ConditionalNode, Dependency,
    DependencyUpdate, DevicePointer, EdgeData, GraphHandle, Launch, NodeParameters, Status,
};
use std::ffi::c_void;
use std::sync::Arc;

const OPERATION: &str = "capturing a condition";

/// A part of a capture, which captures in a scope of its own.
type Body<'a> = &'a mut dyn for<'scope> FnMut(&CaptureScope<'scope>) -> Result<()>;

/// The number in device memory that decides.
#[derive(Clone)]
pub(super) struct Condition {
    pub(super) memory: Arc<Allocation>,
    pub(super) address: DevicePointer,
}

impl Condition {
    fn of(slice: &BufferSlice<'_, u32>) -> Result<Self> {
        if slice.is_empty() {
            return Err(Error::argument(Status::INVALID_VALUE, OPERATION, "the condition is empty"));
        }
        // The graph is told of it later, when others may have borrowed it.
        slice.allocation().kept_by_graph();
        Ok(Self { memory: slice.allocation().clone(), address: slice.device_pointer() })
    }
}

impl CaptureScope<'_> {
    /// Captures a part that runs only if the first element of `condition` is not 0 when it is reached. Work of the part goes
    /// to the scope that `body` is given, which is of a stream of its own.
    ///
    /// ```
    /// use anabranch::CaptureMode;
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// let mut condition = stream.upload(&[0u32])?;
    /// let mut result = stream.upload(&[0u32])?;
    /// let executable = stream.capture_executable(CaptureMode::Global, |scope| {
    ///     scope.capture_if(&condition, |part| part.fill(&mut result, 7u32))
    /// })?;
    ///
    /// executable.launch(&stream)?;
    /// assert_eq!(stream.download(&result)?, [0]);
    /// stream.fill(&mut condition, 1u32)?;
    /// executable.launch(&stream)?;
    /// assert_eq!(stream.download(&result)?, [7]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// The part may hold kernels, copies, fills, other graphs, and conditions of its own. Warp calls it `capture_if`. Follows the
    /// Programming Guide's section on conditional graph nodes. On CUDA it needs CUDA 12.4, and the library
    /// `libcudadevrt.a` of the CUDA toolkit at run time.
    ///
    /// # Errors
    /// The body's error; 1 when `condition` is empty; 801 or 301 where the device has no conditional nodes, or the library
    /// is not found.
    pub fn capture_if<'c, F>(&self, condition: impl Into<BufferSlice<'c, u32>>, body: F) -> Result<()>
    where
        F: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
    {
        let mut body = once(body);
        self.capture_condition(&Condition::of(&condition.into())?, ConditionalKind::If, &mut [&mut body])
    }

    /// As [`capture_if`](Self::capture_if), with a second part that runs if the condition is 0. On CUDA it needs CUDA 12.8.
    ///
    /// # Errors
    /// As [`capture_if`](Self::capture_if).
    pub fn capture_if_else<'c, F, G>(
        &self,
        condition: impl Into<BufferSlice<'c, u32>>,
        body: F,
        otherwise: G,
    ) -> Result<()>
    where
        F: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
        G: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
    {
        let (mut body, mut otherwise) = (once(body), once(otherwise));
        let condition = Condition::of(&condition.into())?;
        self.capture_condition(&condition, ConditionalKind::If, &mut [&mut body, &mut otherwise])
    }

    /// As [`capture_if`](Self::capture_if), with a part that runs again and again while the condition is not 0. The
    /// condition is looked at before each run, and `body` is given it to change. Warp calls it `capture_while`.
    ///
    /// ```
    /// use anabranch::{CaptureMode, HostFunction, HostModule, LaunchConfig, Module};
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// let countdown = HostModule::new().with_function(HostFunction::new("countdown", &[8, 8], |block, arguments| {
    ///     let (left, sum) = (arguments.slice::<u32>(0), arguments.slice::<u32>(1));
    ///     block.phase(|_, _| {
    ///         sum.set(0, sum.get(0) + left.get(0));
    ///         left.set(0, left.get(0) - 1);
    ///     });
    /// }));
    /// let kernel = Module::load_host(&stream.context(), &countdown)?.kernel("countdown")?;
    /// let (mut left, mut sum) = (stream.upload(&[4u32])?, stream.upload(&[0u32])?);
    ///
    /// let executable = stream.capture_executable(CaptureMode::Global, |scope| {
    ///     scope.capture_while(&mut left, |part, left| {
    ///         // SAFETY: `countdown` uses one number of either buffer.
    ///         unsafe { part.launch(&kernel, &LaunchConfig::new(1, 1), (left.reborrow(), &mut sum)) }
    ///     })
    /// })?;
    /// executable.launch(&stream)?;
    /// assert_eq!(stream.download(&sum)?, [4 + 3 + 2 + 1]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`capture_if`](Self::capture_if).
    pub fn capture_while<'c, F>(&self, condition: impl Into<BufferSliceMut<'c, u32>>, body: F) -> Result<()>
    where
        F: for<'scope> FnOnce(&CaptureScope<'scope>, &mut BufferSliceMut<'c, u32>) -> Result<()>,
    {
        let mut slice = condition.into();
        let condition = Condition::of(&slice.as_slice())?;
        let mut body = once(|part: &CaptureScope<'_>| body(part, &mut slice));
        self.capture_condition(&condition, ConditionalKind::While, &mut [&mut body])
    }

    /// As [`capture_if`](Self::capture_if), with several parts, of which that runs whose number, from 0, is the first
    /// element of `value`, or none. On CUDA it needs CUDA 12.8.
    ///
    /// # Errors
    /// As [`capture_if`](Self::capture_if); 1 when there are no parts.
    pub fn capture_switch<'c>(&self, value: impl Into<BufferSlice<'c, u32>>, bodies: &mut [Body<'_>]) -> Result<()> {
        self.capture_condition(&Condition::of(&value.into())?, ConditionalKind::Switch, bodies)
    }

    fn capture_condition(&self, condition: &Condition, kind: ConditionalKind, bodies: &mut [Body<'_>]) -> Result<()> {
        let core = self.core();
        let capture = core.capture().ok_or_else(|| self.not_capturing())?;
        condition.memory.require_context(core, OPERATION)?;
        capture.check_join_all(core, OPERATION)?;
        // Captured on their own at first: hardware does not survive a capture into a conditional node that fails.
        let parts = bodies.iter_mut().map(|body| self.capture_part(&capture, *body)).collect::<Result<Vec<_>>>()?;
        // What runs inside cannot wait for single streams of the capture: it comes after all of them.
        capture.join_all(core)?;
        let operation = core.operation(OPERATION);
        condition.memory.order(core, Access::Read, &operation)?;
        if capture.is_part() {
            // A graph with conditional nodes cannot be put into another. So it gets its own when it is put in.
            let placeholder = self.add_node(&NodeParameters::Empty)?.node;
            for part in &parts {
                capture.adopt(part.graph.object(), core)?;
            }
            capture.add_condition(CapturedCondition { placeholder, kind, condition: condition.clone(), parts });
            return core.queued(&operation, || condition.memory.stamp(core, Access::Read));
        }
        let graph = self.captured_graph()?;
        let context = core.context();
        // SAFETY: the graph is the one being captured, by this thread.
        let handle = unsafe { context.driver().graph_conditional_create(context.handle(), graph, None) }
            .during(OPERATION, || core.place())?;
        self.set_conditional(handle, condition, &operation)?;
        let node = NodeParameters::Conditional(ConditionalNode {
            handle,
            kind,
            body_count: u32::try_from(parts.len()).unwrap_or(u32::MAX),
            bodies: Vec::new(),
        });
        let inside = self.add_node(&node)?.bodies;
        for (graph, part) in inside.into_iter().zip(&parts) {
            capture.adopt(part.graph.object(), core)?;
            let again = (kind == ConditionalKind::While).then_some((handle, condition));
            part.put_into(context, graph, again).map_err(|error| error.at(core.place()))?;
        }
        Ok(())
    }

    /// Captures a part on a stream of its own, because this one captures what is around.
    fn capture_part(&self, capture: &Arc<CaptureState>, body: Body<'_>) -> Result<Part> {
        let stream = self.context().create_stream()?;
        stream.begin_capture_within(self.mode(), Whole::Capture(capture.clone()))?;
        stream.run_body_as_part(self.mode(), |part| body(part))
    }

    /// Adds a node below what the stream has captured, for what it captures next to come after.
    fn add_node(&self, parameters: &NodeParameters) -> Result<AddedNode> {
        let core = self.core();
        let (driver, context) = (core.context().driver(), core.context().handle());
        let stream = core.handle(OPERATION)?;
        let info = self.raw_capture_info(true)?;
        let graph = info.graph.ok_or_else(|| self.not_capturing())?;
        let data = info.edge_data.unwrap_or_default().into_iter().chain(std::iter::repeat(EdgeData::default()));
        let dependencies: Vec<_> =
            info.dependencies.into_iter().zip(data).map(|(node, data)| Dependency { node, data }).collect();
        // SAFETY: the graph is the one being captured, by this thread, and its nodes are its own.
        let added = unsafe { driver.graph_add_node(context, graph, &dependencies, parameters) }
            .during(OPERATION, || core.place())?;
        let after = [Dependency::from(added.node)];
        // SAFETY: the stream is live while it is borrowed, and the node was just added to the graph that it captures.
        unsafe { driver.stream_update_capture_dependencies(context, stream, &after, DependencyUpdate::Set) }
            .during(OPERATION, || core.place())?;
        Ok(added)
    }

    /// Captures a launch that sets a conditional value. The memory is ordered already.
    fn set_conditional(
        &self,
        handle: ConditionalHandle,
        condition: &Condition,
        operation: &Operation<'_>,
    ) -> Result<()> {
        let core = self.core();
        let stream = core.handle(OPERATION)?;
        let kernel = setting_kernel(core.context(), handle, condition.address)?;
        let arguments: Vec<*const c_void> = kernel.arguments.iter().map(|bytes| bytes.as_ptr().cast()).collect();
        let launch = Launch {
            grid: kernel.grid,
            block: kernel.block,
            cluster: None,
            dynamic_shared_bytes: 0,
            cooperative: false,
            priority: None,
            arguments: &arguments,
            ranges: &kernel.ranges,
        };
        let context = core.context();
        // SAFETY: the stream is live while it is borrowed; the kernel is loaded as long as the context is, and takes a handle
        // and an address, of which the capture keeps the memory.
        unsafe { context.driver().launch(context.handle(), stream, kernel.function, &launch) }
            .during(OPERATION, || core.place())?;
        core.queued(operation, || condition.memory.stamp(core, Access::Read))
    }

    fn captured_graph(&self) -> Result<GraphHandle> {
        let info = self.raw_capture_info(true)?;
        match (info.status, info.graph) {
            (CaptureStatus::Active, Some(graph)) => Ok(graph),
            (CaptureStatus::Invalidated, _) => {
                let error = Error::argument(Status::STREAM_CAPTURE_INVALIDATED, OPERATION, "the capture is spoiled");
                Err(error.at(self.core().place()))
            }
            _ => Err(self.not_capturing()),
        }
    }

    fn not_capturing(&self) -> Error {
        Error::argument(Status::ILLEGAL_STATE, OPERATION, "the stream does not capture any more")
            .at(self.core().place())
    }
}

/// A closure that is called once, where several are wanted that can be called more often.
fn once<F>(body: F) -> impl for<'scope> FnMut(&CaptureScope<'scope>) -> Result<()>
where
    F: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
{
    let mut body = Some(body);
    move |scope: &CaptureScope<'_>| body.take().map_or(Ok(()), |body| body(scope))
}
