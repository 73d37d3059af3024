//! A copy of a box's bytes would be freed twice.

use anabranch::{Buffer, Result, Stream};

fn upload(stream: &Stream) -> Result<Buffer<Box<u32>>> {
    stream.upload(&[Box::new(1)])
}

fn main() {}
