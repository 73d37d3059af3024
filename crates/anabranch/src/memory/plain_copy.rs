//! Copies from and to plain host memory, and who makes them.

use crate::error::Result;
use crate::stream::Stream;
use anabranch_core::memory::{Allocation, MemoryAccess};
use anabranch_core::on_host::row;
use anabranch_hal::{Access, Copy3d, CopyKind, CopyPlace};

/// The longest row that any driver copies from plain memory without waiting, in bytes: it has room for about as many of them as for
/// work in a stream.
const SMALL: usize = 4096;

/// Who copies between memory and plain memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// The driver, in one call.
    Driver,
    /// A thread of the driver, because the memory is pinned: the driver's own copy between two addresses of the host waits.
    HostFunction,
    /// The driver, from or to staging memory.
    Staging,
}

impl Route {
    pub(super) fn new(stream: &Stream, plain: &PlainCopy<'_>) -> Self {
        let memory = plain.memory();
        let is_retained = memory.is_some_and(Allocation::is_retained);
        if !is_retained && !stream.core().context().keeps_others_waiting() {
            Self::Driver
        } else if memory.is_some_and(Allocation::is_pinned) {
            Self::HostFunction
        } else if !is_retained && plain.access() == Access::Write && matches!(plain.copy.extent, [0..=SMALL, 1, 1]) {
            Self::Driver
        } else {
            Self::Staging
        }
    }
}

/// A copy from or to plain memory.
#[derive(Clone, Copy)]
pub(crate) struct PlainCopy<'a> {
    /// What the call does.
    pub(crate) operation: &'static str,
    /// The memory, which is written or read. `None`: a variable is written, which is not ordered.
    pub(crate) access: Option<MemoryAccess<'a>>,
    pub(crate) copy: Copy3d,
}

impl<'a> PlainCopy<'a> {
    /// A copy of a row between two addresses, of which one is in plain memory.
    pub(crate) fn row(
        access: Option<MemoryAccess<'a>>,
        operation: &'static str,
        to: u64,
        from: u64,
        bytes: usize,
    ) -> Self {
        let (mut source, mut destination) = (row(from, bytes), row(to, bytes));
        let is_pinned = access.is_some_and(|access| access.memory.is_pinned());
        match access.map_or(Access::Write, |access| access.access) {
            Access::Read => source.host = is_pinned,
            Access::Write => destination.host = is_pinned,
        }
        Self { operation, access, copy: Copy3d { source, destination, extent: [bytes, 1, 1] } }
    }

    pub(super) fn memory(&self) -> Option<&'a Allocation> {
        self.access.map(|access| &**access.memory)
    }

    fn access(&self) -> Access {
        self.access.map_or(Access::Write, |access| access.access)
    }

    fn bytes(&self) -> usize {
        self.copy.extent.iter().product()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Makes the copy, or one of its parts, by one call of the driver.
    ///
    /// # Safety
    /// Both regions are valid until the copy has run, and until then nobody else uses the destination, or writes the source, except
    /// for work that is ordered before or after the copy. This holds for a region that is within the accessed memory.
    #[track_caller]
    pub(super) unsafe fn queue(&self, stream: &Stream, copy: &Copy3d) -> Result<()> {
        let (core, accesses) = (stream.core(), self.access.as_slice());
        let [bytes, 1, 1] = copy.extent else {
            // SAFETY: the caller promises what this asks for.
            return unsafe { core.copy_3d(self.operation, accesses, copy) };
        };
        let kind = match self.access() {
            _ if self.memory().is_some_and(Allocation::is_pinned) => CopyKind::Inferred,
            Access::Read => CopyKind::DeviceToHost,
            Access::Write => CopyKind::HostToDevice,
        };
        let (to, from) = (begin(&copy.destination), begin(&copy.source));
        // SAFETY: the caller promises what this asks for.
        unsafe { core.copy_addresses(self.operation, accesses, kind, to, from, bytes) }
    }
}

/// The address at which the region of a copy begins.
fn begin(place: &CopyPlace) -> u64 {
    let [x, y, z] = place.origin;
    place.address + ((z * place.height + y) * place.pitch + x) as u64
}
