//! The software device of Anabranch: the driver contract of [`anabranch_hal`] on the threads of this process.
//!
//! It has the semantics of the CUDA driver, status codes included: streams run in order and really overlap, the legacy
//! default stream is a barrier for blocking streams, events bind to what was recorded last, memory is allocated in stream
//! order. Kernels are Rust closures ([`anabranch_hal::HostFunction`]), or PTX,
//! which [`anabranch_ptx`] interprets.
//!
//! # Errors of queued work
//!
//! * A [`KernelFault`](anabranch_hal::KernelFault) loses the *context*, as a fault of a kernel on hardware does: work still
//!   queued in the context is dropped, callbacks excepted, and every later call answers the fault's status.
//! * Any other panic in a kernel is an error of *that stream*: `CUDA_ERROR_LAUNCH_FAILED (719)` with
//!   [`Detail::Panic`](anabranch_hal::Detail::Panic). Later work still runs. The first such error is reported once: by
//!   the next query of the stream, or the next synchronization of the stream or of the context, that covers the failed
//!   work. Events do not report it, because they may be queried by others than those whom it concerns. A query that is
//!   not complete yet answers `CUDA_ERROR_NOT_READY (600)` first, so that an error never reads as completion.
//! * A panic in a node of a graph is an error of the stream that the graph was launched into. The other nodes run; the loop
//!   of a conditional node ends.
//!
//! # Checking memory
//!
//! With [`HostOptions::check_memory`] the device looks, when work runs, whether the memory that it uses is allocated there, in
//! the order of the streams. What a kernel uses is what its launch declares. Addresses of freed memory come again later than
//! without; everything else is unchanged.
//!
//! # Memory and semaphores of others
//!
//! External memory is a file that can be mapped, and a timeline semaphore the number in the first 8 bytes of one, so that another
//! process, or other code of this one, can be the other side. A change by another process is seen within half a millisecond.
//!
//! # Portability
//!
//! Shared memory and registers are as large as on an H100, though nothing limits them here. The priority of a single
//! launch is ignored, as is that of a node; that of its stream is honoured. A programmatic edge of a graph waits for
//! all of the earlier kernel. Events of other processes, access-policy windows, modules of PTX or machine code, and
//! graphs that are launched from the device answer `CUDA_ERROR_NOT_SUPPORTED (801)`.
//!
//! What a graph records into an event counts as recorded from the launch on. A node that waits for an event does not
//! wait for what its own graph records, nor for what was enqueued in the launching stream after the launch.
//!
//! Captures of one driver do not meet those of another in the same process, but a thread has one capture mode for all. A
//! stream that is destroyed while it captures lives until the capture ends, as on hardware; what the default stream of a
//! thread captures is over when the thread ends.

#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]

// Each module uses only those before it: ranks, options and error; shared_file (what is mapped); engine (queues, scheduler, workers); limits and handles;
// semaphore; memory; module (kernels); checker, which observes the engine and memory; event; graph; capture and executable; driver, which
// is the calls of the contract. The engine knows work, launches of graphs and observers by traits.
mod capture;
mod checker;
mod driver;
mod engine;
mod error;
mod event;
mod executable;
mod graph;
mod handles;
mod limits;
mod memory;
mod module;
mod options;
mod ranks;
mod semaphore;
mod shared_file;

pub use driver::HostDriver;
pub use options::{HostOptions, InvalidVariable};
