//! What is rare: addresses in different spaces, faults, and checked mode.

use super::*;
use crate::fault::{Detail, FaultCode};
use crate::machine::{Failure, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use crate::memory::Access;
use crate::types::Space;

/// What leads from addresses of the device to those of this process, for bytes of global memory that are in one part.
#[inline(always)]
pub(crate) fn region(lanes: &mut Lanes<'_>, place: usize, (first, end): (u64, u64), kind: AccessKind) -> Option<u64> {
    let known = lanes.regions.at(place);
    if known.has(first, end, kind) {
        return Some(known.delta);
    }
    lanes.regions.look_up(lanes.memory, place, first);
    let known = lanes.regions.at(place);
    known.has(first, end, kind).then_some(known.delta)
}

/// Finds the address of each lane on its own.
#[cold]
pub(crate) fn locate(lanes: &mut Lanes<'_>, op: &Op, kind: AccessKind) -> Step {
    for lane in 0..LANES as u32 {
        if lanes.mask >> lane & 1 == 0 {
            continue;
        }
        let address = lanes.addresses.0[lane as usize];
        match one(lanes, (op.flags, op.bytes, super::place(op)), kind, lane, address) {
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

/// The address in this process of what one lane accesses: the flags and the bytes of the access, and the place where its
/// part of global memory is remembered.
pub(crate) fn one(
    lanes: &mut Lanes<'_>,
    (flags, size, place): (u32, u32, usize),
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
        GENERIC if address & !(WINDOW_BYTES - 1) == PARAMETER_WINDOW => (Space::Parameter, address - PARAMETER_WINDOW),
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
        Space::Local if end <= lanes.local.bytes => lanes.local.start + u64::from(lane) * lanes.local.bytes + address,
        Space::Parameter if end <= lanes.parameters.bytes && kind == AccessKind::Read => {
            lanes.parameters.start + address
        }
        Space::Shared | Space::Local | Space::Parameter => return Err(outside),
        _ if lanes.direct => address,
        _ => match region(lanes, place, (address, end), kind) {
            Some(delta) => address.wrapping_add(delta),
            None => return Err(outside),
        },
    };
    if let Some(observer) = lanes.observer {
        let access = Access { address, bytes: size, space, kind };
        let answer = observer.observe(lanes.warp, lane, &access);
        answer.map_err(|(code, detail)| (code, detail, space, address))?;
    }
    Ok(found)
}
