//! A stream entered in a scope, had outside of it, could queue work that nobody waits for.

use anabranch::{Result, ScopedStream, Stream};

fn escape(stream: &Stream, other: &Stream) -> Result<()> {
    let mut kept: Option<ScopedStream<'_, '_>> = None;
    stream.sync_scope(|scope| {
        kept = Some(scope.on(other)?);
        Ok(())
    })
}

fn main() {}
