//! Modules: loading, finding kernels and variables, and lifetimes.

use crate::case::{Case, Need, Verdict, equal, holds, refused, status_of};
use crate::environment::Environment;
use crate::gate::Gate;
use crate::kernels;
use crate::live::Owner;
use anabranch::hal::{Live, ModuleHandle};
use anabranch::{Capabilities, CaptureMode, ContextFlags, DualModule, LaunchConfig, Module, Status};

const KERNELS: [&str; 11] =
    ["store", "add", "scale", "spin", "fault", "trap", "reverse", "indices", "read_table", "count_up", "mixed"];
const PARAMETERS: &[Need] = &[Need::Capability(Capabilities::PARAMETER_INFO)];

pub(super) const CASES: &[Case] = &[
    Case::new("module.kernel_names", "S1", kernel_names).needs(PARAMETERS),
    Case::new("module.missing_kernel", "X2", missing_kernel).needs(PARAMETERS),
    Case::new("module.empty_names", "X2", empty_names),
    Case::new("module.missing_variable", "X2", missing_variable),
    Case::new("module.names_of_another_kind", "X2", names_of_another_kind),
    Case::new("module.variable", "S1", variable),
    Case::new("module.variable_in_stream_order", "S1", variable_in_stream_order),
    Case::new("module.captured_variable", "G1", captured_variable),
    Case::new("module.variable_of_another_size", "X2", variable_of_another_size),
    Case::new("module.variables_are_its_own", "S1", variables_are_its_own),
    Case::new("module.parameters", "X2", parameters).needs(PARAMETERS),
    Case::new("module.kernel_outlives_it", "S1", kernel_outlives_it),
    Case::new("module.dropped_with_a_pending_launch", "S1", dropped_with_a_pending_launch),
    Case::new("module.without_code_for_the_device", "X2", without_code_for_the_device),
    Case::new("module.missing_file", "X2", missing_file),
    Case::new("module.null_handles", "X2", null_handles),
    Case::new("module.stream_of_another_context", "E4", stream_of_another_context),
];

fn kernel_names(environment: &Environment) -> Verdict {
    let mut names = environment.module().kernel_names()?;
    names.sort_unstable();
    let mut expected = KERNELS.map(str::to_owned).to_vec();
    expected.sort_unstable();
    equal("names", names, expected)
}

fn missing_kernel(environment: &Environment) -> Verdict {
    let Err(error) = environment.kernel("no_such_kernel") else {
        return holds("there is no such kernel", false);
    };
    equal("status", error.status(), Status::NOT_FOUND)?;
    let message = error.to_string();
    holds("the message names what was looked for", message.contains("no_such_kernel"))?;
    holds("the message names those there are", KERNELS.iter().all(|name| message.contains(name)))
}

fn empty_names(environment: &Environment) -> Verdict {
    refused("a kernel", environment.kernel(""), Status::INVALID_VALUE)?;
    refused("a variable", environment.module().global(""), Status::INVALID_VALUE)
}

fn missing_variable(environment: &Environment) -> Verdict {
    refused("the address", environment.module().global("no_such_variable"), Status::NOT_FOUND)?;
    let result = environment.module().set_global(&environment.stream()?, "no_such_variable", &[1u32]);
    refused("setting it", result, Status::NOT_FOUND)
}

fn names_of_another_kind(environment: &Environment) -> Verdict {
    refused("a variable of a kernel's name", environment.module().global("store"), Status::INVALID_VALUE)?;
    refused("a kernel of a variable's name", environment.kernel("table"), Status::NOT_FOUND)
}

fn variable(environment: &Environment) -> Verdict {
    let (stream, module) = (environment.stream()?, environment.module());
    let (address, bytes) = module.global("table")?;
    holds("it has an address", !address.is_null())?;
    equal("bytes", bytes, 16)?;
    let read_table = environment.kernel("read_table")?;
    let mut found = stream.allocate_zeroed::<u32>(4)?;
    for values in [[1u32, 2, 3, 4], [u32::MAX, 0, 0x1234_5678, 9]] {
        module.set_global(&stream, "table", &values)?;
        // SAFETY: `read_table` writes as many numbers as there are threads, and the variable has four.
        unsafe { stream.launch(&read_table, &LaunchConfig::new(1, 4), (&mut found,))? };
        equal("what the kernel read", stream.download(&found)?, values.to_vec())?;
    }
    Ok(())
}

/// Copies to a variable do not wait, and each launch reads what was copied before it.
fn variable_in_stream_order(environment: &Environment) -> Verdict {
    let (stream, module) = (environment.stream()?, environment.module());
    let read_table = environment.kernel("read_table")?;
    let tables = [[1u32, 2, 3, 4], [5, 6, 7, 8]];
    let sources = tables.iter().map(|table| stream.upload(table)).collect::<Result<Vec<_>, _>>()?;
    let mut found = [stream.allocate_zeroed::<u32>(4)?, stream.allocate_zeroed::<u32>(4)?];
    let gate = Gate::shut(environment, &stream)?;
    for (source, found) in sources.iter().zip(&mut found) {
        module.copy_to_global(&stream, "table", source)?;
        // SAFETY: `read_table` writes as many numbers as there are threads, and the variable has four.
        unsafe { stream.launch(&read_table, &LaunchConfig::new(1, 4), (found,))? };
    }
    equal("querying the stream", stream.query()?, false)?;
    gate.open();
    for (table, found) in tables.iter().zip(&found) {
        equal("what a launch read", stream.download(found)?, table.to_vec())?;
    }
    Ok(())
}

