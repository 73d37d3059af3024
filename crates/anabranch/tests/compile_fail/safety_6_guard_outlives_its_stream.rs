//! A stream stays alive while it is the current one.

use anabranch::{Context, CurrentStreamGuard, Result};

fn enter<'a>(context: &Context) -> Result<CurrentStreamGuard<'a>> {
    let stream = context.create_stream()?;
    Ok(stream.enter())
}

fn main() {}
