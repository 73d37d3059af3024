//! What `anabranch inspect` shows of a module.

use anabranch_ptx::{Function, Module, PROVIDED_FUNCTIONS, Parameter, Space, Variable};
use serde_json::{Value, json};
use std::fmt::{self, Write};

/// Global and constant variables.
fn variables(module: &Module) -> impl Iterator<Item = &Variable> {
    let is_global = |variable: &&Variable| matches!(variable.space, Space::Global | Space::Constant);
    module.variables().iter().filter(is_global)
}

/// Functions that the file declares and does not define.
fn externals(module: &Module) -> impl Iterator<Item = &Function> {
    module.functions().iter().filter(|function| !function.defined)
}

fn is_provided(function: &Function) -> bool {
    PROVIDED_FUNCTIONS.contains(&&*function.name)
}

fn name_of(space: Space) -> &'static str {
    if space == Space::Constant { "constant" } else { "global" }
}

/// Bytes and a type are told apart where the type is that of the elements of something larger.
fn type_of(parameter: &Parameter) -> String {
    match parameter.scalar.bytes() {
        bytes if bytes == parameter.bytes => parameter.scalar.name().to_owned(),
        bytes => format!("{}[{}]", parameter.scalar.name(), parameter.bytes.checked_div(bytes).unwrap_or(0)),
    }
}

/// A module for programs.
pub(crate) fn as_json(module: &Module) -> Value {
    let variables = variables(module).map(|variable| {
        json!({ "name": variable.name, "space": name_of(variable.space), "bytes": variable.bytes, "alignment": variable.alignment })
    });
    let externals = externals(module)
        .map(|function| json!({ "name": function.name, "line": function.line, "executable": is_provided(function) }));
    json!({
        "version": [module.version.0, module.version.1],
        "targets": module.targets,
        "kernels": module.kernels().map(kernel_as_json).collect::<Vec<Value>>(),
        "variables": variables.collect::<Vec<Value>>(),
        "external_functions": externals.collect::<Vec<Value>>(),
    })
}

fn kernel_as_json(kernel: &Function) -> Value {
    let parameters = kernel.parameters.iter().map(|parameter| {
        json!({
            "name": parameter.name,
            "type": type_of(parameter),
            "bytes": parameter.bytes,
            "offset": parameter.offset,
            "alignment": parameter.alignment,
        })
    });
    let registers = kernel.registers.iter().map(|(scalar, count)| (scalar.name().to_owned(), json!(count)));
    let refusals = kernel.refusals.iter().map(|refusal| json!({ "line": refusal.line, "reason": refusal.what }));
    json!({
        "name": kernel.name,
        "line": kernel.line,
        "parameters": parameters.collect::<Vec<Value>>(),
        "parameter_bytes": kernel.parameter_bytes,
        "registers": registers.collect::<serde_json::Map<String, Value>>(),
        "shared_bytes": kernel.shared_bytes,
        "local_bytes": kernel.local_bytes,
        "most_threads": kernel.most_threads(),
        "required_block": kernel.required_block(),
        "not_executable": refusals.collect::<Vec<Value>>(),
    })
}

/// A module for people to read.
pub(crate) struct Shown<'a>(pub(crate) &'a Module);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let module = self.0;
        let (major, minor) = module.version;
        write!(formatter, "PTX {major}.{minor} for {}", module.targets.join(", "))?;
        if module.kernels().next().is_none() {
            formatter.write_str("\nno kernels")?;
        }
        module.kernels().try_for_each(|kernel| show_kernel(formatter, kernel))?;
        for variable in variables(module) {
            let Variable { name, space, bytes, .. } = variable;
            write!(formatter, "\n{} variable {name}: {bytes} bytes", name_of(*space))?;
        }
        externals(module).try_for_each(|function| {
            let Function { name, line, .. } = function;
            let has = if is_provided(function) { "has" } else { "does not have" };
            write!(formatter, "\nexternal function {name}, line {line}: the software device {has} it")
        })
    }
}

fn show_kernel(formatter: &mut fmt::Formatter<'_>, kernel: &Function) -> fmt::Result {
    write!(formatter, "\nkernel {}, line {}", kernel.name, kernel.line)?;
    for (number, parameter) in kernel.parameters.iter().enumerate() {
        let (number, bytes) = (number + 1, parameter.bytes);
        write!(formatter, "\n  parameter {number:<10} {}: {}, {bytes} bytes", parameter.name, type_of(parameter))?;
    }
    let mut line = |name: &str, value: String| write!(formatter, "\n  {name:<20} {value}");
    let mut registers = String::new();
    for (scalar, count) in &kernel.registers {
        let separator = if registers.is_empty() { "" } else { ", " };
        write!(registers, "{separator}{count} {}", scalar.name())?;
    }
    line("registers", if registers.is_empty() { "none".to_owned() } else { registers })?;
    line("shared memory", format!("{} bytes", kernel.shared_bytes))?;
    if kernel.local_bytes > 0 {
        line("local memory", format!("{} bytes for each thread", kernel.local_bytes))?;
    }
    if let Some([x, y, z]) = kernel.required_block() {
        line("block", format!("{x} x {y} x {z} threads"))?;
    } else if let Some(most) = kernel.most_threads() {
        line("block", format!("at most {most} threads"))?;
    }
    if kernel.refusals.is_empty() {
        return line("software device", "can execute it".to_owned());
    }
    for refusal in &kernel.refusals {
        line("software device", format!("cannot execute line {}: {}", refusal.line, refusal.what))?;
    }
    Ok(())
}
