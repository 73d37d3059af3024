//! Whether a text is taken, here and by NVIDIA's assembler: `ANABRANCH_PTXAS` names one that is asked, too.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::process::Command;

use anabranch_ptx::Module;

pub const HEAD: &str = ".version 8.4\n.target sm_90\n.address_size 64\n";

/// Compares with the assembler, if there is one.
fn ask(text: &str, refusal: Option<&str>) {
    if let Some(assembler) = std::env::var_os("ANABRANCH_PTXAS") {
        let asked =
            Command::new(assembler).args(["-arch", "sm_90", "-o", "/dev/null", "--input-as-string", text]).output();
        let output = asked.unwrap();
        assert_eq!(output.status.success(), refusal.is_none(), "{text}\n{refusal:?}\n{output:?}");
    }
}

/// Why a text is not loaded.
pub fn refusal(text: &str) -> Option<String> {
    let text = format!("{HEAD}{text}");
    let refusal = Module::parse(&text).err().map(|error| error.to_string());
    ask(&text, refusal.as_deref());
    refusal
}

/// Why a text is not loaded, or one of its functions not executed.
pub fn verdict(text: &str) -> Option<String> {
    let text = format!("{HEAD}{text}");
    let verdict = match Module::parse(&text) {
        Err(error) => Some(error.to_string()),
        Ok(module) => {
            let mut refusals = module.functions().iter().flat_map(|function| &function.refusals);
            refusals.next().map(|refusal| format!("line {}: {}", refusal.line, refusal.what))
        }
    };
    ask(&text, verdict.as_deref());
    verdict
}

#[track_caller]
pub fn refused(text: &str, reason: &str) {
    let message = refusal(text).unwrap_or_else(|| panic!("this was taken:\n{text}"));
    assert!(message.contains(reason), "{message}\n{text}");
}

#[track_caller]
pub fn taken(text: &str) {
    assert_eq!(refusal(text), None, "{text}");
}

/// A kernel with these statements.
pub fn body(statements: &str) -> String {
    format!(".visible .entry k(.param .u64 to) {{ {statements} ret; }}\n")
}
