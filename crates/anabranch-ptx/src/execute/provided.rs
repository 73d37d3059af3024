//! Functions that CUDA provides: `printf`, `assert`, `malloc`, `free`, and what sets conditional values of graphs.

use super::Launch;
use super::warp::failure_of;
use crate::fault::{Detail, FaultCode};
use crate::lower::Site;
use crate::machine::{Arena, Failure, Lanes};
use crate::memory::AccessKind;
use crate::ops::load::{Element, GENERIC, slow};

/// The longest text that is read from memory.
pub(super) const TEXT_LIMIT: usize = 1 << 16;

/// A call of such a function.
pub(super) struct Builtin<'c, 'l> {
    pub(super) lanes: &'c mut Lanes<'l>,
    pub(super) local: Arena,
    pub(super) frame: u64,
    pub(super) site: &'c Site,
}

pub(super) type Outcome<T> = Result<T, Box<Failure>>;

impl Builtin<'_, '_> {
    /// Performs the function for all lanes that call it.
    pub(super) fn perform(&mut self, name: &str, launch: &Launch<'_>) -> Outcome<()> {
        let lanes = (0..32u32).filter(|lane| self.lanes.mask >> lane & 1 != 0);
        let lanes: Vec<u32> = lanes.collect();
        let first = lanes.first().copied().unwrap_or(0);
        match name {
            "vprintf" => lanes.into_iter().try_for_each(|lane| self.print(lane, launch.hooks)),
            "__assertfail" => {
                let message = self.argument(first, 0)?;
                let message = self.text(first, message, TEXT_LIMIT)?;
                let file = self.argument(first, 1)?;
                let file = self.text(first, file, TEXT_LIMIT)?;
                let line = self.argument(first, 2)? as u32;
                let lossy = String::from_utf8_lossy;
                let detail = Detail::Assert(format!("{} ({}:{line})", lossy(&message), lossy(&file)));
                Err(failure_of(FaultCode::ASSERT, detail, first))
            }
            "malloc" => lanes.into_iter().try_for_each(|lane| self.allocate(lane, launch.hooks)),
            "free" => lanes.into_iter().try_for_each(|lane| self.free(lane, launch.hooks)),
            "cudaGraphSetConditional" => {
                for lane in lanes {
                    let (handle, value) = (self.argument(lane, 0)?, self.argument(lane, 1)?);
                    if !launch.hooks.set_conditional(handle, value as u32) {
                        let what = format!("the launch has no conditional value with the handle {handle:#x}");
                        return Err(failure_of(FaultCode::ILLEGAL_ADDRESS, Detail::Refused(what), lane));
                    }
                }
                Ok(())
            }
            _ => Err(failure_of(FaultCode::LAUNCH_FAILED, Detail::Unresolved(name.to_owned()), first)),
        }
    }

    /// An argument of a call: at most 8 bytes of the caller's local memory.
    pub(super) fn argument(&self, lane: u32, index: usize) -> Outcome<u64> {
        let bad = || failure_of(FaultCode::INVALID_PC, Detail::BadCall, lane);
        let place = self.site.arguments.get(index).ok_or_else(bad)?;
        let address = self.local.start + u64::from(lane) * self.local.bytes + self.frame + u64::from(place.offset);
        if place.bytes != 4 && place.bytes != 8 {
            return Err(bad());
        }
        // The text may have declared the parameter with any alignment.
        let bytes = (0..u64::from(place.bytes)).map(|index| {
            // SAFETY: parameters of calls lie in the frame's part of local memory, which every lane has.
            u64::from(unsafe { u8::load(address + index) }) << (8 * index)
        });
        Ok(bytes.fold(0, |value, byte| value | byte))
    }

    /// The result of a call: 4 or 8 bytes.
    pub(super) fn answer(&self, lane: u32, value: u64) {
        if let Some(place) = self.site.results.first().filter(|place| matches!(place.bytes, 4 | 8)) {
            let address = self.local.start + u64::from(lane) * self.local.bytes + self.frame + u64::from(place.offset);
            for (index, byte) in value.to_le_bytes().into_iter().enumerate().take(place.bytes as usize) {
                // SAFETY: as in `argument`.
                unsafe { u8::store(address + index as u64, byte) };
            }
        }
    }

    /// A byte at a generic address.
    pub(super) fn byte(&mut self, lane: u32, address: u64) -> Outcome<u8> {
        match slow::one(self.lanes, (GENERIC, 1, 0), AccessKind::Read, lane, address) {
            // SAFETY: the address may be read, as it was looked up.
            Ok(found) => Ok(unsafe { u8::load(found) }),
            Err((code, detail, space, address)) => {
                Err(Box::new(Failure { code, detail, lane, address: Some(address), bytes: 1, space }))
            }
        }
    }

    /// A text that ends with a zero, or after so many bytes.
    pub(super) fn text(&mut self, lane: u32, address: u64, limit: usize) -> Outcome<Vec<u8>> {
        let mut bytes = Vec::new();
        while bytes.len() < limit.min(TEXT_LIMIT) {
            match self.byte(lane, address.wrapping_add(bytes.len() as u64))? {
                0 => break,
                byte => bytes.push(byte),
            }
        }
        Ok(bytes)
    }
}
