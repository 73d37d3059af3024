//! A kernel can write any byte, and not every byte is a `bool`.

use anabranch::{Buffer, Result, Stream};

fn allocate(stream: &Stream) -> Result<Buffer<bool>> {
    stream.allocate_zeroed(4)
}

fn main() {}
