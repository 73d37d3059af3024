//! Addresses that lie side by side: what most loads and stores of all lanes have.
//!
//! An access looks at the register of its address itself, or at its *shape*, which an operation of its own has noted when
//! the register was written: where several accesses use one register.

use super::load::{
    ABSOLUTE, CONSTANT, GENERIC, GLOBAL, INDEXED, NARROW, SHAPED, SHARED, SIGNED, SPACE, base_of, index_of, place, slow,
};
use crate::machine::{Body, FULL, Form, LANES, Lanes, Op, SHARED_WINDOW, Slot, Step, Vectors, Width};
use crate::memory::{AccessKind, ROW};

/// How the addresses go on from lane to lane that a register gives to accesses, without what they add for all lanes. It is in
/// a plane of 32 bits, which is zero at first: so is the register, whose shape that is then.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    rows: [Line; 2],
    kind: u64,
}

/// The addresses of a row: the first one, and how many bytes lead from each to the next.
#[repr(C)]
#[derive(Clone, Copy)]
struct Line {
    first: u64,
    step: u64,
}

/// Each row goes on evenly.
const ROWS: u64 = 0;
/// So do both as one.
const WHOLE: u64 = 1;
/// They do not.
const UNEVEN: u64 = 2;

const _: () = assert!(size_of::<Shape>() <= Width::W32.slot_bytes() as usize);

impl Shape {
    #[inline(always)]
    fn of(even: bool, first: [u64; 2], step: [u64; 2]) -> Shape {
        let together = step[0] == step[1] && first[1] == first[0].wrapping_add((ROW as u64).wrapping_mul(step[0]));
        let kind = match (even, together) {
            (false, _) => UNEVEN,
            (true, true) => WHOLE,
            (true, false) => ROWS,
        };
        let line = |row: usize| Line { first: first[row], step: step[row] };
        Shape { rows: [line(0), line(1)], kind }
    }

    /// That of a register, which an operation has noted.
    ///
    /// # Safety
    ///
    /// The slot is a plane of 32 bits that has the shape.
    #[inline(always)]
    unsafe fn noted<'s>(lanes: &Lanes<'_>, slot: Slot) -> &'s Shape {
        // SAFETY: the plane is large enough, and aligned as planes are. Whoever asks writes no register before it has looked.
        unsafe { &*lanes.plane::<u32>(slot).cast::<Shape>() }
    }
}

/// Numbers of a register that addresses are made of.
pub(crate) trait Numbers: Copy {
    /// Their shape.
    ///
    /// # Safety
    ///
    /// The processor has the vectors.
    unsafe fn shape<V: Vectors>(own: &[Self; LANES], flags: u32) -> Shape;
}

impl Numbers for u64 {
    #[inline(always)]
    unsafe fn shape<V: Vectors>(own: &[u64; LANES], _: u32) -> Shape {
        let (rows, _) = own.as_chunks::<ROW>();
        let first = [rows[0][0], rows[1][0]];
        let step = [rows[0][1].wrapping_sub(first[0]), rows[1][1].wrapping_sub(first[1])];
        // SAFETY: the processor has the vectors, as the caller promises.
        let even = unsafe { V::strided(&rows[0], step[0]) && V::strided(&rows[1], step[1]) };
        Shape::of(even, first, step)
    }
}

impl Numbers for u32 {
    #[inline(always)]
    unsafe fn shape<V: Vectors>(own: &[u32; LANES], flags: u32) -> Shape {
        // Indexes that wrap around are not side by side once they are extended: the last one is less than the first.
        let sign = if flags & SIGNED != 0 { 1 << 31 } else { 0 };
        let last = own[LANES - 1];
        // Mostly each index is one more than the one before, which is quicker to see of all.
        let may = flags & INDEXED != 0 && last.wrapping_sub(own[0]) == LANES as u32 - 1 && last ^ sign >= own[0] ^ sign;
        // SAFETY: the processor has the vectors, as the caller promises.
        if may && unsafe { V::strided_narrow(own, 1) } {
            let (first, step) = (index_of(flags, own[0]), index_of(flags & !SIGNED, 1));
            let line = |row: u64| Line { first: first.wrapping_add(row * ROW as u64 * step), step };
            return Shape { rows: [line(0), line(1)], kind: WHOLE };
        }
        let (rows, _) = own.as_chunks::<ROW>();
        let first = [rows[0][0], rows[1][0]];
        let step = [rows[0][1].wrapping_sub(first[0]), rows[1][1].wrapping_sub(first[1])];
        // SAFETY: the processor has the vectors, as the caller promises.
        let even = unsafe { V::strided_narrow(&rows[0], step[0]) && V::strided_narrow(&rows[1], step[1]) };
        if flags & INDEXED == 0 {
            return Shape::of(even, first.map(u64::from), step.map(u64::from));
        }
        let rises = |row: usize| rows[row][ROW - 1] ^ sign >= first[row] ^ sign;
        let step = step.map(|step| index_of(flags & !SIGNED, step));
        Shape::of(even && rises(0) && rises(1), first.map(|first| index_of(flags, first)), step)
    }
}

/// Notes the shape of a register: `d`, a plane of 32 bits, is that of `a`, as accesses with these `flags` use it. All lanes
/// count, also those that do not run: it is the shape of the plane as it is.
pub(crate) struct Note<T>(std::marker::PhantomData<T>);

impl<T: Numbers> Body for Note<T> {
    const FORM: Form = Form::one(Width::W32, Width::of_type::<T>());

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: `a` is a plane of this type and `d` one of 32 bits, which is large enough, and aligned as planes are; the
        // processor has the vectors.
        unsafe {
            let shape = T::shape::<V>(&*lanes.plane::<T>(op.a), op.flags);
            lanes.plane::<u32>(op.d).cast::<Shape>().write(shape);
        }
        Step::Next
    }
}

