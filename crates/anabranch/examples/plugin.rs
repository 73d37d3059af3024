//! A plugin that is given a stream as an integer, as plugins of frameworks are, and queues its work there without waiting.
//!
//! ```text
//! cargo run --example plugin -- --device cuda:0
//! ```

#[path = "support/saxpy.rs"]
mod kernels;
mod support;

use anabranch::{BackendKind, Device, Instance, LaunchConfig, PinnedBuffer, StreamHandle};
use std::error::Error;
use std::process::ExitCode;
use std::sync::mpsc::channel;

/// The plugin. A real one knows that the stream is of CUDA, and has a C interface.
///
/// # Safety
/// `stream` is the handle of a stream of that back end, and exists until what is returned is dropped.
unsafe fn plugin(backend: BackendKind, stream: usize) -> anabranch::Result<PinnedBuffer<f32>> {
    let instance = Instance::new()?;
    // SAFETY: the caller promises it. The driver says which context the stream belongs to.
    let stream = unsafe { instance.stream_from_raw(backend, StreamHandle::from_raw(stream))? };
    let (context, n) = (stream.context(), 1000);
    let kernels = kernels::load(&context)?;

    let (x, mut y) = (stream.upload(&[2.0f32; 1000])?, stream.upload(&[1.0f32; 1000])?);
    // SAFETY: the kernel is as declared, and both buffers have `n` elements.
    unsafe { kernels.saxpy(&mut y, &x, 10.0, n).launch(&stream, &LaunchConfig::for_elements(n))? };
    let mut result = context.allocate_pinned(n as usize)?;
    stream.copy(&mut result, &y)?;
    Ok(result) // the stream is not destroyed, and the buffers are freed behind the copy
}

fn main() -> ExitCode {
    support::run("A plugin that is given a stream as an integer", application)
}

/// The application, which owns the stream.
fn application(device: &Device) -> Result<(), Box<dyn Error>> {
    let stream = device.context()?.create_stream()?;
    let (sender, events) = channel();
    let (before, after) = (sender.clone(), sender);
    stream.launch_host_func(move || _ = before.send("before the plugin"))?;
    // SAFETY: the stream is of this back end, and is dropped after the result.
    let result = unsafe { plugin(device.backend(), stream.as_raw().as_raw())? };
    stream.launch_host_func(move || _ = after.send("after the plugin"))?;

    let numbers = result.as_slice()?; // waits for the plugin's copy
    support::line(format_args!("{device}: {:?}", &numbers[..4]))?;
    stream.synchronize()?;
    let order: Vec<_> = events.iter().collect();
    let right = numbers.iter().all(|number| *number == 21.0) && order == ["before the plugin", "after the plugin"];
    if right { Ok(()) } else { Err("the plugin's work was not done, or not in order".into()) }
}
