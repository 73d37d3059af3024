//! What memory work uses.

use crate::engine::entry::Entry;
use crate::engine::kernel::{KernelReference, KernelWork};
use crate::engine::value::ValueCondition;
use crate::graph::{Action, ValueStep};
use crate::memory::volume_range;
use anabranch_hal::{Copy3d, CopyPlace, FillNode, UsedRange, Value};
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::sync::Arc;

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
    name: Name,
    pub(super) uses: SmallVec<[Use; 4]>,
}

#[derive(Debug)]
enum Name {
    Kernel(KernelReference),
    Other(&'static str),
}

impl Operation {
    fn new(name: &'static str, uses: SmallVec<[Use; 4]>) -> Self {
        Self { name: Name::Other(name), uses }
    }

    /// What a copy reads from the host when it is put in line.
    pub(crate) fn staging(address: u64, bytes: usize) -> Self {
        Self::new("the staging of a copy", smallvec![Use { address, bytes: bytes as u64, may_be_host: true }])
    }

    /// What an entry uses. `None`: no memory that can be checked.
    pub(crate) fn of_entry(entry: &Entry) -> Option<Self> {
        match entry {
            Entry::Kernel(work) => Some(Self::of_kernel(work)),
            Entry::Copy { destination, source, bytes, to_host, from_host } => {
                let bytes = *bytes as u64;
                let end = |address, may_be_host| Use { address, bytes, may_be_host };
                Some(Self::new("a copy", smallvec![end(*source, *from_host), end(*destination, *to_host)]))
            }
            Entry::SmallCopy { destination, length, .. } => {
                Some(Self::new("a copy", smallvec![device(*destination, u64::from(*length))]))
            }
            Entry::StagedCopy { destination, source } => {
                Some(Self::new("a copy", smallvec![device(*destination, source.data().len() as u64)]))
            }
            Entry::Copy3d(copy) => Some(Self::of_copy_3d(copy)),
            Entry::Fill { address, pattern, count } => {
                Some(Self::new("a fill", smallvec![device(*address, count.saturating_mul(pattern.width()) as u64)]))
            }
            Entry::WaitValue(condition) => Some(Self::of_wait(condition)),
            Entry::WriteValue { address, value } => Some(Self::of_write(*address, *value)),
            _ => None,
        }
    }

    /// What a node uses that neither waits nor calls the host, or a conditional one by itself.
    pub(crate) fn of_action(action: &Action, kernel: Option<&Arc<KernelWork>>) -> Option<Self> {
        match (action, kernel) {
            (Action::Kernel(_), Some(work)) => Some(Self::of_kernel(work)),
            (Action::Copy(copy), _) => Some(Self::of_copy_3d(copy)),
            (Action::Fill(fill), _) => Some(Self::of_fill(fill)),
            _ => None,
        }
    }

    /// What one step of a node of values uses.
    pub(crate) fn of_value_step(step: &ValueStep) -> Self {
        match step {
            ValueStep::Wait(condition) => Self::of_wait(condition),
            ValueStep::Write { address, value } => Self::of_write(*address, *value),
        }
    }

    fn of_kernel(work: &KernelWork) -> Self {
        let uses =
            work.ranges.iter().map(UsedRange::declared).map(|range| device(range.address, range.bytes)).collect();
        Self { name: Name::Kernel(work.kernel), uses }
    }

    fn of_copy_3d(copy: &Copy3d) -> Self {
        let end = |place: &CopyPlace| {
            // What overflows was refused when the copy was put in line.
            let (address, bytes) = volume_range(place, copy.extent).unwrap_or((place.address, 0));
            Use { address, bytes: bytes as u64, may_be_host: place.host }
        };
        Self::new("a copy", smallvec![end(&copy.source), end(&copy.destination)])
    }

    fn of_fill(fill: &FillNode) -> Self {
        let row = fill.width.saturating_mul(fill.pattern.width());
        let bytes = fill.height.saturating_sub(1).saturating_mul(fill.pitch).saturating_add(row);
        Self::new("a fill", smallvec![device(fill.address.0, bytes as u64)])
    }

    fn of_wait(condition: &ValueCondition) -> Self {
        Self::new("a wait for a value", smallvec![device(condition.address(), condition.width())])
    }

    fn of_write(address: u64, value: Value) -> Self {
        Self::new("a write of a value", smallvec![device(address, value.width())])
    }
}

/// Memory that the driver knows.
fn device(address: u64, bytes: u64) -> Use {
    Use { address, bytes, may_be_host: false }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Name::Kernel(kernel) => write!(formatter, "the kernel `{}`", kernel.get().function.name()),
            Name::Other(name) => formatter.write_str(name),
        }
    }
}
