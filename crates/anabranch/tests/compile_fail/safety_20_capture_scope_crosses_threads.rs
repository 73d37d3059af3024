//! A capture is ended on the thread that it began on, and what that thread may do depends on it.

use anabranch::{CaptureMode, Graph, Result, Stream};

fn cross(stream: &Stream) -> Result<Graph> {
    stream.capture(CaptureMode::Global, |scope| {
        std::thread::scope(|threads| {
            threads.spawn(|| scope.record_event());
        });
        Ok(())
    })
}

fn main() {}
