//! A stream that another handle borrows cannot be shut down.

use anabranch::{Result, Stream};

fn shut_down(stream: Stream) -> Result<bool> {
    let borrowed = stream.to_borrowed();
    stream.shutdown()?;
    borrowed.query()
}

fn main() {}
