//! Fork and join: two streams leave the main one at an event, and it continues when both have reached theirs.
//!
//! ```text
//! cargo run --example fork_join -- --device host
//! ```

mod support;

use anabranch::{Device, Stream};
use std::error::Error;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};

fn main() -> ExitCode {
    support::run(
        "Fork and join: two streams leave the main one at an event, and it continues behind both",
        fork_and_join,
    )
}

fn fork_and_join(device: &Device) -> Result<(), Box<dyn Error>> {
    let context = device.context()?;
    let [main, left, right] = [context.create_stream()?, context.create_stream()?, context.create_stream()?];
    let (sender, receiver) = channel();

    say(&main, &sender, "main: before the fork")?;

    // Fork: what the event captures comes before all later work of both streams. The program does not wait.
    let fork = main.record_event()?;
    left.wait(&fork)?;
    right.wait(&fork)?;
    say(&left, &sender, "left, in any order with right")?;
    say(&right, &sender, "right, in any order with left")?;

    // Join: `wait` takes an event, or a stream, which is short for all the work that it has at this moment.
    let left_is_done = left.record_event()?;
    main.wait(&left_is_done)?;
    main.wait(&right)?;
    say(&main, &sender, "main: after the join")?;

    // Only here the program waits, and for one stream: the others are behind it.
    main.synchronize()?;
    drop(sender);
    for (number, line) in receiver.iter().enumerate() {
        support::line(format_args!("{}. {line}", number + 1))?;
    }
    Ok(())
}

/// Sends a line when the stream has come so far.
fn say(stream: &Stream, sender: &Sender<&'static str>, line: &'static str) -> anabranch::Result<()> {
    let sender = sender.clone();
    stream.launch_host_func(move || {
        // The receiver outlives the streams' work, so that this does not fail.
        let _ = sender.send(line);
    })
}
