//! What can be written on the command line.

mod run;

pub(crate) use run::{InspectOptions, RunOptions};

use crate::fault::Fault;
use anabranch_conformance::{programs::Family, ptx};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use std::ops::Range;
use std::path::PathBuf;

/// Streams, events, memory and kernels of GPUs, and of a software device that needs none: shows which devices there are,
/// runs kernels, and checks that devices do what the documentation says.
#[derive(Debug, Parser)]
#[command(name = "anabranch", version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  anabranch devices                              what is there, and what is missing
  anabranch conformance                          check the default device
  anabranch conformance --device host            check the software device
  anabranch conformance --filter event           only the cases about events
  anabranch conformance --count-calls            the same over a layer, which counts calls of the driver
  anabranch fuzz --device cuda:0 --seeds 0..1000 --record FILE
                                                 record what a GPU answers to random programs
  anabranch fuzz --device host --against FILE    compare the software device with that
  anabranch fuzz --device host --against cuda:0  compare both at once
  anabranch run saxpy.ptx --kernel saxpy --grid 4 --block 256 inout:y.npy:r.npy in:x.npy f32:2 u32:1000
                                                 run a kernel on arrays in files
  anabranch inspect saxpy.ptx                    show which kernels there are in a file
  anabranch kernels --device cuda:0 --record FILE
                                                 record what a GPU computes with kernels of PTX
  anabranch kernels --device host --against FILE compare the software device with that
  source <(anabranch completions bash)           complete the command line in this shell
  man <(anabranch man)                           read the manual

Environment:
  ANABRANCH_DEVICE         the device that is used where none is named, such as cuda:0 or host
  ANABRANCH_HOST_DEVICES   how many software devices there are, 1 to 1024
  ANABRANCH_HOST_WORKERS   how many threads run their work, 1 to 4096
  ANABRANCH_HOST_SEED      a number: their work runs without threads, in an order that is derived from it
  ANABRANCH_HOST_CHECK_MEMORY
                           1: they tell of work that uses memory which is not allocated
  ANABRANCH_HOST_OPERATION_LIMIT
                           how many operations a block of a kernel of PTX may perform on them, against endless loops
  ANABRANCH_NVRTC          the file of NVRTC, the compiler for CUDA C++, instead of searching for it
  ANABRANCH_CUDADEVRT      the file libcudadevrt.a, instead of searching for it
  ANABRANCH_CACHE          the directory for what the compiler has made, or off
  CUDA_DEVICE_MAX_CONNECTIONS, CUDA_MODULE_LOADING
                           for the CUDA driver; where they are not set, this command sets them to 32 and EAGER

A variable that is empty is the same as one that is not set.

