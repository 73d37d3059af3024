//! Every method that two threads can call at the same time is in the table.

use crate::table;
use std::collections::BTreeSet;

/// What is in `public-api.txt` and not in the table, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("Architecture::new", "plain data"),
    ("Compiler::from_driver", "makes a value of what is passed, and touches no state; the world is made with it"),
    ("EdgeDescription::from", "plain data: a description does not change"),
    ("EdgeDescription::kind", "plain data: a description does not change"),
    ("EdgeDescription::to", "plain data: a description does not change"),
    ("GraphDescription::edges", "plain data: a description does not change"),
    ("GraphDescription::nodes", "plain data: a description does not change"),
    ("NodeDescription::graphs", "plain data: a description does not change"),
    ("NodeDescription::kind", "plain data: a description does not change"),
    ("NodeDescription::label", "plain data: a description does not change"),
    ("NodeDescription::number", "plain data: a description does not change"),
    ("NodeDescription::parameters", "plain data: a description does not change"),
    ("dlpack::ManagedTensor::data_type", "reads what does not change; needs a feature, and is in `tests/dlpack.rs`"),
    ("dlpack::ManagedTensor::device", "reads what does not change; needs a feature, and is in `tests/dlpack.rs`"),
    ("dlpack::ManagedTensor::device_of", "reads what does not change; needs a feature, and is in `tests/dlpack.rs`"),
    ("dlpack::ManagedTensor::export", "takes the buffer itself; needs a feature, and is in `tests/dlpack.rs`"),
    ("dlpack::ManagedTensor::export_part", "takes the buffer itself; needs a feature, and is in `tests/dlpack.rs`"),
    ("dlpack::ManagedTensor::is_read_only", "reads what does not change; needs a feature, and is in `tests/dlpack.rs`"),
    ("dlpack::ManagedTensor::shape", "reads what does not change; needs a feature, and is in `tests/dlpack.rs`"),
    ("dlpack::ManagedTensor::strides", "reads what does not change; needs a feature, and is in `tests/dlpack.rs`"),
    ("dlpack::ManagedTensor::version", "reads what does not change; needs a feature, and is in `tests/dlpack.rs`"),
];

/// The types of `anabranch-core` that `anabranch` exports and that have methods, as that crate's list names them.
const EXPORTED: &[&str] = &["capture_mode::CaptureModeGuard", "error::Error"];

/// Methods of those types, as above.
const EXCEPTIONS_OF_CORE: &[(&str, &str)] = &[
    ("CaptureModeGuard::enter", "not reachable through `anabranch`, whose function for it is in the table"),
    ("Error::hint", "plain data: an error does not change"),
    ("Error::is_asynchronous", "plain data: an error does not change"),
    ("Error::is_sticky", "plain data: an error does not change"),
    ("Error::kind", "plain data: an error does not change"),
    ("Error::location", "plain data: an error does not change"),
    ("Error::log", "plain data: an error does not change"),
    ("Error::message", "plain data: an error does not change"),
    ("Error::operation", "plain data: an error does not change"),
    ("Error::place", "plain data: an error does not change"),
    ("Error::status", "plain data: an error does not change"),
];

/// `Type::method` of a safe function that takes `&self` or no receiver at all, without generic parameters.
fn shared_function(line: &str, crate_name: &str) -> Option<String> {
    let rest = ["pub fn ", "pub const fn ", "pub async fn "].iter().find_map(|kind| line.strip_prefix(kind))?;
    let rest = rest.strip_prefix(crate_name)?.strip_prefix("::")?;
    let (mut depth, mut name, mut arguments) = (0, String::new(), "");
    for (at, letter) in rest.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 => {
                arguments = &rest[at + 1..];
                break;
            }
            letter if depth == 0 => name.push(letter),
            _ => {}
        }
    }
    let is_exclusive = arguments.starts_with("&mut self") || arguments.starts_with("self");
    (!is_exclusive).then_some(name)
}

fn list(file: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::read_to_string(path).unwrap()
}

pub(crate) fn assert_complete() {
    let own = list("public-api.txt");
    let mut functions: BTreeSet<String> = own.lines().filter_map(|line| shared_function(line, "anabranch")).collect();
    let core = list("../anabranch-core/public-api.txt");
    for exported in EXPORTED {
        let (module, name) = exported.split_once("::").unwrap();
        let of_type = core.lines().filter_map(|line| shared_function(line, &format!("anabranch_core::{module}")));
        functions.extend(of_type.filter(|function| function.starts_with(&format!("{name}::"))));
    }
    assert!(functions.len() > 200, "{functions:?}");
    let calls: BTreeSet<&str> = table::all().iter().map(|call| call.name).collect();
    assert_eq!(calls.len(), table::all().len(), "a call is in the table twice");
    let exceptions: BTreeSet<&str> = EXCEPTIONS.iter().chain(EXCEPTIONS_OF_CORE).map(|&(name, _)| name).collect();
    let missing: Vec<_> =
        functions.iter().filter(|name| !calls.contains(name.as_str()) && !exceptions.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "neither in the table of calls nor an exception: {missing:?}");
    let needless: Vec<_> =
        exceptions.iter().filter(|name| calls.contains(*name) || !functions.contains(**name)).collect();
    assert!(needless.is_empty(), "exceptions that are none: {needless:?}");
}
