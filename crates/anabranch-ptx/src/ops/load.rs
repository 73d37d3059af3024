//! Loads and stores.

mod copy;
pub(crate) mod slow;

use std::marker::PhantomData;
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::rows;
use super::{Fn1, convert::Extend};
use crate::machine::{Body, FULL, Form, LANES, Lanes, Level, Locate, Op, Regions, Step, Use, Vectors, When, Width};
use crate::memory::{AccessKind, Short, whole};

/// The space of an access, in the low bits of `flags`.
pub(crate) const GENERIC: u32 = 0;
pub(crate) const GLOBAL: u32 = 1;
pub(crate) const CONSTANT: u32 = 2;
pub(crate) const SHARED: u32 = 3;
pub(crate) const LOCAL: u32 = 4;
pub(crate) const PARAMETER: u32 = 5;
/// Local memory from where the frame's part begins.
pub(crate) const FRAME: u32 = 6;
pub(crate) const SPACE: u32 = 7;
/// The address is in a register of 32 bits.
pub(crate) const NARROW: u32 = 8;
/// The address is `imm` alone.
pub(crate) const ABSOLUTE: u32 = 16;
/// The number in `e`, a plane of 64 bits with the same number for all lanes, is added to the address. Of loads and stores of
/// up to three registers only.
pub(crate) const BASED: u32 = 32;
/// The register of the address has 32 bits, which are extended to 64 and shifted. With `BASED` only.
pub(crate) const INDEXED: u32 = 64;
/// It is extended by its sign.
pub(crate) const SIGNED: u32 = 128;
/// How far it is shifted: six bits of `flags` from here on.
pub(crate) const SHIFT: u32 = 8;
/// The shape of the register of the address is in `c`. Of loads and stores of one register only.
pub(crate) const SHAPED: u32 = 1 << 14;

/// What is added to the register of an address.
///
/// # Safety
///
/// Where `flags` says so, `e` is a plane of 64 bits.
#[inline(always)]
pub(super) unsafe fn base_of(lanes: &Lanes<'_>, op: &Op) -> u64 {
    if op.flags & BASED == 0 {
        return op.imm;
    }
    // SAFETY: the caller promises that plane.
    op.imm.wrapping_add(unsafe { (*lanes.plane::<u64>(op.e))[0] })
}

/// Where parts of memory are remembered that an operation has accessed: by the register that points into them.
#[inline(always)]
pub(super) fn place(op: &Op) -> usize {
    Regions::place(if op.flags & BASED != 0 { op.e } else { op.a })
}

/// The register of an address with `INDEXED`, extended and shifted.
#[inline(always)]
pub(super) fn index_of(flags: u32, register: u32) -> u64 {
    let extended = if flags & SIGNED != 0 { register.cast_signed() as u64 } else { register.into() };
    extended << (flags >> SHIFT & 63)
}

/// What is in memory.
pub(crate) trait Element: Copy + Default {
    /// # Safety
    ///
    /// The element at this address of the process may be read with an atomic access.
    unsafe fn load(address: u64) -> Self;
    /// # Safety
    ///
    /// The element at this address of the process may be written with an atomic access.
    unsafe fn store(address: u64, value: Self);
}

macro_rules! element {
    ($($type:ident $atomic:ident;)*) => {$(
        impl Element for $type {
            #[inline(always)]
            unsafe fn load(address: u64) -> $type {
                // SAFETY: the caller promises that this element may be accessed, and it is aligned.
                let place = unsafe { $atomic::from_ptr(with_exposed_provenance_mut(address as usize)) };
                place.load(Ordering::Relaxed) as $type
            }
            #[inline(always)]
            unsafe fn store(address: u64, value: $type) {
                // SAFETY: the caller promises that this element may be accessed, and it is aligned.
                let place = unsafe { $atomic::from_ptr(with_exposed_provenance_mut(address as usize)) };
                place.store(value as _, Ordering::Relaxed);
            }
        }
    )*};
}
impl Element for u128 {
    #[inline(always)]
    unsafe fn load(address: u64) -> u128 {
        // SAFETY: the caller's promise is passed on; the address is a multiple of 16.
        unsafe { whole::load_halves(address) }
    }
    #[inline(always)]
    unsafe fn store(address: u64, value: u128) {
        // SAFETY: the caller's promise is passed on; the address is a multiple of 16.
        unsafe { whole::store_halves(address, value) };
    }
}
element! {
    u8 AtomicU8;
    i8 AtomicU8;
    u16 AtomicU16;
    i16 AtomicU16;
    u32 AtomicU32;
    i32 AtomicU32;
    u64 AtomicU64;
}

