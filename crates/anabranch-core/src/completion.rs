//! Completion of work, as futures.
//!
//! A future that waits for a stream's work adds a point to the stream's timeline after that work. A *flag*, which is a
//! number in pinned memory that the device writes in stream order, or an event of a pool shows when the point is
//! reached. The first poll checks, and spins for a moment if that is likely to pay. Only then does the future register
//! its waiter with the *reactor*, a thread of the context, which checks for all waiters and wakes their tasks. No
//! callback of the driver is involved: nothing of the library, the executor or the task is called or dropped in one.
//! While a waker runs, the reactor wakes nobody, so that a future is not waited for there.

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
mod waking;

pub use diagnostics::CompletionDiagnostics;
pub use future::Completion;
pub use outstanding::Outstanding;

pub(crate) const OPERATION: &str = "awaiting completion";
