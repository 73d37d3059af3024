//! Memory of the device, which the caller has.
//!
//! Kernels may race: two threads of a grid may access the same bytes at the same time. So that such a program is a program
//! with a race, and not undefined behaviour of this process, every access of the interpreter to global memory is a relaxed
//! atomic one of 1, 2, 4, 8 or 16 bytes, or a block of them that assembly copies, which the compiler sees as a sequence of such
//! accesses ([`Vectors`]). Memory of a block and of a thread is only accessed by the thread that runs
//! the block.

mod vectors;
pub(crate) mod whole;

use crate::types::Space;

#[cfg(target_arch = "x86_64")]
pub(crate) use vectors::{Long, Middle};
pub(crate) use vectors::{ROW, Short, Vectors};

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum AccessKind {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An atomic operation.
    Atomic,
}

/// An access of one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Access {
    /// The address: within its space for shared and local memory, and else generic.
    pub address: u64,
    /// How many bytes.
    pub bytes: u32,
    /// The space, never [`Space::Generic`].
    pub space: Space,
    /// What it does.
    pub kind: AccessKind,
}

/// A contiguous part of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Its first address on the device.
    pub address: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Where it is in this process, with exposed provenance.
    pub pointer: *mut u8,
    /// Whether it may be written.
    pub writable: bool,
}

impl Region {
    /// No memory.
    pub const EMPTY: Region = Region { address: 0, bytes: 0, pointer: std::ptr::null_mut(), writable: false };

    /// Whether the bytes from `first` to before `end` are in the region.
    #[inline(always)]
    pub fn contains(&self, first: u64, end: u64) -> bool {
        first >= self.address && end >= first && end - self.address <= self.bytes
    }
}

/// Global memory.
///
/// # Safety
///
/// The memory of a [`Region`] that `region` returns may be read, and written if it says so, with atomic accesses by any
/// thread, until the runs of all blocks that this memory was given to have been dropped. Its pointer is aligned as its
/// address is, up to 16 bytes, and its provenance is exposed.
pub unsafe trait GlobalMemory: Sync {
    /// The largest part of memory that contains the byte at this address, if there is one.
    fn region(&self, address: u64) -> Option<Region>;

    /// Whether addresses are those of this process, and are used as they are, with nothing to look up. What the kernel
    /// then accesses is not checked at all.
    fn is_direct(&self) -> bool {
        false
    }
}

/// Memory whose addresses are those of this process.
#[derive(Debug)]
pub struct DirectMemory(());

impl DirectMemory {
    /// Memory that is not checked.
    ///
    /// # Safety
    ///
    /// The caller promises of each kernel that is run with it that it accesses only memory of this process that may be
    /// accessed so, with atomic accesses, while it runs.
    pub unsafe fn new() -> DirectMemory {
        DirectMemory(())
    }
}

// SAFETY: no region is returned, and direct accesses are the promise of the one who called `new`.
unsafe impl GlobalMemory for DirectMemory {
    fn region(&self, _: u64) -> Option<Region> {
        None
    }

    fn is_direct(&self) -> bool {
        true
    }
}