/// What finds the addresses of an access, with the vectors of a level.
pub(crate) fn locate_at(level: Level) -> Locate {
    unsafe fn baseline(lanes: &mut Lanes<'_>, op: &Op, kind: AccessKind) -> Step {
        // SAFETY: the caller's promise is passed on.
        unsafe { locate_with::<Short>(lanes, op, kind) }
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn avx2(lanes: &mut Lanes<'_>, op: &Op, kind: AccessKind) -> Step {
        // SAFETY: the caller's promise is passed on.
        unsafe { locate_with::<crate::memory::Middle>(lanes, op, kind) }
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2")]
    unsafe fn avx512(lanes: &mut Lanes<'_>, op: &Op, kind: AccessKind) -> Step {
        // SAFETY: the caller's promise is passed on.
        unsafe { locate_with::<crate::memory::Long>(lanes, op, kind) }
    }
    #[cfg(target_arch = "x86_64")]
    match level {
        Level::Avx512 => return avx512,
        Level::Avx2 => return avx2,
        Level::Baseline => {}
    }
    let _ = level;
    baseline
}

/// Puts the addresses in this process of an access into `addresses`, for the lanes that run. The others get one of those.
///
/// # Safety
///
/// `a` is a plane of the size that `flags` says.
#[inline(always)]
unsafe fn locate_with<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op, kind: AccessKind) -> Step {
    // The addresses stay in memory: local arrays of 32 would be taken apart into registers one by one.
    if op.flags & ABSOLUTE != 0 {
        lanes.addresses.0 = [op.imm; LANES];
    } else if op.flags & NARROW != 0 {
        // SAFETY: `a` is a plane of 32 bits.
        let base = unsafe { &*lanes.plane::<u32>(op.a) };
        for lane in 0..LANES {
            lanes.addresses.0[lane] = u64::from(base[lane].wrapping_add(op.imm as u32));
        }
    } else if op.flags & INDEXED != 0 {
        // SAFETY: `a` is a plane of 32 bits, and `e` is one of 64.
        let (indexes, base) = unsafe { (&*lanes.plane::<u32>(op.a), base_of(lanes, op)) };
        for lane in 0..LANES {
            lanes.addresses.0[lane] = index_of(op.flags, indexes[lane]).wrapping_add(base);
        }
    } else {
        // SAFETY: `a` is a plane of 64 bits, and so is `e` with `BASED`.
        let (starts, base) = unsafe { (&*lanes.plane::<u64>(op.a), base_of(lanes, op)) };
        // SAFETY: the processor has the vectors of this level.
        unsafe { V::sums(starts, base, &mut lanes.addresses.0) };
    }
    if lanes.mask != FULL {
        let one = lanes.addresses.0[lanes.first()];
        let mask = lanes.mask;
        for lane in 0..LANES {
            let own = lanes.addresses.0[lane];
            lanes.addresses.0[lane] = if mask >> lane & 1 != 0 { own } else { one };
        }
    }
    let space = op.flags & SPACE;
    let bytes = u64::from(op.bytes);
    // SAFETY: the processor has the vectors of this level, here and below.
    let bits = unsafe { V::bits(&lanes.addresses.0) };
    if bits & (bytes - 1) != 0 || lanes.observer.is_some() {
        return slow::locate(lanes, op, kind);
    }
    if lanes.direct && matches!(space, GLOBAL | GENERIC | CONSTANT) && bits < crate::machine::SHARED_WINDOW {
        return Step::Next;
    }
    // SAFETY: as above.
    let (least, most) = unsafe { V::range(&lanes.addresses.0) };
    let Some(end) = most.checked_add(bytes) else { return slow::locate(lanes, op, kind) };
    let delta = match space {
        SHARED if end <= lanes.shared.bytes => lanes.shared.start,
        GLOBAL | GENERIC | CONSTANT if most < crate::machine::SHARED_WINDOW => {
            match slow::region(lanes, place(op), (least, end), kind) {
                Some(delta) => delta,
                None => return slow::locate(lanes, op, kind),
            }
        }
        LOCAL | FRAME => {
            let base = if space == FRAME { lanes.frame_local } else { 0 };
            if end.saturating_add(base) > lanes.local.bytes {
                return slow::locate(lanes, op, kind);
            }
            for lane in 0..LANES {
                lanes.addresses.0[lane] += lanes.local.start + base + lane as u64 * lanes.local.bytes;
            }
            return Step::Next;
        }
        PARAMETER if end <= lanes.parameters.bytes && kind == AccessKind::Read => lanes.parameters.start,
        _ => return slow::locate(lanes, op, kind),
    };
    let addresses = &raw mut lanes.addresses.0;
    // SAFETY: the processor has the vectors of this level; each address is read before it is written.
    unsafe { V::sums(&*addresses.cast_const(), delta, addresses) };
    Step::Next
}

/// A load of up to four elements `E` to registers of `size_of::<R>()` bytes: `d`, `b`, `c`, `e`; `target` is how many.
pub(crate) struct Load<E, R>(PhantomData<(E, R)>);

impl<E: Element, R: Copy + Default> Body for Load<E, R>
where
    Widen<E, R>: Fn1<A = E, D = R>,
{
    const FORM: Form = {
        let register = Use::Write(Width::of_type::<R>());
        let a = Use::Read(Width::W64);
        Form { d: register, a, b: register, c: register, e: register, when: When::Elements(size_of::<E>() as u32) }
    };

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: lowering has made the operation for planes of these sizes. `find` returns rows that may be read. What is
        // not one element for each of all lanes is what the rest is for, which has the same promise.
        unsafe {
            if let Some(shape) = rows::noted(lanes, op) {
                let bytes = size_of::<E>() as u64;
                if let Some(address) = rows::whole(lanes, op, AccessKind::Read, shape, bytes) {
                    copy::load_whole::<V, E, R>(lanes, op.d, address);
                    return Step::Next;
                }
                if let Some(rows) = rows::find::<false>(lanes, op, AccessKind::Read, shape, bytes) {
                    copy::load_rows::<V, E, R>(lanes, op.d, &rows);
                    return Step::Next;
                }
            }
            (op.rest)(lanes, op)
        }
    }
}

