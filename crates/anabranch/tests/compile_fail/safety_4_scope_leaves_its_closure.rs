//! A scope that left its closure could queue work that nobody waits for.

use anabranch::{Result, Stream, StreamScope};

fn escape(stream: &Stream) -> Result<()> {
    let mut kept: Option<&StreamScope<'_, '_>> = None;
    stream.sync_scope(|scope| {
        kept = Some(scope);
        Ok(())
    })
}

fn main() {}
