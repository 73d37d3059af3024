//! The untyped core of Anabranch.
//!
//! This crate uses drivers only through `anabranch-hal`, and has no element types and no borrows. Those are left to the
//! crate `anabranch`, and to bindings for other languages, which use this one. Programs use `anabranch`.
//!
//! Each module uses only those before it in this list:
//!
//! * **Basics**: [`error`], [`panics`], [`drop_error`], [`clock`], [`timeline`], [`host_work`], [`reaper`], [`keeper`],
//!   [`device`], [`lost_context`], [`context`], [`capture_mode`], [`label`].
//! * **Streams**: [`raw_event`], [`stream`].
//! * **Memory**: [`access`] (which streams use a piece of memory, and their order), [`idle_memory`], [`host_access`],
//!   [`green_context`], [`memory_pool`], [`memory`],
//!   [`interprocess`], [`virtual_memory`], [`external_memory`], [`retained`].
//! * **Captures, as their member streams know them**: [`node`], [`graph_object`], [`conditional_setter`], [`conditional_part`],
//!   [`capture_state`].
//! * **[`submission`]**, through which all work is submitted, and [`work`], the kinds of work; [`module`], [`event`],
//!   [`launch`], [`tensor_map`], [`external_semaphore`].
//! * **Graphs**: [`capture`], [`node_work`], [`graph`], [`executable`].
//! * **Completion**: [`completion`], [`staging`].
//!
//! Functions that take addresses are `unsafe`. Those that take objects are safe if no argument can harm a driver.
//! Further requirements are stated at each function.

#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]

pub mod access;
pub mod batch;
pub mod capture;
pub mod capture_mode;
pub mod capture_state;
pub mod clock;
pub mod completion;
pub mod conditional_part;
pub mod conditional_setter;
mod contained;
pub mod context;
pub mod device;
pub mod device_name;
pub mod driver_context;
pub mod drop_error;
pub mod error;
pub mod event;
pub mod exclusion;
pub mod executable;
pub mod extensions;
#[cfg(unix)]
mod external_descriptor;
pub mod external_memory;
pub mod external_semaphore;
pub mod graph;
mod graph_frees;
pub mod graph_object;
mod graph_traits;
pub mod green_context;
mod helping;
pub mod host_access;
pub mod host_work;
pub mod idle_memory;
pub mod interprocess;
pub mod keeper;
pub mod label;
pub mod launch;
pub mod lost_context;
pub mod managed;
pub mod memory;
pub mod memory_pool;
pub mod module;
pub mod node;
pub mod node_work;
pub mod on_host;
pub mod panics;
mod process_exit;
mod ranks;
pub mod raw_event;
pub mod reaper;
pub mod retained;
pub mod staging;
pub mod stream;
pub mod submission;
pub mod tensor_map;
pub mod thread_capture_mode;
pub mod timeline;
pub mod trace;
pub mod virtual_memory;
mod waiting_call;
pub mod work;
