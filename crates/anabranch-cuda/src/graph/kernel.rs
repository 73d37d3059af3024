//! Kernel nodes: conversion between the contract's type and the driver's structure and attributes.

use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use crate::handles::{function_handle, node_handle, raw_context, raw_function, raw_node};
use crate::module::kernel_attributes;
use crate::stream::read_window;
use anabranch_hal::{
    ClusterSchedulingPolicy, ContextHandle, Driver, Failure, GraphNodeHandle, KernelAttributes, KernelNode, Live,
    MemorySyncDomain, MemorySyncDomainMap, ParameterInfo, Result, Status,
};
use std::ffi::c_void;
use std::ptr;

/// The driver's description of a kernel node. It points to the array of arguments and into the node, so that both have to
/// outlive its use.
pub(super) struct RawKernel {
    pub(super) parameters: CUDA_KERNEL_NODE_PARAMS,
    /// The addresses of the arguments.
    _arguments: Vec<*mut c_void>,
}

pub(super) fn describe(context: impl Into<ContextHandle>, node: &KernelNode) -> RawKernel {
    // The driver reads the arguments, and writes nothing.
    let mut arguments: Vec<*mut c_void> =
        node.arguments.iter().map(|argument| argument.as_ptr().cast_mut().cast()).collect();
    let [grid_x, grid_y, grid_z] = node.grid;
    let [block_x, block_y, block_z] = node.block;
    let parameters = CUDA_KERNEL_NODE_PARAMS {
        func: raw_function(node.function),
        gridDimX: grid_x,
        gridDimY: grid_y,
        gridDimZ: grid_z,
        blockDimX: block_x,
        blockDimY: block_y,
        blockDimZ: block_z,
        sharedMemBytes: node.dynamic_shared_bytes,
        // Without arguments the driver is given an empty list, so that it refuses a kernel that has parameters.
        kernelParams: if arguments.is_empty() { ptr::null_mut() } else { arguments.as_mut_ptr() },
        // The function says which context it is of, and null would mean the current one.
        ctx: raw_context(context),
        ..CUDA_KERNEL_NODE_PARAMS::zeroed()
    };
    RawKernel { parameters, _arguments: arguments }
}

/// The same description, for the function that adds nodes of all kinds.
pub(super) fn to_newest(parameters: &CUDA_KERNEL_NODE_PARAMS) -> CUDA_KERNEL_NODE_PARAMS_v3 {
    let CUDA_KERNEL_NODE_PARAMS { func, sharedMemBytes, kernelParams, extra, kern, ctx, .. } = *parameters;
    let CUDA_KERNEL_NODE_PARAMS { gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, .. } = *parameters;
    CUDA_KERNEL_NODE_PARAMS_v3 {
        func,
        gridDimX,
        gridDimY,
        gridDimZ,
        blockDimX,
        blockDimY,
        blockDimZ,
        sharedMemBytes,
        kernelParams,
        extra,
        kern,
        ctx,
    }
}

/// The attributes of a kernel node, which the driver keeps apart from its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Attributes {
    pub(super) cluster: Option<[u32; 3]>,
    pub(super) cooperative: bool,
    pub(super) priority: Option<i32>,
    pub(super) others: KernelAttributes,
}

impl Attributes {
    pub(super) fn of(node: &KernelNode) -> Self {
        Self { cluster: node.cluster, cooperative: node.cooperative, priority: node.priority, others: node.attributes }
    }

    /// Whether all have their defaults.
    pub(super) fn are_defaults(self) -> bool {
        self.agree(Self { cluster: None, cooperative: false, priority: None, others: KernelAttributes::NONE })
    }

    /// Whether launches with both would be the same. A cluster of one block equals no cluster, and 0 is the priority of a
    /// node that was given none.
    pub(super) fn agree(self, other: Self) -> bool {
        let normal = |attributes: Self| {
            let cluster = attributes.cluster.unwrap_or([1; 3]);
            (cluster, attributes.cooperative, attributes.priority.unwrap_or(0), attributes.others.without_defaults())
        };
        normal(self) == normal(other)
    }
}

