//! The CUDA back end of Anabranch: NVIDIA GPUs through the driver library, behind the contract of `anabranch-hal`.
//!
//! [`CudaDriver::load`] finds the driver when the program runs, and [`load_compiler`] finds NVRTC. Neither is needed to
//! build or to start a program: where one is missing, the answer is an [`Absence`](anabranch_hal::Absence) that says
//! so, and what would put it right.
//!
//! Kernels that set the conditions of graphs need the device runtime, a library that comes with the CUDA toolkit. It is
//! searched for where NVRTC is, unless the variable `ANABRANCH_CUDADEVRT` names the file.
//!
//! # Portability
//!
//! * Drivers for CUDA 12.0 and newer are served. What a driver is too old for answers `CUDA_ERROR_NOT_SUPPORTED (801)`
//!   with the name of the entry point in the failure's detail.
//! * The range of stream priorities can only be asked of a context. Where the device's primary context is not active,
//!   the properties of a device report 0 to -5, which is what devices answer that have priorities, rather than
//!   activate it, which takes long and takes memory.
//! * Host work that can run only once is refused with `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` while its stream
//!   captures.
//! * Host nodes with a function of another library cannot be read. They can be replaced.
//! * The parameters of conditional nodes cannot be read, and those of child graphs, allocations, frees and conditional
//!   nodes cannot be replaced; a child graph's can be in an executable graph. The attributes of a kernel (cluster,
//!   cooperation, priority) cannot be changed in an executable graph.
//! * The limit of a memory pool is ignored by drivers before CUDA 12.2.
//!
//! # Host work
//!
//! Host functions and callbacks are moved into the driver, which runs or drops each of them exactly once. Work of
//! graphs stays with its owner: a host node has its [key](anabranch_hal::HostWorkKey), and runs nothing after the owner
//! was dropped. None of it may unwind. Unwinding that happens all the same ends before it reaches NVIDIA's frames, and
//! is not reported.
//!
//! # Fork and exit
//!
//! CUDA does not survive `fork`. In a child that was forked after [`CudaDriver::load`], contexts, streams, events and
//! memory of the parent cannot be used, and no new ones can be made: calls return `CUDA_ERROR_NOT_INITIALIZED (3)` or
//! `CUDA_ERROR_DEINITIALIZED (4)`, and loading the driver again is an absence for the same reason. Host work that the
//! parent had queued runs in the parent only. Fork first and load the driver in each process, or start another program with
//! `exec`.
//!
//! While a process exits, NVIDIA's library may end before the last of this crate's callers; calls then return
//! `CUDA_ERROR_DEINITIALIZED (4)`. Nothing is unloaded or destroyed by this crate at exit.

#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]

// The modules from the lowest to the highest; each uses only those before it.
//
// 1. `ffi`: the tables of functions. `ranks`: the order of locks.
// 2. `error`, `handles`: between the types of the contract and those of the tables. `absence`: why there is no driver.
// 3. `nvrtc`: the compiler, which needs no driver.
// 4. `host_work`: closures, on their way through the driver.
// 5. `driver`: the driver as a value. `binding`: making a context current for a call.
// 6. `context`, and then `device`, `event`, `memory`, `external_memory`, `external_semaphore`, `module`: the groups of
//    calls, which do not know each other.
// 7. `graph`, whose nodes are what streams do; `capture`, which makes graphs; `stream`, which may capture.

// SAFETY comments argue what is special about a call, and take one thing for granted. Results are written to, and
// descriptions read from, variables that the call is given references to; the driver keeps none of these addresses.
// "Live, as its type says" means `Live`: the handle is of this driver, and the object exists.

mod absence;
mod binding;
mod capture;
mod capture_ends;
mod context;
mod device;
mod driver;
mod error;
mod event;
mod external_memory;
mod external_semaphore;
mod ffi;
mod graph;
mod green_context;
mod handles;
mod host_work;
mod interprocess;
mod memory;
mod module;
mod nvrtc;
mod ranks;
mod stream;
mod tensor_map;
mod virtual_memory;

pub use driver::CudaDriver;
pub use nvrtc::load_compiler;
