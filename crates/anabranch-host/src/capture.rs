//! Capture: work submitted to a stream becomes nodes of a graph instead of running.

mod event;
mod graph;
mod modes;
mod recording;
mod registry;
mod session;

pub(crate) use modes::exchange_mode;
pub(crate) use recording::Recording;
pub(crate) use registry::{CaptureRegistry, Ended};
