//! Memory that a program accesses at any address, one call after the other.

use super::super::call::{AddressSpec, Base, PlaceSpec};
use super::super::slots::{ContextSlot, MemorySlot};
use super::Stage;
use super::objects::MemoryKind;
use anabranch::hal::{
    self, Call, CopyKind, CopyPlace, DevicePointer, Driver, Live, PinnedFlags, StreamFlags, StreamHandle,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The bytes of each buffer of the arena.
pub(super) const ARENA_BYTES: usize = 4096;
/// More than any region that begins in such a buffer.
const GUARD_BYTES: usize = 16384;
/// An address that belongs to no allocation.
const GARBAGE: u64 = 0x7f00_dead_0000;

/// A piece of memory whose contents are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Piece {
    Device(u16),
    Pinned,
    Pageable,
    Managed,
    Memory(MemorySlot),
}

impl Piece {
    /// Whether the host can read and write it.
    fn is_on_host(self) -> bool {
        matches!(self, Self::Pinned | Self::Pageable | Self::Managed)
    }
}

/// Buffers of their own, and a stream for each context that waits for no other.
pub(super) struct Arena {
    devices: [DevicePointer; 2],
    /// Memory before and after those buffers, which nobody uses. Where a driver accepts a region that runs out of its
    /// buffer, it writes there.
    guards: [[DevicePointer; 2]; 2],
    pinned: *mut u8,
    pageable: *mut u8,
    /// Null if the device has no managed memory.
    managed: DevicePointer,
    pub(super) streams: [StreamHandle; 2],
    /// What the pieces contained when they were last looked at.
    seen: BTreeMap<Piece, Vec<u8>>,
}

/// Addresses that a call uses.
pub(super) struct Span {
    pub(super) address: u64,
    /// The piece that they are in, if they are in any.
    piece: Option<Piece>,
    range: Range<usize>,
}

impl Span {
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let common = self.range.start < other.range.end && other.range.start < self.range.end;
        common && self.piece.is_some() && self.piece == other.piece
    }
}

/// What the two sides of a copy may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The driver checks the address.
    Device,
    /// The driver trusts the address.
    Host,
}

/// The sides of a copy of that kind: those of the destination and of the source.
pub(super) fn sides(kind: CopyKind) -> [Side; 2] {
    match kind {
        CopyKind::HostToDevice => [Side::Device, Side::Host],
        CopyKind::DeviceToHost => [Side::Host, Side::Device],
        CopyKind::DeviceToDevice => [Side::Device, Side::Device],
        CopyKind::Inferred => [Side::Host, Side::Host],
    }
}

impl Arena {
    pub(super) fn open(driver: &dyn Driver, calls: &[Call<'_>; 2]) -> hal::Result<Self> {
        let guarded = |call| {
            let before = driver.allocate(call, GUARD_BYTES)?;
            let device = driver.allocate(call, ARENA_BYTES)?;
            Ok::<_, hal::Failure>((device, [before, driver.allocate(call, GUARD_BYTES)?]))
        };
        let [first, second] = [guarded(&calls[0])?, guarded(&calls[1])?];
        let stream = |call| driver.stream_create(call, StreamFlags::NON_BLOCKING, 0);
        Ok(Self {
            devices: [first.0, second.0],
            guards: [first.1, second.1],
            pinned: driver.allocate_pinned(&calls[0], ARENA_BYTES, PinnedFlags::PORTABLE | PinnedFlags::DEVICE_MAP)?,
            pageable: Box::into_raw(vec![0u64; ARENA_BYTES / 8].into_boxed_slice()).cast(),
            managed: driver.allocate_managed(&calls[0], ARENA_BYTES).unwrap_or(DevicePointer::NULL),
            streams: [stream(&calls[0])?, stream(&calls[1])?],
            seen: BTreeMap::new(),
        })
    }

    /// Frees the buffers.
    ///
    /// # Safety
    ///
    /// All work is complete, and nobody uses the arena any more.
    pub(super) unsafe fn close(&self, driver: &dyn Driver, calls: &[Call<'_>; 2]) {
        for index in [0, 1] {
            // SAFETY: the caller promises that nobody uses them any more.
            unsafe {
                let _ = driver.stream_destroy(&calls[index], self.streams[index]);
                for address in self.guards[index].iter().chain([&self.devices[index]]) {
                    let _ = driver.free(&calls[index], *address);
                }
            }
        }
        // SAFETY: the same. The pageable memory was made from a box of this many numbers.
        unsafe {
            let _ = driver.free_pinned(&calls[0], self.pinned);
            let _ = driver.free(&calls[0], self.managed);
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.pageable.cast::<u64>(), ARENA_BYTES / 8)));
        }
    }

    /// The managed memory, if the device has any.
    pub(super) fn managed(&self) -> Option<DevicePointer> {
        Some(self.managed).filter(|address| !address.is_null())
    }

    /// The stream of a context that waits for no other.
    pub(super) fn stream(&self, context: ContextSlot) -> Live<'static, StreamHandle> {
        super::objects::live(self.streams[usize::from(context.0 % 2)])
    }
}

