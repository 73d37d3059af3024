//! A program for the crate `cudarc`, as it looks here. Above each call is the one that it had there.
//!
//! ```text
//! cargo run --example cudarc_port -- --device cuda:0
//! ```

#[path = "support/saxpy.rs"]
mod kernels;
mod support;

use anabranch::{Device, LaunchConfig};
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    support::run("A program for the crate cudarc, as it looks here", port)
}

fn port(device: &Device) -> Result<(), Box<dyn Error>> {
    // let ctx = CudaContext::new(0)?;
    let context = device.context()?;
    // let stream = ctx.new_stream()?; let other = ctx.new_stream()?;
    let (stream, other) = (context.create_stream()?, context.create_stream()?);
    // let module = ctx.load_module(Ptx::from_src(PTX))?; let saxpy = module.load_function("saxpy")?;
    let kernels = kernels::load(&context)?;

    let n = 1000;
    // let x = stream.clone_htod(&numbers)?;
    let x = stream.upload(&(0..n).map(|number| number as f32).collect::<Vec<_>>())?;
    // let mut y = stream.alloc_zeros::<f32>(n)?;
    let mut y = stream.allocate_zeroed::<f32>(n as usize)?;
    // let mut builder = stream.launch_builder(&saxpy);
    // builder.arg(&mut y).arg(&x).arg(&a).arg(&n);
    // unsafe { builder.launch(LaunchConfig::for_num_elems(n)) }?;
    let config = LaunchConfig::for_elements(n);
    // SAFETY: the kernel is as declared, and both buffers have `n` elements.
    unsafe { kernels.saxpy(&mut y, &x, 3.0, n).launch(&stream, &config)? };
    // let mut half = y.slice_mut(500..); stream.memset_zeros(&mut half)?;
    stream.fill_zero(y.slice_mut(500..)?)?;

    // let event = stream.record_event(None)?; other.wait(&event)?;
    other.wait(&stream.record_event()?)?; // not needed for `y`, whose uses the library orders
    // let copy = other.clone_dtod(&y)?;
    let copy = other.clone_buffer(&y)?;
    // let result = other.clone_dtoh(&copy)?; other.synchronize()?;
    let result = other.download(&copy)?; // waits
    // stream.memcpy_htod(&[0.0; 500], &mut y.slice_mut(..500))?;
    stream.copy_from_host(y.slice_mut(..500)?, &[0.0; 500])?;
    // ctx.synchronize()?;
    context.synchronize()?;

    support::line(format_args!("{device}: {:?} ... {:?}", &result[..4], &result[996..]))?;
    let right = (0..1000).all(|i| result[i] == if i < 500 { 3.0 * i as f32 } else { 0.0 });
    if right && stream.download(&y)?.iter().all(|y| *y == 0.0) { Ok(()) } else { Err("a number is wrong".into()) }
}
