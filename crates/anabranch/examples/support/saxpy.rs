//! The kernel of several examples, `y = a x + y`: PTX for GPUs, and a closure for the software device.

use anabranch::{Context, DualModule};

anabranch::kernels! {
    /// The kernels of `saxpy.cu`.
    pub(crate) struct Kernels {
        /// Adds `a` times `x` to `y`, for the first `n` elements.
        pub(crate) fn saxpy(y: &mut [f32], x: &[f32], a: f32, n: u32);
    }
}

pub(crate) fn load(context: &Context) -> anabranch::Result<Kernels> {
    let closure = Kernels::host_function("saxpy", |block, arguments| {
        let (y, x) = (arguments.slice::<f32>(0), arguments.slice::<f32>(1));
        let (a, n) = (arguments.scalar::<f32>(2), arguments.scalar::<u32>(3) as usize);
        block.phase(|thread, _shared| {
            let i = thread.global_x();
            if i < n {
                y.set(i, a * x.get(i) + y.get(i));
            }
        });
    });
    Kernels::load(&DualModule::new().ptx(include_str!("saxpy.ptx")).host_function(closure).load(context)?)
}
