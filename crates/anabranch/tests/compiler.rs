//! The compiler and its cache. Most of it with a compiler of our own, so that it is tested where NVRTC is not; what
//! needs NVRTC says so when it is skipped.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "compiler/out_of_date.rs"]
mod out_of_date;
#[cfg(unix)]
#[path = "compiler/special_files.rs"]
mod special_files;

use anabranch::hal::{self, CompileOutput, CompileRequest, Detail, Failure, OutputKind, Status};
use anabranch::{CompileOptions, Compiled, Compiler, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A compiler whose code is the request that it was made from.
#[derive(Debug)]
struct Fake {
    identity: &'static str,
    build: Option<&'static str>,
    compilations: AtomicUsize,
    /// Written to while it compiles, as somebody's editor may.
    edit: Mutex<Option<(PathBuf, &'static str)>>,
}

impl Fake {
    fn new(identity: &'static str) -> Arc<Self> {
        Self::of_build(identity, None)
    }

    fn of_build(identity: &'static str, build: Option<&'static str>) -> Arc<Self> {
        Arc::new(Self { identity, build, compilations: AtomicUsize::new(0), edit: Mutex::new(None) })
    }

    fn compilations(&self) -> usize {
        self.compilations.load(Ordering::Relaxed)
    }
}

// SAFETY: nobody loads what it returns.
unsafe impl hal::Compiler for Fake {
    fn identity(&self) -> String {
        self.identity.to_owned()
    }

    fn build(&self) -> Option<String> {
        self.build.map(str::to_owned)
    }

    fn version(&self) -> (u32, u32) {
        (13, 0)
    }

    fn architectures(&self) -> Result<Vec<u32>, Failure> {
        Ok(vec![75, 90])
    }

    fn compile(&self, request: &CompileRequest<'_>) -> Result<CompileOutput, Failure> {
        self.compilations.fetch_add(1, Ordering::Relaxed);
        if let Some((path, content)) = &*self.edit.lock().unwrap() {
            std::fs::write(path, content).unwrap();
        }
        if request.source.contains("wrong") {
            let log = "kernel.cu(1): warning: first\nkernel.cu(2): error: wrong\n1 error detected".to_owned();
            return Err(Failure::with_detail(Status::INVALID_SOURCE, Detail::Log(log)));
        }
        let image = match request.source {
            "not text" => vec![0xff],
            _ => format!("{request:?}").into_bytes(),
        };
        Ok(CompileOutput {
            image,
            log: "a remark".to_owned(),
            lowered_names: request.name_expressions.iter().map(|name| format!("_Z{name}")).collect(),
        })
    }
}

struct Setup {
    fake: Arc<Fake>,
    compiler: Compiler,
    directory: TempDir,
}

impl Setup {
    fn new() -> Self {
        let fake = Fake::new("fake 1");
        Self { compiler: Compiler::from_driver(fake.clone()), fake, directory: tempfile::tempdir().unwrap() }
    }

    fn cache(&self) -> PathBuf {
        self.directory.path().join("some/cache")
    }

    fn options(&self) -> CompileOptions {
        CompileOptions::new().cache_directory(self.cache())
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The one entry.
    fn entry(&self) -> PathBuf {
        let entries = entries(&self.cache());
        assert_eq!(entries.len(), 1);
        entries[0].clone()
    }

    fn is_cached(&self, source: &str, options: &CompileOptions) -> bool {
        self.compiler.compile(source, options).unwrap().from_cache()
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// The request that the fake compiler received, as it wrote it.
fn told(compiled: &Compiled) -> &str {
    compiled.ptx().unwrap()
}

#[test]
fn the_second_compilation_comes_from_the_cache_and_is_the_same() {
    let setup = Setup::new();
    let options = setup.options().name_expression("scale<float>").name_expression("scale<int>");
    let first = setup.compiler.compile("source", &options).unwrap();
    let second = setup.compiler.compile("source", &options).unwrap();
    assert!(!first.from_cache() && second.from_cache());
    assert_eq!(setup.fake.compilations(), 1);
    assert_eq!(first.image(), second.image());
    assert_eq!(second.log(), "a remark");
    assert_eq!(second.kernel_name("scale<int>"), Some("_Zscale<int>"));
    assert_eq!(second.kernel_name("scale<double>"), None);
    assert_eq!(second.kernel_names().count(), 2);
    assert!(second.binary().is_none());
}

#[test]
fn machine_code_comes_from_the_cache_too() {
    let setup = Setup::new();
    let options = setup.options().output(OutputKind::Binary).architecture("90".parse().unwrap());
    let first = setup.compiler.compile("not text", &options).unwrap();
    let second = setup.compiler.compile("not text", &options).unwrap();
    assert!(second.from_cache());
    assert_eq!((first.binary(), second.binary()), (Some(&[0xff][..]), Some(&[0xff][..])));
}

#[test]
fn whatever_else_is_asked_for_is_another_entry() {
    let setup = Setup::new();
    let plain = || setup.options();
    let requests: Vec<(&str, CompileOptions)> = vec![
        ("source", plain()),
        ("source ", plain()),
        ("source", plain().name("other.cu")),
        ("source", plain().define("A", "1")),
        ("source", plain().define("A", "2")),
        ("source", plain().define("A", "1").define("B", "1")),
        ("source", plain().define("B", "1").define("A", "1")),
        ("source", plain().architecture("80".parse().unwrap())),
        ("source", plain().architecture("90".parse().unwrap())),
        ("source", plain().architecture("90a".parse().unwrap())),
        ("source", plain().architecture("90".parse().unwrap()).output(OutputKind::Binary)),
        ("source", plain().standard("c++17")),
        ("source", plain().fast_math(true)),
        ("source", plain().debug(true)),
        ("source", plain().line_info(true)),
        ("source", plain().max_registers(32)),
        ("source", plain().option("--fmad=false")),
        ("source", plain().name_expression("a")),
        ("source", plain().include_directory("nowhere")),
    ];
    for (source, options) in &requests {
        assert!(!setup.is_cached(source, options), "{source:?} {options:?}");
    }
    for (source, options) in &requests {
        assert!(setup.is_cached(source, options), "{source:?} {options:?}");
    }
    for other in
        [Fake::new("fake 2"), Fake::of_build("fake 1", Some("update 1")), Fake::of_build("fake 1", Some("update 2"))]
    {
        assert!(!Compiler::from_driver(other).compile("source", &setup.options()).unwrap().from_cache());
    }
}

#[test]
fn options_reach_the_compiler_in_its_own_words_and_in_order() {
    let setup = Setup::new();
    assert!(told(&setup.compiler.compile("", &setup.options()).unwrap()).contains("options: []"), "none by default");
    let options = setup
        .options()
        .name("named.cu")
        .define("A", "1 + 1")
        .include_directory("here")
        .option("--fmad=false")
        .define("B", "")
        .standard("c++17")
        .fast_math(true)
        .debug(true)
        .line_info(true)
        .max_registers(32)
        .architecture("sm_90a".parse().unwrap());
    let compiled = setup.compiler.compile("", &options).unwrap();
    let expected = [
        "--gpu-architecture=compute_90a",
        "--std=c++17",
        "--use_fast_math",
        "--device-debug",
        "--generate-line-info",
        "--maxrregcount=32",
        "--define-macro=A=1 + 1",
        "--include-path=here",
        "--fmad=false",
        "--define-macro=B=",
    ];
    assert!(told(&compiled).contains(&format!("options: {expected:?}")), "{}", told(&compiled));
    assert!(told(&compiled).contains("named.cu"));
}

#[test]
fn a_damaged_entry_is_compiled_anew_and_replaced() {
    let setup = Setup::new();
    let options = setup.options();
    let whole = setup.compiler.compile("source", &options).unwrap();
    let bytes = std::fs::read(setup.entry()).unwrap();
    let flipped = |position: usize| {
        let mut bytes = bytes.clone();
        bytes[position] ^= 1;
        bytes
    };
    let damaged = [
        Vec::new(),
        bytes[..10].to_vec(),
        bytes[..bytes.len() - 1].to_vec(),
        [&bytes[..], b"more"].concat(),
        flipped(0),
        flipped(20),
        flipped(bytes.len() / 2),
        flipped(bytes.len() - 1),
    ];
    for (number, damaged) in damaged.into_iter().enumerate() {
        std::fs::write(setup.entry(), damaged).unwrap();
        let again = setup.compiler.compile("source", &options).unwrap();
        assert!(!again.from_cache(), "{number}");
        assert_eq!(again.image(), whole.image());
        assert_eq!(std::fs::read(setup.entry()).unwrap(), bytes, "{number}");
        assert!(setup.is_cached("source", &options));
    }
}

#[test]
fn an_entry_under_another_key_is_not_taken_for_it() {
    let setup = Setup::new();
    setup.compiler.compile("one", &setup.options()).unwrap();
    let one = setup.entry();
    setup.compiler.compile("two", &setup.options()).unwrap();
    let two = entries(&setup.cache()).into_iter().find(|path| *path != one).unwrap();
    std::fs::copy(&one, &two).unwrap();
    assert!(!setup.is_cached("two", &setup.options()));
}

#[test]
fn errors_are_reported_each_time_and_never_kept() {
    let setup = Setup::new();
    for _ in 0..2 {
        let error = setup.compiler.compile("wrong", &setup.options()).unwrap_err();
        assert_eq!((error.kind(), error.status()), (ErrorKind::Compile, Status::INVALID_SOURCE));
        assert_eq!(error.message(), Some("kernel.cu(2): error: wrong"), "and not the warning before it");
        assert!(error.log().unwrap().ends_with("1 error detected"));
    }
    let error = setup.compiler.compile("not text", &setup.options().output(OutputKind::Ptx)).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_PTX);
    assert_eq!(setup.fake.compilations(), 3);
}

#[test]
fn machine_code_needs_an_architecture() {
    let setup = Setup::new();
    let options = setup.options().output(OutputKind::Binary);
    let error = setup.compiler.compile("", &options).unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Argument, Status::INVALID_VALUE));
    let compiled = setup.compiler.compile("", &options.option("-arch=sm_90")).unwrap();
    assert!(compiled.binary().is_some());
}

#[test]
fn without_a_cache_nothing_is_read_or_written() {
    let setup = Setup::new();
    let options = setup.options().without_cache();
    for _ in 0..2 {
        assert!(!setup.is_cached("source", &options));
    }
    assert!(!setup.cache().exists());
}

#[test]
fn a_changed_included_file_is_noticed() {
    let setup = Setup::new();
    let header = setup.write("include/outer.h", "#include \"inner.h\"");
    setup.write("include/inner.h", "1");
    let options = setup.options().include_directory(header.parent().unwrap());
    let source = "#include <outer.h>\n#include <built_in.h>";
    assert!(!setup.is_cached(source, &options));
    assert!(setup.is_cached(source, &options));
    setup.write("include/inner.h", "2");
    assert!(!setup.is_cached(source, &options));
    setup.write("include/inner.h", "1");
    assert!(setup.is_cached(source, &options), "the first content again");
    setup.write("include/built_in.h", "");
    assert!(!setup.is_cached(source, &options), "a file that was not there before");
}

#[test]
fn a_file_that_changes_while_it_is_compiled_leaves_no_entry() {
    let setup = Setup::new();
    let header = setup.write("include/a.h", "1");
    let options = setup.options().include_directory(header.parent().unwrap());
    *setup.fake.edit.lock().unwrap() = Some((header, "2"));
    assert!(!setup.is_cached("#include <a.h>", &options));
    assert!(entries(&setup.cache()).is_empty());
}

#[test]
fn what_the_text_does_not_tell_is_not_cached() {
    let setup = Setup::new();
    let requests = [
        ("#include HEADER", setup.options().define("HEADER", "<a.h>")),
        ("const char *when = __TIME__;", setup.options()),
        ("", setup.options().option("-Iincluded")),
        ("", setup.options().option("--pre-include=a.h")),
        ("", setup.options().option("-pch")),
    ];
    for (source, options) in &requests {
        for _ in 0..2 {
            assert!(!setup.is_cached(source, options), "{source} {options:?}");
        }
    }
    assert!(entries(&setup.cache()).is_empty());
}

#[test]
fn a_file_is_compiled_under_its_path() {
    let setup = Setup::new();
    let path = setup.write("kernels/scale.cu", "#include \"beside.h\"");
    setup.write("kernels/beside.h", "1");
    let compile = |options: &CompileOptions| setup.compiler.compile_file(&path, options).unwrap();
    let compiled = compile(&setup.options());
    assert!(told(&compiled).contains(&format!("{:?}", path.to_str().unwrap())), "{}", told(&compiled));
    assert!(compile(&setup.options()).from_cache());
    setup.write("kernels/beside.h", "2");
    assert!(!compile(&setup.options()).from_cache());
    assert!(told(&compile(&setup.options().name("other.cu"))).contains("other.cu"));
    let error = setup.compiler.compile_file(path.with_file_name("none.cu"), &setup.options()).unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Io, Status::FILE_NOT_FOUND));
    assert!(error.to_string().contains("none.cu"), "{error}");
}

