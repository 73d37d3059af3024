//! Findings about wrong uses of memory.

use super::{Life, Record};
use crate::engine::{Moment, Operation, Use};
use crate::memory::FreedBy;
use anabranch_hal::{MemoryFinding, MemoryFindingKind};
use std::fmt::Write;
use std::ops::Range;

/// A wrong use.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) kind: MemoryFindingKind,
    pub(super) used: Use,
    /// The memory that it is about, and where that begins.
    pub(super) memory: Option<(u64, Record)>,
}

impl Wrong {
    pub(super) fn finding(self, operation: &Operation, stream: u64, moment: Moment) -> MemoryFinding {
        let Self { kind, used: Use { address, bytes, .. }, memory } = self;
        let name = &operation.name;
        let when = if moment == Moment::After { ", when it was done," } else { "" };
        let mut message = format!("{name} in stream {stream}{when} used {bytes} bytes at {address:#x}");
        let said = match &memory {
            None => write!(message, ", where no memory is, or where it was freed long ago"),
            Some((begin, record)) => {
                let end = begin + record.bytes as u64;
                let past = address.saturating_add(bytes).saturating_sub(end);
                let place = match past {
                    0 => format!("{} bytes into", address - begin),
                    past => format!("to {past} bytes past the end of"),
                };
                write!(message, ", {place} {}", record.describe(*begin))
            }
        };
        // Writing to a string does not fail.
        let _ = said;
        MemoryFinding { kind, address, bytes, stream: Some(stream), message }
    }
}

/// Freed memory was changed.
pub(super) fn changed(begin: u64, record: &Record, from: u64, changed: Range<usize>) -> (u32, MemoryFinding) {
    let (address, bytes) = (from + changed.start as u64, changed.len() as u64);
    let message = format!(
        "{bytes} bytes at {address:#x}, {} bytes into {}, were changed after the free",
        address - begin,
        record.describe(begin)
    );
    (record.device, MemoryFinding { kind: MemoryFindingKind::WriteAfterFree, address, bytes, stream: None, message })
}

/// What lies around memory was changed.
pub(super) fn changed_around(begin: u64, record: &Record, address: u64, bytes: usize) -> (u32, MemoryFinding) {
    let bytes = bytes as u64;
    let place = match address.checked_sub(begin + record.bytes as u64) {
        Some(past) => format!("{past} bytes past the end of"),
        None => format!("{} bytes before", begin.saturating_sub(address)),
    };
    let message = format!("{bytes} bytes at {address:#x}, {place} {}, were changed", record.describe(begin));
    (record.device, MemoryFinding { kind: MemoryFindingKind::WriteOutOfBounds, address, bytes, stream: None, message })
}

impl Record {
    /// The memory, who allocated it and who freed it.
    fn describe(&self, begin: u64) -> String {
        let allocated = match (self.life, self.stream) {
            (Life::Reserved, _) => Some("no launch has allocated yet".to_owned()),
            (Life::Awaited, Some(stream)) => Some(format!("stream {stream} has not yet come to allocate")),
            (_, stream) => stream.map(|stream| format!("stream {stream} allocated")),
        };
        let freed = match (self.life, self.freed_by) {
            (Life::Freed, Some(FreedBy::Stream(stream))) => Some(format!("stream {stream} freed")),
            (Life::Freed, Some(FreedBy::Call)) => Some("a call that waits for its context freed".to_owned()),
            (Life::Freed, None) => Some("was freed with what it belonged to".to_owned()),
            _ => None,
        };
        let known: Vec<String> = allocated.into_iter().chain(freed).collect();
        let which = if known.is_empty() { "" } else { ", which " };
        format!("the {} bytes of {} at {begin:#x}{which}{}", self.bytes, self.kind(), known.join(" and "))
    }
}