Exit status: 0 if all is well, 1 if something failed, 2 if the command line makes no sense.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows every device with its properties, and what is missing for those that are not there.
    Devices(DevicesOptions),
    /// Asks a device several hundred questions about streams, events, memory and kernels, and compares its answers with
    /// those of real hardware.
    Conformance(ConformanceOptions),
    /// Makes random programs of calls of the driver on a device, and records its answers in a file, or compares them with
    /// those that another device has given.
    Fuzz(FuzzOptions),
    /// Runs a kernel from a file on arrays in NumPy's files, and writes its results to such files.
    Run(RunOptions),
    /// Shows the kernels in a file: their parameters, registers and shared memory, and what the software device cannot
    /// execute of them.
    Inspect(InspectOptions),
    /// Runs kernels of PTX on a device, written ones and random ones, and records what it computes in a file, or compares it
    /// with what another device has computed.
    Kernels(KernelsOptions),
    /// Prints a script with which a shell completes the command line.
    Completions(CompletionsOptions),
    /// Prints the manual page, or that of one command, for `man` to show.
    Man(ManOptions),
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsOptions {
    /// The shell.
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManOptions {
    /// The command, such as devices. Without it, the page is about all of them.
    pub(crate) command: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DevicesOptions {
    /// Prints one JSON object, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConformanceOptions {
    /// The device to ask: cuda, cuda:1, host, host:1. Without it the default device: what ANABRANCH_DEVICE names, else
    /// the first GPU, else the software device.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,

    /// Runs only the cases whose name contains this text, or whose rule is this text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,

    /// Prints one JSON object in each line, for programs.
    #[arg(long)]
    pub(crate) json: bool,

    /// Runs the cases over a layer between the library and the driver which counts calls, and prints the counts at the
    /// end. The cases must have the same results. Calls of cases that run in a process of their own are not counted.
    #[arg(long, conflicts_with = "list")]
    pub(crate) count_calls: bool,

    /// Prints the names of the cases, and runs none.
    #[arg(long)]
    pub(crate) list: bool,

    /// Runs only the case of exactly this name.
    #[arg(long, hide = true, value_name = "NAME", conflicts_with_all = ["filter", "list"])]
    pub(crate) exact: Option<String>,

    /// Runs cases in this process even if they leave the device unusable for it, and prints only the outcome.
    #[arg(long, hide = true, requires = "exact")]
    pub(crate) in_this_process: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct FuzzOptions {
    /// The device to ask: cuda, cuda:1, host. Without it the default device: what ANABRANCH_DEVICE names, else the first
    /// GPU, else the software device.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,

    /// The seeds of the programs of each family, such as 0..1000. Without it 0..200, or all that are recorded.
    #[arg(long, value_name = "FIRST..END", value_parser = seeds)]
    pub(crate) seeds: Option<Range<u64>>,

    /// Runs only programs of this family, which can be given several times: streams, gates, capture, graphs, memory,
    /// values, modules, sticky, devices, front. Those of devices need two devices of one driver, the one named and the
    /// next.
    #[arg(long, value_name = "FAMILY")]
    pub(crate) family: Vec<Family>,

    /// Writes the answers to this file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["against", "print"])]
    pub(crate) record: Option<PathBuf>,

    /// Compares the answers with those in this file, or with those of this device. With a device, each kind of difference
    /// is shown by a program of few calls.
    #[arg(long, value_name = "FILE|DEVICE", conflicts_with = "print")]
    pub(crate) against: Option<String>,

    /// Prints the program of this seed with its answers.
    #[arg(long, value_name = "SEED")]
    pub(crate) print: Option<u64>,

    /// How many processes run programs. Without it as many as there are cores.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) jobs: Option<usize>,

    /// After how many seconds a program hangs.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) limit: u64,

    /// After how many seconds no more programs are begun. What was done until then is written or compared. An example of a
    /// difference is made shorter for as long.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<u64>,

    /// Prints one JSON object in each line, for programs.
    #[arg(long)]
    pub(crate) json: bool,

    /// Runs the programs that are named on standard input, in this process.
    #[arg(long, hide = true)]
    pub(crate) worker: bool,

    /// Gives the driver of the device a fault, to see that it is found: alter, abort:CALL or hang:CALL.
    #[arg(long, hide = true, value_name = "FAULT")]
    pub(crate) fault: Option<Fault>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct KernelsOptions {
    /// The device to run them on: cuda, cuda:1, host. Without it the default device: what ANABRANCH_DEVICE names, else the
    /// first GPU, else the software device.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,

    /// The seeds of sweeps and random kernels, such as 0..1000. Without it each instruction once and 200 random kernels, or all
    /// that are recorded.
    #[arg(long, value_name = "FIRST..END", value_parser = seeds)]
    pub(crate) seeds: Option<Range<u64>>,

    /// Runs only kernels of this family, which can be given several times: golden (written in CUDA C++), sweep (single
    /// instructions with many operands), random (composed of them).
    #[arg(long, value_name = "FAMILY")]
    pub(crate) family: Vec<ptx::Family>,

    /// Runs only the kernels whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,

    /// Writes what is computed to this file.
    #[arg(long, value_name = "FILE", conflicts_with = "show")]
    pub(crate) record: Option<PathBuf>,

    /// Compares what is computed with this file, or with what this device computes. A difference names the kernel, the
    /// instruction, the element and both values where they are known.
    #[arg(long, value_name = "FILE|DEVICE", conflicts_with = "show")]
    pub(crate) against: Option<String>,

    /// Finds the instruction that two devices compute differently, with its operands and both results, for each kernel that
    /// differs, and drops what the difference does not need; for this many seconds.
    #[arg(long, value_name = "SECONDS", requires = "against")]
    pub(crate) explain: Option<u64>,

    /// How many processes run kernels at a time. Without it half as many as there are processors, at most 8.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) jobs: Option<u16>,

    /// Prints the text of this kernel, such as sweep.3, and all that it computes.
    #[arg(long, value_name = "NAME")]
    pub(crate) show: Option<String>,

    /// After how many seconds a kernel hangs.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) limit: u64,

    /// After how many seconds no more kernels are begun. What was done until then is written or compared.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<u64>,

    /// Prints one JSON object in each line, for programs.
    #[arg(long)]
    pub(crate) json: bool,

    /// Runs the kernels that are named on standard input, in this process.
    #[arg(long, hide = true)]
    pub(crate) worker: bool,
}

/// Reads a range of seeds.
fn seeds(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("`{text}` is no range of seeds, such as 0..1000");
    let (first, end) = text.split_once("..").ok_or_else(wrong)?;
    let (first, end) = (first.parse().map_err(|_| wrong())?, end.parse().map_err(|_| wrong())?);
    if first < end { Ok(first..end) } else { Err(format!("there is no seed in `{text}`")) }
}
