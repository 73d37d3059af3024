//! What operations work on: the lanes of a warp and their registers.
//!
//! A register is a *plane*: 32 values side by side, one for each lane. A frame of a function is one piece of memory, in
//! which each register, each constant and each predicate (32 bits, one for each lane) has its *slot*, an offset in bytes.
//! Lowering hands out slots, and checks of each function that its operations use slots within the frame, of the sizes that
//! they expect (`lower/check.rs`): that is what the unsafe code of operations relies on.

mod form;
mod level;

pub(crate) use form::{Form, Use, When, Width};
pub(crate) use level::{Body, Select, body, body_and_rest, body_of, body_of_few, few_and_rest};
pub use level::{Level, detect};

use crate::fault::{Detail, FaultCode};
use crate::memory::{Access, AccessKind, GlobalMemory};

pub(crate) use crate::memory::Vectors;
use crate::types::Space;

/// Lanes in a warp.
pub(crate) const LANES: usize = 32;

/// A mask with all lanes.
pub(crate) const FULL: u32 = u32::MAX;

/// Where generic addresses point to shared memory: addresses from here.
pub const SHARED_WINDOW: u64 = 1 << 56;

/// Where generic addresses point to a thread's own memory.
pub const LOCAL_WINDOW: u64 = 2 << 56;

/// Where generic addresses point to parameters of the kernel.
pub const PARAMETER_WINDOW: u64 = 3 << 56;

/// Where the addresses of functions begin.
pub(crate) const FUNCTION_WINDOW: u64 = 4 << 56;

/// The bytes of each window.
pub(crate) const WINDOW_BYTES: u64 = 1 << 56;

/// A place in a frame, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub(crate) struct Slot(pub(crate) u32);

/// What happens after an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Step {
    /// The next operation.
    Next,
    /// The operation that `target` names.
    Jump,
    /// The lanes of `taken` jump, the others go on.
    Diverge,
    /// A call of the function that `target` names.
    Call,
    /// A call of the functions whose addresses are in `addresses`.
    CallIndirect,
    /// Back to the caller.
    Return,
    /// The lanes of `taken` have ended.
    Exit,
    /// The lanes wait at a barrier.
    Barrier,
    /// Lanes need others that are not here. Those of `taken` go on.
    Gather,
    /// Others should run before these go on.
    Yield,
    /// `fault` says what happened.
    Fault,
}

/// A function that performs an operation.
pub(crate) type Run = unsafe fn(&mut Lanes<'_>, &Op) -> Step;

/// A function that puts the addresses of an access into `addresses`, of the lanes that run.
pub(crate) type Locate = unsafe fn(&mut Lanes<'_>, &Op, AccessKind) -> Step;

/// An operation, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Op {
    pub(crate) run: Run,
    /// What a guarded operation does for the lanes whose guard holds.
    pub(crate) inner: Run,
    /// What the operation goes on with where it is not what it mostly is.
    pub(crate) rest: Run,
    pub(crate) d: Slot,
    pub(crate) a: Slot,
    pub(crate) b: Slot,
    pub(crate) c: Slot,
    pub(crate) e: Slot,
    /// The predicate of a guarded operation or of a branch.
    pub(crate) guard: Slot,
    /// A number: an offset, a kind, a set of flags.
    pub(crate) imm: u64,
    /// Where a branch goes, which function is called.
    pub(crate) target: u32,
    /// All ones to negate the predicate that is an operand, and else zero.
    pub(crate) negate: u32,
    /// All ones to negate the guard, and else zero.
    pub(crate) guard_negate: u32,
    /// The space of an access, bits that operations define, and the size of what is accessed.
    pub(crate) flags: u32,
    pub(crate) bytes: u32,
}

/// 32 values of 64 bits, aligned for vectors.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct Wide(pub(crate) [u64; LANES]);

/// 32 values of 32 bits, aligned for vectors.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct Plane(pub(crate) [u32; LANES]);

/// What went wrong in an operation, before it is known where that operation stands.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: FaultCode,
    pub(crate) detail: Detail,
    pub(crate) lane: u32,
    pub(crate) address: Option<u64>,
    pub(crate) bytes: u32,
    pub(crate) space: Space,
}

