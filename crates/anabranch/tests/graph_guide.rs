//! The guide to graphs shows a picture that the library made.

#![allow(clippy::unwrap_used, reason = "a test")]

use anabranch::{CaptureMode, HostFunction, HostModule, Instance, LaunchConfig, Module, Result};
use std::path::Path;

const GUIDE: &str = "../../docs/graphs.md";

fn picture() -> Result<String> {
    let context = Instance::new()?.device("host")?.context()?;
    let (stream, other) = (context.create_stream()?, context.create_stream()?);
    let kernels = ["blur", "histogram"].map(|name| HostFunction::new(name, &[8, 8], |_, _| {}));
    let module = Module::load_host(&context, &kernels.into_iter().collect::<HostModule>())?;
    let (blur, histogram) = (module.kernel("blur")?, module.kernel("histogram")?);
    let config = LaunchConfig::new(1, 1);

    let upload = context.allocate_pinned::<u8>(4096)?;
    let mut download = context.allocate_pinned::<u8>(4096)?;
    let (mut picture, mut blurred) = (stream.allocate_zeroed::<u8>(4096)?, stream.allocate_zeroed::<u8>(4096)?);
    let mut counts = stream.allocate_zeroed::<u32>(256)?;
    let wanted = stream.allocate_zeroed::<u32>(1)?;
    let graph = stream.capture(CaptureMode::Global, |scope| {
        scope.copy(&mut picture, &upload)?;
        scope.fork(&other)?;
        // SAFETY: the kernels do nothing.
        unsafe { scope.launch(&blur, &config, (&mut blurred, &picture))? };
        // SAFETY: as above.
        unsafe { other.launch(&histogram, &config, (&mut counts, &picture))? };
        scope.join(&other)?;
        scope.capture_if(&wanted, |part| part.copy(&mut download, &blurred))
    })?;
    Ok(graph.describe()?.without_parameters().to_mermaid())
}

#[test]
fn the_guide_shows_what_the_library_draws() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(GUIDE);
    let guide = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = guide.split_once("```mermaid\n").unwrap();
    let (_, after) = rest.split_once("```\n").unwrap();
    let expected = format!("{before}```mermaid\n{}```\n{after}", picture().unwrap());
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| !value.is_empty()) {
        std::fs::write(&path, &expected).unwrap();
        return;
    }
    assert_eq!(guide, expected, "run this with UPDATE_DOCS=1");
}
