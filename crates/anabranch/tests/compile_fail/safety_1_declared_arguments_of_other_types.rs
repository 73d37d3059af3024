//! A launcher takes arguments of the declared types and no others.

use anabranch::Buffer;

anabranch::kernels! {
    struct Kernels {
        fn set(data: &mut [u32], value: u32);
    }
}

fn elements(kernels: &Kernels, data: &mut Buffer<f32>) {
    let _ = kernels.set(data, 1);
}

fn scalar(kernels: &Kernels, data: &mut Buffer<u32>) {
    let _ = kernels.set(data, 1u64);
}

fn written(kernels: &Kernels, data: &Buffer<u32>) {
    let _ = kernels.set(data, 1);
}

fn missing(kernels: &Kernels, data: &mut Buffer<u32>) {
    let _ = kernels.set(data);
}

fn main() {}