/// The byte that a piece contains at an offset before a program.
fn initial(piece: Piece, offset: usize) -> u8 {
    let salt = match piece {
        Piece::Device(context) => 1 + context as usize,
        Piece::Pinned => 3,
        Piece::Pageable => 4,
        Piece::Managed => 5,
        Piece::Memory(_) => return 0,
    };
    (offset * 7 + offset / 251 + salt * 40) as u8
}

/// The first and the last byte that differ.
fn difference(before: &[u8], now: &[u8]) -> Option<(usize, usize)> {
    // Mostly nothing differs, which is seen sooner.
    if before == now {
        return None;
    }
    let differs = |index: &usize| before.get(*index) != now.get(*index);
    Some(((0..now.len()).find(differs)?, (0..now.len()).rfind(differs)?))
}

impl Stage {
    fn pieces(&self) -> Vec<Piece> {
        let mut pieces = vec![Piece::Device(0), Piece::Device(1), Piece::Pinned, Piece::Pageable];
        if !self.harness.arena.managed.is_null() {
            pieces.push(Piece::Managed);
        }
        pieces.extend(
            self.objects.memory.iter().filter(|(_, memory)| memory.is_filled).map(|(slot, _)| Piece::Memory(*slot)),
        );
        pieces
    }

    fn piece_address(&self, piece: Piece) -> u64 {
        let arena = &self.harness.arena;
        match piece {
            Piece::Device(context) => arena.devices[usize::from(context % 2)].0,
            Piece::Pinned => arena.pinned as u64,
            Piece::Pageable => arena.pageable as u64,
            Piece::Managed => arena.managed.0,
            Piece::Memory(slot) => self.objects.memory.get(&slot).map_or(0, |memory| memory.address.0),
        }
    }

    /// Whether copies in a stream of a context may use a piece.
    pub(super) fn may_copy(&self, context: ContextSlot, piece: Piece) -> bool {
        match piece {
            Piece::Memory(slot) => self.may_copy_memory(context, slot),
            _ => true,
        }
    }

    /// Whether other work of a context, and a copy that names it, may use an address as device memory of its own.
    pub(super) fn may_access(&self, context: ContextSlot, at: AddressSpec) -> bool {
        match self.piece(context, at) {
            Some(piece @ (Piece::Device(_) | Piece::Memory(_))) => {
                self.may_copy(context, piece) && self.can_access(context, self.piece_context(piece))
            }
            _ => true,
        }
    }

    /// Whether an address is one of device memory of the other device.
    pub(super) fn is_elsewhere(&self, context: ContextSlot, at: AddressSpec) -> bool {
        match self.piece(context, at) {
            Some(piece @ (Piece::Device(_) | Piece::Memory(_))) => {
                self.harness.device(context) != self.harness.device(self.piece_context(piece))
            }
            _ => false,
        }
    }

    fn piece_context(&self, piece: Piece) -> ContextSlot {
        match piece {
            Piece::Device(context) => ContextSlot(context),
            Piece::Memory(slot) => self.objects.memory.get(&slot).map_or(ContextSlot(0), |memory| memory.context),
            Piece::Pinned | Piece::Pageable | Piece::Managed => ContextSlot(0),
        }
    }

