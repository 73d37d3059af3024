//! Memory of the device, which the caller has.
//!
//! Kernels may race: two threads of a grid may access the same bytes at the same time. So that such a program is a program
//! with a race, and not undefined behaviour of this process, every access of the interpreter to global memory is a relaxed
//! atomic one of 1, 2, 4 or 8 bytes, or a block of them that assembly copies, which the compiler sees as a sequence of such
//! accesses ([`Vectors`]). Memory of a block and of a thread is only accessed by the thread that runs
//! the block.

use crate::types::Space;

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

/// Copies of blocks with the vectors of a level.
///
/// The vectors are as wide as those that other operations read and write, so that these need not wait until what was
/// written in smaller parts has reached memory.
pub(crate) trait Vectors {
    /// Copies `BYTES` bytes, a multiple of 32: as relaxed atomic loads of words of 4 bytes, and as relaxed atomic stores of
    /// such words. Bytes are copied in any order.
    ///
    /// # Safety
    ///
    /// The bytes of `from` may be read and those of `to` may be written with atomic accesses, and the processor has the
    /// vectors.
    unsafe fn copy<const BYTES: usize>(from: *const u8, to: *mut u8);
}

/// 16 bytes at a time, or words where no assembly is.
pub(crate) struct Short;

#[cfg(target_arch = "x86_64")]
/// 32 bytes at a time.
pub(crate) struct Middle;

#[cfg(target_arch = "x86_64")]
/// 64 bytes at a time.
pub(crate) struct Long;

/// Copies in steps of a size, with an instruction for loads and for stores, and the name of a register.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! steps {
    ($from:ident, $to:ident, $start:expr, $end:expr, $step:literal, $load:literal, $store:literal) => {
        let mut at = $start;
        while at < $end {
            // SAFETY: both ranges have these bytes, as the caller promises. The processor accesses each aligned word of the
            // vector at once, as relaxed atomic accesses do.
            unsafe {
                std::arch::asm!(
                    $load,
                    $store,
                    from = in(reg) $from.add(at),
                    to = in(reg) $to.add(at),
                    out("xmm15") _,
                    options(nostack, preserves_flags),
                );
            }
            at += $step;
        }
    };
}

impl Vectors for Short {
    #[inline(always)]
    unsafe fn copy<const BYTES: usize>(from: *const u8, to: *mut u8) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            steps!(from, to, 0, BYTES, 16, "movups xmm15, [{from}]", "movups [{to}], xmm15");
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        {
            use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
            // SAFETY: both ranges have these bytes, as the caller promises, and words are aligned where they are accessed.
            unsafe {
                if (from.addr() | to.addr()).is_multiple_of(4) {
                    for at in (0..BYTES).step_by(4) {
                        let value = AtomicU32::from_ptr(from.add(at).cast_mut().cast()).load(Ordering::Relaxed);
                        AtomicU32::from_ptr(to.add(at).cast()).store(value, Ordering::Relaxed);
                    }
                } else {
                    for at in 0..BYTES {
                        let value = AtomicU8::from_ptr(from.add(at).cast_mut()).load(Ordering::Relaxed);
                        AtomicU8::from_ptr(to.add(at)).store(value, Ordering::Relaxed);
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Vectors for Middle {
    #[inline(always)]
    unsafe fn copy<const BYTES: usize>(from: *const u8, to: *mut u8) {
        #[cfg(not(miri))]
        {
            steps!(from, to, 0, BYTES, 32, "vmovups ymm15, [{from}]", "vmovups [{to}], ymm15");
        }
        #[cfg(miri)]
        // SAFETY: the caller's promise is passed on.
        unsafe {
            Short::copy::<BYTES>(from, to);
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Vectors for Long {
    #[inline(always)]
    unsafe fn copy<const BYTES: usize>(from: *const u8, to: *mut u8) {
        #[cfg(not(miri))]
        {
            let whole = BYTES / 64 * 64;
            steps!(from, to, 0, whole, 64, "vmovups zmm15, [{from}]", "vmovups [{to}], zmm15");
            steps!(from, to, whole, BYTES, 32, "vmovups ymm15, [{from}]", "vmovups [{to}], ymm15");
        }
        #[cfg(miri)]
        // SAFETY: the caller's promise is passed on.
        unsafe {
            Short::copy::<BYTES>(from, to);
        }
    }
}
