//! The semantics of streams, events, memory and graphs as small named cases that run on any device.
//!
//! Each case verifies one rule of `docs/semantics.md`. It expects the status codes that real hardware returns. If the
//! software device differs, the software device is wrong. If a device does not provide what a case needs, the case is
//! reported as skipped, with the reason.

mod call_counts;
mod case;
mod cases;
mod environment;
mod gate;
mod kernels;
mod live;
pub mod programs;
pub mod ptx;
mod recording_lines;
mod report;
mod runner;

pub use call_counts::CallCounts;
pub use case::{Case, Failed, Need, Outcome, Verdict};
pub use cases::all;
pub use environment::Environment;
pub use kernels::prefer_ptx;
pub use report::{CaseReport, Summary};
pub use runner::{Isolation, Runner};

/// Tests the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
