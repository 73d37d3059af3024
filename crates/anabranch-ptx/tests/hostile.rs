//! Text that is cut, changed or made up: an error with its place, and never a panic. What parses can be linked and, where it
//! can be executed, runs to an end or a fault.

#![allow(clippy::unwrap_used)]

mod common;

use anabranch_ptx::{Launch, Module, NoHooks, Options, Size};
use common::Device;
use proptest::prelude::*;

const TEXTS: [&str; 3] =
    [include_str!("kernels/basic.ptx"), include_str!("kernels/cooperative.ptx"), include_str!("kernels/device.ptx")];

/// Parses a text, and runs each kernel that has no parameters but numbers that point nowhere.
fn survives(text: &str) {
    let module = match Module::parse(text) {
        Err(error) => {
            let lines = text.lines().count() as u32 + 1;
            assert!((1..=lines).contains(&error.position.line) && error.position.column >= 1, "{error}");
            assert!(!error.message.is_empty());
            return;
        }
        Ok(module) => module,
    };
    if module.variables().iter().any(|variable| variable.bytes > 1 << 20) {
        return;
    }
    let device = Device::new(text);
    for kernel in device.program.module().kernels() {
        let parameters = vec![0; kernel.parameter_bytes as usize];
        let size = Size { grid: [1, 1, 1], block: [40, 1, 1], dynamic_shared: 64 };
        let mut options = Options::default();
        options.operation_limit = Some(2_000);
        options.checked = text.len().is_multiple_of(2);
        let launch = Launch::new(&device.program, &kernel.name, size, &parameters, &device.memory, &NoHooks, options);
        if let Ok(launch) = launch {
            // A result is not expected: that it comes is.
            let _ = launch.run();
        }
    }
}

/// The part of a text around a kernel, so that changes are likely to matter.
fn piece(which: usize, at: usize, length: usize) -> String {
    let text = TEXTS[which];
    let mut start = at % text.len();
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let end = (start + length).min(text.len());
    text[start..end].to_owned()
}

const WORDS: [&str; 24] = [
    "{",
    "}",
    "(",
    ")",
    ";",
    ",",
    "[",
    "]",
    ".b32",
    ".reg",
    ".param",
    ".entry k",
    "0x",
    "-1",
    "%p<99999999999>",
    ".align 3",
    "@!%p1 ",
    "bra L;",
    "ret;",
    "18446744073709551615",
    ".global .b8 x[99999999999999]",
    "= {1,{2}}",
    "|",
    "call (",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_text_that_is_cut(which in 0..3usize, at in any::<usize>()) {
        let text = TEXTS[which];
        survives(&text[..at % text.len()]);
    }

    #[test]
    fn a_text_with_a_word_in_it(which in 0..3usize, at in any::<usize>(), word in 0..WORDS.len(), over in 0..20usize) {
        let text = TEXTS[which];
        let at = at % text.len();
        let end = (at + over).min(text.len());
        survives(&format!("{}{}{}", &text[..at], WORDS[word], &text[end..]));
    }

    #[test]
    fn a_text_with_a_byte_changed(which in 0..3usize, at in any::<usize>(), byte in 0x20u8..0x7f) {
        let mut bytes = TEXTS[which].as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        survives(std::str::from_utf8(&bytes).unwrap());
    }

    #[test]
    fn a_text_with_lines_exchanged(which in 0..3usize, a in any::<usize>(), b in any::<usize>()) {
        let mut lines: Vec<&str> = TEXTS[which].lines().collect();
        let (a, b) = (a % lines.len(), b % lines.len());
        lines.swap(a, b);
        survives(&lines.join("\n"));
    }

    #[test]
    fn pieces_of_texts(which in 0..3usize, at in any::<usize>(), length in 0..400usize, any in ".{0,40}") {
        survives(&format!(".version 8.0\n.target sm_70\n.address_size 64\n{}{any}", piece(which, at, length)));
    }
}