    pub(super) fn piece_bytes(&self, piece: Piece) -> usize {
        match piece {
            Piece::Memory(slot) => self.objects.memory.get(&slot).map_or(0, |memory| memory.bytes),
            _ => ARENA_BYTES,
        }
    }

    /// Writes what the buffers contain before a program. No work is pending.
    pub(super) fn fill_arena(&mut self) -> hal::Result<()> {
        for piece in self.pieces() {
            let bytes: Vec<u8> = (0..ARENA_BYTES).map(|offset| initial(piece, offset)).collect();
            self.write_piece(piece, 0, &bytes)?;
            self.harness.arena.seen.insert(piece, bytes);
        }
        Ok(())
    }

    /// Writes to a piece that no pending work uses, except a wait for a value.
    pub(super) fn write_piece(&self, piece: Piece, offset: usize, bytes: &[u8]) -> hal::Result<()> {
        let address = self.piece_address(piece) + offset as u64;
        if piece.is_on_host() {
            // SAFETY: the caller gives a range of the piece, which the host can write, and which no pending work uses
            // except to wait for a value, which is written in one piece.
            unsafe {
                match (<[u8; 4]>::try_from(bytes), <[u8; 8]>::try_from(bytes)) {
                    (Ok(word), _) if address.is_multiple_of(4) => {
                        AtomicU32::from_ptr(address as *mut u32).store(u32::from_ne_bytes(word), Ordering::Release);
                    }
                    (_, Ok(word)) if address.is_multiple_of(8) => {
                        AtomicU64::from_ptr(address as *mut u64).store(u64::from_ne_bytes(word), Ordering::Release);
                    }
                    _ => (address as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()),
                }
            }
            return Ok(());
        }
        let context = self.piece_context(piece);
        let (call, stream) = (self.harness.call(context), self.harness.arena.stream(context));
        let (kind, from) = (CopyKind::HostToDevice, bytes.as_ptr() as u64);
        // SAFETY: both ranges are valid, and the bytes are used no more after the wait.
        unsafe { self.driver.copy_async(&call, kind, address, from, bytes.len(), stream) }?;
        self.driver.stream_synchronize(&call, stream)
    }

