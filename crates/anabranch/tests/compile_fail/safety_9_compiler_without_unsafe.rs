//! What a compiler calls machine code is loaded by safe calls.

use anabranch::hal::{CompileOutput, CompileRequest, Compiler, Failure};

#[derive(Debug)]
struct Garbage;

impl Compiler for Garbage {
    fn identity(&self) -> String {
        String::new()
    }

    fn version(&self) -> (u32, u32) {
        (1, 0)
    }

    fn architectures(&self) -> Result<Vec<u32>, Failure> {
        Ok(Vec::new())
    }

    fn compile(&self, _: &CompileRequest<'_>) -> Result<CompileOutput, Failure> {
        Ok(CompileOutput { image: vec![0; 64], log: String::new(), lowered_names: Vec::new() })
    }
}

fn main() {}
