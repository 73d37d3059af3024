//! Conditional nodes: graphs that run depending on a value.

use super::Graph;
use crate::error::{Error, Result};
use crate::kernel::Scalar;
use anabranch_core::node::{Dependencies, Node};
use anabranch_hal::{ConditionalHandle, ConditionalKind, Status};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// The value that decides what one conditional node of a graph runs. Kernels of the graph set it: in device code with
/// `cudaGraphSetConditional(handle, value)`, in a host kernel with
/// [`HostArguments::set_conditional`](anabranch_hal::HostArguments::set_conditional), given
/// [`argument`](Self::argument) as an argument of 64 bits.
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

    /// The driver's handle. It is valid as long as the graph.
    pub fn as_raw(self) -> ConditionalHandle {
        self.handle
    }
}

/// A graph inside of a conditional node, to be filled while the graph around it is borrowed. It can be used like a
/// [`Graph`], but not be cloned, instantiated or made a child.
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
    /// Makes a value for one conditional node of this graph. With a default, every launch begins with it; without one, the
    /// value is unspecified until a kernel sets it. Follows `cuGraphConditionalHandleCreate`.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` where the device has no conditional nodes.
    pub fn create_conditional(&mut self, default: Option<u32>) -> Result<Conditional> {
        let handle = self.object.create_conditional(default)?;
        Ok(Conditional { handle, graph: self.object.id() })
    }

    /// Adds a conditional node. [`body`](Self::body) gives its graphs, which are empty at first.
    ///
    /// * [`ConditionalKind::If`]: 1 body, which runs if the value is not 0, or 2, of which the second runs if it is 0.
    /// * [`ConditionalKind::While`]: 1 body, which runs again and again while the value is not 0.
    /// * [`ConditionalKind::Switch`]: the body whose number is the value runs, if there is one.
    ///
    /// Each conditional value belongs to one node.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for another number of bodies, and a value of another graph or another node;
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` where the device has no such nodes.
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

    /// One of the graphs of a conditional node, from 0, to be filled or looked at.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` when the node has no such graph. Those of captured conditional nodes cannot be
    /// reached this way.
    pub fn body(&mut self, node: Node, index: usize) -> Result<BodyGraph<'_>> {
        let body = self.object.body(node, index)?;
        Ok(BodyGraph { graph: Graph::from_object(body), around: PhantomData })
    }
}