    /// The contents of a piece. No work is pending.
    pub(super) fn read_piece(&self, piece: Piece) -> hal::Result<Vec<u8>> {
        let (address, length) = (self.piece_address(piece), self.piece_bytes(piece));
        let mut bytes = vec![0u8; length];
        if piece.is_on_host() {
            // SAFETY: the piece has this many bytes that the host can read, and no work is pending.
            unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(address as *const u8, length) };
            return Ok(bytes);
        }
        let (call, kind) = (self.harness.call(self.piece_context(piece)), CopyKind::DeviceToHost);
        // SAFETY: both ranges are valid, and the call waits for the copy.
        unsafe { self.driver.copy(&call, kind, bytes.as_mut_ptr() as u64, address, length) }?;
        Ok(bytes)
    }

    /// What has changed since the last time, as ranges with hashes. No work is pending.
    pub(super) fn changes(&mut self) -> hal::Result<String> {
        let mut text = Vec::new();
        for piece in self.pieces() {
            let bytes = self.read_piece(piece)?;
            let before = self.harness.arena.seen.remove(&piece).unwrap_or_else(|| vec![0; bytes.len()]);
            if let Some((first, last)) = difference(&before, &bytes) {
                let changed = &bytes[first..=last];
                let name = match piece {
                    Piece::Memory(slot) => slot.to_string(),
                    Piece::Device(context) => format!("c{context}"),
                    piece => format!("{piece:?}").to_lowercase(),
                };
                let hash = changed
                    .iter()
                    .fold(0x811c_9dc5u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
                text.push(format!("{name}[{first}..{}]={hash:08x}", last + 1));
            }
            self.harness.arena.seen.insert(piece, bytes);
        }
        Ok(text.join(" "))
    }

    /// Fills fresh memory, so that its contents are known, if it is not too large.
    pub(super) fn fill_memory(&mut self, slot: MemorySlot) {
        let Some(memory) = self.objects.memory.get(&slot).copied() else { return };
        if memory.kind == MemoryKind::Pinned && memory.bytes <= 1 << 16 {
            // SAFETY: the driver has just allocated so many bytes, which nobody else uses.
            unsafe { std::ptr::write_bytes(memory.address.0 as *mut u8, 0, memory.bytes) };
        }
        let is_device = matches!(memory.kind, MemoryKind::Plain | MemoryKind::Async);
        if !self.has_arena || !is_device || memory.bytes > 1 << 16 {
            return;
        }
        let synchronized = self.harness.synchronize();
        let filled = synchronized.and_then(|()| self.write_piece(Piece::Memory(slot), 0, &vec![0; memory.bytes]));
        if let (Ok(()), Some(memory)) = (filled, self.objects.memory.get_mut(&slot)) {
            memory.is_filled = true;
            self.harness.arena.seen.insert(Piece::Memory(slot), vec![0; memory.bytes]);
        }
    }

    pub(super) fn forget_piece(&mut self, slot: MemorySlot) {
        self.harness.arena.seen.remove(&Piece::Memory(slot));
    }

    /// The piece that an address is in.
    pub(super) fn piece(&self, context: ContextSlot, at: AddressSpec) -> Option<Piece> {
        Some(match at.base {
            Base::Device => Piece::Device(context.0 % 2),
            Base::Other => Piece::Device(1 - context.0 % 2),
            Base::Pinned => Piece::Pinned,
            Base::Pageable => Piece::Pageable,
            Base::Managed => Piece::Managed,
            Base::Memory(slot) => Piece::Memory(slot),
            Base::Null | Base::Garbage => return None,
        })
    }

    /// The contents of an address when they were last looked at.
    pub(super) fn seen(&self, piece: Piece, offset: usize, bytes: usize) -> Option<&[u8]> {
        self.harness.arena.seen.get(&piece)?.get(offset..offset + bytes)
    }

    /// An address, if it may be used: the driver must refuse an address that is not valid on the side of the device, and
    /// would crash on the side of the host.
    pub(super) fn span(&self, context: ContextSlot, at: AddressSpec, bytes: usize, side: Side) -> Option<Span> {
        let start = usize::from(at.offset);
        let range = start..start.saturating_add(bytes);
        let Some(piece) = self.piece(context, at) else {
            let address = if at.base == Base::Null { 0 } else { GARBAGE + start as u64 };
            return (side == Side::Device || bytes == 0).then_some(Span { address, piece: None, range });
        };
        let (address, length) = (self.piece_address(piece), self.piece_bytes(piece));
        if address == 0 || !self.may_copy(context, piece) {
            return None;
        }
        // Behind its end may be other memory.
        let is_checked = !piece.is_on_host() && side == Side::Device && start < length;
        let is_inside = range.end <= length;
        let span = Span { address: address + start as u64, piece: Some(piece), range };
        (is_checked || is_inside || bytes == 0).then_some(span)
    }

    /// One side of a copy of a region, if it may be used, and the addresses that it may access.
    pub(super) fn place(
        &self,
        context: ContextSlot,
        spec: &PlaceSpec,
        extent: [usize; 3],
    ) -> Option<(CopyPlace, Span)> {
        let PlaceSpec { address: at, pitch, height, origin } = *spec;
        let host = matches!(at.base, Base::Pinned | Base::Pageable);
        // Bounds, whatever a driver makes of a pitch or a height that is too small.
        let (pitch_bound, height_bound) = (pitch.max(origin[0] + extent[0]), height.max(origin[1] + extent[1]));
        let offset = |[x, y, z]: [usize; 3]| (z * height_bound + y) * pitch_bound + x;
        let end = offset([0, 1, 2].map(|axis| origin[axis] + extent[axis]));
        // Where the rows behind the end of memory are is known for the arena only, and only if the first row is inside.
        let piece = self.piece(context, at);
        let starts_inside = piece.is_none_or(|piece| usize::from(at.offset) + offset(origin) < self.piece_bytes(piece));
        let is_trusted = host || matches!(at.base, Base::Memory(_)) || !starts_inside;
        let span = self.span(context, at, end, if is_trusted { Side::Host } else { Side::Device })?;
        Some((CopyPlace { address: span.address, host, pitch, height, origin }, span))
    }
}
