//! Working on a stream that another library owns, and letting it go on behind that work.
//!
//! With `cudarc`, CuPy or PyTorch the handle is a `CUstream` of the device's primary context. Here another stream of this
//! library plays that part, so that the example runs on the host device too.
//!
//! ```text
//! cargo run --example foreign_streams
//! ```

mod support;

use anabranch::hal::StreamHandle;
use anabranch::{BorrowedStream, Context, Device, Stream};
use std::error::Error;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};

/// A library that makes its own streams, and shows their handles.
struct OtherLibrary {
    stream: Stream,
    lines: Sender<String>,
}

impl OtherLibrary {
    /// The handle, which is valid as long as the library is there.
    fn stream_handle(&self) -> StreamHandle {
        self.stream.as_raw()
    }

    fn do_something(&self, text: &'static str) -> anabranch::Result<()> {
        say(&self.stream, &self.lines, format!("other library: {text}"))
    }
}

/// Sends a line when the stream has come so far.
fn say(stream: &Stream, lines: &Sender<String>, line: String) -> anabranch::Result<()> {
    let lines = lines.clone();
    stream.launch_host_func(move || {
        // The receiver outlives the streams' work, so that this does not fail.
        let _ = lines.send(line);
    })
}

/// The library's stream, borrowed from the library, so that it cannot be used after that was dropped.
fn stream_of<'a>(context: &Context, library: &'a OtherLibrary) -> anabranch::Result<BorrowedStream<'a>> {
    // SAFETY: the handle is of a stream of this context, which lives as long as the library is borrowed.
    unsafe { BorrowedStream::from_raw(context, library.stream_handle()) }
}

fn main() -> ExitCode {
    support::run("Work on a stream that another library owns", share_a_stream)
}

fn share_a_stream(device: &Device) -> Result<(), Box<dyn Error>> {
    // The primary context, which libraries share.
    let context = device.context()?;
    let (lines, receiver) = channel();
    let library = OtherLibrary { stream: context.create_stream()?, lines: lines.clone() };
    library.do_something("before")?;

    // Work submitted to the borrowed stream is ordered with the library's own.
    let borrowed = stream_of(&context, &library)?;
    let buffer = borrowed.upload(&[1u32, 2, 3])?;
    say(&borrowed, &lines, "this program: in between".to_owned())?;

    // Work in another stream is ordered with it by an event, as between any two streams.
    let own = context.create_stream()?;
    own.wait(&borrowed)?;
    let numbers = own.download(&buffer)?;
    say(&own, &lines, format!("this program: its own stream read {numbers:?}"))?;
    borrowed.wait(&own)?;

    // The stream is the library's: dropping the borrowed one destroys nothing.
    drop(borrowed);
    library.do_something("after")?;
    library.stream.synchronize()?;
    for line in receiver.try_iter() {
        support::line(line)?;
    }
    Ok(())
}
