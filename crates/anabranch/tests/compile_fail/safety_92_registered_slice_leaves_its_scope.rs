//! A slice that left the scope that registers its memory could be used by work that nobody waits for.

use anabranch::{BufferSliceMut, Context, Result};

fn escape(context: &Context, memory: &mut [u32]) -> Result<()> {
    let mut kept: Option<BufferSliceMut<'_, u32>> = None;
    context.register_scope(memory, |slice| {
        kept = Some(slice);
        Ok(())
    })
}

fn main() {}
