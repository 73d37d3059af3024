//! Graphs: nodes and edges, checked as hardware checks them.

mod add;
mod clone;
mod conditional;
mod edges;
mod instances;
mod memory;
mod node;
mod parameters;
mod state;

pub(crate) use add::{Adder, can_be_in_body, locate};
pub(crate) use memory::LaunchMemory;
pub(crate) use node::{Action, ConditionalAction, Node, NodeState, ValueStep};
pub(crate) use state::{Contents, GraphState, Instance, Place};