/// Numbers of a launch that special registers tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// Blocks of a cluster, no extent of which is 0. They divide the extents of the grid, and are few.
    pub(crate) cluster: [u32; 3],
    pub(crate) dynamic_shared: u32,
    pub(crate) total_shared: u32,
    pub(crate) grid_id: u64,
}

/// What is asked about every access in checked mode.
pub(crate) trait Observer {
    /// Looks at the access of one lane; an error ends the kernel.
    fn observe(&self, warp: u32, lane: u32, access: &Access) -> Result<(), (FaultCode, Detail)>;
}

/// Memory of a block or of a warp, with a bit for each byte that says whether it has been written.
#[derive(Clone, Copy)]
pub(crate) struct Arena {
    /// Its address in this process.
    pub(crate) start: u64,
    /// Its size, of each lane where lanes have their own.
    pub(crate) bytes: u64,
}

/// A part of global memory.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    address: u64,
    bytes: u64,
    /// What leads from an address of the device to one of this process.
    pub(crate) delta: u64,
    /// As wide as the rest, so that a copy reads nothing but what was written as a whole.
    writable: u64,
}

impl Known {
    const NONE: Known = Known { address: 0, bytes: 0, delta: 0, writable: 0 };

    /// Whether the bytes from `first` to before `end` are in it, and may be accessed so.
    #[inline(always)]
    pub(crate) fn has(&self, first: u64, end: u64, kind: AccessKind) -> bool {
        first >= self.address
            && end >= first
            && end - self.address <= self.bytes
            && (kind == AccessKind::Read || self.writable != 0)
    }
}

/// How many parts of global memory are remembered.
const REMEMBERED: usize = 8;

/// The parts of global memory that were used lately, each in the place of the registers that held its addresses: mostly a
/// register points into one of them. They stay valid until the run is dropped.
pub(crate) struct Regions([Known; REMEMBERED]);

impl Regions {
    pub(crate) const EMPTY: Regions = Regions([Known::NONE; REMEMBERED]);

    /// The place for addresses of the register that points into a part.
    #[inline(always)]
    pub(crate) fn place(register: Slot) -> usize {
        // The slots of registers of 64 bits are 256 bytes from each other at least.
        (register.0 / 256) as usize % REMEMBERED
    }

    /// What is in a place.
    #[inline(always)]
    pub(crate) fn at(&self, place: usize) -> &Known {
        &self.0[place % REMEMBERED]
    }

    /// Looks up the part with this byte, and remembers it in a place.
    #[cold]
    pub(crate) fn look_up(&mut self, memory: &dyn GlobalMemory, place: usize, address: u64) {
        let end = address.saturating_add(1);
        let known = self.0.iter().copied().find(|known| known.has(address, end, AccessKind::Read));
        let found = || {
            let region = memory.region(address)?;
            let delta = (region.pointer.expose_provenance() as u64).wrapping_sub(region.address);
            let writable = region.writable.into();
            Some(Known { address: region.address, bytes: region.bytes, delta, writable })
        };
        if let Some(known) = known.or_else(found) {
            self.0[place % REMEMBERED] = known;
        }
    }
}

/// What a warp needs while it runs, and the next one after it.
pub(crate) struct Scratch {
    pub(crate) addresses: Wide,
    pub(crate) regions: Regions,
}

