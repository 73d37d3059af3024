//! The compiler, which needs no GPU. Each test says so and passes where there is no NVRTC.

use anabranch_cuda::load_compiler;
use anabranch_hal::{CompileRequest, Compiler, Detail, OutputKind, Status};
use std::sync::Arc;

fn find() -> Option<Arc<dyn Compiler>> {
    load_compiler().inspect_err(|absence| eprintln!("skipped: {absence}")).ok()
}

const SOURCE: &str = r#"
template <typename T> __global__ void scale(T *values, T factor) { values[threadIdx.x] *= factor; }
extern "C" __global__ void fill(int *values, int value) { values[threadIdx.x] = value; }
"#;

fn request<'a>(source: &'a str, options: &'a [String], output: OutputKind) -> CompileRequest<'a> {
    CompileRequest { source, name: "test.cu", options, name_expressions: &[], output }
}

#[test]
fn it_says_what_it_is_and_what_it_makes_code_for() {
    let Some(compiler) = find() else { return };
    let (major, minor) = compiler.version();
    assert!(major >= 11);
    assert_eq!(compiler.identity(), format!("NVRTC {major}.{minor}"));
    #[cfg(target_os = "linux")]
    assert!(compiler.build().unwrap().contains(" bytes, modified "), "{:?}", compiler.build());
    let architectures = compiler.architectures().unwrap();
    assert!(architectures.contains(&90) || architectures.contains(&80), "{architectures:?}");
}

#[test]
fn a_source_becomes_text_without_a_terminator() {
    let Some(compiler) = find() else { return };
    let options = ["--gpu-architecture=compute_80".to_owned()];
    let output = compiler.compile(&request(SOURCE, &options, OutputKind::Ptx)).unwrap();
    let text = String::from_utf8(output.image).unwrap();
    assert!(text.contains(".entry fill") && !text.contains('\0'), "{text}");
    assert!(output.lowered_names.is_empty());
}

#[test]
fn a_source_becomes_machine_code() {
    let Some(compiler) = find() else { return };
    let options = ["--gpu-architecture=sm_80".to_owned()];
    let output = compiler.compile(&request(SOURCE, &options, OutputKind::Binary)).unwrap();
    assert!(output.image.starts_with(b"\x7fELF"));
}

#[test]
fn machine_code_needs_a_real_architecture() {
    let Some(compiler) = find() else { return };
    let options = ["--gpu-architecture=compute_80".to_owned()];
    let failure = compiler.compile(&request(SOURCE, &options, OutputKind::Binary)).unwrap_err();
    assert!(failure.to_string().contains("sm_"), "{failure}");
}

#[test]
fn name_expressions_get_their_mangled_names_in_order() {
    let Some(compiler) = find() else { return };
    let expressions = ["scale<float>".to_owned(), "fill".to_owned(), "scale<int>".to_owned()];
    let request = CompileRequest { name_expressions: &expressions, ..request(SOURCE, &[], OutputKind::Ptx) };
    let output = compiler.compile(&request).unwrap();
    let [floats, fill, ints] = &output.lowered_names[..] else { panic!("{:?}", output.lowered_names) };
    assert!(floats != ints && fill == "fill", "{:?}", output.lowered_names);
    let text = String::from_utf8(output.image).unwrap();
    assert!([floats, fill, ints].iter().all(|name| text.contains(name.as_str())), "{text}");
}

#[test]
fn an_error_comes_with_the_log() {
    let Some(compiler) = find() else { return };
    let failure =
        compiler.compile(&request("__global__ void k() { undeclared(); }", &[], OutputKind::Ptx)).unwrap_err();
    assert_eq!(failure.status, Status::INVALID_SOURCE);
    let Some(Detail::Log(log)) = failure.detail.as_deref() else { panic!("{failure}") };
    assert!(log.contains("test.cu") && log.contains("undeclared") && !log.ends_with('\0'), "{log}");
}

#[test]
fn an_unknown_option_is_an_error() {
    let Some(compiler) = find() else { return };
    let options = ["--no-such-option".to_owned()];
    let failure = compiler.compile(&request(SOURCE, &options, OutputKind::Ptx)).unwrap_err();
    assert_eq!(failure.status, Status::INVALID_VALUE);
    assert!(matches!(failure.detail.as_deref(), Some(Detail::Log(_))), "{failure}");
}

#[test]
fn an_unknown_name_expression_is_an_error() {
    let Some(compiler) = find() else { return };
    let expressions = ["scale<no_such_type>".to_owned()];
    let request = CompileRequest { name_expressions: &expressions, ..request(SOURCE, &[], OutputKind::Ptx) };
    let failure = compiler.compile(&request).unwrap_err();
    assert_eq!(failure.status, Status::INVALID_SOURCE, "{failure}");
}

#[test]
fn zero_bytes_are_errors_and_never_the_end() {
    let Some(compiler) = find() else { return };
    let zero = "a\0b".to_owned();
    let options = [zero.clone()];
    let requests = [
        request(&zero, &[], OutputKind::Ptx),
        request(SOURCE, &options, OutputKind::Ptx),
        CompileRequest { name: &zero, ..request(SOURCE, &[], OutputKind::Ptx) },
        CompileRequest { name_expressions: &options, ..request(SOURCE, &[], OutputKind::Ptx) },
    ];
    for request in requests {
        let failure = compiler.compile(&request).unwrap_err();
        assert_eq!(failure.status, Status::INVALID_VALUE);
        assert!(failure.to_string().contains("zero byte"), "{failure}");
    }
}

#[test]
fn programs_are_compiled_on_several_threads() {
    let Some(compiler) = find() else { return };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| compiler.compile(&request(SOURCE, &[], OutputKind::Ptx)).unwrap());
        }
    });
}
