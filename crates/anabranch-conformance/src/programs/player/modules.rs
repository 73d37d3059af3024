//! Calls for modules and kernels.

use super::super::answer::Answer;
use super::super::call::{ImageSpec, KernelSpec, LaunchSpec, ModuleCall, Wrong};
use super::super::slots::{ContextSlot, FunctionSlot, ModuleSlot, New, StreamSlot, WordSlot};
use super::harness::with_image;
use super::objects::{FunctionObject, live};
use super::{Stage, plain, told};
use crate::kernels;
use anabranch::hal::{
    Access, DeclaredRange, FunctionHandle, KernelAttributes, KernelNode, Launch, Live, ModuleHandle, ModuleImage,
    ParameterInfo,
};
use std::ffi::c_void;

/// The number that only the kernel `store` writes.
const STORED: u16 = 47;

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
            attributes: KernelAttributes::NONE,
            arguments,
            ranges: vec![DeclaredRange { argument: 0, address, bytes: 4, access: Access::Write }],
        }
    }

    fn launch(&self, stream: StreamSlot, node: &KernelNode) -> Option<Answer> {
        let slot = stream;
        let (stream, context) = self.objects.stream(slot)?;
        let call = self.call_on(slot, context);
        let arguments: Vec<*const c_void> = node.arguments.iter().map(|value| value.as_ptr().cast()).collect();
        let launch = Launch {
            grid: node.grid,
            block: node.block,
            cluster: node.cluster,
            dynamic_shared_bytes: node.dynamic_shared_bytes,
            cooperative: node.cooperative,
            priority: node.priority,
            attributes: None,
            overlap: None,
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
            ModuleCall::LaunchPeer { stream, word, factor, value } => {
                let (_, context) = self.objects.stream(*stream)?;
                let other = ContextSlot(1 - context.0 % 2);
                // What is captured could be launched when access is disabled again.
                if !self.can_access(context, other) || !self.objects.captures.is_empty() {
                    return None;
                }
                let more = [factor, value].map(|number| number.to_ne_bytes().to_vec());
                let node = self.kernel_node(other, self.harness.context(context).add, *word, more.to_vec());
                return self.launch(*stream, &node);
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
                    self.objects.loaded.push((module, *context));
                    format!("unload {}", failure.status.0)
                })
            }
            ModuleCall::LaunchFault { stream, trap } => {
                let (_, context) = self.objects.stream(*stream)?;
                let kernels = self.harness.context(context);
                let mut node = self.kernel_node(context, kernels.fault, WordSlot(0), vec![]);
                if *trap {
                    (node.function, node.arguments, node.ranges) = (kernels.trap, vec![], vec![]);
                }
                return self.launch(*stream, &node);
            }
            ModuleCall::LaunchAny { stream, function, launch } => {
                let (_, context) = self.objects.stream(*stream)?;
                let node = self.any_kernel(context, *function, launch)?;
                return self.launch(*stream, &node);
            }
            ModuleCall::Load { module: New(slot), context, image } => {
                let call = self.harness.call(*context);
                // SAFETY: no image is a binary.
                let load = |image: ModuleImage<'_>| unsafe { driver.module_load(&call, image) };
                let loaded = match image_text(*image) {
                    // The software device takes no PTX.
                    Some(_) if self.harness.is_host => return None,
                    Some(text) => load(ModuleImage::Ptx(&text)),
                    None => with_image(self.harness.is_host, load),
                };
                told(loaded, |module| {
                    self.objects.modules.insert(*slot, (module, *context));
                    String::new()
                })
            }
            ModuleCall::Unload { module } => {
                let (handle, context) = self.objects.modules.remove(module)?;
                self.objects.functions.retain(|_, function| function.module != *module);
                // SAFETY: the slots of the module and its functions are empty now. No graph uses them.
                let unloaded = unsafe { driver.module_unload(&self.harness.call(context), handle) };
                if unloaded.is_err() {
                    self.objects.loaded.push((handle, context));
                }
                plain(unloaded)
            }
            ModuleCall::Function { function: New(slot), module, name } => {
                let (handle, context) = self.module(*module)?;
                let found = driver.module_function(&self.harness.call(context), handle, name);
                told(found, |handle| {
                    let module = module.unwrap_or(ModuleSlot(0));
                    self.objects.functions.insert(*slot, FunctionObject { handle, context, module, name });
                    String::new()
                })
            }
            ModuleCall::Names { module } => {
                let (handle, context) = self.module(*module)?;
                told(driver.module_function_names(&self.harness.call(context), handle), |mut names| {
                    names.sort_unstable();
                    names.join(",")
                })
            }
            ModuleCall::Global { module, name } => {
                let (handle, context) = self.module(*module)?;
                told(driver.module_global(&self.harness.call(context), handle, name), |(_, bytes)| bytes.to_string())
            }
            ModuleCall::Name { function } => {
                let (handle, context) = self.function(*function)?;
                told(driver.function_name(&self.harness.call(context), handle), |name| name)
            }
            ModuleCall::Info { function } => {
                let (handle, context) = self.function(*function)?;
                told(driver.function_info(&self.harness.call(context), handle), |info| {
                    let sizes = |parameters: Vec<ParameterInfo>| {
                        parameters
                            .iter()
                            .map(|one| format!("{}+{}", one.offset, one.size))
                            .collect::<Vec<_>>()
                            .join(",")
                    };
                    let (threads, fixed) = (info.max_threads_per_block, info.static_shared_bytes);
                    let parameters = info.parameters.map_or("unknown".to_owned(), sizes);
                    let shared = info.max_dynamic_shared_bytes;
                    format!("threads={threads} static={fixed} dynamic={shared} parameters={parameters}")
                })
            }
            ModuleCall::SetAttribute { function, attribute } => {
                let (handle, context) = self.function(*function)?;
                // Later programs use the kernels of the harness too.
                let of_harness = |function| self.objects.functions.get(&function).is_none_or(|it| it.module.0 < 2);
                if function.is_some_and(of_harness) {
                    return None;
                }
                plain(driver.function_set_attribute(&self.harness.call(context), handle, *attribute))
            }
            ModuleCall::Occupancy { function, threads, shared } => {
                let (handle, context) = self.function(*function)?;
                let call = self.harness.call(context);
                // How many blocks there can be differs between devices.
                told(driver.function_max_active_blocks(&call, handle, *threads, *shared), |blocks| {
                    if blocks == 0 { "none" } else { "some" }.to_owned()
                })
            }
        })
    }

    /// A module that the program has loaded, or one of the harness, or the null handle.
    fn module(&self, slot: Option<ModuleSlot>) -> Option<(Live<'static, ModuleHandle>, ContextSlot)> {
        match slot {
            Some(slot @ ModuleSlot(0 | 1)) => {
                let context = ContextSlot(slot.0);
                Some((live(self.harness.context(context).module()), context))
            }
            Some(slot) => self.objects.modules.get(&slot).map(|(handle, context)| (live(*handle), *context)),
            None => Some((Live::<ModuleHandle>::NULL, ContextSlot(0))),
        }
    }

    /// A kernel, or the null handle.
    fn function(&self, slot: Option<FunctionSlot>) -> Option<(Live<'static, FunctionHandle>, ContextSlot)> {
        match slot {
            Some(slot) => self.objects.functions.get(&slot).map(|function| (live(function.handle), function.context)),
            None => Some((Live::<FunctionHandle>::NULL, ContextSlot(0))),
        }
    }

    /// A launch of a kernel whose result does not depend on the order of launches, or of no kernel.
    fn any_kernel(
        &self,
        context: ContextSlot,
        function: Option<FunctionSlot>,
        spec: &LaunchSpec,
    ) -> Option<KernelNode> {
        let (handle, name, of) = match function {
            Some(slot) => {
                let function = self.objects.functions.get(&slot)?;
                (function.handle, function.name, function.context)
            }
            None => (FunctionHandle::from_raw(0), "count_up", context),
        };
        let more = match name {
            "count_up" => vec![],
            "store" => vec![7u32.to_ne_bytes().to_vec()],
            _ => return None,
        };
        let word = WordSlot(if name == "store" { STORED } else { 0 });
        let mut node = self.kernel_node(of, handle, word, more);
        (node.grid, node.block, node.cluster) = (spec.grid, spec.block, spec.cluster);
        (node.dynamic_shared_bytes, node.cooperative) = (spec.shared, spec.cooperative);
        node.priority = spec.priority;
        if !spec.has_arguments {
            (node.arguments, node.ranges) = (vec![], vec![]);
        }
        Some(node)
    }
}

/// The text of an image that is refused, or `None` for the kernels of the harness.
fn image_text(image: ImageSpec) -> Option<String> {
    let ptx = kernels::PTX;
    Some(match image {
        ImageSpec::Kernels => return None,
        ImageSpec::NoText => String::new(),
        ImageSpec::NotPtx => "this is no PTX".to_owned(),
        ImageSpec::Truncated => ptx[..ptx.len() / 2].to_owned(),
        ImageSpec::NewVersion => ".version 99.0\n.target sm_50\n.address_size 64\n".to_owned(),
        ImageSpec::NewTarget => ".version 7.0\n.target sm_999\n.address_size 64\n".to_owned(),
    })
}
