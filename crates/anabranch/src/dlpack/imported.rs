//! Memory of the host that tensors were imported with, which the software device knows as long as any of their buffers is there.

use super::import::{IMPORTING, follow};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ranks;
use crate::trace;
use anabranch_core::keeper::Keeper;
use anabranch_core::memory::{Allocation, HostRange};
use anabranch_core::reaper::comes_about;
use anabranch_hal::{DevicePointer, RegisterFlags, Status};
use anabranch_sync::Mutex;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Memory that the first of its tensors was registered for.
struct Imported {
    /// The address of the driver, which the memory keeps.
    driver: usize,
    begin: u64,
    end: u64,
    memory: Weak<Allocation>,
}

/// What is registered now. A range is registered while this is locked, so that whoever finds it registered finds it here.
static IMPORTED: Mutex<Vec<Imported>> = Mutex::new(ranks::IMPORTED_MEMORY, Vec::new());

impl Imported {
    fn contains(&self, other: &Self) -> bool {
        self.driver == other.driver && self.begin <= other.begin && other.end <= self.end
    }

    /// Whether a buffer or work has the memory.
    fn is_in_use(&self) -> bool {
        self.memory.strong_count() > 0
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.driver == other.driver && self.begin < other.end && other.begin < self.end
    }
}

/// How often a call waits for a moment for memory that nothing uses, and that is about to be unregistered.
const WAITS: usize = 20;

/// Memory of a tensor that the keeper has. The keeper comes back if the driver knows the memory in another way, which the tensor keeps:
/// it is memory of the driver, or of a buffer that was exported.
#[track_caller]
pub(super) fn of_host(
    context: &Context,
    address: DevicePointer,
    bytes: usize,
    is_read_only: bool,
    mut keeper: Keeper,
) -> Result<ControlFlow<Arc<Allocation>, Keeper>> {
    let flags = if is_read_only { RegisterFlags::READ_ONLY } else { RegisterFlags::empty() };
    let range = HostRange { address: std::ptr::with_exposed_provenance_mut(address.0 as usize), bytes, flags };
    let driver = Arc::as_ptr(context.device().driver()).addr();
    let mut wanted =
        Imported { driver, begin: address.0, end: address.0.saturating_add(bytes as u64), memory: Weak::new() };
    let mut has_waited = false;
    trace::rare!(?address, bytes, device = %context.device(), "registering the memory of a tensor");
    loop {
        // Registering is reported above, with nothing locked.
        let whole = trace::Whole::begin();
        let mut imported = IMPORTED.lock();
        imported.retain(|each| each.is_in_use() || each.overlaps(&wanted));
        let earlier = imported.iter().filter(|each| each.contains(&wanted)).find_map(|each| each.memory.upgrade());
        if let Some(earlier) = earlier {
            drop((imported, whole));
            let pending = earlier.history().pending();
            // The memory is registered, and what it was registered for is kept, as long as this.
            let memory = Allocation::foreign(context.core(), address, bytes, Keeper::new((keeper, earlier)));
            follow(&memory, pending)?;
            return Ok(ControlFlow::Break(Arc::new(if is_read_only { memory.read_only() } else { memory })));
        }
        // SAFETY: the tensor, which the keeper has, keeps the memory allocated. Whoever took the tensor promised who uses it.
        let (error, kept) = match unsafe { Allocation::registered(context.core(), range, keeper) } {
            Ok(memory) => {
                let memory = Arc::new(memory);
                wanted.memory = Arc::downgrade(&memory);
                imported.retain(|each| !each.overlaps(&wanted));
                imported.push(wanted);
                return Ok(ControlFlow::Break(memory));
            }
            Err(refused) => refused,
        };
        let has_part = imported.iter().any(|each| each.overlaps(&wanted) && each.is_in_use());
        let was_imported = imported.iter().any(|each| each.overlaps(&wanted));
        drop((imported, whole));
        keeper = kept;
        let is_registered = error.status() == Status::HOST_MEMORY_ALREADY_REGISTERED;
        if is_registered && has_part {
            let message = "an earlier tensor has a part of the memory, and there is a buffer of that";
            return Err(Error::argument(error.status(), IMPORTING, message)
                .with_hint("import the whole tensor before its parts, or drop their buffers")
                .at(context.core().place()));
        }
        if is_registered && !has_waited && is_given_back(context, address, bytes, was_imported) {
            has_waited = true;
            continue;
        }
        let is_known = has_waited && !context.core().is_unregistering(address, bytes);
        return match error.status() {
            Status::INVALID_VALUE => Ok(ControlFlow::Continue(keeper)),
            Status::HOST_MEMORY_ALREADY_REGISTERED if is_known => Ok(ControlFlow::Continue(keeper)),
            Status::HOST_MEMORY_ALREADY_REGISTERED => {
                Err(error.with_hint("wait for the work that uses the buffer of the earlier tensor"))
            }
            _ => Err(error),
        };
    }
}

/// Waits until memory of tensors whose buffers are gone is registered no more. False if work may still use it.
fn is_given_back(context: &Context, address: DevicePointer, bytes: usize, was_imported: bool) -> bool {
    if was_imported {
        // Another thread may be about to say that it is to be unregistered.
        std::thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..WAITS {
        if comes_about(|| !context.core().is_unregistering(address, bytes)) {
            return true;
        }
        if context.core().try_keep_idle().is_none() {
            return false;
        }
    }
    false
}
