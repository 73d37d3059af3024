//! A launch that writes a buffer which it also reads is refused before anything is queued.

use anabranch::Buffer;

anabranch::kernels! {
    struct Kernels {
        fn sum(sum: &mut [u32], terms: &[u32]);
    }
}

fn sum(kernels: &Kernels, buffer: &mut Buffer<u32>) {
    let _ = kernels.sum(&mut *buffer, &*buffer);
}

fn main() {}
