//! That a declaration is true of the code is the caller's word, so that launching a declared kernel is `unsafe`.

use anabranch::{Buffer, LaunchConfig, Result, Stream};

anabranch::kernels! {
    struct Kernels {
        fn set(data: &mut [u32], value: u32);
    }
}

fn launch(stream: &Stream, kernels: &Kernels, data: &mut Buffer<u32>) -> Result<()> {
    kernels.set(data, 1).launch(stream, &LaunchConfig::new(1, 1))
}

fn main() {}
