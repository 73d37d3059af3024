//! What kernels of the software device print. It goes to standard output, so a process of its own runs each kernel.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{Context, Kernel, LaunchConfig, Module, Stream};
use common::host;
use std::io::Write;
use std::process::{Command, Output};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

const CHILD: &str = "ANABRANCH_TEST_PRINTING_CHILD";

/// Prints `[`, the byte 0xE9 as a character, the bytes `C3 28` as a text, and `]`.
const TEXT: &str = r"
.version 8.0
.target sm_70
.address_size 64
.extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 values);
.global .align 1 .b8 format[9] = {91, 37, 99, 37, 115, 93, 255, 10, 0};
.global .align 1 .b8 word[3] = {195, 40, 0};
.visible .entry prints()
{
    .local .align 8 .b8 values[16];
    .reg .b64 %rd<5>;
    .reg .b32 %r<2>;
    mov.u64 %rd1, values;
    mov.u32 %r1, 233;
    st.local.u32 [%rd1], %r1;
    mov.u64 %rd0, word;
    cvta.global.u64 %rd0, %rd0;
    st.local.u64 [%rd1+8], %rd0;
    cvta.local.u64 %rd2, %rd1;
    mov.u64 %rd3, format;
    cvta.global.u64 %rd4, %rd3;
    {
        .param .b64 p0;
        .param .b64 p1;
        .param .b32 q;
        st.param.b64 [p0], %rd4;
        st.param.b64 [p1], %rd2;
        call.uni (q), vprintf, (p0, p1);
        ld.param.b32 %r0, [q];
    }
    ret;
}
";
const PRINTED: &[u8] = b"[\xe9\xc3(]\xff\n";

/// Runs a test of this file in a process of its own.
fn child(name: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap()
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

fn count(output: &[u8], text: &[u8]) -> usize {
    output.windows(text.len()).filter(|window| *window == text).count()
}

fn kernel(context: &Context) -> Kernel {
    Module::load_ptx(context, TEXT).unwrap().kernel("prints").unwrap()
}

fn launch(stream: &Stream, kernel: &Kernel) {
    // SAFETY: the kernel takes nothing, and reads its own texts only.
    unsafe { stream.launch(kernel, &LaunchConfig::new(1, 2), ()) }.unwrap();
}

#[test]
fn prints_alone() {
    if is_child() {
        let stream = host().create_stream().unwrap();
        launch(&stream, &kernel(&stream.context()));
        stream.synchronize().unwrap();
    }
}

#[test]
fn kernels_print_the_bytes_that_they_have() {
    let output = child("prints_alone");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(count(&output.stdout, PRINTED), 2, "{output:?}");
}

/// Linux counts descriptors by their numbers, so that no further one can be opened.
#[cfg(target_os = "linux")]
#[test]
fn prints_without_another_descriptor() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    if is_child() {
        let stream = host().create_stream().unwrap();
        let kernel = kernel(&stream.context());
        let limit = Rlimit { current: Some(0), ..getrlimit(Resource::Nofile) };
        setrlimit(Resource::Nofile, limit).unwrap();
        launch(&stream, &kernel);
        stream.synchronize().unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn kernels_print_where_no_descriptor_is_left() {
    let output = child("prints_without_another_descriptor");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(count(&output.stdout, PRINTED), 2, "{output:?}");
}

#[test]
fn prints_beside_a_lock() {
    if is_child() {
        // A panic would wait for standard output, too.
        thread::spawn(|| {
            thread::sleep(Duration::from_secs(20));
            std::process::abort();
        });
        let stream = host().create_stream().unwrap();
        let kernel = kernel(&stream.context());
        let (over, is_over) = channel();
        let mut locked = std::io::stdout().lock();
        launch(&stream, &kernel);
        // Waiting for the stream itself would run the kernel on this thread, which has the lock.
        stream.launch_host_func(move || over.send(()).unwrap()).unwrap();
        is_over.recv().unwrap();
        writeln!(locked, "the kernel has ended").unwrap();
    }
}

#[cfg(unix)]
#[test]
fn safety_125_kernels_print_beside_a_lock_of_standard_output() {
    let output = child("prints_beside_a_lock");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(count(&output.stdout, PRINTED), 2, "{output:?}");
    assert_eq!(count(&output.stdout, b"the kernel has ended\n"), 1, "{output:?}");
}
