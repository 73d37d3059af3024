//! Copies between two devices, in the order of streams of both.
//!
//! With `--device cuda:N` these are the first two GPUs; where there is one only, two contexts of it. Otherwise they are two
//! software devices.
//!
//! ```text
//! cargo run --example two_devices -- --device cuda:0
//! ```

mod support;

use anabranch::{BackendKind, Context, ContextFlags, Device, Instance};
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    support::run("Copies between two devices", there_and_back)
}

fn there_and_back(device: &Device) -> Result<(), Box<dyn Error>> {
    let [here, there] = two_contexts(device.backend())?;
    if here.device().can_access_peer(there.device())? {
        // Copies do not need it. With it, they do not go through the host where the hardware has a way around it.
        here.enable_peer_access(&there)?;
    }
    let (home, away) = (here.create_stream()?, there.create_stream()?);
    let numbers: Vec<u32> = (0..1 << 16).collect();
    let source = home.upload(&numbers)?;
    let mut visitor = away.allocate_zeroed::<u32>(numbers.len())?;
    let mut returned = home.allocate_zeroed::<u32>(numbers.len())?;

    // Each copy waits for the work before it on the other device. The program does not wait.
    home.copy_peer(&mut visitor, &source)?;
    away.fill(visitor.slice_mut(..4)?, 7)?;
    home.copy_peer(&mut returned, &visitor)?;

    let returned = home.download(&returned)?;
    support::line(format_args!("{} and {}: {:?}", here.device(), there.device(), &returned[..6]))?;
    let right = returned[..4] == [7; 4] && returned[4..] == numbers[4..];
    if right { Ok(()) } else { Err("a number has changed on its way".into()) }
}

fn two_contexts(backend: BackendKind) -> anabranch::Result<[Context; 2]> {
    let instance = match backend {
        BackendKind::Host => Instance::builder().host_devices(2).build()?,
        _ => Instance::new()?,
    };
    let devices: Vec<_> = instance.devices().iter().filter(|device| device.backend() == backend).collect();
    let second = match devices.get(1) {
        Some(second) => second.context()?,
        None => devices[0].create_context(ContextFlags::empty())?,
    };
    Ok([devices[0].context()?, second])
}
