//! What a kernel does with its arguments is the caller's word, so that a launch is `unsafe`.

use anabranch::{Kernel, LaunchConfig, Result, Stream};

fn launch(stream: &Stream, kernel: &Kernel) -> Result<()> {
    stream.launch(kernel, &LaunchConfig::new(1, 1), (1u32,))
}

fn main() {}
