//! The kernel of several examples, `y = a x + y`: PTX, for GPUs and for the software device.

use anabranch::{Context, Module};

anabranch::kernels! {
    /// The kernels of `saxpy.cu`.
    pub(crate) struct Kernels {
        /// Adds `a` times `x` to `y`, for the first `n` elements.
        pub(crate) fn saxpy(y: &mut [f32], x: &[f32], a: f32, n: u32);
    }
}

pub(crate) fn load(context: &Context) -> anabranch::Result<Kernels> {
    Kernels::load(&Module::load_ptx(context, include_str!("saxpy.ptx"))?)
}
