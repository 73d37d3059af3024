//! A capturing scope that left its closure could be used when the capture is over.

use anabranch::{CaptureMode, CaptureScope, Result, Stream};

fn escape(stream: &Stream) -> Result<()> {
    let mut kept: Option<&CaptureScope<'_>> = None;
    stream.capture(CaptureMode::Global, |scope| {
        kept = Some(scope);
        Ok(())
    })?;
    Ok(())
}

fn main() {}
