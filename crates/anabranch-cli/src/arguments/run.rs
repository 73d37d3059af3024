//! The options of `anabranch run` and `anabranch inspect`.

use clap::Args;
use std::path::PathBuf;
use std::str::FromStr;

/// Extents in x, y and z. Those that are left out are 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extents(pub(crate) [u32; 3]);

impl FromStr for Extents {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut extents = [1; 3];
        for (number, part) in text.split(',').enumerate() {
            let place = extents.get_mut(number).ok_or("there are at most three extents: X,Y,Z")?;
            let extent = part.parse().ok().filter(|extent| *extent > 0);
            *place = extent
                .ok_or_else(|| format!("`{part}` is no extent: write one to three numbers from 1, such as 8 or 8,4"))?;
        }
        Ok(Self(extents))
    }
}

#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RunOptions {
    /// The kernels: PTX (.ptx), CUDA C++ (.cu), which NVRTC compiles, or machine code of a GPU (.cubin) as NVIDIA's tools
    /// have made it.
    pub(crate) file: PathBuf,

    /// The kernel: its name in the PTX or, in CUDA C++, an expression such as scale<float>.
    #[arg(long, value_name = "NAME")]
    pub(crate) kernel: String,

    /// How many blocks there are in x, y and z.
    #[arg(long, value_name = "X[,Y[,Z]]")]
    pub(crate) grid: Extents,

    /// How many threads a block has in x, y and z.
    #[arg(long, value_name = "X[,Y[,Z]]")]
    pub(crate) block: Extents,

    /// How many bytes of dynamic shared memory each block has.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) shared: u32,

    /// The device: cuda, cuda:1, host, host:1. Without it the default device: what ANABRANCH_DEVICE names, else the first
    /// GPU, else the software device.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,

    /// Checks each access to memory, on the software device: an access out of bounds, misaligned, or to memory that is not
    /// allocated ends the kernel with an error that names the line of PTX, the block, the thread and the address. Without it,
    /// such an access may end this command.
    #[arg(long)]
    pub(crate) check: bool,

    /// How many times the kernel is launched. Each launch begins with the same contents of memory, and the results are
    /// those of the last one.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) repeat: u32,

    /// Gives an option to NVRTC, such as --std=c++17 or --include-path=DIRECTORY. Can be given several times.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub(crate) compiler_option: Vec<String>,

    /// Prints one JSON object in one line, after what the kernel prints.
    #[arg(long)]
    pub(crate) json: bool,

    /// The arguments of the kernel, in its order.
    #[arg(value_name = "ARG")]
    pub(crate) arguments: Vec<String>,
}

const RUN_HELP: &str = "\
Arguments of the kernel:
  in:FILE.npy                 an array that it reads
  inout:FILE.npy:RESULT.npy   an array that it reads and changes
  out:TYPE[D0,D1,...]:RESULT.npy
                              an array that it writes, and that is zero before
  TYPE:VALUE                  a number

TYPE is one of u8 i8 u16 i16 f16 bf16 u32 i32 f32 u64 i64 f64. Arrays are in C order, and the kernel gets the address \
of their first element. Arrays of bf16 are of NumPy's type V2, as the package ml_dtypes writes them. If something \
fails, no file is changed. Times are those of the kernel alone.

Examples:
  anabranch run saxpy.ptx --kernel saxpy --grid 4 --block 256 \\
      inout:y.npy:result.npy in:x.npy f32:2.5 u32:1000
  anabranch run scale.cu --kernel 'scale<float>' --grid 8,8 --block 16,16 --check --device host \\
      in:picture.npy out:f32[128,128]:scaled.npy f32:0.5";

#[derive(Debug, Args)]
#[command(after_help = INSPECT_HELP)]
pub(crate) struct InspectOptions {
    /// The kernels: PTX (.ptx), or CUDA C++ (.cu), which NVRTC compiles.
    pub(crate) file: PathBuf,

    /// Gives an option to NVRTC, such as --std=c++17 or --include-path=DIRECTORY. Can be given several times.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub(crate) compiler_option: Vec<String>,

    /// Prints one JSON object, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

const INSPECT_HELP: &str = "\
Examples:
  anabranch inspect saxpy.ptx
  anabranch inspect saxpy.cu --json";

#[cfg(test)]
mod tests {
    use super::Extents;

    #[test]
    fn one_to_three_extents_are_read() {
        for (text, expected) in [("7", [7, 1, 1]), ("7,8", [7, 8, 1]), ("7,8,9", [7, 8, 9])] {
            assert_eq!(text.parse(), Ok(Extents(expected)));
        }
        for text in ["", "0", "1,", "1,0", "1,2,3,4", "-1", "x", "4294967296"] {
            assert!(text.parse::<Extents>().is_err(), "{text}");
        }
    }
}
