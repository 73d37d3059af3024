//! Completion of work, as futures.
//!
//! A future that waits for a stream's work has a point put on the stream's timeline behind that work. That the point is reached
//! is told by a *flag*, a number in pinned memory that the device writes in stream order, or by an event of a pool. The first
//! poll checks, and spins for a moment where that is likely to pay. Only then is the future's waiter registered with the
//! *reactor*, a thread of the context's own, which checks for all waiters, and wakes their tasks. So no driver's callback is
//! involved: nothing of the library, of the executor or of the task is called or dropped in one.

mod awaited;
mod awaited_record;
mod context_part;
mod diagnostics;
mod events;
mod flags;
mod future;
#[cfg(all(test, loom))]
mod loom_tests;
mod outstanding;
mod pace;
mod reactor;
mod registry;
mod spin;
mod wait_queues;
mod waiter;

pub use diagnostics::CompletionDiagnostics;
pub use future::Completion;
pub use outstanding::Outstanding;

pub(crate) const OPERATION: &str = "awaiting completion";
