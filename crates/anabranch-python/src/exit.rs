//! What Python calls when the process is forked, and when the interpreter ends.

use crate::{host_functions, process, threads};
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// How long functions of Python that run, and calls of other threads, may take to end.
const GRACE: Duration = Duration::from_secs(1);

/// For the child of a fork.
#[pyfunction]
#[pyo3(name = "_after_fork")]
pub(crate) fn after_fork() {
    process::note_fork();
}

/// For the interpreter when it begins to end: threads of this module attach to it no more, and those that are attached have a
/// moment to leave it, as have other threads to come out of calls: a driver that ends beneath a call crashes.
#[pyfunction]
#[pyo3(name = "_at_exit")]
pub(crate) fn at_exit(py: Python<'_>) {
    process::note_exit();
    if process::is_forked() {
        return;
    }
    py.detach(|| {
        host_functions::forget_waiting();
        let deadline = Instant::now() + GRACE;
        while (threads::attached() > 0 || process::are_others_in_calls()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}
