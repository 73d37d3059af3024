//! Memory is not used by its owner while a scope registers it.

use anabranch::{Context, Result, Stream};

fn write(context: &Context, stream: &Stream, memory: &mut [u32]) -> Result<()> {
    context.register_scope(memory, |slice| {
        stream.fill(slice, 1)?;
        memory[0] = 2;
        Ok(())
    })
}

fn main() {}