#[test]
fn a_cache_that_cannot_be_written_fails_nothing() {
    let setup = Setup::new();
    let file = setup.write("file", "");
    for path in [file.clone(), file.join("below")] {
        for _ in 0..2 {
            assert!(!setup.is_cached("source", &setup.options().cache_directory(&path)));
        }
    }
}

#[test]
#[cfg(unix)]
fn the_cache_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let setup = Setup::new();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert!(!setup.is_cached("source", &setup.options()));
    assert_eq!(mode(&setup.cache()), 0o700);
    assert_eq!(mode(&setup.entry()), 0o600);
    for writable in [0o777, 0o770, 0o702] {
        std::fs::set_permissions(setup.cache(), std::fs::Permissions::from_mode(writable)).unwrap();
        assert!(!setup.is_cached("source", &setup.options()), "{writable:o}");
        assert!(!setup.is_cached("other source", &setup.options()), "{writable:o}");
        setup.entry();
    }
    std::fs::set_permissions(setup.cache(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(setup.is_cached("source", &setup.options()), "others may read it");
}

#[test]
#[cfg(unix)]
fn the_directory_of_another_user_is_refused() {
    let setup = Setup::new();
    std::fs::create_dir_all(setup.cache()).unwrap();
    if let Err(error) = std::os::unix::fs::chown(setup.cache(), Some(4242), None) {
        eprintln!("not tested, as giving a directory away needs privileges: {error}");
        return;
    }
    assert!(!setup.is_cached("source", &setup.options()));
    assert!(entries(&setup.cache()).is_empty());
}

#[test]
fn threads_share_the_cache() {
    let setup = Setup::new();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let setup = &setup;
            scope.spawn(move || {
                for round in 0..50 {
                    let source = format!("source {}", (round + thread) % 5);
                    let compiled = setup.compiler.compile(&source, &setup.options()).unwrap();
                    assert!(told(&compiled).contains(&source));
                }
            });
        }
    });
    assert_eq!(entries(&setup.cache()).len(), 5, "and no temporary files");
}

