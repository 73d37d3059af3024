//! Calls that access memory at any address.

use super::super::answer::{Answer, Outcome};
use super::super::call::{AddressSpec, ArenaCall, Base};
use super::super::slots::{ContextSlot, Flags, MemorySlot, StreamSlot};
use super::arena::{Side, sides};
use super::objects::MemoryKind;
use super::{Stage, plain};
use anabranch::hal::{self, Copy3d, CopyKind, DevicePointer, Helping, Status, Value, WaitValueFlags, WriteValueFlags};

impl Stage {
    /// The two addresses of a copy, destination first, if they may be used. Ranges that overlap have no defined result.
    fn both(
        &self,
        context: ContextSlot,
        kind: CopyKind,
        to: AddressSpec,
        from: AddressSpec,
        bytes: usize,
    ) -> Option<[u64; 2]> {
        let [to_side, from_side] = sides(kind);
        let (to, from) = (self.span(context, to, bytes, to_side)?, self.span(context, from, bytes, from_side)?);
        if to.overlaps(&from) { None } else { Some([to.address, from.address]) }
    }

    /// Makes a call, waits for everything, and answers what has changed.
    fn observed(&mut self, result: hal::Result<()>) -> Answer {
        if result.is_err() {
            return plain(result);
        }
        match self.harness.synchronize().and_then(|()| self.changes()) {
            Ok(changes) => Answer::with(Outcome::Status(0), changes),
            Err(failure) => Answer::with(Outcome::Status(failure.status.0), "synchronizing"),
        }
    }

    pub(super) fn arena_call(&mut self, call: &ArenaCall) -> Option<Answer> {
        let driver = self.driver.clone();
        let result = match call {
            ArenaCall::Copy { context, kind, to, from, bytes } => {
                let [to, from] = self.both(*context, *kind, *to, *from, *bytes)?;
                // SAFETY: the ranges are valid where the driver does not check them, and are used no more after the wait.
                unsafe { driver.copy(&self.harness.call(*context), *kind, to, from, *bytes) }
            }
            ArenaCall::CopyAsync { stream, kind, to, from, bytes } => {
                let (stream, context) = self.objects.stream(*stream)?;
                let [to, from] = self.both(context, *kind, *to, *from, *bytes)?;
                // SAFETY: the same.
                unsafe { driver.copy_async(&self.harness.call(context), *kind, to, from, *bytes, stream) }
            }
            ArenaCall::Copy3d { stream, to, from, extent } => {
                let (stream, context) = self.objects.stream(*stream)?;
                let (destination, to) = self.place(context, to, *extent)?;
                let (source, from) = self.place(context, from, *extent)?;
                if to.overlaps(&from) {
                    return None;
                }
                let copy = Copy3d { source, destination, extent: *extent };
                // SAFETY: the same.
                unsafe { driver.copy_3d_async(&self.harness.call(context), &copy, stream) }
            }
            ArenaCall::CopyPeer { stream, to, to_context, from, from_context, bytes } => {
                let (stream, context) = self.objects.stream(*stream)?;
                // What a copy does whose memory is not of the context that it names is not defined.
                if self.is_elsewhere(*to_context, *to) || self.is_elsewhere(*from_context, *from) {
                    return None;
                }
                let mut ends = [(*to_context, *to), (*from_context, *from)].into_iter();
                if !ends.all(|(of, at)| self.piece(of, at).is_none_or(|piece| self.may_copy(context, piece))) {
                    return None;
                }
                let to = self.span(*to_context, *to, *bytes, Side::Device)?;
                let from = self.span(*from_context, *from, *bytes, Side::Device)?;
                if to.overlaps(&from) {
                    return None;
                }
                let of = [*to_context, *from_context].map(|context| self.harness.call(context).context);
                let (call, to, from) =
                    (self.harness.call(context), DevicePointer(to.address), DevicePointer(from.address));
                // SAFETY: the same.
                unsafe { driver.copy_peer_async(&call, to, of[0], from, of[1], *bytes, stream) }
            }
            ArenaCall::Fill { stream, at, pattern, count } => {
                let (stream, context) = self.objects.stream(*stream)?;
                let bytes = count.saturating_mul(pattern.width());
                if !self.may_access(context, *at) {
                    return None;
                }
                let at = DevicePointer(self.span(context, *at, bytes, Side::Device)?.address);
                // SAFETY: the same.
                unsafe { driver.fill_async(&self.harness.call(context), at, *pattern, *count, stream) }
            }
            ArenaCall::Prefetch { stream, at, bytes, device } => {
                let (stream, context) = self.objects.stream(*stream)?;
                let at = DevicePointer(self.span(context, *at, *bytes, Side::Device)?.address);
                let device = device.map(|device| self.harness.ordinal(device));
                // SAFETY: the same.
                unsafe { driver.prefetch_async(&self.harness.call(context), at, *bytes, device, stream) }
            }
            ArenaCall::Free { context, at } => {
                let at = DevicePointer(self.not_the_start(*context, *at)?);
                // SAFETY: nothing is allocated at this address, so that the driver refuses it.
                return Some(plain(unsafe { driver.free(&self.harness.call(*context), at) }));
            }
            ArenaCall::FreeAsync { stream, at } => {
                let (stream, context) = self.objects.stream(*stream)?;
                let at = DevicePointer(self.not_the_start(context, *at)?);
                // SAFETY: the same.
                return Some(plain(unsafe { driver.free_async(&self.harness.call(context), at, stream) }));
            }
            ArenaCall::FreeTwice { context, memory } => return self.free_twice(*context, *memory),
            ArenaCall::Wait { stream, at, value, flags } => return self.wait_value(*stream, *at, *value, *flags),
            ArenaCall::Write { stream, at, value, flags } => {
                let (stream, context) = self.objects.stream(*stream)?;
                if !self.may_access(context, *at) {
                    return None;
                }
                let at = DevicePointer(self.span(context, *at, value.width() as usize, Side::Device)?.address);
                let flags = WriteValueFlags::from_bits_retain(flags.0);
                // SAFETY: the same.
                unsafe { driver.stream_write_value(&self.harness.call(context), stream, at, *value, flags) }
            }
        };
        Some(self.observed(result))
    }

