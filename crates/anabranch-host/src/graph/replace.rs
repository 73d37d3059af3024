//! What a node of an executable graph does, replaced by something of the same kind.

use super::node::Action;
use crate::memory::AllocationTable;
use anabranch_hal::{Copy3d, CopyPlace, FillNode, GraphUpdateResult, KernelAttributes, KernelNode, ValueOperation};
use std::sync::Arc;

/// Whether what a node does can be replaced by something of the same kind.
pub(crate) fn replaceable(
    table: &AllocationTable,
    old: &Action,
    new: &Action,
) -> std::result::Result<(), GraphUpdateResult> {
    let is_elsewhere = |(old, new): (u64, u64)| match (table.device_of(old), table.device_of(new)) {
        (Some(old), Some(new)) => old != new,
        _ => false,
    };
    if addresses(old).into_iter().zip(addresses(new)).any(is_elsewhere) {
        return Err(GraphUpdateResult::PARAMETERS_CHANGED);
    }
    let same = match (old, new) {
        (Action::Kernel(old), Action::Kernel(new)) if !Arc::ptr_eq(&old.core, &new.core) => {
            return Err(GraphUpdateResult::UNSUPPORTED_FUNCTION_CHANGE);
        }
        (Action::Kernel(old), Action::Kernel(new)) if old.parameters.cooperative != new.parameters.cooperative => {
            return Err(GraphUpdateResult::ATTRIBUTES_CHANGED);
        }
        // The work belongs to the context of the event.
        (Action::EventRecord(old), Action::EventRecord(new)) | (Action::EventWait(old), Action::EventWait(new)) => {
            Arc::ptr_eq(&old.core, &new.core)
        }
        (Action::Copy(old), Action::Copy(new)) => {
            let (old, new) = (&old.parameters, &new.parameters);
            let stays = |old: &CopyPlace, new: &CopyPlace| {
                old.host == new.host && (old.host || table.have_one_owner(old.address, new.address))
            };
            let stay = stays(&old.source, &new.source) && stays(&old.destination, &new.destination);
            stay && (is_row(old) && is_row(new) || old.extent == new.extent)
        }
        (Action::Fill(old), Action::Fill(new)) => {
            let extents = |fill: &FillNode| (fill.width, fill.height, fill.pattern.width(), fill.pitch);
            let owners = (table.owner_of(old.address.0), table.owner_of(new.address.0));
            let is_same_context = !matches!(owners, (Some(old), Some(new)) if old != new);
            is_same_context && (old.height == 1 && new.height == 1 || extents(old) == extents(new))
        }
        (Action::ExternalSignal(old), Action::ExternalSignal(new))
        | (Action::ExternalWait(old), Action::ExternalWait(new)) => old.parameters.len() == new.parameters.len(),
        (Action::Values(old), Action::Values(new)) => {
            old.parameters.iter().map(operation).eq(new.parameters.iter().map(operation))
        }
        // Memory of another graph has another address, or may be in use by that graph's launches.
        (Action::Allocate(old), Action::Allocate(new)) if !Arc::ptr_eq(&old.block, &new.block) => {
            return Err(GraphUpdateResult::ERROR);
        }
        (Action::Conditional(old), Action::Conditional(new)) => {
            old.kind == new.kind && old.bodies.len() == new.bodies.len()
        }
        _ => true,
    };
    if same { Ok(()) } else { Err(GraphUpdateResult::PARAMETERS_CHANGED) }
}

/// Whether what a node of an executable graph does can be replaced without an update from a whole graph. A copy of several
/// rows or slices cannot, nor can one be put in its place, whatever it copies.
pub(crate) fn replaceable_alone(old: &Action, new: &Action) -> bool {
    match (old, new) {
        (Action::Copy(old), Action::Copy(new)) => is_row(&old.parameters) && is_row(&new.parameters),
        _ => true,
    }
}

fn is_row(copy: &Copy3d) -> bool {
    copy.extent[1] == 1 && copy.extent[2] == 1
}

/// The memory that copies, fills and value operations use.
fn addresses(action: &Action) -> Vec<u64> {
    let address = |operation: &ValueOperation| match operation {
        ValueOperation::Wait { address, .. }
        | ValueOperation::Write { address, .. }
        | ValueOperation::Reduce { address, .. } => address.0,
        // No memory has this address.
        ValueOperation::Barrier { .. } | ValueOperation::FlushRemoteWrites => 0,
    };
    match action {
        Action::Copy(copy) => vec![copy.parameters.source.address, copy.parameters.destination.address],
        Action::Fill(fill) => vec![fill.address.0],
        Action::Values(values) => values.parameters.iter().map(address).collect(),
        _ => Vec::new(),
    }
}

/// What must stay of an operation. Of waits and writes, address and value can change, and of others nothing.
#[derive(PartialEq)]
enum Lasting {
    Wait(u64),
    Write(u64),
    All(ValueOperation),
}

fn operation(operation: &ValueOperation) -> Lasting {
    match operation {
        ValueOperation::Wait { value, .. } => Lasting::Wait(value.width()),
        ValueOperation::Write { value, .. } => Lasting::Write(value.width()),
        other => Lasting::All(*other),
    }
}

/// Whether the attributes that are wanted of a kernel are those that its node in the graph has. Those of an executable
/// graph cannot change. A wanted priority of none stands for the node's own.
pub(crate) fn attributes_stay(node: &Action, wanted: &KernelNode) -> bool {
    let (cluster, cooperative, priority, hints) = match node {
        Action::Kernel(kernel) => {
            let KernelNode { cluster, cooperative, priority, attributes, .. } = &kernel.parameters;
            (*cluster, *cooperative, *priority, *attributes)
        }
        _ => (None, false, None, KernelAttributes::NONE),
    };
    // Without a wanted priority or hint, the node keeps its own.
    wanted.cluster.unwrap_or([1; 3]) == cluster.unwrap_or([1; 3])
        && wanted.cooperative == cooperative
        && wanted.priority.is_none_or(|wanted| wanted == priority.unwrap_or(0))
        && wanted.attributes.or(&hints).without_defaults() == hints.without_defaults()
}
