//! A training step that is captured into a graph once and launched many times, with another learning rate each time. One node
//! is changed for that; the graph is neither captured nor instantiated again.
//!
//! ```text
//! cargo run --example training_step -- --device cuda:0
//! ```

#[path = "support/saxpy.rs"]
mod kernels;
mod support;

use anabranch::{CaptureMode, Device, LaunchConfig};
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    support::run("A captured training step, launched with changing learning rates", train)
}

/// Gradient descent towards a target: the gradient of half the squared distance is `weights - target`.
fn train(device: &Device) -> Result<(), Box<dyn Error>> {
    let context = device.context()?;
    let (stream, kernels) = (context.create_stream()?, kernels::load(&context)?);
    let aim: Vec<f32> = (0..1000).map(|number| number as f32).collect();
    let (n, config) = (aim.len() as u32, LaunchConfig::for_elements(aim.len() as u32));
    let target = stream.upload(&aim)?;
    let mut weights = stream.allocate_zeroed::<f32>(aim.len())?;
    let mut gradient = stream.allocate_zeroed::<f32>(aim.len())?;

    let mut update = None;
    let graph = stream.capture(CaptureMode::ThreadLocal, |scope| {
        scope.copy(&mut gradient, &weights)?;
        // SAFETY: the kernel is as declared, and all buffers have `n` elements.
        unsafe { kernels.saxpy(&mut gradient, &target, -1.0, n).launch(scope, &config)? };
        // SAFETY: as above.
        unsafe { kernels.saxpy(&mut weights, &gradient, -0.5, n).launch(scope, &config)? };
        update = scope.capture_info()?.dependencies.first().map(|(node, _)| *node);
        Ok(())
    })?;
    let update = update.ok_or("the capture has no last node")?;
    let step = graph.instantiate()?;

    let mut expected = vec![0.0f32; aim.len()];
    for rate in [0.5f32, 0.25, 0.5, 0.25, 0.125] {
        // SAFETY: as above.
        let work = unsafe { kernels.saxpy(&mut weights, &gradient, -rate, n).into_node(&config)? };
        step.set_node(update, work)?;
        step.launch(&stream)?;
        expected.iter_mut().zip(&aim).for_each(|(weight, aim)| *weight -= rate * (*weight - aim));
        let trained = stream.download(&weights)?;
        support::line(format_args!("rate {rate}: {:?}", &trained[..4]))?;
        if trained != expected {
            return Err("the weights differ from those computed one by one".into());
        }
    }
    Ok(())
}
