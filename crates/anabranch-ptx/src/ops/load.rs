//! Loads and stores.

use std::marker::PhantomData;
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::{Fn1, convert::Extend};
use crate::machine::{Body, FULL, LANES, Lanes, Op, Step};
use crate::memory::{AccessKind, load_block, store_block};

/// The space of an access, in the low bits of `flags`.
pub(crate) const GENERIC: u32 = 0;
pub(crate) const GLOBAL: u32 = 1;
pub(crate) const SHARED: u32 = 2;
pub(crate) const LOCAL: u32 = 3;
pub(crate) const CONSTANT: u32 = 4;
pub(crate) const PARAMETER: u32 = 5;
/// Local memory from where the frame's part begins.
pub(crate) const FRAME: u32 = 6;
pub(crate) const SPACE: u32 = 7;
/// The address is in a register of 32 bits.
pub(crate) const NARROW: u32 = 8;
/// The address is `imm` alone.
pub(crate) const ABSOLUTE: u32 = 16;

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
element! {
    u8 AtomicU8;
    i8 AtomicU8;
    u16 AtomicU16;
    i16 AtomicU16;
    u32 AtomicU32;
    i32 AtomicU32;
    u64 AtomicU64;
}

/// Puts the addresses in this process of an access into `addresses`, for the lanes that run. The others get one of those.
///
/// # Safety
///
/// `a` is a plane of the size that `flags` says.
#[inline(always)]
pub(crate) unsafe fn locate(lanes: &mut Lanes<'_>, op: &Op, kind: AccessKind) -> Step {
    let mut all = [0u64; LANES];
    if op.flags & ABSOLUTE != 0 {
        all = [op.imm; LANES];
    } else if op.flags & NARROW != 0 {
        // SAFETY: `a` is a plane of 32 bits.
        let base = unsafe { &*lanes.plane::<u32>(op.a) };
        for lane in 0..LANES {
            all[lane] = u64::from(base[lane].wrapping_add(op.imm as u32));
        }
    } else {
        // SAFETY: `a` is a plane of 64 bits.
        let base = unsafe { &*lanes.plane::<u64>(op.a) };
        for lane in 0..LANES {
            all[lane] = base[lane].wrapping_add(op.imm);
        }
    }
    if lanes.mask != FULL {
        let one = all[lanes.first()];
        for lane in 0..LANES {
            all[lane] = if lanes.mask >> lane & 1 != 0 { all[lane] } else { one };
        }
    }
    let (mut bits, mut least, mut most) = (0, u64::MAX, 0);
    for lane in 0..LANES {
        bits |= all[lane];
        least = if all[lane] < least { all[lane] } else { least };
        most = if all[lane] > most { all[lane] } else { most };
    }
    lanes.addresses.0 = all;
    let bytes = u64::from(op.bytes);
    let Some(end) = most.checked_add(bytes) else { return slow::locate(lanes, op, kind) };
    if bits & (bytes - 1) != 0 || lanes.observer.is_some() {
        return slow::locate(lanes, op, kind);
    }
    let space = op.flags & SPACE;
    let delta = match space {
        SHARED if end <= lanes.shared.bytes => lanes.shared.start,
        GLOBAL | GENERIC | CONSTANT if most < crate::machine::SHARED_WINDOW => {
            if lanes.direct {
                return Step::Next;
            }
            let writes = kind != AccessKind::Read;
            if !lanes.region.contains(least, end) {
                slow::look_up(lanes, least);
            }
            if !lanes.region.contains(least, end) || writes && !lanes.region.writable {
                return slow::locate(lanes, op, kind);
            }
            (lanes.region.pointer.expose_provenance() as u64).wrapping_sub(lanes.region.address)
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
    for lane in 0..LANES {
        lanes.addresses.0[lane] = lanes.addresses.0[lane].wrapping_add(delta);
    }
    Step::Next
}

/// Whether the addresses of all lanes are `stride` bytes from each other.
#[inline(always)]
fn strided(addresses: &[u64; LANES], stride: u64) -> bool {
    if addresses[1].wrapping_sub(addresses[0]) != stride {
        return false;
    }
    let mut difference = 0;
    for lane in 0..LANES {
        difference |= addresses[lane] ^ addresses[0].wrapping_add(stride * lane as u64);
    }
    difference == 0
}

/// # Safety
///
/// `from` has 32 elements, which may be read with atomic accesses.
#[inline(always)]
unsafe fn load_plane<E>(from: u64, to: *mut [E; LANES]) {
    let from = with_exposed_provenance_mut::<u8>(from as usize);
    // SAFETY: the caller promises that of `from`, and `to` has as many bytes.
    unsafe {
        match size_of::<E>() {
            1 => load_block::<32>(from, to.cast()),
            2 => load_block::<64>(from, to.cast()),
            4 => load_block::<128>(from, to.cast()),
            _ => load_block::<256>(from, to.cast()),
        }
    }
}

/// # Safety
///
/// `to` has 32 elements, which may be written with atomic accesses.
#[inline(always)]
unsafe fn store_plane<E>(from: *const [E; LANES], to: u64) {
    let to = with_exposed_provenance_mut::<u8>(to as usize);
    // SAFETY: the caller promises that of `to`, and `from` has as many bytes.
    unsafe {
        match size_of::<E>() {
            1 => store_block::<32>(from.cast(), to),
            2 => store_block::<64>(from.cast(), to),
            4 => store_block::<128>(from.cast(), to),
            _ => store_block::<256>(from.cast(), to),
        }
    }
}

/// A load of up to four elements `E` to registers of `size_of::<R>()` bytes: `d`, `b`, `c`, `e`; `target` is how many.
pub(crate) struct Load<E, R>(PhantomData<(E, R)>);

impl<E: Element, R: Copy + Default> Body for Load<E, R>
where
    Widen<E, R>: Fn1<A = E, D = R>,
{
    #[inline(always)]
    unsafe fn run(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: lowering has made the operation for planes of these sizes. `locate` returns addresses that may be read.
        unsafe {
            if locate(lanes, op, AccessKind::Read) != Step::Next {
                return Step::Fault;
            }
            let size = size_of::<E>() as u64;
            if op.target == 1 && lanes.mask == FULL {
                if strided(&lanes.addresses.0, size) {
                    if size_of::<E>() == size_of::<R>() {
                        load_plane::<E>(lanes.addresses.0[0], lanes.plane::<E>(op.d));
                    } else {
                        let mut elements = [E::default(); LANES];
                        load_plane::<E>(lanes.addresses.0[0], &mut elements);
                        let place = &mut *lanes.plane::<R>(op.d);
                        for lane in 0..LANES {
                            place[lane] = <Widen<E, R>>::apply(elements[lane]);
                        }
                    }
                    return Step::Next;
                }
                if strided(&lanes.addresses.0, 0) {
                    let value = <Widen<E, R>>::apply(E::load(lanes.addresses.0[0]));
                    *lanes.plane::<R>(op.d) = [value; LANES];
                    return Step::Next;
                }
            }
            for (index, slot) in [op.d, op.b, op.c, op.e].into_iter().take(op.target as usize).enumerate() {
                let place = lanes.plane::<R>(slot);
                let offset = index as u64 * size;
                if lanes.mask == FULL {
                    for lane in 0..LANES {
                        (*place)[lane] = <Widen<E, R>>::apply(E::load(lanes.addresses.0[lane] + offset));
                    }
                } else {
                    let mut left = lanes.mask;
                    while left != 0 {
                        let lane = (left.trailing_zeros() & 31) as usize;
                        left &= left - 1;
                        (*place)[lane] = <Widen<E, R>>::apply(E::load(lanes.addresses.0[lane] + offset));
                    }
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
    u16 u8; u32 u8; u64 u8; u16 u16; u32 u16; u64 u16; u32 u32; u64 u32; u64 u64;
}

impl<E: Element, R: Copy + Low<E>> Body for Store<E, R> {
    #[inline(always)]
    unsafe fn run(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: lowering has made the operation for planes of these sizes. `locate` returns addresses that may be written.
        unsafe {
            if locate(lanes, op, AccessKind::Write) != Step::Next {
                return Step::Fault;
            }
            let size = size_of::<E>() as u64;
            if op.target == 1 && lanes.mask == FULL && strided(&lanes.addresses.0, size) {
                let place = lanes.plane::<R>(op.d);
                if size_of::<E>() == size_of::<R>() {
                    store_plane::<E>(place.cast(), lanes.addresses.0[0]);
                } else {
                    let mut elements = [E::default(); LANES];
                    for lane in 0..LANES {
                        elements[lane] = (*place)[lane].low();
                    }
                    store_plane::<E>(&elements, lanes.addresses.0[0]);
                }
                return Step::Next;
            }
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

/// What is rare: addresses in different spaces, faults, and checked mode.
pub(crate) mod slow {
    use super::*;
    use crate::fault::{Detail, FaultCode};
    use crate::machine::{Failure, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
    use crate::memory::Access;
    use crate::types::Space;

    /// Looks up the memory at an address.
    #[cold]
    pub(crate) fn look_up(lanes: &mut Lanes<'_>, address: u64) {
        if let Some(region) = lanes.memory.region(address) {
            lanes.region = region;
        }
    }

    /// Finds the address of each lane on its own.
    #[cold]
    pub(crate) fn locate(lanes: &mut Lanes<'_>, op: &Op, kind: AccessKind) -> Step {
        for lane in 0..LANES as u32 {
            if lanes.mask >> lane & 1 == 0 {
                continue;
            }
            let address = lanes.addresses.0[lane as usize];
            match one(lanes, (op.flags, op.bytes), kind, lane, address) {
                Ok(found) => lanes.addresses.0[lane as usize] = found,
                Err((code, detail, space, address)) => {
                    return lanes.fail(Failure { code, detail, lane, address: Some(address), bytes: op.bytes, space });
                }
            }
        }
        Step::Next
    }

    /// The status, what happened, and the address in its space.
    pub(crate) type Wrong = (FaultCode, Detail, Space, u64);

    /// The address in this process of what one lane accesses.
    pub(crate) fn one(
        lanes: &mut Lanes<'_>,
        (flags, size): (u32, u32),
        kind: AccessKind,
        lane: u32,
        address: u64,
    ) -> Result<u64, Wrong> {
        let (space, address) = match flags & SPACE {
            SHARED => (Space::Shared, address),
            LOCAL => (Space::Local, address),
            FRAME => (Space::Local, address.wrapping_add(lanes.frame_local)),
            PARAMETER => (Space::Parameter, address),
            CONSTANT => (Space::Constant, address),
            GENERIC if address & !(WINDOW_BYTES - 1) == SHARED_WINDOW => (Space::Shared, address - SHARED_WINDOW),
            GENERIC if address & !(WINDOW_BYTES - 1) == LOCAL_WINDOW => (Space::Local, address - LOCAL_WINDOW),
            GENERIC if address & !(WINDOW_BYTES - 1) == PARAMETER_WINDOW => {
                (Space::Parameter, address - PARAMETER_WINDOW)
            }
            _ => (Space::Global, address),
        };
        let bytes = u64::from(size);
        if !address.is_multiple_of(bytes) {
            return Err((FaultCode::MISALIGNED_ADDRESS, Detail::Misaligned, space, address));
        }
        let outside = (FaultCode::ILLEGAL_ADDRESS, Detail::OutOfBounds, space, address);
        let end = address.checked_add(bytes).ok_or(outside.clone())?;
        let found = match space {
            Space::Shared if end <= lanes.shared.bytes => lanes.shared.start + address,
            Space::Local if end <= lanes.local.bytes => {
                lanes.local.start + u64::from(lane) * lanes.local.bytes + address
            }
            Space::Parameter if end <= lanes.parameters.bytes && kind == AccessKind::Read => {
                lanes.parameters.start + address
            }
            Space::Shared | Space::Local | Space::Parameter => return Err(outside),
            _ if lanes.direct => address,
            _ => {
                if !lanes.region.contains(address, end) {
                    look_up(lanes, address);
                }
                if !lanes.region.contains(address, end) || kind != AccessKind::Read && !lanes.region.writable {
                    return Err(outside);
                }
                lanes.region.pointer.expose_provenance() as u64 + (address - lanes.region.address)
            }
        };
        if let Some(observer) = lanes.observer {
            let access = Access { address, bytes: size, space, kind };
            let answer = observer.observe(lanes.warp, lane, &access);
            answer.map_err(|(code, detail)| (code, detail, space, address))?;
        }
        Ok(found)
    }
}
