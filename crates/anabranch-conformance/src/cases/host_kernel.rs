//! Kernels that are Rust closures, on devices that support them.

use crate::case::{Case, Failed, Need, Verdict, equal, refused};
use crate::environment::Environment;
use anabranch::{Block, Capabilities, Context, ContextFlags, HostArguments, HostFunction, HostModule};
use anabranch::{LaunchConfig, Module, Status};

const CLOSURES: &[Need] = &[Need::Capability(Capabilities::HOST_FUNCTIONS)];

pub(super) const CASES: &[Case] = &[
    Case::new("host_kernel.stages_are_grid_wide_barriers", "S1", stages_are_grid_wide_barriers).needs(CLOSURES),
    Case::new("host_kernel.static_shared_memory", "S1", static_shared_memory).needs(CLOSURES),
    Case::new("host_kernel.captures_what_it_needs", "S1", captures_what_it_needs).needs(CLOSURES),
    Case::new("host_kernel.writes_what_is_only_read", "X1", writes_what_is_only_read).needs(CLOSURES),
    Case::new("host_kernel.reads_an_argument_of_another_size", "X1", reads_an_argument_of_another_size).needs(CLOSURES),
    Case::new("host_kernel.uses_a_number_as_memory", "X1", uses_a_number_as_memory).needs(CLOSURES),
    Case::new("host_kernel.memory_of_another_alignment", "X1", memory_of_another_alignment).needs(CLOSURES),
];

fn load(context: &Context, function: HostFunction) -> Result<Module, Failed> {
    Ok(Module::load_host(context, &HostModule::new().with_function(function))?)
}

/// Each block writes its own element. Then each block reads all elements.
fn stages_are_grid_wide_barriers(environment: &Environment) -> Verdict {
    const BLOCKS: u32 = 32;
    let function = HostFunction::new("sum", &[8, 8], |block, arguments| {
        let index = block.index()[0] as usize;
        arguments.slice::<u32>(0).set(index, index as u32 + 1);
    })
    .then(|block, arguments| {
        let elements = arguments.slice::<u32>(0);
        let sum = (0..elements.len()).map(|index| elements.get(index)).sum();
        arguments.slice::<u32>(1).set(block.index()[0] as usize, sum);
    });
    let sum = load(environment.context(), function)?.kernel("sum")?;
    let stream = environment.stream()?;
    for _ in 0..20 {
        let mut elements = stream.allocate_zeroed::<u32>(BLOCKS as usize)?;
        let mut sums = stream.allocate_zeroed::<u32>(BLOCKS as usize)?;
        let config = LaunchConfig::new(BLOCKS, 256);
        // SAFETY: the kernel is safe code.
        unsafe { stream.launch(&sum, &config, (&mut elements, &mut sums))? };
        equal("sums", stream.download(&sums)?, vec![BLOCKS * (BLOCKS + 1) / 2; BLOCKS as usize])?;
    }
    Ok(())
}

fn static_shared_memory(environment: &Environment) -> Verdict {
    let function = HostFunction::new("sizes", &[8], |block, arguments| {
        let shared = block.shared().len() as u32;
        arguments.slice::<u32>(0).set(0, shared);
    })
    .with_static_shared_bytes(64);
    let sizes = load(environment.context(), function)?.kernel("sizes")?;
    equal("what the kernel says", sizes.info()?.static_shared_bytes, 64)?;
    let stream = environment.stream()?;
    let mut found = stream.allocate_zeroed::<u32>(1)?;
    let config = LaunchConfig::new(1, 1).dynamic_shared_bytes(36);
    // SAFETY: the kernel is safe code.
    unsafe { stream.launch(&sizes, &config, (&mut found,))? };
    equal("what it has", stream.download(&found)?, vec![100])
}

fn captures_what_it_needs(environment: &Environment) -> Verdict {
    let table: Vec<u32> = (0..100).map(|index| index * index).collect();
    let expected = table.clone();
    let function = HostFunction::new("look_up", &[8], move |block, arguments| {
        let elements = arguments.slice::<u32>(0);
        block.phase(|thread, _| elements.set(thread.global_x(), table[thread.global_x()]));
    });
    let look_up = load(environment.context(), function)?.kernel("look_up")?;
    let stream = environment.stream()?;
    let mut found = stream.allocate_zeroed::<u32>(100)?;
    // SAFETY: the kernel is safe code.
    unsafe { stream.launch(&look_up, &LaunchConfig::new(10, 10), (&mut found,))? };
    equal("contents", stream.download(&found)?, expected)
}

/// Runs a kernel that must fail in a separate context, which is then lost. Other contexts are not affected.
fn fails(
    environment: &Environment,
    status: Status,
    body: impl Fn(&mut Block<'_>, &HostArguments<'_>) + Send + Sync + 'static,
) -> Verdict {
    let context = environment.device().create_context(ContextFlags::empty())?;
    let kernel = load(&context, HostFunction::new("fails", &[8, 4], body))?.kernel("fails")?;
    let stream = context.create_stream()?;
    let memory = stream.upload(&[1u32, 2, 3])?;
    // SAFETY: the kernel is safe code.
    unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 1), (memory.slice(1..)?, 5u32))? };
    let Err(error) = stream.synchronize() else {
        return Err(Failed("synchronizing succeeded".to_owned()));
    };
    equal("synchronizing", error.status(), status)?;
    equal("the context is lost", error.is_sticky(), true)?;
    refused("afterwards", context.create_event(), status)?;
    let other = environment.stream()?;
    equal("another context", other.download(&other.upload(&[4u8])?)?, vec![4])
}

fn writes_what_is_only_read(environment: &Environment) -> Verdict {
    fails(environment, Status::ILLEGAL_ADDRESS, |_, arguments| arguments.slice::<u32>(0).set(0, 1))
}

fn reads_an_argument_of_another_size(environment: &Environment) -> Verdict {
    fails(environment, Status::LAUNCH_FAILED, |_, arguments| {
        std::hint::black_box(arguments.scalar::<u64>(1));
    })
}

fn uses_a_number_as_memory(environment: &Environment) -> Verdict {
    fails(environment, Status::ILLEGAL_ADDRESS, |_, arguments| {
        std::hint::black_box(arguments.slice::<u32>(1).len());
    })
}

fn memory_of_another_alignment(environment: &Environment) -> Verdict {
    fails(environment, Status::MISALIGNED_ADDRESS, |_, arguments| {
        std::hint::black_box(arguments.slice::<u64>(0).get(0));
    })
}
