//! The current stream: code layered above the library that takes a stream from its caller without a parameter for it.
//!
//! It is what `with stream:` does in CuPy and `ScopedStream` in Warp. The calls of `anabranch::current` use it too; methods of
//! a stream never do.
//!
//! ```text
//! cargo run --example current_stream
//! ```

mod support;

use anabranch::{Device, Stream};
use std::error::Error;
use std::process::ExitCode;

/// A function of a layer above: it sums on the current stream, or says that there is none.
fn sum(numbers: &[u64]) -> Result<u64, Box<dyn Error>> {
    Stream::with_current(|current| {
        let stream = current.ok_or("there is no current stream; enter one first")?;
        let buffer = stream.upload(numbers)?;
        support::line(format_args!("summing on stream {}", stream.id()))?;
        Ok(stream.download(&buffer)?.iter().sum())
    })
}

fn main() -> ExitCode {
    support::run("The current stream: a function that takes it from its caller without a parameter", enter_and_leave)
}

fn enter_and_leave(device: &Device) -> Result<(), Box<dyn Error>> {
    let context = device.context()?;
    let (outer, inner) = (context.create_stream()?, context.create_stream()?);

    let _outer_is_current = outer.enter();
    support::line(format_args!("the sum is {}", sum(&[1, 2, 3])?))?;
    {
        let _inner_is_current = inner.enter();
        support::line(format_args!("the sum is {}", sum(&[4, 5, 6])?))?;
    }
    // The guard was dropped, so the outer stream is current again.
    support::line(format_args!("the sum is {}", sum(&[7, 8, 9])?))?;

    // Every thread has its own: there is none here.
    let elsewhere = std::thread::spawn(|| sum(&[]).map_err(|error| error.to_string())).join();
    match elsewhere {
        Ok(Err(message)) => support::line(format_args!("on another thread: {message}"))?,
        _ => return Err("another thread has a current stream that it never entered".into()),
    }
    Ok(())
}