/// The lanes of the warp that is running.
pub(crate) struct Lanes<'l> {
    /// The frame. It is aligned to 64 bytes.
    pub(crate) registers: *mut u8,
    /// The lanes for which operations have effects. It is never empty.
    pub(crate) mask: u32,
    /// Lanes that an operation names to its caller.
    pub(crate) taken: u32,
    /// The lanes of this warp that exist and have not ended.
    pub(crate) live: u32,
    pub(crate) warp: u32,
    /// Addresses of an access.
    pub(crate) addresses: &'l mut Wide,
    pub(crate) threads: &'l [Plane; 3],
    pub(crate) block_index: [u32; 3],
    pub(crate) geometry: &'l Geometry,
    pub(crate) memory: &'l dyn GlobalMemory,
    /// Whether addresses of global memory are those of this process, with nothing to look up.
    pub(crate) direct: bool,
    /// The parts of global memory that were used.
    pub(crate) regions: &'l mut Regions,
    pub(crate) shared: Arena,
    pub(crate) local: Arena,
    /// Where the frame's part of local memory begins.
    pub(crate) frame_local: u64,
    pub(crate) parameters: Arena,
    /// Where constant variables begin and end, in order.
    pub(crate) constants: &'l [(u64, u64)],
    /// What finds the addresses of an access.
    pub(crate) locate: Locate,
    /// Something looks at every access.
    pub(crate) observer: Option<&'l dyn Observer>,
    /// An operation has read memory in a way that sees what others write.
    pub(crate) watches: bool,
    pub(crate) failure: Option<Box<Failure>>,
}

impl Lanes<'_> {
    /// The plane of a slot.
    ///
    /// # Safety
    ///
    /// Lowering has given out the slot for registers of the size of `T`.
    #[inline(always)]
    pub(crate) unsafe fn plane<T: Copy>(&self, slot: Slot) -> *mut [T; LANES] {
        // SAFETY: the slot lies within the frame, as the caller promises.
        unsafe { self.registers.add(slot.0 as usize).cast() }
    }

    /// Reads a predicate.
    ///
    /// # Safety
    ///
    /// Lowering has given out the slot for a predicate.
    #[inline(always)]
    pub(crate) unsafe fn predicate(&self, slot: Slot) -> u32 {
        // SAFETY: the slot lies within the frame and is aligned to 4 bytes at least.
        unsafe { self.registers.add(slot.0 as usize).cast::<u32>().read() }
    }

    /// Writes a predicate, for the lanes that run.
    ///
    /// # Safety
    ///
    /// As for [`predicate`](Self::predicate).
    #[inline(always)]
    pub(crate) unsafe fn set_predicate(&mut self, slot: Slot, bits: u32) {
        // SAFETY: the slot lies within the frame and is aligned to 4 bytes at least.
        unsafe {
            let place = self.registers.add(slot.0 as usize).cast::<u32>();
            place.write((place.read() & !self.mask) | (bits & self.mask));
        }
    }

    /// Writes a plane, for the lanes that run.
    ///
    /// # Safety
    ///
    /// As for [`plane`](Self::plane).
    #[inline(always)]
    pub(crate) unsafe fn set_plane<T: Copy>(&mut self, slot: Slot, values: &[T; LANES]) {
        // SAFETY: the slot is a plane of the frame, which nothing else refers to now.
        let place = unsafe { &mut *self.plane::<T>(slot) };
        if self.mask == FULL {
            *place = *values;
        } else {
            let mut chosen = *place;
            for lane in 0..LANES {
                chosen[lane] = if self.mask >> lane & 1 != 0 { values[lane] } else { chosen[lane] };
            }
            *place = chosen;
        }
    }

    /// Notes what went wrong.
    #[cold]
    pub(crate) fn fail(&mut self, failure: Failure) -> Step {
        self.failure = Some(Box::new(failure));
        Step::Fault
    }

    /// The lowest lane that runs.
    #[inline(always)]
    pub(crate) fn first(&self) -> usize {
        (self.mask.trailing_zeros() & 31) as usize
    }
}

/// Performs an operation for the lanes whose guard holds.
///
/// # Safety
///
/// The operation is one of the frame's code, whose slots lie within the frame.
pub(crate) unsafe fn guarded(lanes: &mut Lanes<'_>, op: &Op) -> Step {
    let all = lanes.mask;
    // SAFETY: the guard is a predicate of the frame.
    let mask = all & (unsafe { lanes.predicate(op.guard) } ^ op.guard_negate);
    if mask == 0 {
        return Step::Next;
    }
    lanes.mask = mask;
    // SAFETY: the caller's promise is passed on.
    let step = unsafe { (op.inner)(lanes, op) };
    lanes.mask = all;
    if step == Step::Gather {
        // Lanes whose guard does not hold wait for nobody.
        lanes.taken |= all & !mask;
    }
    step
}
