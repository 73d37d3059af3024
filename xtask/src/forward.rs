//! `cargo xtask forward`: from the traits of the driver contract to the trait `Forward`, which has all their methods with
//! bodies that forward, so that a layer writes only those that it minds.

mod contract;
mod render;

use crate::{Outcome, formatting, generated, workspace};

/// The crate with the contract, from the root of the workspace.
const CONTRACT: &str = "crates/anabranch-hal/src";

/// The generated file.
const DESTINATION: &str = "crates/anabranch-hal/src/forward/generated.rs";

/// The trait whose methods, those of its supertraits included, are forwarded.
const DRIVER: &str = "Driver";

/// Generates the file and writes it, or with `check` compares it. False means that it differs.
pub(crate) fn run(check: bool) -> Outcome<bool> {
    let root = workspace::root();
    let groups = contract::groups(&root.join(CONTRACT), DRIVER)?;
    let text = formatting::format(&root, &render::file(&groups))?;
    generated::keep(&root, DESTINATION, &text, check, "the traits of the contract")
}
