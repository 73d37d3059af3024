//! The classes and functions of the module, which refer to each other, and what is made of their arguments.

pub(crate) mod arguments;
pub(crate) mod buffer;
pub(crate) mod capture;
pub(crate) mod compiler;
pub(crate) mod completion;
pub(crate) mod conditional;
pub(crate) mod config;
pub(crate) mod context;
mod cuda_array;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod executable;
pub(crate) mod frequent;
pub(crate) mod graph;
pub(crate) mod memory_report;
pub(crate) mod module;
mod node_parameters;
pub(crate) mod node_work;
pub(crate) mod open_graph;
mod open_stream;
pub(crate) mod pool;
pub(crate) mod raw;
pub(crate) mod signal;
pub(crate) mod stream;
mod tensor;
mod transfer;
pub(crate) mod virtual_memory;
