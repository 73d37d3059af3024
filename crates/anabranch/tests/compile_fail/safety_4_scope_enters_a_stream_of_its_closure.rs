//! A stream that a scope is to wait for lives until the scope has waited, which is later than the end of its closure.

use anabranch::{Result, Stream};

fn enter(stream: &Stream) -> Result<()> {
    stream.sync_scope(|scope| {
        let own = stream.context().create_stream()?;
        scope.on(&own)?;
        Ok(())
    })
}

fn main() {}
