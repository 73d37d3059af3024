//! Checked mode: what is asked about every access.

use std::cell::{Cell, RefCell};

use super::{CheckedAccess, Launch};
use crate::fault::{Detail, FaultCode};
use crate::machine::Observer;
use crate::memory::{Access, AccessKind};
use crate::types::Space;

/// What has been written of the memory of a block, and where the operation stands that is performed.
pub(crate) struct Checker<'b> {
    pub(crate) launch: &'b Launch<'b>,
    pub(crate) block_index: [u32; 3],
    /// Local memory may be read that was never written: compilers do so for debuggers, where they copy empty classes and
    /// change parts of words.
    reads_anything: bool,
    /// The function, and the place in it.
    pub(crate) place: Cell<(u32, u32)>,
    written: RefCell<Written>,
}

/// A byte for each byte of memory: whether it has been written.
#[derive(Default)]
struct Written {
    shared: Vec<bool>,
    /// Of each thread.
    local: Vec<Vec<bool>>,
}

/// Makes it at least so long. `None`: there is no memory.
fn grow(written: &mut Vec<bool>, length: usize) -> Option<()> {
    let more = length.saturating_sub(written.len());
    written.try_reserve(more).ok()?;
    written.resize(written.len() + more, false);
    Some(())
}

impl<'b> Checker<'b> {
    pub(crate) fn new(launch: &'b Launch<'b>, block_index: [u32; 3]) -> Checker<'b> {
        let threads: u32 = launch.geometry.block.iter().product();
        let written = Written {
            shared: vec![false; launch.geometry.total_shared as usize],
            local: vec![Vec::new(); threads.next_multiple_of(32) as usize],
        };
        let reads_anything = launch.program.module().targets.iter().any(|target| target == "debug");
        Checker { launch, block_index, reads_anything, place: Cell::new((0, 0)), written: RefCell::new(written) }
    }

    /// Local memory of a frame that begins has not been written. `None`: there is no memory to note that.
    pub(crate) fn forget_local(&self, warp: u32, mask: u32, start: u64, bytes: u64, all: u64) -> Option<()> {
        let mut written = self.written.borrow_mut();
        for lane in (0..32).filter(|lane| mask >> lane & 1 != 0) {
            let local = &mut written.local[(warp * 32 + lane) as usize];
            grow(local, all as usize)?;
            local[start as usize..(start + bytes) as usize].fill(false);
        }
        Some(())
    }

    /// Local memory that has been written otherwise. `None`: there is no memory to note that.
    pub(crate) fn note_local(&self, warp: u32, mask: u32, start: u64, bytes: u32) -> Option<()> {
        let mut written = self.written.borrow_mut();
        for lane in (0..32).filter(|lane| mask >> lane & 1 != 0) {
            let local = &mut written.local[(warp * 32 + lane) as usize];
            let end = start as usize + bytes as usize;
            grow(local, end)?;
            local[start as usize..end].fill(true);
        }
        Some(())
    }
}

impl Observer for Checker<'_> {
    fn observe(&self, warp: u32, lane: u32, access: &Access) -> Result<(), (FaultCode, Detail)> {
        let start = access.address as usize;
        let end = start + access.bytes as usize;
        let mut written = self.written.borrow_mut();
        let of_space = match access.space {
            Space::Shared => Some(&mut written.shared),
            Space::Local => Some(&mut written.local[(warp * 32 + lane) as usize]),
            _ => None,
        };
        if let Some(bytes) = of_space {
            grow(bytes, end).ok_or((FaultCode::LAUNCH_FAILED, Detail::OutOfMemory))?;
            // Copies of structures read padding, which nobody writes, with what is beside it.
            let asks = access.kind != AccessKind::Write && !(self.reads_anything && access.space == Space::Local);
            if asks && !bytes[start..end].contains(&true) {
                return Err((FaultCode::ILLEGAL_ADDRESS, Detail::NeverWritten));
            }
            if access.kind != AccessKind::Read {
                bytes[start..end].fill(true);
            }
        }
        drop(written);
        let (function, place) = self.place.get();
        let (line, source) = self.launch.line(function, place);
        let checked = CheckedAccess {
            kernel: &self.launch.program.function(self.launch.kernel).name,
            line,
            source,
            block: self.block_index,
            thread: self.launch.thread(warp, lane),
            access: *access,
        };
        self.launch.hooks.access(&checked).map_err(|(code, text)| (code, Detail::Refused(text)))
    }
}

impl Launch<'_> {
    /// The line of an operation, and the place of the source.
    pub(crate) fn line(&self, function: u32, place: u32) -> (u32, Option<(&str, u32)>) {
        let function = self.program.function(function);
        let (line, file, source) = function.code.lines.get(place as usize).copied().unwrap_or_default();
        let name = self.program.module().sources.get(&u64::from(file));
        (line, name.filter(|_| file != 0).map(|name| (name.as_str(), source)))
    }

    /// The place of a thread in its block.
    pub(crate) fn thread(&self, warp: u32, lane: u32) -> [u32; 3] {
        let [x, y, _] = self.geometry.block;
        let thread = warp * 32 + lane;
        [thread % x, thread / x % y, thread / x / y]
    }
}