/// Checks a kernel with its attributes in a graph of its own. A node that is added and then refused for its attributes cannot
/// be removed from a graph that allocates, and one that is changed has lost its parameters.
///
/// # Safety
///
/// The function exists, and the arguments are those of the kernel.
pub(super) unsafe fn check_apart(
    driver: &CudaDriver,
    context: Live<'_, ContextHandle>,
    kernel: &KernelNode,
) -> Result<()> {
    let functions = &driver.functions;
    let (mut graph, mut node) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the result is written to a variable that outlives the call. There are no flags yet.
    check(unsafe { functions.cuGraphCreate(&mut graph, 0) })?;
    let raw = describe(context, kernel);
    // SAFETY: the graph was made just now, and the node depends on none. The caller promises that the function exists, and that
    // the arguments are those of the kernel, which the driver copies.
    let added = check(unsafe { functions.cuGraphAddKernelNode(&mut node, graph, ptr::null(), 0, &raw.parameters) });
    let checked = added.and_then(|()| {
        // SAFETY: the node was added just now, to a graph that nobody else knows.
        set_attributes(driver, unsafe { Live::new(node_handle(node)) }, Attributes::of(kernel))
    });
    // SAFETY: the graph was made above, and this is the last use of it.
    let destroyed = check(unsafe { functions.cuGraphDestroy(graph) });
    checked.and(destroyed)
}

/// Sets the attributes of a new node that are wanted. The driver refuses a node of another kind.
pub(super) fn set_attributes(driver: &CudaDriver, node: Live<'_, GraphNodeHandle>, wanted: Attributes) -> Result<()> {
    let node = raw_node(node);
    let Attributes { cluster, cooperative, priority, others } = &wanted;
    let attributes = kernel_attributes(driver.version(), *cluster, *cooperative, *priority, others)?;
    attributes.as_slice().iter().try_for_each(|attribute| {
        // SAFETY: the node is live, as its type says; the value is the one that belongs to the attribute.
        check(unsafe { driver.functions.cuGraphKernelNodeSetAttribute(node, attribute.id, &attribute.value) })
    })
}

