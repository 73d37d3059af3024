//! A borrowed stream is somebody else's to shut down.

use anabranch::{BorrowedStream, Result};

fn shut_down(borrowed: BorrowedStream<'_>) -> Result<()> {
    borrowed.shutdown()
}

fn main() {}
