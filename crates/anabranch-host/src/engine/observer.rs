//! What the engine reports about work to a checker of memory.

use anabranch_hal::KernelFault;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;

/// A range of addresses that work uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// Whether it may be host memory that the driver knows nothing of.
    pub(crate) may_be_host: bool,
}

/// Work, and the memory that it uses.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) name: Cow<'static, str>,
    pub(crate) uses: SmallVec<[Use; 4]>,
}

/// Whether work is about to run, or has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    After,
}

/// Checks work when it runs.
pub(crate) trait Observer: fmt::Debug + Send + Sync {
    /// Looks at the memory that work of a stream of a device uses. An error loses the stream's context.
    fn check(&self, operation: &Operation, stream: u64, device: u32, moment: Moment) -> Result<(), KernelFault>;

    /// Calls `read`, which reads memory at an address, unless that memory is freed. It is not freed meanwhile.
    fn unless_freed(&self, address: u64, read: &mut dyn FnMut());
}

impl Use {
    /// Memory that the driver knows.
    pub(crate) fn device(address: u64, bytes: u64) -> Self {
        Self { address, bytes, may_be_host: false }
    }
}

impl Operation {
    pub(crate) fn new(name: &'static str, uses: impl IntoIterator<Item = Use>) -> Self {
        Self { name: Cow::Borrowed(name), uses: uses.into_iter().collect() }
    }
}
