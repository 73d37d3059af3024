//! Calls for modules and kernels.

use super::calls;
use crate::programs::slots::{ContextSlot, FunctionSlot, ModuleSlot, New, Operand, StreamSlot, WordSlot};
use anabranch::hal::FunctionAttribute;
use std::fmt::{self, Formatter};

/// What is wrong with a launch on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    EmptyGrid,
    EmptyBlock,
    LargeBlock,
    LargeShared,
    LargeCooperative,
    LargeCluster,
    NoFunction,
    NoArguments,
}

/// A launch of the kernel that adds 1 in each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelSpec {
    pub(crate) word: WordSlot,
    pub(crate) grid: u32,
    pub(crate) block: u32,
    pub(crate) wrong: Option<Wrong>,
}

/// What a module is loaded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageSpec {
    /// The kernels of the harness.
    Kernels,
    NoText,
    NotPtx,
    /// PTX that ends in the middle of a kernel.
    Truncated,
    /// PTX of a version that does not exist yet.
    NewVersion,
    /// PTX for an architecture that does not exist yet.
    NewTarget,
}

/// A launch with any configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaunchSpec {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) shared: u32,
    pub(crate) cooperative: bool,
    pub(crate) priority: Option<i32>,
    pub(crate) has_arguments: bool,
}

impl Operand for KernelSpec {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "count_up,{},grid {},block {}", self.word, self.grid, self.block)?;
        self.wrong.map_or(Ok(()), |wrong| write!(formatter, ",{wrong:?}"))
    }
}

impl Operand for LaunchSpec {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { grid, block, cluster, shared, cooperative, priority, has_arguments } = self;
        write!(formatter, "grid {grid:?},block {block:?}")?;
        cluster.map_or(Ok(()), |cluster| write!(formatter, ",cluster {cluster:?}"))?;
        if *shared > 0 {
            write!(formatter, ",shared {shared}")?;
        }
        formatter.write_str(if *cooperative { ",cooperative" } else { "" })?;
        priority.map_or(Ok(()), |priority| write!(formatter, ",priority {priority}"))?;
        formatter.write_str(if *has_arguments { "" } else { ",no arguments" })
    }
}

calls! {
    /// Calls for modules and kernels.
    ModuleCall {
        Launch "launch" { stream: StreamSlot, kernel: KernelSpec }
        LaunchAdd "launch_add" { stream: StreamSlot, word: WordSlot, factor: u32, value: u32 }
        LaunchOther "launch_other_context" { stream: StreamSlot }
        // Changes a number in the memory of the other device that only this stream changes.
        LaunchPeer "launch_on_peer" { stream: StreamSlot, word: WordSlot, factor: u32, value: u32 }
        LaunchFault "launch_fault" { stream: StreamSlot, trap: bool }
        LaunchAny "launch_any" { stream: StreamSlot, function: Option<FunctionSlot>, launch: LaunchSpec }
        LoadAndUnload "module_load_and_unload" { context: ContextSlot }
        Load "module_load" { module: New<ModuleSlot>, context: ContextSlot, image: ImageSpec }
        Unload "module_unload" { module: ModuleSlot }
        Function "module_function" { function: New<FunctionSlot>, module: Option<ModuleSlot>, name: &'static str }
        Names "module_function_names" { module: Option<ModuleSlot> }
        Global "module_global" { module: Option<ModuleSlot>, name: &'static str }
        Name "function_name" { function: Option<FunctionSlot> }
        Info "function_info" { function: Option<FunctionSlot> }
        SetAttribute "function_set_attribute" { function: Option<FunctionSlot>, attribute: FunctionAttribute }
        Occupancy "function_max_active_blocks" { function: Option<FunctionSlot>, threads: u32, shared: usize }
    }
}