/// Run by the test below in processes of its own, as the environment is one for all the threads of a process.
#[test]
#[ignore = "only a part of another test"]
fn compile_with_the_environments_cache() {
    let compiler = Compiler::from_driver(Fake::new("fake 1"));
    for round in 0..20 {
        let compiled = compiler.compile(&format!("source {round}"), &CompileOptions::new()).unwrap();
        println!("from the cache: {}", compiled.from_cache());
    }
}

#[test]
fn the_environment_places_the_cache_and_turns_it_off() {
    let setup = Setup::new();
    let start = |variable: &str, value: &Path| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "compile_with_the_environments_cache", "--nocapture"]);
        command.env_remove("ANABRANCH_CACHE").env("XDG_CACHE_HOME", setup.directory.path().join("base"));
        command.env(variable, value).stdout(std::process::Stdio::piped()).spawn().unwrap()
    };
    let cached = |child: std::process::Child| {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().matches("from the cache: true").count()
    };
    assert_eq!(cached(start("ANABRANCH_CACHE", Path::new("off"))), 0);
    assert_eq!(entries(setup.directory.path()), [""; 0].map(PathBuf::from));

    let together: Vec<_> = (0..4).map(|_| start("ANABRANCH_CACHE", &setup.cache())).collect();
    for child in together {
        assert!(cached(child) <= 20);
    }
    assert_eq!(cached(start("ANABRANCH_CACHE", &setup.cache())), 20);
    assert_eq!(entries(&setup.cache()).len(), 20);

    assert_eq!(cached(start("XDG_CACHE_HOME", &setup.directory.path().join("base"))), 0);
    assert_eq!(entries(&setup.directory.path().join("base/anabranch")).len(), 20);
}

