//! Capture: work submitted to a stream becomes nodes of a graph instead of running.

mod event;
mod graph;
mod modes;
mod registry;
mod session;
mod target;

pub(crate) use modes::exchange_mode;
pub(crate) use registry::{CaptureRegistry, Ended};
pub(crate) use target::{Recording, Target};
