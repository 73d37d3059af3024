//! Conditional nodes: graphs that run depending on a value.

use super::Graph;
use crate::kernel::Scalar;
use anabranch_core::graph_object::GraphObject;
use anabranch_hal::ConditionalHandle;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

/// The value that determines what a conditional node of a graph runs. Kernels of the graph set it: device code calls
/// `cudaGraphSetConditional(handle, value)`, on the host device too, and a closure calls
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

impl BodyGraph<'_> {
    pub(super) fn new(object: Arc<GraphObject>) -> Self {
        Self { graph: Graph::from_object(object), around: PhantomData }
    }
}

impl Deref for BodyGraph<'_> {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        &self.graph
    }
}

impl fmt::Debug for BodyGraph<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Body{:?}", self.graph)
    }
}