/// A captured copy to a variable reads its source at every launch.
fn captured_variable(environment: &Environment) -> Verdict {
    let (stream, module) = (environment.stream()?, environment.module());
    let read_table = environment.kernel("read_table")?;
    let mut source = environment.context().allocate_pinned::<u32>(4)?;
    let mut found = stream.allocate_zeroed::<u32>(4)?;
    let graph = stream.capture_executable(CaptureMode::Global, |scope| {
        module.copy_to_global(scope, "table", &source)?;
        // SAFETY: `read_table` writes as many numbers as there are threads, and the variable has four.
        unsafe { scope.launch(&read_table, &LaunchConfig::new(1, 4), (&mut found,)) }
    })?;
    for first in [1u32, 10, 100] {
        let table: Vec<u32> = (first..first + 4).collect();
        source.write(|source| source.copy_from_slice(&table))?;
        graph.launch(&stream)?;
        equal("what a launch read", stream.download(&found)?, table)?;
    }
    Ok(())
}

fn variable_of_another_size(environment: &Environment) -> Verdict {
    let (stream, module) = (environment.stream()?, environment.module());
    refused("too few", module.set_global(&stream, "table", &[1u32; 3]), Status::INVALID_VALUE)?;
    refused("too many", module.set_global(&stream, "table", &[1u32; 5]), Status::INVALID_VALUE)?;
    Ok(module.set_global(&stream, "table", &[1u64; 2])?)
}

fn variables_are_its_own(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let modules = [kernels::program().load(environment.context())?, kernels::program().load(environment.context())?];
    for (module, first) in modules.iter().zip([10u32, 20]) {
        module.set_global(&stream, "table", &[first, first + 1, first + 2, first + 3])?;
    }
    for (module, first) in modules.iter().zip([10u32, 20]) {
        let mut found = stream.allocate_zeroed::<u32>(4)?;
        // SAFETY: `read_table` writes as many numbers as there are threads, and the variable has four.
        unsafe { stream.launch(&module.kernel("read_table")?, &LaunchConfig::new(1, 4), (&mut found,))? };
        equal("what the kernel read", stream.download(&found)?, (first..first + 4).collect())?;
    }
    Ok(())
}

fn parameters(environment: &Environment) -> Verdict {
    let of = |name: &str| {
        let kernel = environment.kernel(name)?;
        Ok(kernel.parameters().unwrap_or_default().iter().map(|each| (each.offset, each.size)).collect::<Vec<_>>())
    };
    let describe = |name: &str| of(name).map_err(|error: anabranch::Error| error);
    equal("`store`", describe("store")?, vec![(0, 8), (8, 4)])?;
    equal("`trap`", describe("trap")?, vec![])?;
    let mixed = vec![(0, 8), (8, 1), (10, 2), (12, 4), (16, 8), (24, 4), (32, 8), (40, 24)];
    equal("`mixed`, whose parameters are aligned to their sizes", describe("mixed")?, mixed)
}

fn kernel_outlives_it(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let module = kernels::program().load(environment.context())?;
    let store = module.kernel("store")?;
    drop(module);
    anabranch::flush_deferred_drops();
    let mut word = stream.allocate_zeroed::<u32>(1)?;
    // SAFETY: `store` writes only the number that its first argument points to.
    unsafe { stream.launch(&store, &LaunchConfig::new(1, 1), (&mut word, 3u32))? };
    equal("result", stream.download(&word)?, vec![3])
}

fn dropped_with_a_pending_launch(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let module = kernels::program().load(environment.context())?;
    let store = module.kernel("store")?;
    let mut word = stream.allocate_zeroed::<u32>(1)?;
    // SAFETY: `store` writes only the number that its first argument points to.
    unsafe { stream.launch(&store, &LaunchConfig::new(1, 1), (&mut word, 1u32))? };
    let gate = Gate::shut(environment, &stream)?;
    // SAFETY: `store` writes only the number that its first argument points to.
    unsafe { stream.launch(&store, &LaunchConfig::new(1, 1), (&mut word, 4u32))? };
    drop((module, store));
    equal("complete while blocked", stream.query()?, false)?;
    gate.open();
    equal("result", stream.download(&word)?, vec![4])?;
    anabranch::flush_deferred_drops();
    Ok(())
}

fn without_code_for_the_device(environment: &Environment) -> Verdict {
    refused("loading it", DualModule::new().load(environment.context()), Status::NO_BINARY_FOR_GPU)
}

fn missing_file(environment: &Environment) -> Verdict {
    for path in ["no such file.ptx", "no such file.cubin"] {
        // SAFETY: there is no such file.
        let loaded = unsafe { Module::load_file(environment.context(), path) };
        refused(path, loaded, Status::FILE_NOT_FOUND)?;
    }
    Ok(())
}

fn null_handles(environment: &Environment) -> Verdict {
    let context = environment.context();
    let (driver, handle) = (context.device().driver(), context.live());
    let null = Live::<ModuleHandle>::NULL;
    let statuses = [
        status_of(driver.module_function(&handle.into(), null, "store")),
        // SAFETY: a null handle is refused.
        status_of(unsafe { driver.module_unload(&handle.into(), null.handle()) }),
        status_of(driver.function_info(&handle.into(), Live::<anabranch::hal::FunctionHandle>::NULL)),
    ];
    equal("statuses", statuses, [Status::INVALID_HANDLE; 3])
}

fn stream_of_another_context(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let result = environment.module().set_global(&other.create_stream()?, "table", &[0u32; 4]);
    refused("setting a variable", result, Status::INVALID_HANDLE)
}
