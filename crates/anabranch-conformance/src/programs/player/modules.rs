//! Calls for modules and kernels.

use super::super::answer::Answer;
use super::super::call::{KernelSpec, ModuleCall, Wrong};
use super::super::slots::{ContextSlot, StreamSlot, WordSlot};
use super::harness::with_image;
use super::objects::live;
use super::{Stage, plain, told};
use anabranch::hal::{Access, DeclaredRange, FunctionHandle, KernelNode, Launch};
use std::ffi::c_void;

impl Stage {
    /// A launch of the kernel that counts, as a node stores it.
    pub(super) fn kernel(&self, context: ContextSlot, spec: &KernelSpec) -> KernelNode {
        let function = self.harness.context(context).count_up;
        let mut node = self.kernel_node(context, function, spec.word, vec![]);
        (node.grid, node.block) = ([spec.grid, 1, 1], [spec.block, 1, 1]);
        match spec.wrong {
            Some(Wrong::EmptyGrid) => node.grid[1] = 0,
            Some(Wrong::EmptyBlock) => node.block[2] = 0,
            Some(Wrong::LargeBlock) => node.block[0] = 1025,
            Some(Wrong::LargeShared) => node.dynamic_shared_bytes = 1 << 20,
            Some(Wrong::LargeCooperative) => (node.grid[0], node.cooperative) = (1 << 20, true),
            Some(Wrong::LargeCluster) => node.cluster = Some([17, 1, 1]),
            Some(Wrong::NoFunction) => node.function = FunctionHandle::from_raw(0),
            Some(Wrong::NoArguments) => (node.arguments, node.ranges) = (vec![], vec![]),
            None => {}
        }
        node
    }

    fn kernel_node(
        &self,
        context: ContextSlot,
        function: FunctionHandle,
        word: WordSlot,
        more: Vec<Vec<u8>>,
    ) -> KernelNode {
        let address = self.harness.word(context, word).0;
        let mut arguments = vec![address.to_ne_bytes().to_vec()];
        arguments.extend(more);
        KernelNode {
            function,
            grid: [1; 3],
            block: [1; 3],
            cluster: None,
            dynamic_shared_bytes: 0,
            cooperative: false,
            priority: None,
            arguments,
            ranges: vec![DeclaredRange { argument: 0, address, bytes: 4, access: Access::Write }],
        }
    }

    fn launch(&self, stream: StreamSlot, node: &KernelNode) -> Option<Answer> {
        let (stream, context) = self.objects.stream(stream)?;
        let call = self.harness.call(context);
        let arguments: Vec<*const c_void> = node.arguments.iter().map(|value| value.as_ptr().cast()).collect();
        let launch = Launch {
            grid: node.grid,
            block: node.block,
            cluster: node.cluster,
            dynamic_shared_bytes: node.dynamic_shared_bytes,
            cooperative: node.cooperative,
            priority: node.priority,
            arguments: &arguments,
            ranges: &node.ranges,
        };
        // SAFETY: the kernel changes one number of the harness, atomically or in the order of its one stream. It is given
        // all its arguments, or else the driver refuses it.
        Some(plain(unsafe { self.driver.launch(&call, stream, live(node.function), &launch) }))
    }

    pub(super) fn module_call(&mut self, call: &ModuleCall) -> Option<Answer> {
        let driver = self.driver.clone();
        Some(match call {
            ModuleCall::Launch { stream, kernel } => {
                let (_, context) = self.objects.stream(*stream)?;
                return self.launch(*stream, &self.kernel(context, kernel));
            }
            ModuleCall::LaunchAdd { stream, word, factor, value } => {
                let (_, context) = self.objects.stream(*stream)?;
                let more = [factor, value].map(|number| number.to_ne_bytes().to_vec());
                let node = self.kernel_node(context, self.harness.context(context).add, *word, more.to_vec());
                return self.launch(*stream, &node);
            }
            ModuleCall::LaunchOther { stream } => {
                let (_, context) = self.objects.stream(*stream)?;
                let other = ContextSlot(1 - context.0 % 2);
                let function = self.harness.context(other).count_up;
                return self.launch(*stream, &self.kernel_node(other, function, WordSlot(0), vec![]));
            }
            ModuleCall::LoadAndUnload { context } => {
                let call = self.harness.call(*context);
                let loaded = with_image(self.harness.is_host, |image| {
                    // SAFETY: the image is no binary.
                    unsafe { driver.module_load(&call, image) }
                });
                told(loaded, |module| {
                    // SAFETY: the module was just loaded, and nobody else knows it.
                    let unloaded = unsafe { driver.module_unload(&call, module) };
                    let Err(failure) = unloaded else { return String::new() };
                    self.objects.modules.push((module, *context));
                    format!("unload {}", failure.status.0)
                })
            }
            ModuleCall::Function { context, name } => {
                let module = self.harness.context(*context).module();
                plain(driver.module_function(&self.harness.call(*context), live(module), name).map(drop))
            }
            ModuleCall::FunctionInfo { context, name } => {
                let (call, module) = (self.harness.call(*context), self.harness.context(*context).module());
                let found = driver.module_function(&call, live(module), name);
                plain(found.and_then(|function| driver.function_info(&call, live(function)).map(drop)))
            }
        })
    }
}
