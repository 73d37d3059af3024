//! Addresses that lie side by side: what most loads and stores of all lanes have.

use super::load::{
    ABSOLUTE, CONSTANT, GENERIC, GLOBAL, INDEXED, NARROW, SHARED, SHIFT, SIGNED, SPACE, base_of, index_of, slow,
};
use crate::machine::{FULL, Lanes, Op, SHARED_WINDOW, Vectors};
use crate::memory::{AccessKind, ROW};

/// What the lanes of a row access.
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// Where the first lane does, in this process.
    pub(super) address: u64,
    /// The others do so one after the other, without gaps; or else all of them at one place.
    pub(super) contiguous: bool,
}

/// The rows of an access of all lanes, if that is what they are, and it needs no further look. What they access may be
/// accessed so. `bytes` is what each lane accesses: a number that the compiler knows, where it can.
///
/// # Safety
///
/// `a` is a plane of the size that `flags` says, and the processor has the vectors.
#[inline(always)]
pub(super) unsafe fn find<V: Vectors>(
    lanes: &mut Lanes<'_>,
    op: &Op,
    kind: AccessKind,
    bytes: u64,
) -> Option<[Row; 2]> {
    if lanes.mask != FULL || op.flags & ABSOLUTE != 0 || lanes.observer.is_some() {
        return None;
    }
    let (narrow, indexed) = (op.flags & NARROW != 0, op.flags & INDEXED != 0);
    let shift = op.flags >> SHIFT & 63;
    // Elements that lie side by side have indexes that do.
    let step = (bytes >> shift) as u32;
    let fits = u64::from(step) << shift == bytes;
    // SAFETY: as the caller promises.
    let base = unsafe { base_of(lanes, op) };
    let mut rows = [Row { address: 0, contiguous: true }; 2];
    let mut ends = [0; 2];
    for (index, row) in rows.iter_mut().enumerate() {
        // SAFETY: as the caller promises; each half of a plane is a row.
        let (first, contiguous) = unsafe {
            if narrow {
                let own = &*lanes.plane::<u32>(op.a).cast::<[u32; ROW]>().add(index);
                let contiguous = own[0] != own[1];
                let stride = if contiguous { bytes as u32 } else { 0 };
                V::strided_narrow(own, stride).then_some((u64::from(own[0].wrapping_add(op.imm as u32)), contiguous))?
            } else if indexed {
                let own = &*lanes.plane::<u32>(op.a).cast::<[u32; ROW]>().add(index);
                let contiguous = own[0] != own[1];
                if contiguous && !fits {
                    return None;
                }
                let stride = if contiguous { step } else { 0 };
                // Indexes that wrap around are not side by side once they are extended.
                if op.flags & SIGNED != 0 {
                    own[0].cast_signed().checked_add_unsigned(stride * (ROW as u32 - 1))?;
                } else {
                    own[0].checked_add(stride * (ROW as u32 - 1))?;
                }
                let first = index_of(op.flags, own[0]).wrapping_add(base);
                // Mostly the step is one, which the compiler then knows.
                let strided = match stride {
                    1 => V::strided_narrow(own, 1),
                    stride => V::strided_narrow(own, stride),
                };
                strided.then_some((first, contiguous))?
            } else {
                let own = &*lanes.plane::<u64>(op.a).cast::<[u64; ROW]>().add(index);
                let contiguous = own[0] != own[1];
                let strided = if contiguous { V::strided(own, bytes) } else { V::strided(own, 0) };
                strided.then_some((own[0].wrapping_add(base), contiguous))?
            }
        };
        *row = Row { address: first, contiguous };
        ends[index] = first.checked_add(if contiguous { ROW as u64 * bytes } else { bytes })?;
        if narrow && ends[index] > 1 << 32 || first & (bytes - 1) != 0 {
            return None;
        }
    }
    let (end, least) = (ends[0].max(ends[1]), rows[0].address.min(rows[1].address));
    let delta = match op.flags & SPACE {
        SHARED if end <= lanes.shared.bytes => lanes.shared.start,
        GLOBAL | GENERIC | CONSTANT if end <= SHARED_WINDOW => {
            if lanes.direct {
                return Some(rows);
            }
            slow::region(lanes, super::load::place(op), (least, end), kind)?
        }
        _ => return None,
    };
    Some(rows.map(|row| Row { address: row.address.wrapping_add(delta), ..row }))
}
