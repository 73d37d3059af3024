//! Images of modules, valid and invalid.

use crate::case::{Case, Failed, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use anabranch::{Capabilities, HostFunction, HostModule, LaunchConfig, Module, Status};

const CUDA: &[Need] = &[Need::Capability(Capabilities::CUDA_MODULES)];
const PTX: &[Need] = &[Need::Capability(Capabilities::PTX_MODULES)];

pub(super) const CASES: &[Case] = &[
    Case::new("module.ptx", "X2", ptx).needs(PTX),
    Case::new("module.ptx_that_is_none", "X2", ptx_that_is_none).needs(PTX),
    Case::new("module.ptx_with_an_error", "X2", ptx_with_an_error).needs(PTX),
    Case::new("module.ptx_of_the_future", "X2", ptx_of_the_future).needs(PTX),
    Case::new("module.ptx_with_a_zero_byte", "X2", ptx_with_a_zero_byte).needs(PTX),
    Case::new("module.binary_that_is_none", "X2", binary_that_is_none).needs(CUDA),
    Case::new("module.binary_where_there_is_no_gpu", "X2", binary_where_there_is_no_gpu)
        .needs(&[Need::Without(Capabilities::CUDA_MODULES)]),
    Case::new("module.closures_on_a_gpu", "X2", closures_on_a_gpu)
        .needs(&[Need::Without(Capabilities::HOST_FUNCTIONS)]),
];

fn text(version: &str, target: &str, rest: &str) -> String {
    format!(".version {version}\n.target {target}\n.address_size 64\n{rest}\n")
}

const NOTHING: &str = ".visible .entry nothing() { ret; }";

fn ptx(environment: &Environment) -> Verdict {
    let module = Module::load_ptx(environment.context(), &text("8.0", "sm_70", NOTHING))?;
    let (kernel, stream) = (module.kernel("nothing")?, environment.stream()?);
    // SAFETY: the kernel does nothing.
    unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 1), ())? };
    stream.synchronize()?;
    let empty = Module::load_ptx(environment.context(), &text("8.0", "sm_70", ""))?;
    refused("a kernel of a module without any", empty.kernel("nothing"), Status::NOT_FOUND)
}

fn ptx_that_is_none(environment: &Environment) -> Verdict {
    for (what, ptx) in [("nothing", ""), ("a comment", "// nothing but this\n"), ("prose", "this is no PTX")] {
        refused(what, Module::load_ptx(environment.context(), ptx), Status::INVALID_IMAGE)?;
    }
    Ok(())
}

fn ptx_with_an_error(environment: &Environment) -> Verdict {
    let context = environment.context();
    let bogus = text("8.0", "sm_70", ".visible .entry bad() { bogus.u32 1; ret; }");
    let Err(error) = Module::load_ptx(context, &bogus) else {
        return Err(Failed("an unknown instruction was accepted".to_owned()));
    };
    equal("an unknown instruction", error.status(), Status::INVALID_PTX)?;
    holds("the assembler's log names it", error.log().is_some_and(|log| log.contains("bogus")))?;
    let rest = ".extern .func missing();\n.visible .entry bad() { call missing, (); ret; }";
    refused(
        "a call of an undefined function",
        Module::load_ptx(context, &text("8.0", "sm_70", rest)),
        Status::INVALID_PTX,
    )
}

fn ptx_of_the_future(environment: &Environment) -> Verdict {
    let load = |version, target| Module::load_ptx(environment.context(), &text(version, target, NOTHING));
    refused("a later version", load("99.0", "sm_70"), Status::UNSUPPORTED_PTX_VERSION)?;
    refused("a later target", load("8.0", "sm_999"), Status::INVALID_PTX)
}

fn ptx_with_a_zero_byte(environment: &Environment) -> Verdict {
    let ptx = text("8.0", "sm_70", NOTHING) + "\0";
    refused("a zero byte", Module::load_ptx(environment.context(), &ptx), Status::INVALID_PTX)
}

fn binary_that_is_none(environment: &Environment) -> Verdict {
    let magic_and_zeros = [&b"\x7fELF"[..], &[0; 200]].concat();
    for image in [&b""[..], b"this is no cubin", &[0; 4096], &magic_and_zeros] {
        // SAFETY: what is no image at all is refused before any of it is used.
        refused("a binary", unsafe { Module::load_binary(environment.context(), image) }, Status::INVALID_IMAGE)?;
    }
    Ok(())
}

fn binary_where_there_is_no_gpu(environment: &Environment) -> Verdict {
    let context = environment.context();
    // SAFETY: the host device loads no binary.
    refused("a binary", unsafe { Module::load_binary(context, b"\x7fELF") }, Status::NOT_SUPPORTED)
}

fn closures_on_a_gpu(environment: &Environment) -> Verdict {
    let module = HostModule::new().with_function(HostFunction::new("nothing", &[], |_, _| {}));
    refused("closures", Module::load_host(environment.context(), &module), Status::NOT_SUPPORTED)
}
