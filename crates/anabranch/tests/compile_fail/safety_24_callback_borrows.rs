//! A callback runs later, and borrows nothing that may be dropped by then.

use anabranch::{Result, Stream};

fn count(stream: &Stream) -> Result<()> {
    let mut count = 0;
    stream.add_callback(|_, _| count += 1)
}

fn main() {}
