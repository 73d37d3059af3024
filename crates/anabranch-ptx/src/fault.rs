//! What ends a kernel before its end.

use crate::types::Space;

/// A status of the CUDA driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct FaultCode(pub u32);

impl FaultCode {
    /// `CUDA_ERROR_ILLEGAL_ADDRESS`: memory that does not exist.
    pub const ILLEGAL_ADDRESS: FaultCode = FaultCode(700);
    /// `CUDA_ERROR_LAUNCH_TIMEOUT`: more operations than the launch may perform.
    pub const LAUNCH_TIMEOUT: FaultCode = FaultCode(702);
    /// `CUDA_ERROR_ASSERT`: an `assert` of the kernel does not hold.
    pub const ASSERT: FaultCode = FaultCode(710);
    /// `CUDA_ERROR_HARDWARE_STACK_ERROR`: calls are nested too deep.
    pub const HARDWARE_STACK_ERROR: FaultCode = FaultCode(714);
    /// `CUDA_ERROR_ILLEGAL_INSTRUCTION`: an instruction that cannot be executed.
    pub const ILLEGAL_INSTRUCTION: FaultCode = FaultCode(715);
    /// `CUDA_ERROR_MISALIGNED_ADDRESS`: an address that is not a multiple of the size of the access.
    pub const MISALIGNED_ADDRESS: FaultCode = FaultCode(716);
    /// `CUDA_ERROR_INVALID_ADDRESS_SPACE`: an address of another space than the instruction's.
    pub const INVALID_ADDRESS_SPACE: FaultCode = FaultCode(717);
    /// `CUDA_ERROR_INVALID_PC`: a call of what is no function.
    pub const INVALID_PC: FaultCode = FaultCode(718);
    /// `CUDA_ERROR_LAUNCH_FAILED`: anything else.
    pub const LAUNCH_FAILED: FaultCode = FaultCode(719);

    /// The name of the status.
    pub fn name(self) -> &'static str {
        match self.0 {
            700 => "CUDA_ERROR_ILLEGAL_ADDRESS",
            702 => "CUDA_ERROR_LAUNCH_TIMEOUT",
            710 => "CUDA_ERROR_ASSERT",
            714 => "CUDA_ERROR_HARDWARE_STACK_ERROR",
            715 => "CUDA_ERROR_ILLEGAL_INSTRUCTION",
            716 => "CUDA_ERROR_MISALIGNED_ADDRESS",
            717 => "CUDA_ERROR_INVALID_ADDRESS_SPACE",
            718 => "CUDA_ERROR_INVALID_PC",
            719 => "CUDA_ERROR_LAUNCH_FAILED",
            _ => "CUDA_ERROR_UNKNOWN",
        }
    }
}

/// What exactly happened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Detail {
    /// The memory does not exist.
    OutOfBounds,
    /// The address is not a multiple of the size.
    Misaligned,
    /// Checked mode: memory of the block or of the thread is read that was never written.
    NeverWritten,
    /// Checked mode: lanes of one warp wait at different barriers, or at one that others have passed.
    BarrierDivergence,
    /// The number of a barrier is more than 15.
    BadBarrier(u32),
    /// All threads of the block wait, and nothing will wake them.
    Deadlock,
    /// A lane waits for lanes of its warp that will not come.
    MissingLanes,
    /// `trap`.
    Trap,
    /// An `assert` with this text.
    Assert(String),
    /// More operations than the limit.
    Watchdog,
    /// Calls nested deeper than the limit.
    CallDepth,
    /// There is no memory for the registers, the local memory and the shared memory of a block.
    OutOfMemory,
    /// A call of something that is no function, or not one of these parameters.
    BadCall,
    /// A branch by a number that is none of its table's.
    BadBranch {
        /// The number.
        number: u32,
        /// How many targets the table has.
        targets: u32,
    },
    /// An external function that has no body here.
    Unresolved(String),
    /// The text of a `printf` is broken.
    BadFormat,
    /// What the hook of the caller answered.
    Refused(String),
}

impl std::fmt::Display for Detail {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Detail::OutOfBounds => formatter.write_str("out of bounds"),
            Detail::Misaligned => formatter.write_str("misaligned"),
            Detail::NeverWritten => formatter.write_str("never written"),
            Detail::BarrierDivergence => formatter.write_str("lanes of a warp wait at different barriers"),
            Detail::BadBarrier(number) => write!(formatter, "barrier {number}: a block has those from 0 to 15"),
            Detail::Deadlock => formatter.write_str("all threads of the block wait"),
            Detail::MissingLanes => formatter.write_str("lanes that the mask names do not come"),
            Detail::Trap => formatter.write_str("trap"),
            Detail::Assert(text) => write!(formatter, "assertion failed: {text}"),
            Detail::Watchdog => formatter.write_str("more operations than the limit"),
            Detail::CallDepth => formatter.write_str("calls nested too deep"),
            Detail::OutOfMemory => {
                formatter.write_str("there is no memory for the registers, local memory and shared memory of a block")
            }
            Detail::BadCall => formatter.write_str("a call of what is no function of these parameters"),
            Detail::BadBranch { number, targets } => {
                write!(formatter, "a branch to target {number} of a table that has {targets}")
            }
            Detail::Unresolved(name) => write!(formatter, "the external function {name} has no body"),
            Detail::BadFormat => formatter.write_str("a format of printf that cannot be read"),
            Detail::Refused(text) => formatter.write_str(text),
        }
    }
}

/// A kernel that was ended, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Fault {
    /// The status that hardware would return.
    pub code: FaultCode,
    /// What happened.
    pub detail: Detail,
    /// The kernel.
    pub kernel: String,
    /// The line of the PTX text.
    pub line: u32,
    /// The file and line of the source, if the text has `.loc`.
    pub source: Option<(String, u32)>,
    /// The block.
    pub block: [u32; 3],
    /// The thread.
    pub thread: [u32; 3],
    /// The address, for accesses: within its space, or generic.
    pub address: Option<u64>,
    /// The bytes that were accessed there.
    pub bytes: u32,
    /// The space of the address.
    pub space: Space,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [x, y, z] = self.block;
        let [i, j, k] = self.thread;
        write!(formatter, "{} ({}): {}", self.code.name(), self.code.0, self.detail)?;
        if let Some(address) = self.address {
            write!(formatter, ": {} bytes at {address:#x} of {:?} memory", self.bytes, self.space)?;
        }
        write!(formatter, "; kernel {}, line {} of the PTX", self.kernel, self.line)?;
        if let Some((file, line)) = &self.source {
            write!(formatter, " ({file}:{line})")?;
        }
        write!(formatter, ", block ({x}, {y}, {z}), thread ({i}, {j}, {k})")
    }
}

impl std::error::Error for Fault {}
