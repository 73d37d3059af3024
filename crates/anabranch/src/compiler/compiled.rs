//! The result of a compilation.

use anabranch_hal::{CompileOutput, CompileRequest, ModuleImage, OutputKind};

/// Code for a GPU, to be loaded as a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompiledImage {
    /// PTX text, which a driver assembles for its device.
    Ptx(String),
    /// Machine code for one architecture.
    Binary(Vec<u8>),
}

impl CompiledImage {
    /// The image in the form that the driver contract takes.
    pub fn as_module_image(&self) -> ModuleImage<'_> {
        match self {
            Self::Ptx(text) => ModuleImage::Ptx(text),
            Self::Binary(code) => ModuleImage::Binary(code),
        }
    }
}

/// The result of a compilation: the code, the compiler's log, and the mangled names that were requested.
#[derive(Clone, Debug)]
pub struct Compiled {
    image: CompiledImage,
    log: String,
    kernel_names: Vec<(String, String)>,
    from_cache: bool,
}

impl Compiled {
    /// The result of a request, or `None` if PTX was requested and the output is not text.
    pub(super) fn new(request: &CompileRequest<'_>, output: CompileOutput, from_cache: bool) -> Option<Self> {
        let CompileOutput { image, log, lowered_names } = output;
        let image = match request.output {
            OutputKind::Ptx => CompiledImage::Ptx(String::from_utf8(image).ok()?),
            OutputKind::Binary => CompiledImage::Binary(image),
        };
        let kernel_names = request.name_expressions.iter().cloned().zip(lowered_names).collect();
        Some(Self { image, log, kernel_names, from_cache })
    }

    /// The code.
    pub fn image(&self) -> &CompiledImage {
        &self.image
    }

    /// The code, without the rest.
    pub fn into_image(self) -> CompiledImage {
        self.image
    }

    /// The code, if it is PTX.
    pub fn ptx(&self) -> Option<&str> {
        match &self.image {
            CompiledImage::Ptx(text) => Some(text),
            CompiledImage::Binary(_) => None,
        }
    }

    /// The code, if it is machine code.
    pub fn binary(&self) -> Option<&[u8]> {
        match &self.image {
            CompiledImage::Ptx(_) => None,
            CompiledImage::Binary(code) => Some(code),
        }
    }

    /// Warnings and remarks of the compiler. If the result came from the cache, those of the original compilation.
    pub fn log(&self) -> &str {
        &self.log
    }

    /// The mangled name of an expression, written exactly as it was given to
    /// [`CompileOptions::name_expression`](super::CompileOptions::name_expression).
    pub fn kernel_name(&self, expression: &str) -> Option<&str> {
        self.kernel_names.iter().find(|(given, _)| given == expression).map(|(_, name)| name.as_str())
    }

    /// The name expressions, each with its mangled name.
    pub fn kernel_names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.kernel_names.iter().map(|(expression, name)| (expression.as_str(), name.as_str()))
    }

    /// Whether the result came from the cache.
    pub fn from_cache(&self) -> bool {
        self.from_cache
    }
}
