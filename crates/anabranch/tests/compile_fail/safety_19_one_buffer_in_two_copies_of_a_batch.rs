//! Copies of a batch have no order, so what one of them writes is used by no other.

use anabranch::{BatchCopy, Buffer, Result, Stream};

fn copy(stream: &Stream, first: &mut Buffer<u32>, second: &mut Buffer<u32>, third: &Buffer<u32>) -> Result<()> {
    stream.copy_batch([BatchCopy::new(&mut *first, third)?, BatchCopy::new(second, &*first)?])
}

fn main() {}
