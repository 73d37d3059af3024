//! Copies between memory and registers, for addresses that lie side by side.

use std::ptr::with_exposed_provenance_mut;

use super::{Element, Low, Widen};
use crate::machine::{LANES, Lanes, Slot, Vectors};
use crate::memory::{ROW, Short};
use crate::ops::Fn1;
use crate::ops::rows::Row;

/// Copies elements, each with one access or as part of a larger one.
///
/// # Safety
///
/// `from` and `to` have that many elements each, which may be accessed with atomic accesses.
#[inline(always)]
unsafe fn copy_elements<V: Vectors, E, const COUNT: usize>(from: u64, to: u64) {
    let from = with_exposed_provenance_mut::<u8>(from as usize);
    let to = with_exposed_provenance_mut::<u8>(to as usize);
    // SAFETY: the caller promises that.
    unsafe {
        match COUNT * size_of::<E>() {
            16 => Short::copy::<16>(from, to),
            32 => V::copy::<32>(from, to),
            64 => V::copy::<64>(from, to),
            128 => V::copy::<128>(from, to),
            256 => V::copy::<256>(from, to),
            _ => V::copy::<512>(from, to),
        }
    }
}

/// How far ahead of a row memory is fetched: what the next warps read, mostly. Processors fetch ahead themselves, but not from
/// one page to the next.
const AHEAD: u64 = 512;

/// Lets the processor fetch what is likely to be read soon. There need not be memory.
#[inline(always)]
fn fetch_ahead(address: u64) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint accesses nothing, and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address.wrapping_add(AHEAD) as usize));
    }
    let _ = address;
}

/// A load of one element for each of all lanes.
///
/// # Safety
///
/// The rows are of elements that may be read, and `d` is a plane of registers `R`.
#[inline(always)]
pub(super) unsafe fn load_rows<V: Vectors, E: Element, R: Copy + Default>(
    lanes: &mut Lanes<'_>,
    d: Slot,
    rows: &[Row; 2],
) where
    Widen<E, R>: Fn1<A = E, D = R>,
{
    // SAFETY: as the caller promises.
    unsafe {
        let place = lanes.plane::<R>(d);
        for (start, row) in [(0, rows[0]), (ROW, rows[1])] {
            let to = place.cast::<R>().add(start);
            if !row.contiguous {
                *to.cast::<[R; ROW]>() = [<Widen<E, R>>::apply(E::load(row.address)); ROW];
            } else if size_of::<E>() == size_of::<R>() {
                fetch_ahead(row.address);
                copy_elements::<V, E, ROW>(row.address, to.expose_provenance() as u64);
            } else {
                let mut elements = [E::default(); ROW];
                copy_elements::<V, E, ROW>(row.address, elements.as_mut_ptr().expose_provenance() as u64);
                let to = &mut *to.cast::<[R; ROW]>();
                for lane in 0..ROW {
                    to[lane] = <Widen<E, R>>::apply(elements[lane]);
                }
            }
        }
    }
}

/// A load of a vector of elements for each of all lanes.
///
/// # Safety
///
/// As for [`load_rows`], of each of the slots.
#[inline(always)]
pub(super) unsafe fn load_vectors<V: Vectors, E: Element, R: Copy + Default, const N: usize>(
    lanes: &mut Lanes<'_>,
    slots: [Slot; N],
    rows: &[Row; 2],
) where
    Widen<E, R>: Fn1<A = E, D = R>,
{
    // SAFETY: as the caller promises.
    unsafe {
        for (start, row) in [(0, rows[0]), (ROW, rows[1])] {
            let mut elements = [[E::default(); N]; ROW];
            if row.contiguous {
                for part in 0..N {
                    let to = elements.as_mut_ptr().cast::<[E; ROW]>().add(part);
                    copy_elements::<V, E, ROW>(
                        row.address + (part * size_of::<[E; ROW]>()) as u64,
                        to.expose_provenance() as u64,
                    );
                }
            } else {
                elements = [std::array::from_fn(|part| E::load(row.address + (part * size_of::<E>()) as u64)); ROW];
            }
            for (part, slot) in slots.into_iter().enumerate() {
                let to = &mut *lanes.plane::<R>(slot).cast::<R>().add(start).cast::<[R; ROW]>();
                for lane in 0..ROW {
                    to[lane] = <Widen<E, R>>::apply(elements[lane][part]);
                }
            }
        }
    }
}

