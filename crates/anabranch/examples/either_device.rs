//! One program for either kind of device, with a kernel that is PTX, and also a closure with the same name and parameters.
//! The parameters are declared once. The software device runs closures where there are some, which takes less time, or the
//! PTX, as GPUs do.
//!
//! ```text
//! cargo run --example either_device
//! cargo run --example either_device -- --device cuda:0
//! ```

mod support;

use anabranch::{Capabilities, Device, DualModule, LaunchConfig};
use std::error::Error;
use std::process::ExitCode;

/// Made from `tests/data/twice.cu`.
const PTX: &str = include_str!("../tests/data/twice.ptx");

anabranch::kernels! {
    /// The kernels of `twice.cu`.
    struct Kernels {
        /// Doubles the first `count` numbers.
        fn twice(data: &mut [f32], count: u32);
    }
}

fn main() -> ExitCode {
    support::run("One program for either kind of device: PTX for both, and a closure for the host", double_some_numbers)
}

fn double_some_numbers(device: &Device) -> Result<(), Box<dyn Error>> {
    let stream = device.context()?.create_stream()?;
    // On a GPU, both are the PTX.
    for (code, program) in [("closure", program()), ("PTX", program().prefer_ptx())] {
        let kernels = Kernels::load(&program.load(&stream.context())?)?;
        let numbers: Vec<f32> = (0..1000).map(|number| number as f32).collect();
        let count = numbers.len() as u32;
        let mut data = stream.upload(&numbers)?;
        // SAFETY: both kernels are as declared, and each thread uses one of the `count` numbers that there are.
        unsafe { kernels.twice(&mut data, count).launch(&stream, &LaunchConfig::for_elements(count))? };
        let doubled = stream.download(&data)?;

        let code = if device.capabilities().contains(Capabilities::HOST_FUNCTIONS) { code } else { "PTX" };
        support::line(format_args!("{device}, {code}: {:?} ... {:?}", &doubled[..4], &doubled[996..]))?;
        if !numbers.iter().zip(&doubled).all(|(number, doubled)| 2.0 * number == *doubled) {
            return Err("the device doubled a number wrongly".into());
        }
    }
    Ok(())
}

fn program() -> DualModule {
    DualModule::new().ptx(PTX).host_function(Kernels::host_function("twice", |block, arguments| {
        let (data, count) = (arguments.slice::<f32>(0), arguments.scalar::<u32>(1) as usize);
        block.phase(|thread, _shared| {
            let i = thread.global_x();
            if i < count {
                data.set(i, 2.0 * data.get(i));
            }
        });
    }))
}
