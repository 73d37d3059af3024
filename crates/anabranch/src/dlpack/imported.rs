//! Memory of the host that tensors were imported with, which the software device knows as long as any of their buffers is there.

use super::import::{IMPORTING, follow};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ranks;
use crate::trace;
use anabranch_core::access::AccessHistory;
use anabranch_core::keeper::Keeper;
use anabranch_core::memory::{Allocation, HostRange};
use anabranch_core::reaper::comes_about;
use anabranch_hal::{DevicePointer, RegisterFlags, Status};
use anabranch_sync::Mutex;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Memory that the first of its tensors was registered for.
struct Imported {
    end: u64,
    memory: Weak<Allocation>,
    parts: Parts,
}

/// What further tensors have of the memory.
#[derive(Default)]
struct Parts {
    /// Where they begin and end, and their uses.
    parts: Vec<(u64, u64, Weak<AccessHistory>)>,
    /// With so many, those that are gone are forgotten.
    most: usize,
}

impl Parts {
    fn insert(&mut self, wanted: Wanted, uses: Weak<AccessHistory>) {
        if self.parts.len() >= self.most {
            self.parts.retain(|(.., uses)| uses.strong_count() > 0);
            self.most = (2 * self.parts.len()).max(FEW);
        }
        self.parts.push((wanted.begin, wanted.end, uses));
    }

    /// The histories of those that overlap a range. The memory has the uses of those that are gone.
    fn overlapping(&self, wanted: Wanted) -> Vec<Arc<AccessHistory>> {
        let overlaps = |begin: u64, end: u64| begin < wanted.end && wanted.begin < end;
        let overlapping = self.parts.iter().filter(|&&(begin, end, _)| overlaps(begin, end));
        overlapping.filter_map(|(.., uses)| uses.upgrade()).collect()
    }
}

impl Imported {
    /// Whether a buffer or work has the memory.
    fn is_in_use(&self) -> bool {
        self.memory.strong_count() > 0
    }
}

/// A range of addresses of a driver, which whoever has the memory keeps, too.
#[derive(Clone, Copy)]
struct Wanted {
    driver: usize,
    begin: u64,
    end: u64,
}

/// What is registered now, by the address of its driver and where it begins. Ranges of one driver do not overlap.
struct Ranges {
    ranges: BTreeMap<(usize, u64), Imported>,
    /// With so many, those that are not in use any more are forgotten.
    most: usize,
}

impl Ranges {
    /// The ranges that overlap one, from the last to the first.
    fn overlapping(&self, wanted: Wanted) -> impl Iterator<Item = (u64, &Imported)> {
        let Wanted { driver, begin, end } = wanted;
        let before = self.ranges.range((driver, 0)..(driver, end)).rev();
        before.map(|(&(_, begin), imported)| (begin, imported)).take_while(move |(_, imported)| begin < imported.end)
    }

    /// The range that contains one, and its memory.
    fn containing(&mut self, wanted: Wanted) -> Option<(&mut Imported, Arc<Allocation>)> {
        let contains = |(begin, imported): &(u64, &Imported)| *begin <= wanted.begin && wanted.end <= imported.end;
        let (begin, imported) = self.overlapping(wanted).find(contains)?;
        let memory = imported.memory.upgrade()?;
        Some((self.ranges.get_mut(&(wanted.driver, begin))?, memory))
    }

    /// Enters a range, in the place of those that it overlaps, which are registered no more.
    fn insert(&mut self, wanted: Wanted, memory: &Arc<Allocation>) {
        let gone: Vec<_> = self.overlapping(wanted).map(|(begin, _)| (wanted.driver, begin)).collect();
        for key in gone {
            self.ranges.remove(&key);
        }
        if self.ranges.len() >= self.most {
            self.ranges.retain(|_, imported| imported.is_in_use());
            self.most = (2 * self.ranges.len()).max(FEW);
        }
        let imported = Imported { end: wanted.end, memory: Arc::downgrade(memory), parts: Parts::default() };
        self.ranges.insert((wanted.driver, wanted.begin), imported);
    }
}

/// So many ranges are kept in any case.
const FEW: usize = 64;

/// A range is registered while this is locked, so that whoever finds it registered finds it here.
static IMPORTED: Mutex<Ranges> = Mutex::new(ranks::IMPORTED_MEMORY, Ranges { ranges: BTreeMap::new(), most: FEW });

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
    let wanted = Wanted { driver, begin: address.0, end: address.0.saturating_add(bytes as u64) };
    let mut has_waited = false;
    trace::rare!(?address, bytes, device = %context.device(), "registering the memory of a tensor");
    loop {
        // Registering is reported above, with nothing locked.
        let whole = trace::Whole::begin();
        let mut imported = IMPORTED.lock();
        if let Some((entry, earlier)) = imported.containing(wanted) {
            // Parts first: what they were used for is known of the memory when they are gone.
            let histories = entry.parts.overlapping(wanted);
            // The memory is registered, and what it was registered for is kept, as long as this.
            let (memory, uses) = Allocation::part(context.core(), address, bytes, Arc::clone(&earlier), keeper);
            entry.parts.insert(wanted, uses);
            drop((imported, whole));
            let pending: Vec<_> = histories.into_iter().flat_map(|history| history.pending()).collect();
            follow(&memory, pending.into_iter().chain(earlier.history().pending()))?;
            return Ok(ControlFlow::Break(Arc::new(if is_read_only { memory.read_only() } else { memory })));
        }
        // SAFETY: the tensor, which the keeper has, keeps the memory allocated. Whoever took the tensor promised who uses it.
        let (error, kept) = match unsafe { Allocation::registered(context.core(), range, keeper) } {
            Ok(memory) => {
                let memory = Arc::new(memory);
                imported.insert(wanted, &memory);
                return Ok(ControlFlow::Break(memory));
            }
            Err(refused) => refused,
        };
        let has_part = imported.overlapping(wanted).any(|(_, imported)| imported.is_in_use());
        let was_imported = imported.overlapping(wanted).next().is_some();
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
