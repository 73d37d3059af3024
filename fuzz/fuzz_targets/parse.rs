//! Text that may be PTX is parsed, and shown as `anabranch inspect` shows it: an error has a place in the text, and nothing
//! panics.

#![no_main]

#[path = "../../crates/anabranch-cli/src/inspect/shown.rs"]
mod shown;

use anabranch_ptx::{Module, Program};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

fuzz_target!(|text: &str| {
    let module = match Module::parse(text) {
        Ok(module) => module,
        Err(error) => {
            let lines = text.lines().count() as u32 + 1;
            assert!((1..=lines).contains(&error.position.line) && error.position.column >= 1, "{error}");
            return assert!(!error.message.is_empty());
        }
    };
    assert!(!shown::Shown(&module).to_string().is_empty());
    assert!(shown::as_json(&module).is_object());
    // What one cannot launch can be linked all the same.
    let program = Program::link(Arc::new(module), |variable| 1 << 40 | u64::from(variable.alignment));
    for variable in program.module().variables() {
        assert!(program.initial(variable).len() as u64 <= variable.bytes);
    }
});