/// Changes the attributes of a node where they differ from those wanted.
pub(super) fn change_attributes(
    driver: &CudaDriver,
    node: Live<'_, GraphNodeHandle>,
    wanted: Attributes,
) -> Result<()> {
    let current = read_attributes(driver, node);
    if current.agree(wanted) {
        return Ok(());
    }
    let cluster = wanted.cluster.or(current.cluster.map(|_| [1; 3]));
    let priority = wanted.priority.or(current.priority.map(|_| 0));
    let others = current.others.replaced_by(&wanted.others);
    let attributes = Attributes { cluster, cooperative: wanted.cooperative, priority, others };
    let (off, id) = (CUlaunchAttributeValue::zeroed(), CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
    set_attributes(driver, node, attributes)?;
    if current.cooperative && !wanted.cooperative {
        // SAFETY: the node is live, as its type says, and zeros are the value of an attribute that is off.
        check(unsafe { driver.functions.cuGraphKernelNodeSetAttribute(raw_node(node), id, &off) })?;
    }
    Ok(())
}

/// The attributes of a kernel node.
pub(super) fn read_attributes(driver: &CudaDriver, node: Live<'_, GraphNodeHandle>) -> Attributes {
    let node = raw_node(node);
    let read = |id| {
        let mut value = CUlaunchAttributeValue::zeroed();
        // SAFETY: the node is live, as its type says.
        let answer = check(unsafe { driver.functions.cuGraphKernelNodeGetAttribute(node, id, &mut value) });
        // An attribute that the device or the driver does not know is one that the node does not have.
        answer.ok().map(|()| value)
    };
    let cluster = read(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    let (cooperative, priority) = (read(CU_LAUNCH_ATTRIBUTE_COOPERATIVE), read(CU_LAUNCH_ATTRIBUTE_PRIORITY));
    // SAFETY: the driver has written the member of each attribute, over bytes that were zero; and any bytes are a value
    // of it.
    let (cluster, cooperative, priority) = unsafe {
        (
            cluster.map(|value| value.clusterDim),
            cooperative.is_some_and(|value| value.cooperative != 0),
            priority.map(|value| value.priority),
        )
    };
    Attributes {
        cluster: cluster.filter(|cluster| cluster.x != 0).map(|cluster| [cluster.x, cluster.y, cluster.z]),
        cooperative,
        priority: priority.filter(|&own| own != 0),
        others: read_others(read),
    }
}

/// The attributes that change no results, unless they have their defaults.
fn read_others(read: impl Fn(CUlaunchAttributeID) -> Option<CUlaunchAttributeValue>) -> KernelAttributes {
    let window = read(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW);
    let policy = read(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
    let (domain, map) = (read(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN), read(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP));
    let preferred = read(CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION);
    let carveout = read(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
    let nvlink = read(CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING);
    // SAFETY: the driver has written the member of each attribute, over bytes that were zero; and any bytes are a value
    // of it.
    let (window, policy, domain, map, preferred, carveout, nvlink) = unsafe {
        (
            window.map(|value| value.accessPolicyWindow),
            policy.map(|value| value.clusterSchedulingPolicyPreference),
            domain.map(|value| value.memSyncDomain),
            map.map(|value| value.memSyncDomainMap),
            preferred.map(|value| value.preferredClusterDim),
            carveout.map(|value| value.sharedMemCarveout),
            nvlink.map(|value| value.nvlinkUtilCentricScheduling != 0),
        )
    };
    let policy = match policy {
        Some(CU_CLUSTER_SCHEDULING_POLICY_SPREAD) => Some(ClusterSchedulingPolicy::Spread),
        Some(CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING) => Some(ClusterSchedulingPolicy::LoadBalancing),
        _ => None,
    };
    KernelAttributes {
        access_policy_window: window
            .filter(|window| window.num_bytes != 0)
            .and_then(|window| read_window(&window).ok()),
        cluster_scheduling_policy: policy,
        memory_sync_domain: domain
            .filter(|&id| id == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE)
            .map(|_| MemorySyncDomain::Remote),
        // Devices with domains map them to 0 and 1, and others both to 0.
        memory_sync_domain_map: map
            .map(|map| MemorySyncDomainMap { default: map.default_, remote: map.remote })
            .filter(|map| map.default != 0 || map.remote > 1),
        preferred_cluster: preferred.filter(|extents| extents.x != 0).map(|extents| [extents.x, extents.y, extents.z]),
        // 0 where none was asked for.
        preferred_shared_memory_carveout: carveout.filter(|percent| (1..=100).contains(percent)),
        nvlink_centric_scheduling: nvlink.filter(|&is_on| is_on),
    }
}

/// The parameters and attributes of a kernel node of the current context.
pub(super) fn read(driver: &CudaDriver, node: Live<'_, GraphNodeHandle>) -> Result<KernelNode> {
    let mut raw = CUDA_KERNEL_NODE_PARAMS::zeroed();
    // SAFETY: the node is live, as its type says; the driver refuses one of another kind.
    check(unsafe { driver.functions.cuGraphKernelNodeGetParams(raw_node(node), &mut raw) })?;
    if raw.func.is_null() && !raw.kern.is_null() {
        // A kernel that belongs to no context: another library launched it while the stream was captured.
        // SAFETY: the kernel is that of a live node.
        check(unsafe { driver.functions.cuKernelGetFunction(&mut raw.func, raw.kern) })?;
    }
    // SAFETY: the function is that of a node, which was promised to exist as long as the node does.
    let function = unsafe { Live::new(function_handle(raw.func)) };
    let parameters = known(driver.function_parameters(function)?)?;
    // SAFETY: the description is that of a live node; the driver keeps as many arguments as the function has
    // parameters.
    let arguments = unsafe { arguments(&raw, &parameters) }?;
    let Attributes { cluster, cooperative, priority, others } = read_attributes(driver, node);
    Ok(KernelNode {
        function: function.handle(),
        grid: [raw.gridDimX, raw.gridDimY, raw.gridDimZ],
        block: [raw.blockDimX, raw.blockDimY, raw.blockDimZ],
        cluster,
        dynamic_shared_bytes: raw.sharedMemBytes,
        cooperative,
        priority,
        attributes: others,
        arguments,
        ranges: Vec::new(),
    })
}

/// What a kernel declares, where the driver can say it.
fn known(parameters: Option<Vec<ParameterInfo>>) -> Result<Vec<ParameterInfo>> {
    parameters.ok_or_else(|| {
        let message = "drivers before CUDA 12.4 do not say how many arguments a kernel has";
        Failure::argument(Status::NOT_SUPPORTED, message)
    })
}

/// The bytes of each argument.
///
/// # Safety
///
/// The description is the driver's, of a kernel that has these parameters.
unsafe fn arguments(raw: &CUDA_KERNEL_NODE_PARAMS, parameters: &[ParameterInfo]) -> Result<Vec<Vec<u8>>> {
    if parameters.is_empty() {
        return Ok(Vec::new());
    }
    if raw.kernelParams.is_null() {
        let message = "the arguments were given as one buffer, out of which the CUDA back end does not read them";
        return Err(Failure::argument(Status::NOT_SUPPORTED, message));
    }
    let argument = |(index, parameter): (usize, &ParameterInfo)| {
        // SAFETY: the description is the driver's, so the array has an address for each parameter.
        let address = unsafe { raw.kernelParams.add(index).read() };
        // SAFETY: at the address are the bytes of the argument, as many as the parameter has.
        unsafe { std::slice::from_raw_parts(address.cast::<u8>(), parameter.size) }.to_vec()
    };
    Ok(parameters.iter().enumerate().map(argument).collect())
}

#[cfg(test)]
mod tests {
    use super::{Attributes, arguments, describe, known};
    use anabranch_hal::{ContextHandle, FunctionHandle, KernelAttributes, KernelNode, ParameterInfo, Status};

    fn node(arguments: Vec<Vec<u8>>) -> KernelNode {
        KernelNode {
            function: FunctionHandle::from_raw(0x40),
            grid: [1, 2, 3],
            block: [4, 5, 6],
            cluster: None,
            dynamic_shared_bytes: 7,
            cooperative: false,
            priority: None,
            attributes: KernelAttributes::NONE,
            arguments,
            ranges: Vec::new(),
        }
    }

    #[test]
    fn arguments_come_back_as_they_were() {
        let node = node(vec![vec![1, 2, 3, 4, 5, 6, 7, 8], vec![9, 10]]);
        let raw = describe(ContextHandle::from_raw(0x10), &node);
        let given = &raw.parameters;
        assert_eq!((given.func.addr(), given.ctx.addr()), (0x40, 0x10));
        assert_eq!((given.gridDimZ, given.blockDimX, given.sharedMemBytes), (3, 4, 7));
        let parameters = [(0, 8), (8, 2)].map(|(offset, size)| ParameterInfo { offset, size });
        // SAFETY: the description is of these arguments, which live as long as the node.
        assert_eq!(unsafe { arguments(given, &parameters) }, Ok(node.arguments.clone()));
    }

    #[test]
    fn arguments_whose_number_is_not_known_are_not_read_as_none() {
        assert_eq!(known(None).unwrap_err().status, Status::NOT_SUPPORTED);
        assert_eq!(known(Some(Vec::new())), Ok(Vec::new()));
    }

    #[test]
    fn no_arguments_are_a_null_pointer() {
        let raw = describe(ContextHandle::from_raw(0x10), &node(Vec::new()));
        assert!(raw.parameters.kernelParams.is_null());
        // SAFETY: there are no parameters.
        assert_eq!(unsafe { arguments(&raw.parameters, &[]) }, Ok(Vec::new()));
        let parameters = [ParameterInfo { offset: 0, size: 4 }];
        // SAFETY: there is no array to read.
        let refused = unsafe { arguments(&raw.parameters, &parameters) };
        assert_eq!(refused.unwrap_err().status, Status::NOT_SUPPORTED);
    }

    #[test]
    fn a_cluster_of_one_block_is_none() {
        let none = Attributes { cluster: None, cooperative: false, priority: None, others: KernelAttributes::NONE };
        assert!(none.agree(Attributes { cluster: Some([1; 3]), priority: Some(0), ..none }));
        assert!(!none.agree(Attributes { cluster: Some([2, 1, 1]), ..none }));
        assert!(!none.agree(Attributes { cooperative: true, ..none }));
        assert!(none.are_defaults() && !Attributes { priority: Some(-1), ..none }.are_defaults());
    }
}
