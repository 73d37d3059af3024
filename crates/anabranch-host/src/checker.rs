//! Checks how memory is used, where the options ask for it.
//!
//! The checker knows each allocation by its address, and whether it is allocated or freed *in the order of the streams*: work
//! that allocates or frees reports it when it runs. Work that uses memory is checked right before it runs, and again after it,
//! because memory can be freed meanwhile.
//!
//! Freed memory is filled with a pattern and kept in quarantine, so that its address names nothing else for a while. When
//! it leaves, the pattern shows whether something has written there that is not checked, through a pointer of its own. The
//! bytes around each allocation show writes beyond its ends in the same way.

mod finding;
mod quarantine;

use crate::engine::{Moment, Observer, Operation, Use};
use crate::memory::{Block, FreedBy, MemoryKind, MemoryObserver, Origin, RawPiece, ZONE};
use crate::ranks;
use anabranch_hal::{AllocationKind, KernelFault, LiveAllocation, MemoryFinding, MemoryFindingKind, MemoryReport};
use anabranch_sync::Mutex;
use quarantine::Quarantine;
use std::collections::BTreeMap;
use std::io::{Write, stderr};
use std::ops::Range;

/// What the bytes before and after each piece of memory are.
const ZONE_PATTERN: u8 = 0xFD;

/// What memory is filled with when it is allocated.
const FRESH_PATTERN: u8 = 0xCD;

/// What memory is filled with when it is freed.
const FREED_PATTERN: u8 = 0xDD;

/// Larger memory is filled only at its ends, and not kept in quarantine.
const WHOLLY_FILLED: usize = quarantine::MOST_BYTES;

/// How much of larger memory is filled at each end.
const FILLED_END: usize = 64 << 10;

/// How many findings are kept.
const MOST_FINDINGS: usize = 100;

/// Where a piece of memory is in its life, in the order of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Memory of a graph that no launch has allocated yet.
    Reserved,
    /// Its stream has not reached the allocation yet.
    Awaited,
    Live,
    Freed,
}

/// What is known of an allocation.
#[derive(Clone, Debug)]
struct Record {
    /// As many as were asked for.
    bytes: usize,
    kind: MemoryKind,
    device: u32,
    /// The stream in whose order it was allocated.
    stream: Option<u64>,
    life: Life,
    freed_by: Option<FreedBy>,
}

#[derive(Debug, Default)]
struct State {
    /// By address.
    records: BTreeMap<u64, Record>,
    quarantine: Quarantine,
    /// With the device that each is about.
    findings: Vec<(u32, MemoryFinding)>,
}

/// Checks how the memory of a driver is used.
#[derive(Debug)]
pub(crate) struct Checker {
    state: Mutex<State>,
}

impl Default for Checker {
    fn default() -> Self {
        Self { state: Mutex::new(ranks::CHECKER, State::default()) }
    }
}

impl MemoryObserver for Checker {
    fn allocated(&self, block: &Block, origin: Origin) {
        let Some(raw) = block.piece().raw() else { return };
        let life = match origin.kind {
            MemoryKind::Graph => Life::Reserved,
            _ if origin.stream.is_some() => Life::Awaited,
            _ => Life::Live,
        };
        let begin = raw.begin();
        let end = begin.saturating_add(origin.bytes);
        // SAFETY: nobody has the address of the memory yet.
        unsafe {
            raw.fill(0..begin, ZONE_PATTERN);
            raw.fill(end..usize::MAX, ZONE_PATTERN);
            match origin.kind {
                // Global variables are zero at first.
                MemoryKind::Global => {}
                MemoryKind::Graph => fill(raw, begin..end, FREED_PATTERN),
                _ => fill(raw, begin..end, FRESH_PATTERN),
            }
        }
        let Origin { kind, device, bytes, stream } = origin;
        let record = Record { bytes, kind, device, stream, life, freed_by: None };
        self.state.lock().records.insert(block.address(), record);
    }

    fn registered(&self, address: u64, Origin { kind, device, bytes, stream }: Origin) {
        let record = Record { bytes, kind, device, stream, life: Life::Live, freed_by: None };
        self.state.lock().records.insert(address, record);
    }

    fn unregistered(&self, address: u64) {
        self.state.lock().records.remove(&address);
    }

    fn arrived(&self, address: u64) {
        if let Some(record) = self.state.lock().records.get_mut(&address)
            && record.life == Life::Awaited
        {
            record.life = Life::Live;
        }
    }

    fn freeing(&self, address: u64, by: FreedBy) {
        if let Some(record) = self.state.lock().records.get_mut(&address) {
            record.freed_by = Some(by);
        }
    }

