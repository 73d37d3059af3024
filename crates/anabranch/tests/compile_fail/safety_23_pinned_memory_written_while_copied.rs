//! Pinned memory cannot be the source of a copy while it is being written.

use anabranch::{Buffer, PinnedBuffer, Result, Stream};

fn write(stream: &Stream, pinned: &mut PinnedBuffer<u32>, buffer: &mut Buffer<u32>) -> Result<()> {
    let slice = pinned.as_mut_slice()?;
    stream.copy(buffer, &*pinned)?;
    slice[0] = 1;
    Ok(())
}

fn main() {}