    /// An address where no allocation starts.
    fn not_the_start(&self, context: ContextSlot, at: AddressSpec) -> Option<u64> {
        if let Some(piece) = self.piece(context, at) {
            let is_start = at.offset == 0 && at.base != Base::Pageable;
            // Where a piece ends, another one may begin.
            if is_start || usize::from(at.offset) >= self.piece_bytes(piece) {
                return None;
            }
        }
        Some(self.span(context, at, 0, Side::Device)?.address)
    }

    fn free_twice(&mut self, context: ContextSlot, slot: MemorySlot) -> Option<Answer> {
        let memory = self.objects.memory.get(&slot).copied().filter(|memory| memory.kind == MemoryKind::Plain)?;
        self.objects.memory.remove(&slot);
        self.forget_piece(slot);
        let (driver, call) = (self.driver.clone(), self.harness.call(context));
        // SAFETY: the memory is allocated, and all work is complete. The second time nothing is allocated there, because
        // nothing was allocated in between, so that the driver refuses it.
        let [first, second] = [0, 1].map(|_| unsafe { driver.free(&call, memory.address) });
        let second = second.map_or_else(|failure| failure.status.0, |()| 0);
        let mut answer = plain(first);
        answer.detail = format!("then {second}");
        Some(answer)
    }

    /// Waits for a value. If the value is not there yet, it is written after a query.
    fn wait_value(&mut self, stream: StreamSlot, at: AddressSpec, value: Value, flags: Flags) -> Option<Answer> {
        let driver = self.driver.clone();
        let (stream, context) = self.objects.stream(stream)?;
        if !self.may_access(context, at) {
            return None;
        }
        let address = DevicePointer(self.span(context, at, value.width() as usize, Side::Device)?.address);
        let piece = self.piece(context, at);
        let (offset, width) = (usize::from(at.offset), value.width() as usize);
        let seen = piece
            .and_then(|piece| self.seen(piece, offset, width))
            .map(|bytes| bytes.iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte)));
        let wanted = match value {
            Value::U32(value) => u64::from(value),
            Value::U64(value) => value,
        };
        let is_there = seen.is_some_and(|seen| is_satisfied(flags.0, value, seen, wanted));
        // What satisfies the condition.
        let other = match flags.0 & 3 {
            3 => 0,
            _ => wanted,
        };
        if !is_there && seen.is_some() && !is_satisfied(flags.0, value, other, wanted) {
            return None;
        }
        let call = self.harness.call(context);
        let flags = WaitValueFlags::from_bits_retain(flags.0);
        // SAFETY: the address is valid, or the driver refuses it.
        let result = unsafe { driver.stream_wait_value(&call, stream, address, value, flags) };
        let (Ok(()), false, Some(piece), Some(_)) = (&result, is_there, piece, seen) else {
            return Some(self.observed(result));
        };
        let query = {
            // SAFETY: nothing is locked.
            let _helping = unsafe { Helping::enter() };
            driver.stream_query(&call, stream)
        };
        let is_held = query.is_err_and(|failure| failure.status == Status::NOT_READY);
        let written = self.write_piece(piece, offset, &other.to_le_bytes()[..width]);
        let mut answer = self.observed(written);
        answer.detail = format!("{} {}", if is_held { "waits" } else { "does not wait" }, answer.detail);
        Some(answer)
    }
}

/// Whether a number satisfies a condition.
fn is_satisfied(flags: u32, width: Value, number: u64, wanted: u64) -> bool {
    match flags & 3 {
        0 => match width {
            Value::U32(_) => (number as u32).wrapping_sub(wanted as u32).cast_signed() >= 0,
            Value::U64(_) => number.wrapping_sub(wanted).cast_signed() >= 0,
        },
        1 => number == wanted,
        2 => number & wanted != 0,
        _ => match width {
            Value::U32(_) => !(number as u32 | wanted as u32) != 0,
            Value::U64(_) => !(number | wanted) != 0,
        },
    }
}
