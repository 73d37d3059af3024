//! Memory that a scope's copy writes cannot be read before the scope has waited.

use anabranch::{Buffer, Result, Stream};

fn download(stream: &Stream, buffer: &Buffer<u8>) -> Result<u8> {
    let mut destination = [0u8; 3];
    stream.sync_scope(|scope| {
        scope.copy_to_host(&mut destination, buffer)?;
        Ok(destination[0])
    })
}

fn main() {}
