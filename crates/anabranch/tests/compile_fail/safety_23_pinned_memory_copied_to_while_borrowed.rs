//! Pinned memory cannot be the destination of a copy while a slice of it is held.

use anabranch::{Buffer, PinnedBuffer, Result, Stream};

fn read(stream: &Stream, pinned: &mut PinnedBuffer<u32>, buffer: &Buffer<u32>) -> Result<u32> {
    let slice = pinned.as_slice()?;
    stream.copy(&mut *pinned, buffer)?;
    Ok(slice[0])
}

fn main() {}
