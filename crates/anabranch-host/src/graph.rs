//! Graphs: nodes and edges, checked as hardware checks them.

mod add;
mod ancestors;
mod clone;
mod conditional;
mod edges;
mod instances;
mod memory;
mod node;
mod parameters;
mod recapture;
mod replace;
mod state;

pub(crate) use add::{Adder, can_be_in_body, locate};
pub(crate) use edges::{FROM_LAUNCH_COMPLETION, FROM_TRIGGER, FROM_TRIGGER_AT_BLOCK_START};
pub(crate) use memory::LaunchMemory;
pub(crate) use node::{Action, ConditionalAction, Node, NodeState};
pub(crate) use recapture::Recapture;
pub(crate) use replace::{attributes_stay, replaceable, replaceable_alone};
pub(crate) use state::{Contents, GraphState, Instance, Marks, Place};
