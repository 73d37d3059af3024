//! A stream for each thread of rayon: threads submit work independently of each other, and none waits for another's.
//!
//! ```text
//! cargo run --example rayon_streams -- --device cuda:0
//! ```

#[path = "support/saxpy.rs"]
mod kernels;
mod support;

use anabranch::{Device, LaunchConfig};
use rayon::prelude::*;
use std::error::Error;
use std::process::ExitCode;

const LENGTH: u32 = 10_000;

fn main() -> ExitCode {
    support::run("A stream for each thread of rayon", sums)
}

fn sums(device: &Device) -> Result<(), Box<dyn Error>> {
    let context = device.context()?;
    let kernels = kernels::load(&context)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build()?;
    let streams: Vec<_> = (0..4).map(|_| context.create_stream()).collect::<Result<_, _>>()?;
    // All threads read it. Readers do not wait for each other.
    let ones = streams[0].upload(&vec![1.0f32; LENGTH as usize])?;

    let one = |number: u32| -> anabranch::Result<f64> {
        // Each thread of the pool has an index; outside of the pool, there is none.
        let stream = &streams[rayon::current_thread_index().unwrap_or(0)];
        let mut buffer = stream.allocate_zeroed::<f32>(LENGTH as usize)?;
        // SAFETY: the kernel is as declared, and both buffers have `LENGTH` elements.
        unsafe {
            kernels
                .saxpy(&mut buffer, &ones, number as f32, LENGTH)
                .launch(stream, &LaunchConfig::for_elements(LENGTH))?;
        }
        Ok(stream.download(&buffer)?.into_iter().map(f64::from).sum())
    };
    let sums: Vec<f64> = pool.install(|| (0..200).into_par_iter().map(one).collect::<anabranch::Result<_>>())?;

    support::line(format_args!("{device}: {} sums on {} streams", sums.len(), streams.len()))?;
    let right = sums.iter().zip(0..).all(|(sum, number)| *sum == f64::from(LENGTH) * f64::from(number));
    if right { Ok(()) } else { Err("a sum is wrong".into()) }
}