    fn graph_allocated(&self, address: u64, stream: u64) {
        let mut state = self.state.lock();
        let Some(record) = state.records.get_mut(&address) else { return };
        let before = std::mem::replace(&mut record.life, Life::Live);
        record.stream = Some(stream);
        record.freed_by = None;
        let record = record.clone();
        drop(state);
        let (address, bytes) = (crate::memory::address(address), record.bytes);
        // SAFETY: the memory is the graph's until the last launch of it is done, and work that uses it comes after this.
        let memory = unsafe { std::slice::from_raw_parts_mut(address, bytes) };
        if before == Life::Freed && bytes <= WHOLLY_FILLED {
            let changes = changes(memory, FREED_PATTERN);
            self.note(changes.map(|changes| finding::changed(address as u64, &record, address as u64, changes)));
        }
        if bytes <= WHOLLY_FILLED {
            memory.fill(FRESH_PATTERN);
        }
    }

    fn graph_freed(&self, address: u64, by: FreedBy) {
        let mut state = self.state.lock();
        let Some(record) = state.records.get_mut(&address) else { return };
        record.life = Life::Freed;
        record.freed_by = Some(by);
        let bytes = record.bytes;
        drop(state);
        if bytes <= WHOLLY_FILLED {
            // SAFETY: the caller that freed it guaranteed that it is not used any more.
            unsafe { crate::memory::address(address).write_bytes(FREED_PATTERN, bytes) }
        }
    }

    fn retire(&self, raw: RawPiece) {
        let address = raw.address();
        let record = {
            let mut state = self.state.lock();
            let Some(record) = state.records.get_mut(&address) else {
                drop(state);
                // No caller ever had it.
                return drop(raw);
            };
            record.life = Life::Freed;
            record.clone()
        };
        let begin = raw.begin();
        let end = begin + record.bytes;
        self.note(around_changed(&raw, &record));
        if record.bytes > WHOLLY_FILLED {
            self.state.lock().records.remove(&address);
            return drop(raw);
        }
        // SAFETY: nobody uses freed memory.
        unsafe { raw.fill(begin..end, FREED_PATTERN) }
        let mut found = Vec::new();
        let mut gone = Vec::new();
        {
            let mut state = self.state.lock();
            state.quarantine.add(raw, record.bytes);
            while let Some(oldest) = state.quarantine.take_excess() {
                if let Some(record) = state.records.remove(&oldest.address()) {
                    found.extend(freed_changed(&oldest, &record));
                }
                gone.push(oldest);
            }
        }
        self.note(found);
        drop(gone);
    }
}

impl Observer for Checker {
    fn check(&self, operation: &Operation, stream: u64, device: u32, moment: Moment) -> Result<(), KernelFault> {
        let wrong = {
            let state = self.state.lock();
            operation.uses.iter().find_map(|used| state.wrong(used))
        };
        let Some(wrong) = wrong else { return Ok(()) };
        let device = wrong.memory.as_ref().map_or(device, |(_, record)| record.device);
        let finding = wrong.finding(operation, stream, moment);
        let fault = KernelFault::illegal_address(finding.to_string());
        self.note([(device, finding)]);
        Err(fault)
    }

    fn unless_freed(&self, address: u64, read: &mut dyn FnMut()) {
        let state = self.state.lock();
        let before = state.records.range(..=address).next_back();
        let freed =
            before.is_some_and(|(&begin, record)| record.life == Life::Freed && address - begin < record.bytes as u64);
        if !freed {
            read();
        }
    }
}

impl Checker {
    fn note(&self, findings: impl IntoIterator<Item = (u32, MemoryFinding)>) {
        for (device, finding) in findings {
            let mut state = self.state.lock();
            if state.findings.len() < MOST_FINDINGS {
                let line = format!("anabranch: host:{device}: {finding}");
                state.findings.push((device, finding));
                drop(state);
                // Where nothing can be written, the finding is still in the report.
                let _ = writeln!(stderr(), "{line}");
            }
        }
    }

    /// What is known of the memory of a device.
    pub(crate) fn report(&self, device: u32) -> MemoryReport {
        self.check_quarantine();
        let state = self.state.lock();
        let of_device = |(of, finding): &(u32, MemoryFinding)| (*of == device).then(|| finding.clone());
        let live = |(&address, record): (&u64, &Record)| {
            let is_live = record.device == device && matches!(record.life, Life::Awaited | Life::Live);
            is_live.then(|| LiveAllocation {
                address,
                bytes: record.bytes as u64,
                kind: record.kind(),
                stream: record.stream,
            })
        };
        MemoryReport {
            findings: state.findings.iter().filter_map(of_device).collect(),
            allocations: state.records.iter().filter_map(live).collect(),
        }
    }

