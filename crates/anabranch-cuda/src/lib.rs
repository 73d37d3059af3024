//! The CUDA back end of Anabranch: NVIDIA GPUs through the driver library, behind the contract of `anabranch-hal`.
//!
//! [`CudaDriver::load`] finds the driver when the program runs, and [`load_compiler`] finds NVRTC. Neither is needed to
//! build or to start a program: where one is missing, the answer is an [`Absence`](anabranch_hal::Absence) that says
//! so, and what would put it right.
//!
//! # Portability
//!
//! * Drivers for CUDA 12.0 and newer are served. What a driver is too old for answers 801 with the name of the entry
//!   point in the failure's detail.
//! * The range of stream priorities can only be asked of a context. Where the device's primary context is not active,
//!   the properties of a device report 0 to -5, which is what devices answer that have priorities, rather than
//!   activate it, which takes long and takes memory.
//! * A host function is run once. One that another library captures into a graph, by capturing the stream around a
//!   call made here, runs at the first launch of that graph only.
//! * The limit of a memory pool is ignored by drivers before CUDA 12.2.

mod absence;
mod binding;
mod capture;
mod context;
mod device;
mod driver;
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
