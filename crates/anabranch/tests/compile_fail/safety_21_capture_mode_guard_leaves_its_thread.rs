//! The mode is that of the thread that exchanged it.

use anabranch::{CaptureMode, Context, Result};

fn leave(context: &Context) -> Result<()> {
    let guard = context.exchange_capture_mode(CaptureMode::Relaxed)?;
    std::thread::spawn(move || drop(guard));
    Ok(())
}

fn main() {}
