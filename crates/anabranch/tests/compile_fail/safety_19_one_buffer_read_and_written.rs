//! A launch that writes a buffer which it also reads is refused before anything is queued.

use anabranch::{Buffer, Kernel, LaunchConfig, Result, Stream};

fn launch(stream: &Stream, kernel: &Kernel, buffer: &mut Buffer<u32>) -> Result<()> {
    // SAFETY: it does not compile, so nothing is launched.
    unsafe { stream.launch(kernel, &LaunchConfig::new(1, 1), (&mut *buffer, &*buffer)) }
}

fn main() {}
