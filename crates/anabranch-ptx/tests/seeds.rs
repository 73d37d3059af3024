//! The files from which fuzzing begins: each is an error with a place in the text, or a module that can be linked.

#![allow(clippy::unwrap_used)]

use anabranch_ptx::{Module, Program};
use std::path::Path;
use std::sync::Arc;

#[test]
fn every_seed_is_a_module_or_an_error_with_its_place() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/parse");
    let (mut modules, mut errors) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        // As `anabranch run` does, which refuses other bytes.
        let Ok(text) = String::from_utf8(bytes) else { continue };
        match Module::parse(&text) {
            Ok(module) => {
                let program = Program::link(Arc::new(module), |variable| 1 << 40 | u64::from(variable.alignment));
                for variable in program.module().variables() {
                    assert!(program.initial(variable).len() as u64 <= variable.bytes, "{}", path.display());
                }
                modules += 1;
            }
            Err(error) => {
                let lines = text.lines().count() as u32 + 1;
                let position = error.position;
                assert!((1..=lines).contains(&position.line) && position.column >= 1, "{}: {error}", path.display());
                assert!(!error.message.is_empty());
                errors += 1;
            }
        }
    }
    assert!(modules > 0 && errors > 0, "{modules} modules and {errors} errors");
}
