//! A host function runs later, and borrows nothing that may be dropped by then.

use anabranch::{Result, Stream};

fn count(stream: &Stream) -> Result<()> {
    let mut count = 0;
    stream.launch_host_func(|| count += 1)
}

fn main() {}
