//! `anabranch run` as a user sees it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Folder, KERNELS, assert_one_sentence, text};
use serde_json::Value;

const SAXPY: [&str; 5] = ["--kernel", "saxpy", "--grid=2", "--block=64", "--device=host"];

#[test]
fn arrays_and_numbers_go_in_and_results_come_out() {
    let folder = Folder::new();
    folder.write_f32("x.npy", &[1.0, 2.0, 3.0]);
    folder.write_f32("y.npy", &[10.0, 20.0, 30.0]);
    let output = folder.run(&[&SAXPY[..], &["inout:y.npy:r.npy", "in:x.npy", "f32:2", "u32:3"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for words in ["saxpy of ", "on host:0 (Software device", "block  64", "f32[3] of y.npy, written to r.npy", "time "]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert_eq!(folder.read_f32("r.npy"), ("<f4".to_owned(), vec![3], vec![12.0, 24.0, 36.0]));
    assert_eq!(folder.read_f32("y.npy").2, [10.0, 20.0, 30.0], "the file that was read is as before");
    assert_eq!(folder.names(), ["kernels.ptx", "r.npy", "x.npy", "y.npy"], "nothing else is left");
}

#[test]
fn a_result_may_replace_its_own_file() {
    let folder = Folder::new();
    folder.write_f32("x.npy", &[1.0]);
    folder.write_f32("y.npy", &[5.0]);
    let output = folder.run(&[&SAXPY[..], &["inout:y.npy:y.npy", "in:x.npy", "f32:1", "u32:1"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(folder.read_f32("y.npy").2, [6.0]);
}

#[test]
fn every_launch_begins_anew_and_json_tells_of_each() {
    let folder = Folder::new();
    folder.write_f32("x.npy", &[1.0, 2.0]);
    folder.write_f32("y.npy", &[0.0, 1.0]);
    let arguments = ["--repeat=4", "--check", "--json", "inout:y.npy:r.npy", "in:x.npy", "f32:3", "u32:2"];
    let output = folder.run(&[&SAXPY[..], &arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(folder.read_f32("r.npy").2, [3.0, 7.0]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["kernel"], &report["device"]), (&Value::from("saxpy"), &Value::from("host:0")));
    assert_eq!((&report["grid"], &report["block"]), (&serde_json::json!([2, 1, 1]), &serde_json::json!([64, 1, 1])));
    assert_eq!(report["checked"], true);
    let times: Vec<f64> =
        report["milliseconds"].as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect();
    assert_eq!(times.len(), 4);
    let (minimum, median) = (report["minimum_milliseconds"].as_f64(), report["median_milliseconds"].as_f64());
    assert!(
        minimum.unwrap() >= 0.0 && minimum <= median && times.iter().all(|time| minimum <= Some(*time)),
        "{report}"
    );
    let expected = serde_json::json!([
        { "kind": "inout", "file": "y.npy", "result": "r.npy", "type": "f32", "shape": [2] },
        { "kind": "in", "file": "x.npy", "type": "f32", "shape": [2] },
        { "kind": "number", "type": "f32", "value": "3" },
        { "kind": "number", "type": "u32", "value": "2" },
    ]);
    assert_eq!(report["arguments"], expected);
}

#[test]
fn numbers_of_every_size_arrive() {
    let folder = Folder::new();
    let launch = ["--kernel=numbers", "--grid=1", "--block=1", "--device=host"];
    let numbers = ["u8:0xfe", "i16:-2", "u16:65535", "i32:-7", "f32:0.5", "i64:-9000000000", "f64:-1e300"];
    let output = folder.run(&[&launch[..], &["out:u8[2,16]:r.npy"], &numbers].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (header, data) = folder.read("r.npy");
    assert!(header.contains("'descr': '|u1'") && header.contains("'shape': (2, 16, )"), "{header}");
    let mut expected = vec![0xfe, 0, 0xfe, 0xff, 0xff, 0xff, 0, 0];
    expected.extend((-7i32).to_le_bytes());
    expected.extend(0.5f32.to_le_bytes());
    expected.extend((-9_000_000_000i64).to_le_bytes());
    expected.extend((-1e300f64).to_le_bytes());
    assert_eq!(data, expected);
}

#[test]
fn grids_blocks_and_shared_memory_have_the_extents_that_were_given() {
    let folder = Folder::new();
    let places = ["--kernel=places", "--grid=2,3,2", "--block=1", "--device=host", "out:u32[12]:places.npy"];
    assert!(folder.run(&places).status.success());
    let numbers = |name: &str| -> Vec<u32> {
        folder.read(name).1.chunks(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap())).collect()
    };
    assert_eq!(numbers("places.npy"), [0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121]);
    let reverse = |bytes: &str, out: &str| {
        folder.run(&["--kernel=reverse", "--grid=1", "--block=4,2", "--device=host", "--shared", bytes, out])
    };
    assert!(reverse("32", "inout:places.npy:reversed.npy").status.code() == Some(0));
    assert_eq!(numbers("reversed.npy")[..8], [101, 100, 21, 20, 11, 10, 1, 0]);
    // More than a block has unless its kernel asks for it.
    assert!(reverse("100000", "inout:places.npy:reversed.npy").status.success());
}

#[test]
fn arrays_of_short_numbers_and_of_no_elements_are_arrays_too() {
    let folder = Folder::new();
    let none = ["--kernel=saxpy", "--grid=1", "--block=1", "--device=host", "out:f32[0]:r.npy", "out:bf16[]:b.npy"];
    let output = folder.run(&[&none[..], &["f32:1", "u32:0"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(folder.read("r.npy").0.contains("'shape': (0, )"));
    let (header, data) = folder.read("b.npy");
    assert!(header.contains("'descr': '<V2'") && header.contains("'shape': ()") && data == [0, 0], "{header}");
}

#[test]
fn a_fault_names_the_place_and_leaves_no_result() {
    let folder = Folder::new();
    let launch = ["--kernel=beyond", "--grid=1", "--block=32", "--device=host", "--check", "out:u32[8]:r.npy", "u32:8"];
    let output = folder.run(&launch);
    assert_one_sentence(&output, 1, &["beyond", "line ", "block (0, 0, 0)", "thread (5, 0, 0)", "0x", "(700)"]);
    assert_eq!(folder.names(), ["kernels.ptx"]);
}

#[test]
fn a_module_that_cannot_be_loaded_is_said_once() {
    let folder = Folder::new();
    let lacking =
        ".version 7.0\n.target sm_70\n.address_size 64\n.extern .func missing();\n.entry k() { call missing; ret; }\n";
    std::fs::write(folder.path("lacking.ptx"), lacking).unwrap();
    let output = folder.anabranch(&["run", "lacking.ptx", "--kernel=k", "--grid=1", "--block=1", "--device=host"]);
    assert_one_sentence(&output, 1, &["lacking.ptx", "line 4", "(218)"]);
    assert_eq!(text(&output.stderr).matches("missing is declared").count(), 1);
}

#[test]
fn a_kernel_that_does_not_end_is_ended() {
    let folder = Folder::new();
    let endless = ".version 7.0\n.target sm_70\n.address_size 64\n.entry endless() {\nAGAIN: bra AGAIN;\n}\n";
    std::fs::write(folder.path("endless.ptx"), endless).unwrap();
    let launch = ["run", "endless.ptx", "--kernel=endless", "--grid=1", "--block=1", "--device=host"];
    let mut command = folder.command(&launch);
    let output = command.env("ANABRANCH_HOST_OPERATION_LIMIT", "5000").output().unwrap();
    let words = ["endless", "(702)", "line 5 ", "may perform 5000", "ANABRANCH_HOST_OPERATION_LIMIT"];
    assert_one_sentence(&output, 1, &words);
}

/// Command lines that make no sense, and words of the sentence that says so.
const WRONG: &[(&[&str], &[&str])] = &[
    (&["inout:y.npy:r.npy", "in:x.npy", "f32:2"], &["saxpy", "4 parameters (u64, u64, f32, u32)", "given are 3"]),
    (&["inout:y.npy:r.npy", "in:x.npy", "f32:2", "u64:3"], &["argument 4 is u64, 8 bytes", "u32"]),
    (&["inout:y.npy:r.npy", "in:x.npy", "f32:2", "f32:3"], &["argument 4 is f32", "saxpy_param_3"]),
    (&["inout:y.npy:r.npy", "in:x.npy", "i32:2", "u32:3"], &["argument 3 is i32", "f32"]),
    (&["inout:y.npy:r.npy", "in:x.npy", "in:x.npy", "u32:3"], &["argument 3 is an array", "8 bytes"]),
    (&["inout:y.npy:r.npy", "f16:1", "f32:2", "u32:3"], &["argument 2 is f16, 2 bytes"]),
    (&["inout:y.npy:r.npy", "in:x.npy", "f32:2", "u32:-3"], &["`u32:-3`", "0 to 4294967295"]),
    (&["inout:y.npy:r.npy", "in:none.npy", "f32:2", "u32:3"], &["none.npy cannot be read"]),
    (&["inout:y.npy:r.npy", "in:kernels.ptx", "f32:2", "u32:3"], &["kernels.ptx cannot be used", "no .npy file"]),
    (
        &["inout:y.npy:r.npy", "in:fortran.npy", "f32:2", "u32:3"],
        &["fortran.npy", "Fortran order", "ascontiguousarray"],
    ),
    (&["inout:y.npy:r.npy", "in:complex.npy", "f32:2", "u32:3"], &["complex.npy", "`<c8`"]),
    (&["inout:y.npy:r.npy", "out:f32[2]:./r.npy", "f32:2", "u32:3"], &["./r.npy is the file of two results"]),
    (&["inout:y.npy:none/r.npy", "in:x.npy", "f32:2", "u32:3"], &["none/r.npy cannot be written", "no directory"]),
    (&["inout:y.npy:.", "in:x.npy", "f32:2", "u32:3"], &["it is a directory"]),
    (&["out:f32[1000000000000000]:r.npy", "in:x.npy", "f32:2", "u32:3"], &["f32[1000000000000000]", "memory"]),
    (&["out:f32[18446744073709551615,9]:r.npy", "in:x.npy", "f32:2", "u32:3"], &["memory"]),
    (&["--grid=1,65536", "inout:y.npy:r.npy", "in:x.npy", "f32:2", "u32:3"], &["grid", "65536 in y", "65535"]),
    (&["--block=32,64", "inout:y.npy:r.npy", "in:x.npy", "f32:2", "u32:3"], &["2048 threads", "1024"]),
    (&["--shared=300000", "inout:y.npy:r.npy", "in:x.npy", "f32:2", "u32:3"], &["shared memory", "300000"]),
    (&["--kernel=nothing"], &["no kernel `nothing`", "`saxpy`", "`places`"]),
];

#[test]
fn what_cannot_work_is_one_sentence_and_status_2() {
    let folder = Folder::new();
    folder.write_f32("x.npy", &[1.0, 2.0, 3.0]);
    folder.write_f32("y.npy", &[1.0, 2.0, 3.0]);
    folder.write_array("fortran.npy", "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", &[0; 4]);
    folder.write_array("complex.npy", "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", &[0; 8]);
    let before = folder.names();
    for (arguments, words) in WRONG {
        // Of an option that is given twice, clap takes neither.
        let name = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
        let given: Vec<String> = arguments.iter().map(|argument| name(argument)).collect();
        let launch = ["--kernel=saxpy", "--grid=1", "--block=32", "--device=host"];
        let launch = launch.into_iter().filter(|option| !given.contains(&name(option)));
        let output = folder.run(&launch.chain(arguments.iter().copied()).collect::<Vec<_>>());
        assert_one_sentence(&output, 2, words);
        assert_eq!(folder.names(), before, "{arguments:?}");
    }
    for grid in ["0", "1,", "1,1,1,1", "a", "-1"] {
        let output = folder.run(&["--kernel=saxpy", &format!("--grid={grid}"), "--block=1"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("--grid"), "{grid}");
    }
}

#[test]
fn files_without_kernels_are_one_sentence() {
    let folder = Folder::new();
    std::fs::write(folder.path("wrong.ptx"), &KERNELS[..900]).unwrap();
    std::fs::write(folder.path("bytes.ptx"), b".version 8.0\n\xff\n").unwrap();
    std::fs::write(folder.path("machine.cubin"), b"ELF").unwrap();
    std::fs::write(folder.path("module.txt"), "").unwrap();
    let refused = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { setmaxnreg.inc.sync.aligned.u32 64; ret; }\n";
    std::fs::write(folder.path("refused.ptx"), refused).unwrap();
    for (file, status, words) in [
        ("wrong.ptx", 1, &["wrong.ptx: line ", ", column "][..]),
        ("bytes.ptx", 1, &["bytes.ptx: line 2, column 1", "no text"]),
        ("none.ptx", 2, &["none.ptx cannot be read"]),
        ("none.cu", 2, &["none.cu cannot be read"]),
        ("module.txt", 2, &["module.txt", ".ptx, .cubin or .cu"]),
        ("machine.cubin", 2, &["machine.cubin is machine code", "--device cuda:0"]),
        ("refused.ptx", 1, &["the kernel `k`: line 4", "setmaxnreg"]),
    ] {
        let output = folder.anabranch(&["run", file, "--kernel=k", "--grid=1", "--block=1", "--device=host"]);
        assert_one_sentence(&output, status, words);
    }
}

#[test]
fn source_is_compiled_or_the_error_says_what_is_missing() {
    let folder = Folder::new();
    let source = "template <typename T> __global__ void twice(T *values) { values[threadIdx.x] *= 2; }
        __global__ void plain() {}";
    std::fs::write(folder.path("twice.cu"), source).unwrap();
    folder.write_f32("x.npy", &[1.5, 2.0]);
    let launch = ["run", "twice.cu", "--grid=1", "--block=2", "--device=host"];
    let twice = [&launch[..], &["--kernel=twice<float>", "inout:x.npy:r.npy"]].concat();
    let missing = folder.command(&twice).env("ANABRANCH_NVRTC", "/nowhere/libnvrtc.so").output().unwrap();
    assert_one_sentence(&missing, 2, &["ANABRANCH_NVRTC"]);
    if let Err(absent) = anabranch::Compiler::find() {
        return eprintln!("not tested with NVRTC: {absent}");
    }
    let output = folder.anabranch(&twice);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(folder.read_f32("r.npy").2, [3.0, 4.0]);
    let plain = folder.anabranch(&[&launch[..], &["--kernel=plain"]].concat());
    assert!(plain.status.success(), "{}", text(&plain.stderr));
    let unknown = folder.anabranch(&[&launch[..], &["--kernel=thrice"]].concat());
    assert_one_sentence(&unknown, 2, &["no kernel `thrice`", "plain"]);
    std::fs::write(folder.path("wrong.cu"), "__global__ void wrong(").unwrap();
    let wrong = folder.anabranch(&["run", "wrong.cu", "--grid=1", "--block=1", "--device=host", "--kernel=wrong"]);
    assert_one_sentence(&wrong, 1, &["wrong.cu(1)", "error"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_one_sentence_and_changes_nothing() {
    let folder = Folder::new();
    folder.write_f32("x.npy", &[0.0; 4096]);
    folder.write_f32("r.npy", &[7.0]);
    let launch = ["--kernel=saxpy", "--grid=1", "--block=1", "--device=host"];
    let arguments = [&launch[..], &["inout:x.npy:r.npy", "out:f32[4096]:s.npy", "f32:1", "u32:1"]].concat();
    // No file may become longer than 8 KiB.
    let limited = "trap '' XFSZ; ulimit -f 8; exec \"$0\" run kernels.ptx \"$@\"";
    let output = std::process::Command::new("bash")
        .args(["-c", limited, env!("CARGO_BIN_EXE_anabranch")])
        .args(&arguments)
        .current_dir(folder.path(""))
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return eprintln!("skipped: there is no bash: {error}"),
    };
    assert_one_sentence(&output, 1, &["r.npy cannot be written"]);
    assert_eq!(folder.read_f32("r.npy").2, [7.0]);
    assert_eq!(folder.names(), ["kernels.ptx", "r.npy", "x.npy"]);
    let device = [&launch[..], &["out:f32[9]:/dev/full", "in:x.npy", "f32:1", "u32:1"]].concat();
    assert_one_sentence(&folder.run(&device), 1, &["/dev/full cannot be written"]);
    assert!(std::path::Path::new("/dev/full").exists(), "what is no file is not replaced");
}

#[cfg(unix)]
#[test]
fn results_have_the_permissions_of_other_files_and_links_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new();
    folder.write_f32("x.npy", &[1.0]);
    folder.write_f32("old.npy", &[1.0]);
    std::fs::set_permissions(folder.path("old.npy"), PermissionsExt::from_mode(0o604)).unwrap();
    symlink("old.npy", folder.path("link.npy")).unwrap();
    let arguments = ["inout:x.npy:link.npy", "out:f32[1]:new.npy", "f32:1", "u32:1"];
    let output = folder.run(&[&SAXPY[..], &arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mode = |name: &str| std::fs::symlink_metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("old.npy"), mode("new.npy")), (0o604, mode("x.npy")));
    assert!(folder.path("link.npy").is_symlink());
}

#[cfg(unix)]
#[test]
fn results_are_written_through_links_to_files_that_do_not_exist_yet() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    folder.write_f32("x.npy", &[1.0]);
    std::fs::create_dir(folder.path("deep")).unwrap();
    symlink("new.npy", folder.path("deep/first.npy")).unwrap();
    symlink("deep/first.npy", folder.path("second.npy")).unwrap();
    symlink("no folder/new.npy", folder.path("lost.npy")).unwrap();
    symlink("loop.npy", folder.path("loop.npy")).unwrap();
    let run = |results: [&str; 2]| folder.run(&[&SAXPY[..], &results, &["f32:1", "u32:1"]].concat());
    let output = run(["inout:x.npy:second.npy", "in:x.npy"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(folder.path("second.npy").is_symlink() && folder.path("deep/first.npy").is_symlink());
    assert_eq!(folder.read_f32("deep/new.npy").2, [2.0]);
    std::fs::remove_file(folder.path("deep/new.npy")).unwrap();
    for (results, words) in [
        (["inout:x.npy:second.npy", "out:f32[1]:deep/first.npy"], "is the file of two results"),
        (["inout:x.npy:second.npy", "out:f32[1]:deep/new.npy"], "is the file of two results"),
        (["inout:x.npy:lost.npy", "in:x.npy"], "there is no directory"),
        (["inout:x.npy:loop.npy", "in:x.npy"], "loop.npy cannot be written"),
    ] {
        assert_one_sentence(&run(results), 2, &[words]);
    }
    assert!(!folder.path("deep/new.npy").exists());
}