/// A load of one element for each of all lanes, one after the other.
///
/// # Safety
///
/// There are elements from the address on that may be read, one for each lane, and `d` is a plane of registers `R`.
#[inline(always)]
pub(super) unsafe fn load_whole<V: Vectors, E: Element, R: Copy + Default>(lanes: &mut Lanes<'_>, d: Slot, address: u64)
where
    Widen<E, R>: Fn1<A = E, D = R>,
{
    // SAFETY: as the caller promises.
    unsafe {
        let place = lanes.plane::<R>(d);
        if size_of::<E>() == size_of::<R>() {
            fetch_ahead(address);
            fetch_ahead(address + size_of::<[E; ROW]>() as u64);
            copy_elements::<V, E, LANES>(address, place.expose_provenance() as u64);
            return;
        }
        let mut elements = [E::default(); LANES];
        copy_elements::<V, E, LANES>(address, elements.as_mut_ptr().expose_provenance() as u64);
        for lane in 0..LANES {
            (*place)[lane] = <Widen<E, R>>::apply(elements[lane]);
        }
    }
}

/// A store of one element for each of all lanes, one after the other.
///
/// # Safety
///
/// There are elements from the address on that may be written, one for each lane, and `d` is a plane of registers `R`.
#[inline(always)]
pub(super) unsafe fn store_whole<V: Vectors, E: Element, R: Copy + Low<E>>(
    lanes: &mut Lanes<'_>,
    d: Slot,
    address: u64,
) {
    // SAFETY: as the caller promises. The atomic loads that a copy consists of are made through pointers that may write.
    unsafe {
        let place = lanes.plane::<R>(d);
        if size_of::<E>() == size_of::<R>() {
            copy_elements::<V, E, LANES>(place.expose_provenance() as u64, address);
            return;
        }
        let mut elements = [E::default(); LANES];
        for lane in 0..LANES {
            elements[lane] = (*place)[lane].low();
        }
        copy_elements::<V, E, LANES>(elements.as_mut_ptr().expose_provenance() as u64, address);
    }
}

/// A store of a vector of elements for each of all lanes.
///
/// # Safety
///
/// The rows are of elements that may be written, one after the other, and the slots are planes of registers `R`.
#[inline(always)]
pub(super) unsafe fn store_rows<V: Vectors, E: Element, R: Copy + Low<E>, const N: usize>(
    lanes: &mut Lanes<'_>,
    slots: [Slot; N],
    rows: &[Row; 2],
) {
    // SAFETY: as the caller promises.
    unsafe {
        for (start, row) in [(0, rows[0]), (ROW, rows[1])] {
            let planes = slots.map(|slot| lanes.plane::<R>(slot).cast::<R>().add(start).cast::<[R; ROW]>());
            if N == 1 && size_of::<E>() == size_of::<R>() {
                copy_elements::<V, E, ROW>(planes[0].expose_provenance() as u64, row.address);
                continue;
            }
            let mut elements = [[E::default(); N]; ROW];
            for (part, plane) in planes.into_iter().enumerate() {
                for lane in 0..ROW {
                    elements[lane][part] = (*plane)[lane].low();
                }
            }
            for part in 0..N {
                // Atomic loads, which the copy consists of, are made through pointers that may write.
                let from = elements.as_mut_ptr().cast::<[E; ROW]>().add(part);
                copy_elements::<V, E, ROW>(
                    from.expose_provenance() as u64,
                    row.address + (part * size_of::<[E; ROW]>()) as u64,
                );
            }
        }
    }
}
