//! `cargo xtask bindings cuda`: from NVIDIA's headers to the files in the repository.

mod cuda_symbols;
mod render;
mod signature;

use std::collections::BTreeSet;
use std::path::Path;

use syn::{Expr, File, Item, Lit};

use crate::headers::{self, Selection};
use crate::{Outcome, formatting, generated, workspace};
use cuda_symbols::{
    CUDA_FUNCTION_TYPES, CUDA_FUNCTIONS, CUDA_MACROS, CUDA_TYPES, DefaultStream, Function, NVRTC_FUNCTIONS,
};
use signature::{Aliases, Signature};

/// Where the generated files live, from the root of the workspace.
const DESTINATION: &str = "crates/anabranch-cuda/src/ffi";

/// Generates every file and writes it, or with `check` compares it. False means that a compared file differs.
pub(crate) fn cuda(include: &Path, check: bool) -> Outcome<bool> {
    let root = workspace::root();
    let mut agreed = true;
    for (name, text) in driver_files(include)?.into_iter().chain(compiler_files(include)?) {
        let text = formatting::format(&root, &text)?;
        agreed &= generated::keep(&root, &format!("{DESTINATION}/{name}"), &text, check, "these headers")?;
    }
    Ok(agreed)
}

fn driver_files(include: &Path) -> Outcome<[(&'static str, String); 2]> {
    let function_types = CUDA_FUNCTIONS.iter().map(|function| function_type(function, ""));
    let file = headers::read(
        include,
        "cudaTypedefs.h",
        &Selection {
            types: function_types
                .chain(per_thread_types())
                .chain(CUDA_TYPES.iter().chain(CUDA_FUNCTION_TYPES).map(|name| (*name).to_owned()))
                .collect(),
            constants: CUDA_MACROS.iter().map(|name| (*name).to_owned()).collect(),
            ..Selection::default()
        },
    )?;
    let functions = driver_functions(&file)?;
    check_exports(include, &file, &functions)?;
    let version = cuda_version(&file)?;
    let in_table: BTreeSet<String> =
        CUDA_FUNCTIONS.iter().map(|function| function_type(function, "")).chain(per_thread_types()).collect();
    Ok([
        (
            "cuda_types.rs",
            render::preamble("The types and constants of the CUDA driver.", version) + &render::types(&file, &in_table),
        ),
        (
            "cuda_functions.rs",
            render::preamble("The functions of the CUDA driver.", version)
                + &render::table(
                    "CudaFunctions",
                    "The functions of the CUDA driver, each present if the loaded driver has it.",
                    "cuda_types",
                    &functions,
                ),
        ),
    ])
}

/// The name that `cudaTypedefs.h` gives to the type of this version of a function.
fn function_type(function: &Function, variant: &str) -> String {
    format!("PFN_{}_v{}{variant}", function.entry_point, function.since)
}

/// The names that it would give to per-thread variants. Those of functions older than per-thread streams are named
/// after CUDA 7.0, which added them.
fn per_thread_types() -> impl Iterator<Item = String> {
    CUDA_FUNCTIONS.iter().flat_map(|function| {
        let since_streams = Function { since: function.since.max(7000), ..*function };
        [function_type(&since_streams, "_ptsz"), function_type(&since_streams, "_ptds")]
    })
}

fn driver_functions(file: &File) -> Outcome<Vec<(Function, Signature)>> {
    let mut functions = Vec::with_capacity(CUDA_FUNCTIONS.len());
    for function in CUDA_FUNCTIONS {
        let name = function_type(function, "");
        let signature = signature::of_function_type(file, &name)
            .ok_or_else(|| format!("the headers have no {name}: no signature was introduced at that version"))?;
        let since_streams = Function { since: function.since.max(7000), ..*function };
        let has_variant = ["_ptsz", "_ptds"]
            .iter()
            .any(|variant| signature::of_function_type(file, &function_type(&since_streams, variant)).is_some());
        if has_variant != (function.default_stream == DefaultStream::LegacyVariant) {
            return Err(format!("{}: the mark for the default stream is wrong", function.rust_name).into());
        }
        functions.push((*function, signature));
    }
    Ok(functions)
}

/// Checks that each name under which a function is exported has the signature of the version it is listed with: the
/// loader falls back to the export, and a wrong pair would be called with wrong arguments.
fn check_exports(include: &Path, file: &File, functions: &[(Function, Signature)]) -> Outcome<()> {
    let exports = headers::read(
        include,
        "cuda.h",
        &Selection {
            functions: functions.iter().map(|(function, _)| function.exported.to_owned()).collect(),
            // Has the header declare every version of every function under the name that the library exports.
            definitions: vec!["__CUDA_API_VERSION_INTERNAL".to_owned()],
            ..Selection::default()
        },
    )?;
    let (aliases, export_aliases) = (Aliases::of(file), Aliases::of(&exports));
    for (function, expected) in functions {
        let Function { exported, since, .. } = function;
        let found =
            signature::of_function(&exports, exported).ok_or_else(|| format!("cuda.h does not declare {exported}"))?;
        let (expected, found) = (aliases.expand(expected), export_aliases.expand(&found));
        if expected != found {
            return Err(format!("{exported} is ({found:?}), but version {since} of it is ({expected:?})").into());
        }
    }
    Ok(())
}

fn compiler_files(include: &Path) -> Outcome<[(&'static str, String); 2]> {
    let file = headers::read(
        include,
        "nvrtc.h",
        &Selection {
            types: vec!["nvrtcResult".to_owned(), "nvrtcProgram".to_owned()],
            functions: NVRTC_FUNCTIONS.iter().map(|function| function.exported.to_owned()).collect(),
            ..Selection::default()
        },
    )?;
    let mut functions = Vec::with_capacity(NVRTC_FUNCTIONS.len());
    for function in NVRTC_FUNCTIONS {
        let signature = signature::of_function(&file, function.exported)
            .ok_or_else(|| format!("nvrtc.h does not declare {}", function.exported))?;
        functions.push((*function, signature));
    }
    // nvrtc.h does not say which release it is from, but the driver's header beside it does.
    let version = headers::read(
        include,
        "cuda.h",
        &Selection { constants: vec!["CUDA_VERSION".to_owned()], ..Selection::default() },
    )
    .and_then(|driver| cuda_version(&driver))?;
    Ok([
        (
            "nvrtc_types.rs",
            render::preamble("The types and constants of NVRTC.", version) + &render::types(&file, &BTreeSet::new()),
        ),
        (
            "nvrtc_functions.rs",
            render::preamble("The functions of NVRTC.", version)
                + &render::table(
                    "NvrtcFunctions",
                    "The functions of NVRTC, each present if the loaded library has it.",
                    "nvrtc_types",
                    &functions,
                ),
        ),
    ])
}

/// The release that headers are from, as `1000 * major + 10 * minor`.
pub(crate) fn cuda_version(file: &File) -> Outcome<u32> {
    let constant = file.items.iter().find_map(|item| match item {
        Item::Const(constant) if constant.ident == "CUDA_VERSION" => Some(&*constant.expr),
        _ => None,
    });
    match constant {
        Some(Expr::Lit(literal)) => match &literal.lit {
            Lit::Int(number) => Ok(number.base10_parse()?),
            _ => Err("CUDA_VERSION is not a number".into()),
        },
        _ => Err("cuda.h does not define CUDA_VERSION".into()),
    }
}
