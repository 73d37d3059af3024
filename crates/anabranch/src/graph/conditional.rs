//! Conditional nodes: graphs that run depending on a value.

use super::Graph;
use crate::error::{Error, Result};
use crate::kernel::Scalar;
use anabranch_core::node::{Dependencies, Node};
use anabranch_hal::{ConditionalHandle, ConditionalKind, Status};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// The value that determines what a conditional node of a graph runs. Kernels of the graph set it: device code calls
/// `cudaGraphSetConditional(handle, value)`, and a host kernel calls
/// [`HostArguments::set_conditional`](anabranch_hal::HostArguments::set_conditional). Both receive
/// [`argument`](Self::argument) as a 64-bit argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditional {
    pub(crate) handle: ConditionalHandle,
    pub(crate) graph: u64,
}

impl Conditional {
    /// The value's handle, as a kernel's argument.
    pub fn argument(self) -> Scalar<u64> {
        Scalar(self.handle.0)
    }

    /// The driver's handle, which is valid as long as the graph.
    pub fn as_raw(self) -> ConditionalHandle {
        self.handle
    }
}

/// A graph inside a conditional node, which can be filled while the surrounding graph is borrowed. It can be used like
/// a [`Graph`], but cannot be cloned, instantiated or made a child.
pub struct BodyGraph<'a> {
    graph: Graph,
    around: PhantomData<&'a mut Graph>,
}

impl Deref for BodyGraph<'_> {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        &self.graph
    }
}

impl DerefMut for BodyGraph<'_> {
    fn deref_mut(&mut self) -> &mut Graph {
        &mut self.graph
    }
}

impl fmt::Debug for BodyGraph<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Body{:?}", self.graph)
    }
}

impl Graph {
    /// Makes a value for one conditional node of this graph. With a default, the value is set to it at every launch.
    /// Without one, the value is unspecified until a kernel sets it. Follows `cuGraphConditionalHandleCreate`.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device has no conditional nodes.
    pub fn create_conditional(&mut self, default: Option<u32>) -> Result<Conditional> {
        let handle = self.object.create_conditional(default)?;
        Ok(Conditional { handle, graph: self.object.id() })
    }

    /// Adds a conditional node. [`body`](Self::body) returns its bodies, which are empty at first.
    ///
    /// * [`ConditionalKind::If`]: 1 body, which runs if the value is not 0, or 2, of which the second runs if it is 0.
    /// * [`ConditionalKind::While`]: 1 body, which runs repeatedly while the value is not 0.
    /// * [`ConditionalKind::Switch`]: the body whose index is the value runs, if there is one.
    ///
    /// Each conditional value belongs to one node.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the kind does not support that number of bodies, there are more than 4096, or
    /// the value belongs to another graph or another node; `CUDA_ERROR_NOT_SUPPORTED (801)` if the device has no such
    /// nodes, or if children and bodies of conditional nodes would be nested more than 64 levels deep.
    pub fn add_conditional(
        &mut self,
        dependencies: impl Dependencies,
        conditional: Conditional,
        kind: ConditionalKind,
        bodies: u32,
    ) -> Result<Node> {
        let operation = "adding a conditional node to a graph";
        if conditional.graph != self.object.id() {
            return Err(Error::argument(
                Status::INVALID_VALUE,
                operation,
                "the conditional value belongs to another graph; make one with this graph's create_conditional",
            )
            .at(self.object.place()));
        }
        self.object.add_conditional(&dependencies.list(), conditional.handle, kind, bodies)
    }

    /// One of the bodies of a conditional node, counted from 0, to be filled or inspected.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the node has no such body. Bodies of captured conditional nodes cannot be
    /// accessed this way.
    pub fn body(&mut self, node: Node, index: usize) -> Result<BodyGraph<'_>> {
        let body = self.object.body(node, index)?;
        Ok(BodyGraph { graph: Graph::from_object(body), around: PhantomData })
    }
}
