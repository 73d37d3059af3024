//! The kernel that is to run.

use super::check::Expected;
use crate::arguments::RunOptions;
use crate::output::Failure;
use crate::source::{self, Kind};
use anabranch::{BackendKind, CompileOptions, Context, Device, Kernel, Module};
use std::path::{Path, PathBuf};

/// A file with a kernel.
#[derive(Debug)]
pub(crate) struct Program {
    code: Code,
    file: PathBuf,
    /// The name of the kernel in the code.
    kernel: String,
    /// Its parameters, where the code says what they are.
    parameters: Option<Vec<Expected>>,
}

#[derive(Debug)]
enum Code {
    Ptx(String),
    Binary(Vec<u8>),
}

impl Program {
    /// Reads the file, and compiles it if it is source.
    pub(super) fn read(device: &Device, options: &RunOptions) -> Result<Self, Failure> {
        let (file, kernel) = (&*options.file, &*options.kernel);
        let is_host = device.backend() == BackendKind::Host;
        match Kind::of(file)? {
            Kind::Ptx => Self::of_ptx(file, source::read_ptx(file)?, kernel, is_host),
            Kind::Source => Self::of_source(device, options),
            Kind::Binary if is_host => Err(Failure::Usage(format!(
                "{} is machine code of GPUs, and {device} runs PTX and CUDA C++; give such a file, or --device cuda:0",
                file.display()
            ))),
            Kind::Binary => Ok(Self {
                code: Code::Binary(source::read(file)?),
                file: file.to_owned(),
                kernel: kernel.to_owned(),
                parameters: None,
            }),
        }
    }

    /// `is_host`: a GPU's driver may take PTX that is not understood here.
    fn of_ptx(file: &Path, text: String, kernel: &str, is_host: bool) -> Result<Self, Failure> {
        let parameters = match source::parse(file, &text) {
            Ok(module) => match module.kernel(kernel) {
                Some(kernel) => Some(kernel.parameters.iter().map(Expected::from).collect()),
                None => {
                    let names: Vec<&str> = module.kernels().map(|kernel| &*kernel.name).collect();
                    return Err(no_kernel(file, kernel, &names));
                }
            },
            Err(error) if is_host => return Err(error),
            Err(_) => None,
        };
        Ok(Self { code: Code::Ptx(text), file: file.to_owned(), kernel: kernel.to_owned(), parameters })
    }

    fn of_source(device: &Device, options: &RunOptions) -> Result<Self, Failure> {
        let (file, kernel) = (&*options.file, &*options.kernel);
        let is_host = device.backend() == BackendKind::Host;
        // The software device runs the PTX of any architecture.
        let target = if is_host { CompileOptions::new() } else { CompileOptions::new().for_device(device) };
        let compiled = source::compile(file, &target, &options.compiler_option, None)?;
        let text = compiled.ptx().unwrap_or_default().to_owned();
        let unknown = match Self::of_ptx(file, text, kernel, is_host) {
            Err(error @ Failure::Usage(_)) => error,
            other => return other,
        };
        // It may be the name of C++, of a function that is not `extern "C"` or of a template.
        let Ok(compiled) = source::compile(file, &target, &options.compiler_option, Some(kernel)) else {
            return Err(unknown);
        };
        match compiled.kernel_name(kernel) {
            Some(mangled) => Self::of_ptx(file, compiled.ptx().unwrap_or_default().to_owned(), mangled, is_host),
            None => Err(unknown),
        }
    }

    /// Loads it into a context.
    pub(super) fn load(&self, context: &Context) -> Result<Kernel, Failure> {
        let module = match &self.code {
            Code::Ptx(text) => Module::load_ptx(context, text),
            // SAFETY: whoever names a file of machine code on the command line has it from NVIDIA's tools, as the help says.
            Code::Binary(image) => unsafe { Module::load_binary(context, image) },
        };
        // The error has the first line of the log.
        let kernel = module.and_then(|module| module.kernel(&self.kernel));
        kernel.map_err(|error| Failure::Failed(format!("{}: {error}", self.file.display())))
    }

    /// The name of the kernel in the code.
    pub(super) fn kernel(&self) -> &str {
        &self.kernel
    }

    pub(super) fn parameters(&self) -> Option<&[Expected]> {
        self.parameters.as_deref()
    }
}

fn no_kernel(file: &Path, kernel: &str, names: &[&str]) -> Failure {
    const MOST: usize = 20;
    let file = file.display();
    let list: Vec<String> = names.iter().take(MOST).map(|name| format!("`{name}`")).collect();
    let list = match (names.len(), list.join(", ")) {
        (0, _) => "it has none".to_owned(),
        (1, only) => format!("its only one is {only}"),
        (count, list) if count > MOST => format!("it has {list} and {} more", count - MOST),
        (_, list) => format!("it has {list}"),
    };
    Failure::Usage(format!("{file} has no kernel `{kernel}`; {list}"))
}
