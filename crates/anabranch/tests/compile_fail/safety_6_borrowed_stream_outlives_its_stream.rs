//! A borrowed stream cannot outlive what it borrows from.

use anabranch::{BorrowedStream, Context, Result};

fn borrow<'a>(context: &Context) -> Result<BorrowedStream<'a>> {
    let stream = context.create_stream()?;
    Ok(stream.to_borrowed())
}

fn main() {}
