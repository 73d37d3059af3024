//! The semantics of streams, events and memory as small named cases that run on any device.
//!
//! Each case proves one rule of `docs/semantics.md`. The codes it expects are those that real hardware answers; where
//! the software device differs, the software device is wrong. A case that needs what a device does not have is reported
//! as skipped, with the reason.

mod case;
mod cases;
mod environment;
mod gate;
mod kernels;
mod report;
mod runner;

pub use case::{Case, Failed, Need, Outcome, Verdict};
pub use cases::all;
pub use environment::Environment;
pub use report::{CaseReport, Summary};
pub use runner::{Isolation, Runner};
