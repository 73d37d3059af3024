//! Memory that an operation owns.

use super::{Buffer, BufferSlice, BufferSliceMut, ManagedBuffer, PinnedBuffer};
use bytemuck::Pod;

mod sealed {
    pub trait Sealed {}
}

/// A buffer of whichever kind, as operations take it that own what they use until they are over: a
/// [`Buffer`], a [`PinnedBuffer`] or a [`ManagedBuffer`].
pub trait OwnedBuffer: sealed::Sealed {
    /// What it consists of.
    type Element: Pod;

    /// All of it, for work that reads.
    fn whole(&self) -> BufferSlice<'_, Self::Element>;

    /// All of it, for work that writes.
    fn whole_mut(&mut self) -> BufferSliceMut<'_, Self::Element>;
}

macro_rules! owned_buffers {
    ($($buffer:ident)*) => { $(
        impl<T: Pod> sealed::Sealed for $buffer<T> {}

        impl<T: Pod> OwnedBuffer for $buffer<T> {
            type Element = T;

            fn whole(&self) -> BufferSlice<'_, T> {
                self.into()
            }

            fn whole_mut(&mut self) -> BufferSliceMut<'_, T> {
                self.into()
            }
        }
    )* };
}

owned_buffers! { Buffer PinnedBuffer ManagedBuffer }

/// A buffer given to a kernel by value that the kernel only reads, so that launches on other streams may read it at the same
/// time. A buffer by value without this is memory that the kernel writes.
#[derive(Debug)]
pub struct Reads<B>(pub B);
