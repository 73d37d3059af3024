//! Calls that allocate and free memory.

use super::told::{contents, elements, plain, refused, told};
use super::{Answer, Front, FrontCall};
use crate::programs::call::{BufferKind, PartSpec};
use crate::programs::slots::{MemorySlot, New};
use anabranch::{Buffer, BufferSlice, BufferSliceMut, ManagedBuffer, MemoryPoolOptions, PinnedBuffer, Result, Stream};

/// Does the same with a buffer of any kind.
macro_rules! any {
    ($memory:expr, $buffer:ident => $result:expr) => {
        match $memory {
            Memory::Device($buffer) => $result,
            Memory::Pinned($buffer) => $result,
            Memory::Managed($buffer) => $result,
        }
    };
}
pub(super) use any;

/// A buffer of any kind.
pub(super) enum Memory {
    Device(Buffer<u32>),
    Pinned(PinnedBuffer<u32>),
    Managed(ManagedBuffer<u32>),
}

impl From<Buffer<u32>> for Memory {
    fn from(buffer: Buffer<u32>) -> Self {
        Self::Device(buffer)
    }
}

impl From<PinnedBuffer<u32>> for Memory {
    fn from(buffer: PinnedBuffer<u32>) -> Self {
        Self::Pinned(buffer)
    }
}

impl From<ManagedBuffer<u32>> for Memory {
    fn from(buffer: ManagedBuffer<u32>) -> Self {
        Self::Managed(buffer)
    }
}

impl Memory {
    pub(super) fn is_empty(&self) -> bool {
        any!(self, buffer => buffer.is_empty())
    }

    pub(super) fn slice(&self, part: &PartSpec) -> Result<BufferSlice<'_, u32>> {
        any!(self, buffer => buffer.slice(usize::from(part.start)..usize::from(part.end)))
    }

    pub(super) fn slice_mut(&mut self, part: &PartSpec) -> Result<BufferSliceMut<'_, u32>> {
        any!(self, buffer => buffer.slice_mut(usize::from(part.start)..usize::from(part.end)))
    }

    pub(super) fn context_id(&self) -> u64 {
        any!(self, buffer => buffer.context().id())
    }

    /// What it contains, or why that cannot be read.
    pub(super) fn contents(&self, reader: &Stream) -> String {
        let read = match self {
            Self::Device(buffer) => reader.download(buffer).map(|elements| contents(&elements)),
            Self::Pinned(buffer) => buffer.read(contents),
            Self::Managed(buffer) => buffer.read(contents),
        };
        read.unwrap_or_else(|error| format!("({})", refused(&error)))
    }
}

impl Front {
    pub(super) fn memory_call(&mut self, call: &FrontCall) -> Option<Answer> {
        use FrontCall as C;
        Some(match call {
            C::Allocate { memory, stream, length, pool } => {
                let stream = self.stream(*stream)?;
                let allocated = match pool {
                    Some(pool) => stream.allocate_zeroed_from(self.objects.pools.get(pool)?, *length),
                    None => stream.allocate_zeroed(*length),
                };
                self.add_memory(*memory, allocated.map(Memory::Device))
            }
            C::AllocateOn { memory, kind, context, stream, length } => {
                let (context, length) = (self.context(*context), *length);
                let allocated = match kind {
                    BufferKind::Plain => context.allocate_zeroed(&*self.stream(*stream)?, length).map(Memory::Device),
                    BufferKind::Pinned => context.allocate_pinned(length).map(Memory::Pinned),
                    BufferKind::Managed => context.allocate_managed(length).map(Memory::Managed),
                };
                self.add_memory(*memory, allocated)
            }
            C::Upload { memory, stream, length, seed } => {
                let uploaded = self.stream(*stream)?.upload(&elements(*length, *seed));
                self.add_memory(*memory, uploaded.map(Memory::Device))
            }
            C::MemoryDrop { memory } => {
                drop(self.objects.memory.remove(memory)?);
                plain(Ok(()))
            }
            C::PoolCreate { pool, max_bytes } => {
                let device = self.contexts[0].context.device();
                told(
                    device.create_memory_pool(&MemoryPoolOptions { max_bytes: *max_bytes, interprocess: false }),
                    |created| {
                        self.objects.pools.insert(pool.0, created);
                        String::new()
                    },
                )
            }
            C::PoolDrop { pool } => {
                drop(self.objects.pools.remove(pool)?);
                plain(Ok(()))
            }
            C::PoolTrim { pool, keep } => plain(self.objects.pools.get(pool)?.trim(*keep)),
            _ => return None,
        })
    }

    pub(super) fn add_memory(&mut self, slot: New<MemorySlot>, memory: Result<Memory>) -> Answer {
        told(memory, |memory| {
            self.objects.memory.insert(slot.0, memory);
            String::new()
        })
    }

    /// Writes a part of a buffer, which leaves its slot meanwhile.
    pub(super) fn with_part<R>(
        &mut self,
        part: &PartSpec,
        write: impl FnOnce(&mut Self, BufferSliceMut<'_, u32>) -> Result<R>,
    ) -> Option<Result<R>> {
        let mut memory = self.objects.memory.remove(&part.memory)?;
        let result = memory.slice_mut(part).and_then(|slice| write(self, slice));
        self.objects.memory.insert(part.memory, memory);
        Some(result)
    }

    /// Writes a part of a buffer, and reads a part of another. Both leave their slots meanwhile.
    pub(super) fn with_parts<R>(
        &mut self,
        to: &PartSpec,
        from: &PartSpec,
        work: impl FnOnce(&mut Self, BufferSliceMut<'_, u32>, BufferSlice<'_, u32>) -> Result<R>,
    ) -> Option<Result<R>> {
        if to.memory == from.memory || !self.objects.memory.contains_key(&to.memory) {
            return None;
        }
        let source = self.objects.memory.remove(&from.memory)?;
        let result = self.with_part(to, |front, to| source.slice(from).and_then(|from| work(front, to, from)));
        self.objects.memory.insert(from.memory, source);
        result
    }
}
