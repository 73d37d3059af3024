//! What a scope borrows lives until the scope has waited, which is later than the end of its closure.

use anabranch::{Buffer, Result, Stream};

fn upload(stream: &Stream, buffer: &mut Buffer<u8>) -> Result<()> {
    stream.sync_scope(|scope| {
        let source = [1u8, 2, 3];
        scope.copy_from_host(buffer, &source)
    })
}

fn main() {}
