//! Elements of any size and alignment, and none of them.

use crate::streams::StreamSlot;
use crate::world::{Place, World};
use anabranch::{Buffer, PinnedBuffer, Result, Status};
use bytemuck::{Pod, Zeroable};
use futures::executor::block_on;
use proptest::prelude::*;
use std::fmt::Debug;

/// What elements are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Byte,
    Odd,
    Aligned64,
    Aligned256,
    Large,
    Nothing,
    AlignedNothing,
    /// Aligned to more than memory is.
    Page,
    EmptyPage,
}

/// Makes buffers of so many elements, copies them in all ways, and drops them.
#[derive(Clone, Debug)]
pub(crate) struct Elements {
    stream: usize,
    other: usize,
    kind: Kind,
    length: usize,
    value: u8,
    split: usize,
}

pub(crate) fn elements() -> impl Strategy<Value = Elements> {
    use Kind::*;
    let kinds = vec![Byte, Odd, Aligned64, Aligned256, Large, Nothing, AlignedNothing, Page, EmptyPage];
    (0..4usize, 0..4usize, prop::sample::select(kinds), 0..6usize, any::<u8>(), 0..6usize)
        .prop_map(|(stream, other, kind, length, value, split)| Elements { stream, other, kind, length, value, split })
}

macro_rules! element {
    ($name:ident, $bytes:expr, $align:expr) => {
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[repr(C, align($align))]
        struct $name([u8; $bytes]);

        // SAFETY: all zeros are a value, there is no padding, and every pattern of bits is a value.
        unsafe impl Zeroable for $name {}
        // SAFETY: as above.
        unsafe impl Pod for $name {}
    };
}

element!(Odd, 3, 1);
element!(Aligned64, 64, 64);
element!(Aligned256, 512, 256);
element!(Large, 1024, 1);
element!(AlignedNothing, 0, 64);
element!(Page, 4096, 4096);
element!(EmptyPage, 0, 4096);

impl World<'_> {
    pub(crate) fn elements(&mut self, elements: &Elements) {
        self.let_go();
        let (stream, other) = self.pair([elements.stream, elements.other]);
        let place = &self.places[stream.device];
        let result = match elements.kind {
            Kind::Byte => place.try_elements::<u8>(&stream, &other, elements),
            Kind::Odd => place.try_elements::<Odd>(&stream, &other, elements),
            Kind::Aligned64 => place.try_elements::<Aligned64>(&stream, &other, elements),
            Kind::Aligned256 => place.try_elements::<Aligned256>(&stream, &other, elements),
            Kind::Large => place.try_elements::<Large>(&stream, &other, elements),
            Kind::Nothing => place.try_elements::<[u64; 0]>(&stream, &other, elements),
            Kind::AlignedNothing => place.try_elements::<AlignedNothing>(&stream, &other, elements),
            Kind::Page => return place.refuse_elements::<Page>(&stream, elements.length),
            Kind::EmptyPage => return place.refuse_elements::<EmptyPage>(&stream, elements.length),
        };
        // A panic of earlier work takes the place of a result, and the rest is not done.
        if let Err(error) = result {
            stream.expect_panic(&other, &error);
        }
    }
}

fn assert_elements<T: PartialEq + Debug>(found: &[T], expected: &[T]) {
    assert!(found.as_ptr().is_aligned(), "{found:p}");
    assert_eq!(found, expected);
}

impl Place {
    fn try_elements<T>(&self, stream: &StreamSlot, other: &StreamSlot, elements: &Elements) -> Result<()>
    where
        T: Pod + PartialEq + Debug,
    {
        let (stream, other, length) = (&*stream.stream, &*other.stream, elements.length);
        let mut values = vec![T::zeroed(); length];
        for (index, byte) in bytemuck::cast_slice_mut::<T, u8>(&mut values).iter_mut().enumerate() {
            *byte = elements.value.wrapping_add(index as u8);
        }
        let split = elements.split.min(length);
        let uploaded: Buffer<T> = stream.upload(&values)?;
        let mut copied = match elements.value % 3 {
            0 => other.allocate_zeroed::<T>(length)?,
            1 => other.allocate_zeroed_from::<T>(&self.pool, length)?,
            _ => self.context.allocate_zeroed::<T>(other, length)?,
        };
        assert_eq!(copied.device_pointer().0 as usize % align_of::<T>(), 0);
        assert_eq!((copied.len(), copied.byte_len()), (length, length * size_of::<T>()));
        let (head, tail) = copied.slice_mut(..)?.split_at(split)?;
        other.copy(head, uploaded.slice(..split)?)?;
        stream.copy(tail, uploaded.slice(split..)?)?;
        assert!(copied.slice_mut(length..)?.is_empty());
        assert_eq!(copied.slice(..=length).unwrap_err().status(), Status::INVALID_VALUE);
        let mut pinned: PinnedBuffer<T> = self.context.allocate_pinned(length)?;
        stream.copy(&mut pinned, &copied)?;
        drop(uploaded);
        assert_elements(pinned.as_slice()?, &values);
        pinned.write(|elements| elements.reverse())?;
        other.copy(&mut copied, &pinned)?;
        assert_elements(&stream.download(copied.slice(split..)?)?, &reversed(&values)[split..]);
        let mut managed = self.context.allocate_managed::<T>(length)?;
        other.copy(&mut managed, &copied)?;
        managed.read(|found| assert_elements(found, &reversed(&values)))?;
        managed.as_mut_slice()?.copy_from_slice(&values);
        stream.copy(&mut copied, &managed)?;
        let again = block_on(other.upload_async(&values))?;
        assert_elements(&block_on(stream.download_async(&copied))?, &values);
        assert_elements(&block_on(other.download_async(&again))?, &values);
        let mut found = reversed(&values);
        stream.sync_scope(|scope| {
            scope.copy_from_host(copied.slice_mut(..split)?, &values[..split])?;
            scope.copy_to_host(&mut found, &copied)
        })?;
        assert_elements(&found, &values);
        stream.fill_zero(&mut copied)?;
        assert_elements(&other.download(&copied)?, &vec![T::zeroed(); length]);
        Ok(())
    }

    fn refuse_elements<T: Pod>(&self, stream: &StreamSlot, length: usize) {
        let values = vec![T::zeroed(); length];
        let stream = &stream.stream;
        let refused = [
            stream.upload(&values).map(drop),
            stream.allocate_zeroed::<T>(length).map(drop),
            stream.allocate_zeroed_from::<T>(&self.pool, length).map(drop),
            self.context.allocate_zeroed::<T>(stream, length).map(drop),
            self.context.allocate_pinned::<T>(length).map(drop),
            self.context.allocate_managed::<T>(length).map(drop),
            block_on(stream.upload_async(&values)).map(drop),
        ];
        for refused in refused {
            assert_eq!(refused.unwrap_err().status(), Status::INVALID_VALUE);
        }
    }
}

fn reversed<T: Clone>(values: &[T]) -> Vec<T> {
    values.iter().rev().cloned().collect()
}
