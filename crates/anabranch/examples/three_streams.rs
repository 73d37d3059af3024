//! A pipeline of three streams: one uploads, one computes, one downloads. While a piece is computed, the next one is on its way
//! to the device, and the one before on its way back.
//!
//! ```text
//! cargo run --example three_streams -- --device cuda:0
//! ```

#[path = "support/saxpy.rs"]
mod kernels;
mod support;

use anabranch::{Device, LaunchConfig};
use std::error::Error;
use std::process::ExitCode;

const PIECES: usize = 16;
const LENGTH: usize = 1 << 16;

fn main() -> ExitCode {
    support::run("A pipeline of three streams: upload, compute, download", pipeline)
}

fn pipeline(device: &Device) -> Result<(), Box<dyn Error>> {
    let context = device.context()?;
    let kernels = kernels::load(&context)?;
    let [up, work, down] = [context.create_stream()?, context.create_stream()?, context.create_stream()?];

    // Copies of pinned memory overlap with other work. Three device buffers take turns.
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for piece in 0..PIECES {
        let mut input = context.allocate_pinned::<f32>(LENGTH)?;
        input.as_mut_slice()?.fill(piece as f32);
        inputs.push(input);
        outputs.push(context.allocate_pinned::<f32>(LENGTH)?);
    }
    let ones = up.upload(&vec![1.0f32; LENGTH])?;
    let mut buffers = (0..3).map(|_| up.allocate_zeroed::<f32>(LENGTH)).collect::<anabranch::Result<Vec<_>>>()?;

    let (n, config) = (LENGTH as u32, LaunchConfig::for_elements(LENGTH as u32));
    for (piece, (input, output)) in inputs.iter().zip(&mut outputs).enumerate() {
        let buffer = &mut buffers[piece % 3];
        // No waits are written: each use of a buffer follows the one before, in whichever streams they are.
        up.copy(&mut *buffer, input)?;
        // SAFETY: the kernel is as declared, and both buffers have `n` elements.
        unsafe { kernels.saxpy(&mut *buffer, &ones, 2.0, n).launch(&work, &config)? };
        down.copy(output, &*buffer)?;
    }
    for (piece, output) in outputs.iter().enumerate() {
        // Waits for this piece only.
        if output.as_slice()?.iter().any(|number| *number != piece as f32 + 2.0) {
            return Err(format!("piece {piece} is wrong").into());
        }
    }
    let orders = [&up, &work, &down].map(|stream| stream.orders_inserted());
    support::line(format_args!("{device}: {PIECES} pieces; waits that the library inserted, by stream: {orders:?}"))?;
    Ok(())
}