    /// Looks whether anything was written to freed memory.
    fn check_quarantine(&self) {
        let mut found = Vec::new();
        {
            let State { records, quarantine, .. } = &mut *self.state.lock();
            quarantine.retain(|raw| {
                let change = records.get(&raw.address()).and_then(|record| freed_changed(raw, record));
                let changed = change.is_some();
                if let Some(change) = change {
                    found.push(change);
                    // It is reported once.
                    records.remove(&raw.address());
                }
                !changed
            });
        }
        self.note(found);
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        self.check_quarantine();
    }
}

/// Fills memory, or the ends of it where it is large.
///
/// # Safety
/// Nobody uses it meanwhile.
unsafe fn fill(raw: &RawPiece, range: Range<usize>, value: u8) {
    let parts = if range.len() <= WHOLLY_FILLED {
        [range, 0..0]
    } else {
        [range.start..range.start + FILLED_END, range.end - FILLED_END..range.end]
    };
    for part in parts {
        // SAFETY: the caller promises that nobody uses the range, of which this is a part.
        unsafe { raw.fill(part, value) }
    }
}

/// Where bytes are not what they should be: from the first that is not to the last.
fn changes(bytes: &[u8], pattern: u8) -> Option<Range<usize>> {
    let first = bytes.iter().position(|&byte| byte != pattern)?;
    let last = bytes.iter().rposition(|&byte| byte != pattern)?;
    Some(first..last + 1)
}

/// What was written around memory.
fn around_changed(raw: &RawPiece, record: &Record) -> Option<(u32, MemoryFinding)> {
    // SAFETY: the checker owns the bytes around memory, so other code that writes there is at fault.
    let bytes = unsafe { raw.bytes() };
    let (begin, end) = (raw.begin(), raw.begin() + record.bytes);
    let before = bytes.get(..begin).and_then(|bytes| changes(bytes, ZONE_PATTERN));
    let after = || {
        let changed = bytes.get(end..).and_then(|bytes| changes(bytes, ZONE_PATTERN))?;
        Some(end + changed.start..end + changed.end)
    };
    let changed = before.or_else(after)?;
    let at = raw.address() - begin as u64 + changed.start as u64;
    Some(finding::changed_around(raw.address(), record, at, changed.len()))
}

/// What was written to freed memory.
fn freed_changed(raw: &RawPiece, record: &Record) -> Option<(u32, MemoryFinding)> {
    // SAFETY: the checker owns freed memory, so other code that writes there is at fault.
    let bytes = unsafe { raw.bytes() };
    let freed = bytes.get(raw.begin()..raw.begin() + record.bytes)?;
    changes(freed, FREED_PATTERN).map(|changed| finding::changed(raw.address(), record, raw.address(), changed))
}

impl Record {
    /// How many bytes behind the memory belong to it. What lies behind memory of others is theirs.
    fn zone(&self) -> usize {
        if self.kind.is_of_others() { 0 } else { ZONE }
    }

    fn kind(&self) -> AllocationKind {
        match self.kind {
            MemoryKind::Device => AllocationKind::Device,
            MemoryKind::Managed => AllocationKind::Managed,
            MemoryKind::Pinned => AllocationKind::Pinned,
            MemoryKind::Registered => AllocationKind::Registered,
            MemoryKind::Pooled => AllocationKind::Pool,
            MemoryKind::Global => AllocationKind::Global,
            MemoryKind::Graph => AllocationKind::Graph,
            MemoryKind::External => AllocationKind::External,
        }
    }
}

impl State {
    /// What is wrong with a use of memory.
    fn wrong(&self, used: &Use) -> Option<finding::Wrong> {
        let Use { address, bytes, may_be_host } = *used;
        if bytes == 0 {
            return None;
        }
        let wrong = |kind, memory| Some(finding::Wrong { kind, used: *used, memory });
        let before = self.records.range(..=address).next_back();
        let Some((&begin, record)) =
            before.filter(|(begin, record)| address - **begin < (record.bytes + record.zone()) as u64)
        else {
            return if may_be_host { None } else { wrong(MemoryFindingKind::NoMemory, None) };
        };
        let memory = || Some((begin, record.clone()));
        match record.life {
            Life::Freed => wrong(MemoryFindingKind::UseAfterFree, memory()),
            Life::Reserved | Life::Awaited => wrong(MemoryFindingKind::UseBeforeAllocation, memory()),
            Life::Live if (address - begin).saturating_add(bytes) > record.bytes as u64 => {
                wrong(MemoryFindingKind::OutOfBounds, memory())
            }
            Life::Live => None,
        }
    }
}
