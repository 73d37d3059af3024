//! Registering host memory of the program.

use super::Shared;
use crate::engine::ContextCore;
use crate::memory::{Allocation, Block, Lookup, MemoryKind, Origin};
use anabranch_hal::{Call, DevicePointer, Failure, RegisterFlags, Result, Status};

/// Registers a range. Nothing is pinned, because no device needs it: the range is known as pinned memory from now on. What
/// hardware does by pages this does by bytes, so that only ranges which overlap are refused.
///
/// # Safety
/// The range stays allocated until it is unregistered.
pub(super) unsafe fn register(
    shared: &Shared,
    context: &ContextCore,
    device: u32,
    address: *mut u8,
    bytes: usize,
    flags: RegisterFlags,
) -> Result<()> {
    shared.captures.before_unsafe_call()?;
    let bad = Failure::new(Status::INVALID_VALUE);
    let is_range = !address.is_null() && bytes > 0 && address.addr().checked_add(bytes).is_some();
    if !is_range || !RegisterFlags::all().contains(flags) {
        return Err(bad);
    }
    if flags.contains(RegisterFlags::IO_MEMORY) {
        // There is no other device whose memory it could be.
        return Err(Failure::new(Status::NOT_SUPPORTED));
    }
    let memory = &shared.memory;
    let address = address.expose_provenance() as u64;
    let block = Block::of_program(&memory.pinned, address, bytes);
    let (kind, owner) = (MemoryKind::Registered, Some(context.id));
    memory.table.insert_apart(Allocation { block, kind, device, owner, pool: None }).map_err(|other| match other {
        MemoryKind::Registered => Failure::new(Status::HOST_MEMORY_ALREADY_REGISTERED),
        _ => bad,
    })?;
    memory.notify(|observer| observer.registered(address, Origin { kind, device, bytes, stream: None }));
    Ok(())
}

/// Unregisters the range that begins there, after the context's work.
///
/// # Safety
/// No queued work uses the memory, except work that this waits for.
pub(super) unsafe fn unregister(
    shared: &Shared,
    call: &Call<'_>,
    context: &ContextCore,
    address: *mut u8,
) -> Result<()> {
    shared.captures.before_unsafe_call()?;
    if address.is_null() {
        return Err(Failure::new(Status::INVALID_VALUE));
    }
    let address = address.addr() as u64;
    let not_registered = || Failure::new(Status::HOST_MEMORY_NOT_REGISTERED);
    let is_registered = |kind| kind == MemoryKind::Registered;
    shared.memory.table.kind_at(address).filter(|&kind| is_registered(kind)).ok_or_else(not_registered)?;
    context.wait_to_give_back(call);
    let removed = shared.memory.table.remove(address, is_registered).ok_or_else(not_registered)?;
    shared.memory.notify(|observer| observer.unregistered(address));
    drop(removed);
    // In a lost context it is unregistered all the same, and the call says that the context is lost.
    context.check()
}

/// The address at which devices access pinned memory: that of the host.
pub(super) fn device_pointer(shared: &Shared, address: *mut u8) -> Result<DevicePointer> {
    let address = address.addr() as u64;
    match shared.memory.table.find(address, 1) {
        Lookup::Inside(MemoryKind::Pinned | MemoryKind::Registered) => Ok(DevicePointer(address)),
        _ => Err(Failure::new(Status::INVALID_VALUE)),
    }
}
