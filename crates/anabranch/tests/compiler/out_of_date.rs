//! Definitions, and words that are pasted from pieces, which can make an entry of the cache out of date.

use super::*;

/// Compiles twice. The cache must not be used.
#[track_caller]
fn assert_not_cached(source: &str, change: impl Fn(CompileOptions) -> CompileOptions) {
    let setup = Setup::new();
    let options = change(setup.options());
    for _ in 0..2 {
        assert!(!setup.is_cached(source, &options), "{source} {options:?}");
    }
    assert!(entries(&setup.cache()).is_empty(), "{source} {options:?}");
}

/// Compiles twice. The second result must come from the cache.
#[track_caller]
fn assert_cached(source: &str, change: impl Fn(CompileOptions) -> CompileOptions) {
    let setup = Setup::new();
    let options = change(setup.options());
    assert!(!setup.is_cached(source, &options), "{source} {options:?}");
    assert!(setup.is_cached(source, &options), "{source} {options:?}");
}

#[test]
fn safety_155_a_definition_that_stands_for_the_time_is_not_cached() {
    for time in ["__TIME__", "__DATE__", "__TIMESTAMP__", "1 + f(__TIME__)", "__TI??/\nME__"] {
        assert_not_cached("NOW", |options| options.define("NOW", time));
        assert_not_cached("NOW(1)", |options| options.define("NOW(x)", time));
        for start in ["-DNOW=", "-D NOW=", " -DNOW=", "-DNOW(x)=", "--define-macro=NOW="] {
            assert_not_cached("NOW", |options| options.option(format!("{start}{time}")));
        }
        for option in ["-D", "--define-macro"] {
            assert_not_cached("NOW", |options| options.option(option).option(format!("NOW={time}")));
        }
    }
    assert_not_cached("", |options| options.name_expression("at<hash(__TIME__)>"));
}

#[test]
fn safety_155_a_file_that_a_definition_asks_for_is_noticed() {
    let setup = Setup::new();
    let plain = || setup.options().include_directory(setup.directory.path().join("include"));
    let all = [
        plain().define("HAS(x)", "__has_include(x)"),
        plain().define("HAS", "__has_include"),
        plain().define("HAS(x)", "__has_include_next(x)"),
        plain().define("HAS(x)", "__has_include(<a.h>)"),
        plain().define("HAS(x)", "__has_include(\"a.h\")"),
        plain().define("HAS(x)", "__has_embed(x)"),
        plain().option("-DHAS=__has_include"),
        plain().option("-D HAS(x)=__has_include(x)"),
        plain().option("--define-macro=HAS(x)=__has_include(x)"),
    ];
    let source = "#if HAS(\"a.h\")\n#endif";
    for options in &all {
        assert!(!setup.is_cached(source, options), "{options:?}");
    }
    setup.write("include/a.h", "");
    for options in &all {
        assert!(!setup.is_cached(source, options), "{options:?}");
    }
}

/// A name in quotation marks is searched for beside the file where the macro is used.
#[test]
fn safety_155_a_file_beside_the_user_of_a_macro_is_noticed() {
    let setup = Setup::new();
    let header = setup.write("include/deep/user.h", "#if HAS\n#endif");
    let options = setup.options().include_directory(header.parent().unwrap().parent().unwrap());
    let source = "#define HAS __has_include(\"a.h\")\n#include <deep/user.h>";
    assert!(!setup.is_cached(source, &options));
    setup.write("include/deep/a.h", "");
    assert!(!setup.is_cached(source, &options));
}

const PASTED: [&str; 12] = [
    "#define NOW __TI##ME__",
    "#define NOW __DA ## TE__",
    "#define NOW _##_TIME__",
    "#define NOW __TI%:%:ME__",
    "#define NOW __TI#\\\n#ME__",
    "#define NOW __T\\\nI##ME__",
    "#define CAT(a, b) a##b\nCAT(__TI, ME__)",
    "#define CAT(a, b, c) a##b%:%:c\nCAT(, __TIMEST, AMP__)",
    "#define HAS __has_inc##lude",
    "#define HAS __has_inc%:%:lude",
    "#define CAT(a, b) a##b\n#if CAT(__has_, include)(<a.h>)\n#endif",
    // A macro that is built into NVRTC.
    "_NV_CONCAT_EVAL(__TI, ME__)",
];

#[test]
fn safety_155_a_pasted_word_is_not_cached() {
    for text in PASTED {
        assert_not_cached(text, |options| options);
        let setup = Setup::new();
        let header = setup.write("include/a.h", text);
        let options = setup.options().include_directory(header.parent().unwrap());
        for _ in 0..2 {
            assert!(!setup.is_cached("#include <a.h>", &options), "{text}");
        }
    }
}

#[test]
fn safety_155_a_word_that_is_pasted_by_definitions_is_not_cached() {
    for piece in ["_", "__", "__T", "__TI", "__DAT", "__has_inc"] {
        assert_not_cached("#define CAT(a, b) a##b", |options| options.define("PIECE", piece));
        assert_not_cached(piece, |options| options.define("CAT(a, b)", "a##b"));
    }
    assert_not_cached("NOW", |options| options.define("NOW", "__TI##ME__"));
    assert_not_cached("NOW", |options| options.option("-DNOW=__TI%:%:ME__"));
    assert_not_cached("HAS(<a.h>)", |options| options.option("-D").option("HAS=__has_inc##lude"));
}

#[test]
fn ordinary_definitions_and_pasted_words_stay_cached() {
    for source in [
        "#define CAT(a, b) a##b\nint CAT(first, _second), CAT(__T1, ME__), CAT(___, a);",
        "#define CAT(a, b) a %:%: b\n__global__ void CAT(scale, _float)(float *__restrict__ values) {}",
        "#define CALL(...) call(0, ##__VA_ARGS__)",
        "#ifdef __has_include\n#endif\n#if defined(__has_include) && __has_include(<a.h>)\n#endif",
        "asm(\"{ .reg .pred __$temp3; }\");",
    ] {
        assert_cached(source, |options| options);
        assert_cached(source, |options| options.define("A", "a##b").define("TIME", "include"));
        assert_cached(source, |options| options.option("-DINCLUDE=include").option("-D A(a, b)=a##b"));
        assert_cached(source, |options| options.option("-D").option("A=1").name_expression("scale<float>"));
    }
}

#[test]
fn safety_155_nvrtc_finds_the_file_that_was_not_there() {
    let Some(compiler) = nvrtc() else { return };
    let setup = Setup::new();
    let directory = setup.directory.path().join("include");
    std::fs::create_dir_all(&directory).unwrap();
    let plain = || setup.options().include_directory(&directory);
    let kernel =
        "(\"a.h\")\n#define V 1\n#else\n#define V 2\n#endif\nextern \"C\" __global__ void k(int *p) { *p = V; }";
    let all = [
        ("#if HAS", plain().define("HAS", "__has_include")),
        ("#if HAS", plain().define("HAS(x)", "__has_include(x)")),
        ("#define CAT(a, b) a##b\n#if CAT(__has_inc, lude)", plain()),
    ];
    for (start, options) in all {
        let source = format!("{start}{kernel}");
        let before = compiler.compile(&source, &options).unwrap();
        let header = setup.write("include/a.h", "");
        let after = compiler.compile(&source, &options).unwrap();
        assert!(!after.from_cache() && after.ptx() != before.ptx(), "{source} {options:?}");
        std::fs::remove_file(header).unwrap();
    }
}
