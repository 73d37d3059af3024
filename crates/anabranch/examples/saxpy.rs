//! The first program: two vectors are uploaded, a kernel computes `y = a x + y`, and the result is downloaded.
//!
//! ```text
//! cargo run --example saxpy
//! cargo run --example saxpy -- --device cuda:0
//! ```

mod support;

use anabranch::{Device, DualModule, LaunchConfig};
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

    // On the software device, the closure stands for the kernel.
    let closure = Kernels::host_function("saxpy", |block, arguments| {
        let (y, x) = (arguments.slice::<f32>(0), arguments.slice::<f32>(1));
        let (a, n) = (arguments.scalar::<f32>(2), arguments.scalar::<u32>(3) as usize);
        block.phase(|thread, _shared| {
            let i = thread.global_x();
            if i < n {
                y.set(i, a * x.get(i) + y.get(i));
            }
        });
    });
    let module = DualModule::new().ptx(include_str!("support/saxpy.ptx")).host_function(closure);
    let kernels = Kernels::load(&module.load(&stream.context())?)?;

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