#[cfg(feature = "host")]
#[test]
fn a_device_without_compiled_code_is_refused() {
    let instance = anabranch::Instance::builder().cuda(false).build().unwrap();
    let device = instance.device("host").unwrap();
    let setup = Setup::new();
    let error = setup.compiler.compile("", &setup.options().for_device(&device)).unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Argument, Status::NOT_SUPPORTED));
    assert!(error.to_string().contains("host:0"), "{error}");
}

/// NVRTC, or `None` where it is not installed, which is said.
fn nvrtc() -> Option<Compiler> {
    match Compiler::find() {
        Ok(compiler) => Some(compiler),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Absent);
            eprintln!("not tested with NVRTC: {error}");
            None
        }
    }
}

const SCALE: &str = r#"
template <typename T>
__global__ void scale(T *values, T by) { values[threadIdx.x] *= by; }

extern "C" __global__ void fill(int *values, int value) { values[threadIdx.x] = value + OFFSET; }
"#;

#[test]
fn nvrtc_compiles_once() {
    let Some(compiler) = nvrtc() else { return };
    let setup = Setup::new();
    assert!(compiler.identity().starts_with("NVRTC "), "{}", compiler.identity());
    assert!(compiler.version().0 >= 11);
    let newest = compiler.architectures().unwrap().into_iter().max().unwrap();
    let options = setup
        .options()
        .define("OFFSET", "1 + 1")
        .standard("c++17")
        .architecture(newest.to_string().parse().unwrap())
        .name_expression("scale<float>")
        .name_expression("fill");
    let first = compiler.compile(SCALE, &options).unwrap();
    let second = compiler.compile(SCALE, &options).unwrap();
    assert!(!first.from_cache() && second.from_cache());
    for compiled in [first, second] {
        let ptx = compiled.ptx().unwrap();
        assert!(ptx.contains(&format!(".target sm_{newest}")) && !ptx.ends_with('\0'));
        let scale = compiled.kernel_name("scale<float>").unwrap();
        assert!(scale.starts_with("_Z") && ptx.contains(scale), "{scale}");
        assert_eq!(compiled.kernel_name("fill"), Some("fill"));
    }
    let code = compiler.compile(SCALE, &options.output(OutputKind::Binary)).unwrap();
    assert!(code.binary().unwrap().starts_with(b"\x7fELF"));
}

