//! Calls that copy and fill.

use super::memory::{Memory, any};
use super::told::{contents, elements, plain, told};
use super::{Answer, Front, FrontCall};
use anabranch::{BufferSlice, BufferSliceMut, Region, Result, Volume, VolumeMut};

impl Front {
    /// Whether this is a copy that does not wait: one that is not between two pieces of host memory.
    pub(super) fn is_copy_on_device(&self, call: &FrontCall) -> bool {
        let on_device = |slot| matches!(self.objects.memory.get(slot), Some(Memory::Device(_)));
        match call {
            FrontCall::Copy { to, from, .. } | FrontCall::CopyRegion { to, from, .. } => {
                on_device(&to.memory) || on_device(&from.memory)
            }
            _ => false,
        }
    }

    pub(super) fn copy_call(&mut self, call: &FrontCall) -> Option<Answer> {
        use FrontCall as C;
        Some(match call {
            C::Copy { stream, to, from } => {
                let stream = self.stream(*stream)?;
                plain(self.with_parts(to, from, |_, to, from| stream.copy(to, from))?)
            }
            C::CopyPeer { stream, to, from } => {
                let stream = self.stream(*stream)?;
                plain(self.with_parts(to, from, |_, to, from| stream.copy_peer(to, from))?)
            }
            C::CopyWithin { stream, memory, middle } => {
                let (stream, memory) = (self.stream(*stream)?, self.objects.memory.get_mut(memory)?);
                let copy = |whole: BufferSliceMut<'_, u32>| {
                    let (to, from) = whole.split_at((*middle).into())?;
                    stream.copy(to, from)
                };
                plain(any!(memory, buffer => copy(buffer.into())))
            }
            C::CopyRegion { stream, to, from, region } => {
                let stream = self.stream(*stream)?;
                let ([to_length, to_rows], [from_length, from_rows]) = (region.to_shape, region.from_shape);
                let extents = Region {
                    source_origin: region.from_origin,
                    destination_origin: region.to_origin,
                    extent: region.extent,
                };
                plain(self.with_parts(to, from, |_, to, from| {
                    let to = VolumeMut::new(to, to_length, to_rows);
                    stream.copy_region(to, Volume::new(from, from_length, from_rows), &extents)
                })?)
            }
            C::Fill { stream, to, value } => {
                let stream = self.stream(*stream)?;
                plain(self.with_part(to, |_, to| stream.fill(to, *value))?)
            }
            C::FillZero { stream, to } => {
                let stream = self.stream(*stream)?;
                plain(self.with_part(to, |_, to| stream.fill_zero(to))?)
            }
            C::CopyFromHost { stream, to, length, seed } => {
                let (stream, source) = (self.stream(*stream)?, elements(*length, *seed));
                plain(self.with_part(to, |_, to| stream.copy_from_host(to, &source))?)
            }
            C::CopyToHost { stream, from, length } => {
                let (stream, mut destination) = (self.stream(*stream)?, vec![0; *length]);
                let copy = |from: BufferSlice<'_, u32>| stream.copy_to_host(&mut destination, from);
                let copied = self.objects.memory.get(&from.memory)?.slice(from).and_then(copy);
                told(copied, |()| contents(&destination))
            }
            C::Download { stream, from } => {
                let (stream, memory) = (self.stream(*stream)?, self.objects.memory.get(&from.memory)?);
                let downloaded: Result<Vec<u32>> = memory.slice(from).and_then(|from| stream.download(from));
                told(downloaded, |elements| contents(&elements))
            }
            C::Prefetch { stream, memory, to_host } => {
                let Memory::Managed(buffer) = self.objects.memory.get(memory)? else { return None };
                plain(self.stream(*stream)?.prefetch(buffer, *to_host))
            }
            _ => return None,
        })
    }
}
