//! Kernels that are written in CUDA C++.

use super::subject::Subject;

/// How many there are.
pub(super) fn count() -> usize {
    0
}

/// The kernel of that number.
pub(super) fn subject(_: usize) -> Option<Subject> {
    None
}
