//! Operations on single values in memory, checked as hardware checks them.

use super::table::{AllocationTable, Lookup, MemoryKind};
use super::work::ValueWrite;
use crate::engine::{Comparison, Operation, Use, ValueCondition};
use anabranch_hal::{DevicePointer, Failure, Result, Status, Value, ValueOperation, WaitValueFlags, WriteValueFlags};

/// Checks the address of a value operation. Without a table, it is looked at when the operation runs.
fn check_value(
    table: Option<&AllocationTable>,
    address: DevicePointer,
    value: Value,
    usable: impl FnOnce(MemoryKind) -> bool,
) -> Result<()> {
    let width = value.width();
    let found = table.map(|table| table.find(address.0, width as usize));
    let inside = found.is_none_or(|found| matches!(found, Lookup::Inside(kind) if usable(kind)));
    if inside && address.0.is_multiple_of(width) { Ok(()) } else { Err(Failure::new(Status::INVALID_VALUE)) }
}

/// The condition of a value wait, checked.
///
/// # Safety
/// The address stays valid, initialised memory until the condition is used no more.
pub(crate) unsafe fn value_condition(
    table: Option<&AllocationTable>,
    address: DevicePointer,
    value: Value,
    flags: WaitValueFlags,
) -> Result<ValueCondition> {
    if !WaitValueFlags::all().contains(flags) {
        return Err(Failure::new(Status::INVALID_VALUE));
    }
    if flags.contains(WaitValueFlags::FLUSH) {
        return Err(Failure::new(Status::NOT_SUPPORTED));
    }
    check_value(table, address, value, |kind| kind != MemoryKind::Managed)?;
    let comparison = match flags {
        WaitValueFlags::EQUAL => Comparison::Equal,
        WaitValueFlags::AND => Comparison::And,
        WaitValueFlags::NOR => Comparison::Nor,
        _ => Comparison::GreaterOrEqual,
    };
    // SAFETY: the alignment was checked, and the caller keeps the address valid as long as the condition is used.
    Ok(unsafe { ValueCondition::new(address.0, value, comparison) })
}

/// Checks a value write.
pub(crate) fn check_value_write(
    table: Option<&AllocationTable>,
    address: DevicePointer,
    value: Value,
    flags: WriteValueFlags,
) -> Result<()> {
    // Hardware refuses to leave the barrier out, and to write memory of pools and managed memory.
    if !flags.is_empty() {
        return Err(Failure::new(Status::INVALID_VALUE));
    }
    let usable = |kind| !matches!(kind, MemoryKind::Pooled | MemoryKind::Managed | MemoryKind::Graph);
    check_value(table, address, value, usable)
}

/// A value operation that does something here.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueStep {
    Wait(ValueCondition),
    Write(ValueWrite),
}

/// What a value operation does, checked. `None`: nothing, because work of a stream sees what came before it.
///
/// # Safety
/// The address stays valid, initialised memory until the operation is used no more, or it is looked at before it runs.
pub(crate) unsafe fn value_step(
    table: Option<&AllocationTable>,
    operation: &ValueOperation,
) -> Result<Option<ValueStep>> {
    let write = |address: DevicePointer, value, reduction| {
        Ok(Some(ValueStep::Write(ValueWrite { address: address.0, value, reduction })))
    };
    match *operation {
        ValueOperation::Wait { address, value, flags } => {
            // SAFETY: the caller keeps the address valid.
            unsafe { value_condition(table, address, value, flags) }.map(|condition| Some(ValueStep::Wait(condition)))
        }
        ValueOperation::Write { address, value, flags } => {
            check_value_write(table, address, value, flags)?;
            write(address, value, None)
        }
        ValueOperation::Reduce { address, value, reduction } => {
            check_value_write(table, address, value, WriteValueFlags::empty())?;
            write(address, value, Some(reduction))
        }
        ValueOperation::Barrier { .. } => Ok(None),
        ValueOperation::FlushRemoteWrites => Err(Failure::new(Status::NOT_SUPPORTED)),
    }
}

/// What a value write uses.
pub(crate) fn value_write_operation(address: u64, value: Value) -> Operation {
    Operation::new("a write of a value", [Use::device(address, value.width())])
}