/// What the lanes of a row access.
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// Where the first lane does, in this process.
    pub(super) address: u64,
    /// The others do so one after the other, without gaps; or else all of them at one place.
    pub(super) contiguous: bool,
}

/// An address within its space, of what a register gives and of what is added.
#[inline(always)]
fn address_of(flags: u32, first: u64, base: u64) -> u64 {
    let address = first.wrapping_add(base);
    if flags & NARROW != 0 { address & u64::from(u32::MAX) } else { address }
}

/// What leads to addresses of this process from those before `end` of which the least is `first`, if they may be accessed
/// so and need no further look. `LOOK`: a part of global memory that is not known yet is looked up.
#[inline(always)]
fn reach<const LOOK: bool>(lanes: &mut Lanes<'_>, op: &Op, kind: AccessKind, (first, end): (u64, u64)) -> Option<u64> {
    let space = op.flags & SPACE;
    if end < first || op.flags & NARROW != 0 && end > 1 << 32 {
        return None;
    }
    if !matches!(space, GENERIC | GLOBAL | CONSTANT) {
        return (space == SHARED && end <= lanes.shared.bytes).then_some(lanes.shared.start);
    }
    if end > SHARED_WINDOW {
        return None;
    }
    if lanes.direct {
        return Some(0);
    }
    if LOOK {
        return slow::region(lanes, place(op), (first, end), kind);
    }
    let known = lanes.regions.at(place(op));
    known.has(first, end, kind).then_some(known.delta)
}

/// The noted shape of the register of an address. `None`: no shape was noted, not all lanes run, or accesses are observed.
///
/// # Safety
///
/// The planes are those that `flags` says.
#[inline(always)]
pub(super) unsafe fn noted<'s>(lanes: &Lanes<'_>, op: &Op) -> Option<&'s Shape> {
    if op.flags & SHAPED == 0 || lanes.mask != FULL || lanes.observer.is_some() {
        return None;
    }
    // SAFETY: as the caller promises.
    Some(unsafe { Shape::noted(lanes, op.c) })
}

/// Where in this process the first lane accesses memory, if the others do so one after the other without gaps, it needs no
/// further look, and its part of memory is known. The lanes may access that memory. It is quicker than `find`, which finds
/// these and more. `bytes` is what each lane accesses, a number that the compiler knows.
///
/// # Safety
///
/// The planes are those that `flags` says.
#[inline(always)]
pub(super) unsafe fn whole(lanes: &mut Lanes<'_>, op: &Op, kind: AccessKind, shape: &Shape, bytes: u64) -> Option<u64> {
    if shape.kind != WHOLE || shape.rows[0].step != bytes {
        return None;
    }
    // SAFETY: as the caller promises.
    let base = unsafe { base_of(lanes, op) };
    let address = address_of(op.flags, shape.rows[0].first, base);
    if address & (bytes - 1) != 0 {
        return None;
    }
    let end = address.wrapping_add(LANES as u64 * bytes);
    Some(address.wrapping_add(reach::<false>(lanes, op, kind, (address, end))?))
}

/// The shape of the register of an address. `None`: the address has no register, not all lanes run, or accesses are observed.
///
/// # Safety
///
/// The planes are those that `flags` says, and the processor has the vectors.
#[inline(always)]
pub(super) unsafe fn shape<V: Vectors>(lanes: &Lanes<'_>, op: &Op) -> Option<Shape> {
    if lanes.mask != FULL || op.flags & ABSOLUTE != 0 || lanes.observer.is_some() {
        return None;
    }
    // SAFETY: as the caller promises.
    Some(unsafe {
        if op.flags & SHAPED != 0 {
            *Shape::noted(lanes, op.c)
        } else if op.flags & (NARROW | INDEXED) != 0 {
            u32::shape::<V>(&*lanes.plane::<u32>(op.a), op.flags)
        } else {
            u64::shape::<V>(&*lanes.plane::<u64>(op.a), op.flags)
        }
    })
}

/// The rows of an access of all lanes, if that is what they are, and it needs no further look. What they access may be
/// accessed so. `bytes` is what each lane accesses. `LOOK`: a part of memory that is not known yet is looked up.
///
/// # Safety
///
/// The planes are those that `flags` says.
#[inline(always)]
pub(super) unsafe fn find<const LOOK: bool>(
    lanes: &mut Lanes<'_>,
    op: &Op,
    kind: AccessKind,
    shape: &Shape,
    bytes: u64,
) -> Option<[Row; 2]> {
    if shape.kind == UNEVEN {
        return None;
    }
    // SAFETY: as the caller promises.
    let base = unsafe { base_of(lanes, op) };
    let mut rows = [Row { address: 0, contiguous: true }; 2];
    let mut ends = [0; 2];
    for (index, line) in shape.rows.iter().enumerate() {
        let contiguous = line.step != 0;
        if contiguous && line.step != bytes {
            return None;
        }
        let address = address_of(op.flags, line.first, base);
        rows[index] = Row { address, contiguous };
        ends[index] = address.wrapping_add(if contiguous { ROW as u64 * bytes } else { bytes });
        if address & (bytes - 1) != 0 || ends[index] < address {
            return None;
        }
    }
    let (end, least) = (ends[0].max(ends[1]), rows[0].address.min(rows[1].address));
    let delta = reach::<LOOK>(lanes, op, kind, (least, end))?;
    Some(rows.map(|row| Row { address: row.address.wrapping_add(delta), ..row }))
}
