//! `anabranch inspect`.

mod shown;

use crate::arguments::InspectOptions;
use crate::output::{self, Failure};
use crate::source::{self, Kind};
use anabranch::CompileOptions;
use shown::{Shown, as_json};
use std::process::ExitCode;

pub(crate) fn run(options: &InspectOptions) -> Result<ExitCode, Failure> {
    let file = &*options.file;
    let text = match Kind::of(file)? {
        Kind::Ptx => source::read_ptx(file)?,
        Kind::Source => {
            let compiled = source::compile(file, &CompileOptions::new(), &options.compiler_option, None)?;
            compiled.ptx().unwrap_or_default().to_owned()
        }
        Kind::Binary => {
            let message = format!("{} is machine code of GPUs; give PTX or CUDA C++", file.display());
            return Err(Failure::Usage(message));
        }
    };
    let module = source::parse(file, &text)?;
    if options.json {
        output::json(&as_json(&module))?;
    } else {
        output::line(&Shown(&module))?;
    }
    Ok(ExitCode::SUCCESS)
}
