//! `anabranch inspect` as a user sees it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Folder, KERNELS, assert_one_sentence, text};
use serde_json::{Value, json};

const MODULE: &str = ".version 8.0
.target sm_90a
.address_size 64
.visible .global .align 4 .u32 counts[3];
.const .align 8 .f64 factor = 0d3FF0000000000000;
.visible .entry fill(.param .u64 to, .param .align 4 .b8 shape[12]) .maxntid 64
{
    .reg .b32 %r<3>;
    .shared .align 16 .b8 tile[256];
    .local .align 4 .b8 stack[16];
    mov.u32 %r1, tile;
    st.local.u32 [stack], %r1;
    ret;
}
.extern .func (.param .b32 count) vprintf(.param .b64 format, .param .b64 values);
.extern .func elsewhere();
.visible .entry other()
{
    setmaxnreg.inc.sync.aligned.u32 64;
    ret;
}
";

#[test]
fn kernels_are_shown_with_what_they_need_and_what_cannot_be_executed() {
    let folder = Folder::new();
    std::fs::write(folder.path("module.ptx"), MODULE).unwrap();
    let output = folder.anabranch(&["inspect", "module.ptx"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for words in [
        "PTX 8.0 for sm_90a",
        "kernel fill, line 6",
        "to: u64, 8 bytes",
        "shape: b8[12], 12 bytes",
        "shared memory        256 bytes",
        "local memory         16 bytes",
        "at most 64 threads",
        "can execute it",
        "kernel other, line 17",
        "cannot execute line 19: ",
        "setmaxnreg",
        "global variable counts: 12 bytes",
        "constant variable factor: 8 bytes",
        "external function vprintf, line 15: the software device has it",
        "external function elsewhere, line 16: the software device does not have it",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

#[test]
fn json_has_the_same() {
    let folder = Folder::new();
    std::fs::write(folder.path("module.ptx"), MODULE).unwrap();
    let output = folder.anabranch(&["inspect", "module.ptx", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let module: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&module["version"], &module["targets"]), (&json!([8, 0]), &json!(["sm_90a"])));
    let [fill, other] = &module["kernels"].as_array().unwrap()[..] else { panic!("{module}") };
    let parameters = json!([
        { "name": "to", "type": "u64", "bytes": 8, "offset": 0, "alignment": 8 },
        { "name": "shape", "type": "b8[12]", "bytes": 12, "offset": 8, "alignment": 4 },
    ]);
    assert_eq!((&fill["parameters"], &fill["parameter_bytes"]), (&parameters, &json!(20)));
    assert_eq!(
        (&fill["shared_bytes"], &fill["local_bytes"], &fill["most_threads"]),
        (&json!(256), &json!(16), &json!(64))
    );
    assert!(fill["registers"]["b32"].as_u64().unwrap() >= 2, "{fill}");
    assert_eq!(fill["not_executable"], json!([]));
    assert_eq!(other["not_executable"][0]["line"], 19);
    assert!(other["not_executable"][0]["reason"].as_str().unwrap().contains("setmaxnreg"));
    let externals = json!([
        { "name": "vprintf", "line": 15, "executable": true },
        { "name": "elsewhere", "line": 16, "executable": false },
    ]);
    assert_eq!(module["external_functions"], externals);
    assert_eq!(module["variables"][0], json!({ "name": "counts", "space": "global", "bytes": 12, "alignment": 4 }));
}

#[test]
fn hostile_files_are_one_sentence_with_line_and_column() {
    let folder = Folder::new();
    let deep = format!(".version 8.0\n.target sm_70\n.global .u32 x = {}", "(".repeat(100_000));
    let large = ".version 8.0\n.target sm_70\n.global .b8 x[99999999999999999999][99999999999];";
    let zero = ".version 8.0\n.target sm_70\n\0";
    for wrong in [&KERNELS[..1500], "", "nonsense", &deep, large, zero, "\u{feff}", ".version 8.0 .target", "{{{{"] {
        std::fs::write(folder.path("wrong.ptx"), wrong).unwrap();
        let output = folder.anabranch(&["inspect", "wrong.ptx"]);
        assert!(!output.status.success(), "{wrong:.50}: {}", text(&output.stdout));
        assert_one_sentence(&output, 1, &["wrong.ptx: line ", ", column "]);
    }
    std::fs::write(folder.path("wrong.ptx"), b"\n\xff").unwrap();
    assert_one_sentence(&folder.anabranch(&["inspect", "wrong.ptx"]), 1, &["line 2, column 1"]);
    assert_one_sentence(&folder.anabranch(&["inspect", "none.ptx"]), 2, &["none.ptx cannot be read"]);
    assert_one_sentence(&folder.anabranch(&["inspect", "x.cubin"]), 2, &["machine code"]);
    assert_one_sentence(&folder.anabranch(&["inspect", "."]), 2, &["ends in .ptx"]);
}

#[test]
fn source_is_compiled_or_the_error_says_what_is_missing() {
    let folder = Folder::new();
    std::fs::write(folder.path("add.cu"), "extern \"C\" __global__ void add(float *x, short y) { *x += y; }").unwrap();
    let mut command = folder.command(&["inspect", "add.cu"]);
    let missing = command.env("ANABRANCH_NVRTC", "/nowhere/libnvrtc.so").output().unwrap();
    assert_one_sentence(&missing, 2, &["ANABRANCH_NVRTC"]);
    if let Err(absent) = anabranch::Compiler::find() {
        return eprintln!("not tested with NVRTC: {absent}");
    }
    let output = folder.anabranch(&["inspect", "add.cu"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("kernel add"));
}