/// The same for vectors, for some of the lanes, and for addresses that do not lie side by side. `VECTORS`: vectors that do
/// are frequent enough to be looked for.
pub(crate) struct LoadEach<E, R, const VECTORS: bool>(PhantomData<(E, R)>);

impl<E: Element, R: Copy + Default, const VECTORS: bool> Body for LoadEach<E, R, VECTORS>
where
    Widen<E, R>: Fn1<A = E, D = R>,
{
    const FORM: Form = <Load<E, R>>::FORM;

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: as above; `locate` returns addresses that may be read.
        unsafe {
            if (VECTORS || op.target == 1)
                && let Some(shape) = rows::shape::<V>(lanes, op)
            {
                if op.target == 1 {
                    if let Some(rows) = rows::find::<true>(lanes, op, AccessKind::Read, &shape, size_of::<E>() as u64) {
                        copy::load_rows::<V, E, R>(lanes, op.d, &rows);
                        return Step::Next;
                    }
                } else if let Some(rows) = rows::find::<true>(lanes, op, AccessKind::Read, &shape, op.bytes.into()) {
                    match op.target {
                        2 => copy::load_vectors::<V, E, R, 2>(lanes, [op.d, op.b], &rows),
                        _ => copy::load_vectors::<V, E, R, 4>(lanes, [op.d, op.b, op.c, op.e], &rows),
                    }
                    return Step::Next;
                }
            }
            if (lanes.locate)(lanes, op, AccessKind::Read) != Step::Next {
                return Step::Fault;
            }
            let size = size_of::<E>() as u64;
            if op.target == 1 && lanes.mask == FULL {
                let mut values = [R::default(); LANES];
                for lane in 0..LANES {
                    values[lane] = <Widen<E, R>>::apply(E::load(lanes.addresses.0[lane]));
                }
                *lanes.plane::<R>(op.d) = values;
                return Step::Next;
            }
            for (index, slot) in [op.d, op.b, op.c, op.e].into_iter().take(op.target as usize).enumerate() {
                let place = lanes.plane::<R>(slot);
                let offset = index as u64 * size;
                let mut left = lanes.mask;
                while left != 0 {
                    let lane = (left.trailing_zeros() & 31) as usize;
                    left &= left - 1;
                    (*place)[lane] = <Widen<E, R>>::apply(E::load(lanes.addresses.0[lane] + offset));
                }
            }
        }
        Step::Next
    }
}

