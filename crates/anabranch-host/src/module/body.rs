//! What a kernel is: closures of the program, or PTX.

use super::ptx::PtxKernel;
use crate::limits::MAX_THREADS_PER_BLOCK;
use anabranch_hal::{HostFunction, ParameterInfo};

/// What a kernel runs.
#[derive(Debug)]
pub(crate) enum Body {
    Closures(HostFunction),
    Ptx(PtxKernel),
}

impl Body {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Closures(function) => function.name(),
            Self::Ptx(kernel) => kernel.name(),
        }
    }

    /// The sizes of the parameters in bytes.
    pub(crate) fn parameter_sizes(&self) -> &[usize] {
        match self {
            Self::Closures(function) => function.parameter_sizes(),
            Self::Ptx(kernel) => kernel.parameter_sizes(),
        }
    }

    /// Where the parameters are. Closures have those of their sizes, as a compiler would lay them out.
    pub(crate) fn parameters(&self) -> Vec<ParameterInfo> {
        let function = match self {
            Self::Closures(function) => function,
            Self::Ptx(kernel) => return kernel.parameters(),
        };
        let mut end: usize = 0;
        let parameters = function.parameter_sizes().iter().map(|&size| {
            let offset = end.next_multiple_of(alignment(size));
            end = offset + size;
            ParameterInfo { offset, size }
        });
        parameters.collect()
    }

    pub(crate) fn static_shared_bytes(&self) -> u32 {
        match self {
            Self::Closures(function) => function.static_shared_bytes(),
            Self::Ptx(kernel) => kernel.function().shared_bytes,
        }
    }

    /// How many threads a block can have.
    pub(crate) fn most_threads(&self) -> u32 {
        let most = match self {
            Self::Closures(_) => None,
            Self::Ptx(kernel) => kernel.function().most_threads(),
        };
        most.and_then(|most| u32::try_from(most).ok()).unwrap_or(MAX_THREADS_PER_BLOCK).min(MAX_THREADS_PER_BLOCK)
    }

    /// The size of clusters that the kernel was compiled for.
    pub(crate) fn required_cluster(&self) -> Option<[u32; 3]> {
        match self {
            Self::Closures(_) => None,
            Self::Ptx(kernel) => kernel.function().required_cluster(),
        }
    }

    /// The local memory of a thread, in bytes.
    pub(crate) fn local_bytes(&self) -> u32 {
        match self {
            Self::Closures(_) => 0,
            Self::Ptx(kernel) => kernel.function().local_bytes,
        }
    }

    /// The constant memory of its module, in bytes.
    pub(crate) fn constant_bytes(&self) -> u32 {
        match self {
            Self::Closures(_) => 0,
            Self::Ptx(kernel) => kernel.constant_bytes(),
        }
    }

    /// How many parts follow each other, of which each runs all blocks.
    pub(super) fn stages(&self) -> usize {
        match self {
            Self::Closures(function) => function.stages().len(),
            Self::Ptx(_) => 1,
        }
    }
}

/// The largest alignment that a parameter of that size can have, which is that of numbers, of pointers and of most structures.
fn alignment(size: usize) -> usize {
    const LARGEST: usize = 16;
    if size == 0 { 1 } else { LARGEST.min(1 << size.trailing_zeros()) }
}