#[test]
fn nesting_has_a_limit() {
    let deep = |open: &str, count: usize| format!(".version 8.0\n.entry k() {{ {}", open.repeat(count));
    assert!(Module::parse(&deep("{", 100_000)).is_err());
    assert!(Module::parse(&deep("add.s32 %r, {", 100_000)).is_err());
    let sums = format!(".version 8.0\n.global .u32 x = {}1;", "(".repeat(100_000));
    assert!(Module::parse(&sums).is_err());
    let signs = format!(".version 8.0\n.global .u32 x = {}1;", "-".repeat(100_000));
    assert!(Module::parse(&signs).is_err());
}

#[test]
fn sizes_have_limits() {
    let parse = |text: &str| Module::parse(&format!(".version 8.0\n.target sm_70\n{text}"));
    assert!(parse(".global .b8 x[99999999999999999];").is_err());
    assert!(parse(".global .b8 x[4294967296][4294967296];").is_err());
    assert!(parse(".global .b8 x[2] = {1, 2, 3};").is_err());
    assert!(parse(".global .b8 x[2][1000000000] = {{1}, {2}};").is_err());
    let module = parse(".entry k() { .reg .b32 %r<4000000000>; mov.b32 %r3999999999, 1; ret; }").unwrap();
    assert!(module.kernel("k").unwrap().refusals.is_empty());
    let module = parse(".entry k() { .local .b8 x[4000000000]; ret; }").unwrap();
    assert_eq!(module.kernel("k").unwrap().refusals.len(), 1);
}

#[test]
fn a_table_of_targets_is_kept_once() {
    // Of as many labels and uses, which would be 25 gigabytes as copies.
    const COUNT: usize = 80_000;
    let labels: Vec<String> = (0..COUNT).map(|index| format!("L{index}")).collect();
    let uses: String = labels.iter().map(|label| format!("{label}: brx.idx %r0, T;\n")).collect();
    let text = format!(
        ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry k() {{\n.reg .b32 %r<2>; mov.u32 %r0, {};\n\
         T: .branchtargets {};\n{uses}ret;\n}}",
        COUNT - 1,
        labels.join(",")
    );
    assert!(Module::parse(&text).unwrap().kernels().next().unwrap().refusals.is_empty());
}

#[test]
fn directives_are_compared_once() {
    // With each other, they would take minutes.
    for name in ["maxntid", "maxclusterrank"] {
        let text =
            format!(".version 8.0\n.target sm_90\n.entry k() {} {{ ret; }}", format!(".{name} 1 ").repeat(400_000));
        assert!(Module::parse(&text).is_ok());
    }
}

#[test]
fn shared_variables_have_a_limit() {
    let text = |bytes| {
        format!(
            ".version 8.0\n.target sm_70\n.address_size 64\n.shared .b8 s[{bytes}];\n.visible .entry k() {{\n.reg .b32 %r<2>;\n\
             mov.u32 %r1, s;\nret;\n}}"
        )
    };
    assert!(Module::parse(&text(48 << 10)).unwrap().kernel("k").unwrap().refusals.is_empty());
    let module = Module::parse(&text((48 << 10) + 1)).unwrap();
    let refusals = &module.kernel("k").unwrap().refusals;
    assert!(refusals[0].what.starts_with("49153 bytes of shared variables"), "{refusals:?}");
}

#[test]
fn what_cannot_be_executed_is_named_with_its_line() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.entry good() { ret; }\n.entry bad() {\n.reg .b32 %r<9>;\n\
                ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];\nadd.s77 %r1, %r2, %r3;\nret; }\n";
    let module = Module::parse(text).unwrap();
    assert!(module.kernel("good").unwrap().refusals.is_empty());
    let bad = module.kernel("bad").unwrap();
    let lines: Vec<u32> = bad.refusals.iter().map(|refusal| refusal.line).collect();
    assert_eq!(lines, [7, 8]);
    assert!(
        bad.refusals[0].what.starts_with("ldmatrix.sync.aligned.m8n8.x1.shared.b16: tensor-core"),
        "{:?}",
        bad.refusals
    );
    let device = Device::new(text);
    let size = Size { grid: [1; 3], block: [1; 3], dynamic_shared: 0 };
    let error =
        Launch::new(&device.program, "bad", size, &[], &device.memory, &NoHooks, Options::default()).unwrap_err();
    assert!(error.to_string().contains("line 7: ldmatrix"), "{error}");
}
