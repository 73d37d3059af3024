//! The CUDA back end of Anabranch: NVIDIA GPUs through the driver library, behind the contract of `anabranch-hal`.
//!
//! [`CudaDriver::load`] finds the driver when the program runs, and [`load_compiler`] finds NVRTC. Neither is needed to
//! build or to start a program: where one is missing, the answer is an [`Absence`](anabranch_hal::Absence) that says
//! so, and what would put it right.
//!
//! Kernels that steer graphs need the device runtime, a library that comes with the CUDA toolkit. It is searched for where
//! NVRTC is, unless the variable `ANABRANCH_CUDADEVRT` names the file.
//!
//! # Portability
//!
//! * Drivers for CUDA 12.0 and newer are served. What a driver is too old for answers 801 with the name of the entry
//!   point in the failure's detail.
//! * The range of stream priorities can only be asked of a context. Where the device's primary context is not active,
//!   the properties of a device report 0 to -5, which is what devices answer that have priorities, rather than
//!   activate it, which takes long and takes memory.
//! * Host work that can run only once is refused with 900 while its stream captures.
//! * A node of a graph is not told in which stream it runs. If its host work panics, that is reported to the first who
//!   waits for a stream in which the graph was launched of late, or for the context.
//! * Host work that is put into a node of an executable graph stays until that graph and its launches are gone, also
//!   when other work has taken its place; it is refused with 801 where the graph was made while there was no host work
//!   in any graph. Host functions that another library put into a node can be neither read nor replaced.
//! * The parameters of conditional nodes cannot be read, and those of child graphs, allocations, frees and conditional
//!   nodes cannot be replaced; a child graph's can be in an executable graph. The attributes of a kernel (cluster,
//!   cooperation, priority) cannot be changed in an executable graph.
//! * The limit of a memory pool is ignored by drivers before CUDA 12.2.

mod absence;
mod binding;
mod capture;
mod context;
mod device;
mod driver;
mod dropping;
mod error;
mod event;
mod ffi;
mod graph;
mod handles;
mod host_work;
mod memory;
mod module;
mod nvrtc;
mod panics;
mod stream;

pub use driver::CudaDriver;
pub use nvrtc::load_compiler;
