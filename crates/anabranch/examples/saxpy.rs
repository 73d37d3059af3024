//! The first program: two vectors are uploaded, a kernel computes `y = a x + y`, and the result is downloaded.
//!
//! ```text
//! cargo run --example saxpy
//! cargo run --example saxpy -- --device cuda:0
//! ```

mod support;

use anabranch::{Device, LaunchConfig, Module};
use std::error::Error;
use std::process::ExitCode;

anabranch::kernels! {
    /// The parameters of the kernel in `support/saxpy.cu`.
    struct Kernels {
        fn saxpy(y: &mut [f32], x: &[f32], a: f32, n: u32);
    }
}

fn main() -> ExitCode {
    support::run("The first program: y = a x + y", saxpy)
}

fn saxpy(device: &Device) -> Result<(), Box<dyn Error>> {
    let stream = device.context()?.create_stream()?;

    // PTX runs on GPUs and on the software device.
    let module = Module::load_ptx(&stream.context(), include_str!("support/saxpy.ptx"))?;
    let kernels = Kernels::load(&module)?; // compares the declaration with the module

    let n = 1000;
    let numbers: Vec<f32> = (0..n).map(|number| number as f32).collect();
    let (x, mut y) = (stream.upload(&numbers)?, stream.upload(&vec![1.0f32; n as usize])?);
    // SAFETY: the kernel is as declared, and each thread uses one of the `n` elements that both buffers have.
    unsafe { kernels.saxpy(&mut y, &x, 2.0, n).launch(&stream, &LaunchConfig::for_elements(n))? };
    let result = stream.download(&y)?; // waits

    support::line(format_args!("{device}: {:?} ... {:?}", &result[..4], &result[996..]))?;
    let right = numbers.iter().zip(&result).all(|(x, y)| 2.0 * x + 1.0 == *y);
    if right { Ok(()) } else { Err("a number is wrong".into()) }
}