/// An element as a register's value, extended by its sign.
pub(crate) struct Widen<E, R>(PhantomData<(E, R)>);
macro_rules! widen {
    ($($e:ident $r:ident $d:ident;)*) => {$(
        impl Fn1 for Widen<$e, $d> {
            type A = $e;
            type D = $d;
            #[inline(always)]
            fn apply(a: $e) -> $d { <Extend<$e, $r, $d>>::apply(a as $r) }
        }
    )*};
}
widen! {
    u8 u16 u16; u8 u16 u32; u8 u16 u64;
    i8 u16 u16; i8 u16 u32; i8 u16 u64;
    u16 u16 u16; u16 u16 u32; u16 u16 u64;
    i16 u16 u32; i16 u16 u64;
    u32 u32 u32; u32 u32 u64;
    i32 u32 u64;
    u64 u64 u64;
}
impl Fn1 for Widen<u128, u128> {
    type A = u128;
    type D = u128;
    #[inline(always)]
    fn apply(a: u128) -> u128 {
        a
    }
}

/// A store of up to four elements `E` from registers `R`: `d`, `b`, `c`, `e`.
pub(crate) struct Store<E, R>(PhantomData<(E, R)>);

/// The low part of a register.
pub(crate) trait Low<E> {
    fn low(self) -> E;
}
macro_rules! low {
    ($($r:ident $e:ident;)*) => {$(
        impl Low<$e> for $r {
            #[inline(always)]
            fn low(self) -> $e { self as $e }
        }
    )*};
}
low! {
    u16 u8; u32 u8; u64 u8; u16 u16; u32 u16; u64 u16; u32 u32; u64 u32; u64 u64; u128 u128;
}

impl<E: Element, R: Copy + Low<E>> Body for Store<E, R> {
    const FORM: Form = {
        let register = Use::Read(Width::of_type::<R>());
        let a = Use::Read(Width::W64);
        Form { d: register, a, b: register, c: register, e: register, when: When::Elements(size_of::<E>() as u32) }
    };

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: as for `Load`, of rows that may be written.
        unsafe {
            if let Some(shape) = rows::noted(lanes, op) {
                let bytes = size_of::<E>() as u64;
                if let Some(address) = rows::whole(lanes, op, AccessKind::Write, shape, bytes) {
                    copy::store_whole::<V, E, R>(lanes, op.d, address);
                    return Step::Next;
                }
                if let Some(rows) = rows::find::<false>(lanes, op, AccessKind::Write, shape, bytes)
                    && rows[0].contiguous
                    && rows[1].contiguous
                {
                    copy::store_rows::<V, E, R, 1>(lanes, [op.d], &rows);
                    return Step::Next;
                }
            }
            (op.rest)(lanes, op)
        }
    }
}

/// The same for vectors, for some of the lanes, and for addresses that do not lie side by side. `VECTORS`: vectors that do
/// are frequent enough to be looked for.
pub(crate) struct StoreEach<E, R, const VECTORS: bool>(PhantomData<(E, R)>);

impl<E: Element, R: Copy + Low<E>, const VECTORS: bool> Body for StoreEach<E, R, VECTORS> {
    const FORM: Form = <Store<E, R>>::FORM;

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: as above; `locate` returns addresses that may be written.
        unsafe {
            if (VECTORS || op.target == 1)
                && let Some(shape) = rows::shape::<V>(lanes, op)
            {
                if op.target == 1 {
                    if let Some(rows) = rows::find::<true>(lanes, op, AccessKind::Write, &shape, size_of::<E>() as u64)
                        && rows[0].contiguous
                        && rows[1].contiguous
                    {
                        copy::store_rows::<V, E, R, 1>(lanes, [op.d], &rows);
                        return Step::Next;
                    }
                } else if let Some(rows) = rows::find::<true>(lanes, op, AccessKind::Write, &shape, op.bytes.into())
                    && rows[0].contiguous
                    && rows[1].contiguous
                {
                    match op.target {
                        2 => copy::store_rows::<V, E, R, 2>(lanes, [op.d, op.b], &rows),
                        _ => copy::store_rows::<V, E, R, 4>(lanes, [op.d, op.b, op.c, op.e], &rows),
                    }
                    return Step::Next;
                }
            }
            if (lanes.locate)(lanes, op, AccessKind::Write) != Step::Next {
                return Step::Fault;
            }
            let size = size_of::<E>() as u64;
            for (index, slot) in [op.d, op.b, op.c, op.e].into_iter().take(op.target as usize).enumerate() {
                let place = lanes.plane::<R>(slot);
                let offset = index as u64 * size;
                let mut left = lanes.mask;
                while left != 0 {
                    let lane = (left.trailing_zeros() & 31) as usize;
                    left &= left - 1;
                    E::store(lanes.addresses.0[lane] + offset, (*place)[lane].low());
                }
            }
        }
        Step::Next
    }
}