#[test]
fn nvrtc_takes_every_option() {
    let Some(compiler) = nvrtc() else { return };
    let setup = Setup::new();
    let header = setup.write("a directory/number.h", "#define OFFSET 3\n");
    let options = setup.options().include_directory(header.parent().unwrap()).max_registers(64).fast_math(true);
    let source = format!("#include <number.h>\n{SCALE}");
    assert!(compiler.compile(&source, &options).is_ok());
    let lines = compiler.compile(&source, &options.clone().line_info(true)).unwrap();
    assert!(lines.ptx().unwrap().contains("kernel.cu"));
    let debug = compiler.compile(&source, &options.clone().debug(true)).unwrap();
    assert!(debug.ptx().unwrap().contains("debug"));
    assert!(compiler.compile(&source, &options.clone().option("--fmad=false")).is_ok());
    setup.write("a directory/number.h", "#define OFFSET wrong\n");
    let error = compiler.compile(&source, &options).unwrap_err();
    assert!(error.message().unwrap().contains("wrong"), "the cache notices: {error}");
}

#[test]
fn nvrtc_says_what_is_wrong() {
    let Some(compiler) = nvrtc() else { return };
    let options = CompileOptions::new().without_cache();
    let source = "#warning mind this\n__global__ void k() { nothing = 1; }";
    let error = compiler.compile(source, &options.clone().name("wrong.cu")).unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Compile, Status::INVALID_SOURCE));
    let message = error.message().unwrap();
    assert!(message.starts_with("wrong.cu(2): error") && message.contains("nothing"), "{message}");
    assert!(error.log().unwrap().contains("mind this") && error.log().unwrap().contains("1 error detected"));

    let missing = compiler.compile("#include <nowhere.h>", &options).unwrap_err();
    assert!(missing.message().unwrap().contains("nowhere.h"), "{missing}");

    let unknown = compiler.compile("", &options.option("--no-such-option")).unwrap_err();
    assert!(unknown.message().unwrap().contains("no-such-option"), "{unknown}");
}
