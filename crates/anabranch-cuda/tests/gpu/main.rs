//! The back end on a GPU, through the contract alone. Each test says so and passes where there is none.

mod capture;
mod conditional;
mod disabled;
mod graph;
mod kernels;
mod memory;
mod module;
mod stream;
mod support;
