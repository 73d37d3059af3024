//! Reading C headers: bindgen with the settings that every binding of this repository shares.

use std::path::Path;
use std::process::Command;

use crate::Outcome;

/// What to take from a header.
#[derive(Default)]
pub(crate) struct Selection {
    /// Patterns of type names.
    pub(crate) types: Vec<String>,
    /// Patterns of function names.
    pub(crate) functions: Vec<String>,
    /// Patterns of names of constants.
    pub(crate) constants: Vec<String>,
    /// Macros to define before the header is read.
    pub(crate) definitions: Vec<String>,
}

/// Reads `header` from the directory `include` and returns the selected items, and whatever they mention.
pub(crate) fn read(include: &Path, header: &str, selection: &Selection) -> Outcome<syn::File> {
    let path = include.join(header);
    if !path.is_file() {
        return Err(format!("there is no {header} in {}", include.display()).into());
    }
    let mut builder = bindgen::Builder::default()
        .header(path.to_string_lossy())
        .clang_arg(format!("-I{}", include.display()))
        // The library serves 64-bit systems only; the target is named so that the output does not depend on the
        // machine that generates it. Every other supported system lays these types out alike, as the size assertions
        // in the output check on each of them.
        .clang_arg("--target=x86_64-unknown-linux-gnu")
        // A library may return a number that is newer than these headers, and a Rust enum that holds an unknown value
        // is undefined behaviour. Constants of an integer type have no such trap.
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .allowlist_recursively(true)
        .derive_default(false)
        .generate_comments(false)
        .use_core()
        .ctypes_prefix("core::ffi")
        .formatter(bindgen::Formatter::None)
        .disable_header_comment();
    if let Some(directory) = compiler_headers() {
        builder = builder.clang_arg("-isystem").clang_arg(directory);
    }
    for definition in &selection.definitions {
        builder = builder.clang_arg(format!("-D{definition}"));
    }
    for pattern in &selection.types {
        builder = builder.allowlist_type(pattern);
    }
    for pattern in &selection.functions {
        builder = builder.allowlist_function(pattern);
    }
    for pattern in &selection.constants {
        builder = builder.allowlist_var(pattern);
    }
    Ok(syn::parse_file(&builder.generate()?.to_string())?)
}

/// Where the C compiler keeps `stddef.h` and its like: a libclang that comes without a compiler has none of its own.
fn compiler_headers() -> Option<String> {
    let output = Command::new("cc").arg("-print-file-name=include").output().ok()?;
    let directory = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Path::new(&directory).is_dir().then_some(directory)
}
