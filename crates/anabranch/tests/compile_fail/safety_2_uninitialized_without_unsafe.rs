//! Memory that nobody has written is not handed out by safe code.

use anabranch::{Buffer, Result, Stream};

fn allocate(stream: &Stream) -> Result<Buffer<u32>> {
    stream.allocate_uninitialized(4)
}

fn main() {}
