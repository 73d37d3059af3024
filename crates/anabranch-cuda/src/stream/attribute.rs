//! Attributes of streams: conversion between the contract's types and the driver's union.

use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use crate::handles::host_address;
use anabranch_hal::{
    AccessPolicyWindow, AccessProperty, DevicePointer, Failure, Result, Status, StreamAttribute, StreamAttributeKind,
    SynchronizationPolicy,
};

/// The driver's number of an attribute.
pub(super) fn id(kind: StreamAttributeKind) -> Result<CUstreamAttrID> {
    match kind {
        StreamAttributeKind::SynchronizationPolicy => Ok(CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY),
        StreamAttributeKind::AccessPolicyWindow => Ok(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW),
        _ => Err(unknown("attribute of streams", &kind)),
    }
}

/// An attribute that was read.
///
/// # Safety
///
/// The value is that of the attribute of this kind.
pub(super) unsafe fn read(kind: StreamAttributeKind, value: &CUstreamAttrValue) -> Result<StreamAttribute> {
    match kind {
        StreamAttributeKind::SynchronizationPolicy => {
            // SAFETY: the value is that of this kind, so this member of the union was written; and any bytes are a value of it.
            let policy = match unsafe { value.syncPolicy } {
                // A stream whose policy was never set answers -1.
                CUsynchronizationPolicy::MAX | CU_SYNC_POLICY_AUTO => SynchronizationPolicy::Auto,
                CU_SYNC_POLICY_SPIN => SynchronizationPolicy::Spin,
                CU_SYNC_POLICY_YIELD => SynchronizationPolicy::Yield,
                CU_SYNC_POLICY_BLOCKING_SYNC => SynchronizationPolicy::BlockingSync,
                other => return Err(unknown("synchronization policy", &other)),
            };
            Ok(StreamAttribute::SynchronizationPolicy(policy))
        }
        StreamAttributeKind::AccessPolicyWindow => {
            // SAFETY: the value is that of this kind, so this member of the union was written; and any bytes are a value of it.
            let window = unsafe { value.accessPolicyWindow };
            read_window(&window).map(StreamAttribute::AccessPolicyWindow)
        }
        _ => Err(unknown("attribute of streams", &kind)),
    }
}

/// An attribute to set, with its number.
pub(super) fn write(attribute: &StreamAttribute) -> Result<(CUstreamAttrID, CUstreamAttrValue)> {
    let mut value = CUstreamAttrValue::zeroed();
    match attribute {
        StreamAttribute::SynchronizationPolicy(policy) => {
            value.syncPolicy = match policy {
                SynchronizationPolicy::Auto => CU_SYNC_POLICY_AUTO,
                SynchronizationPolicy::Spin => CU_SYNC_POLICY_SPIN,
                SynchronizationPolicy::Yield => CU_SYNC_POLICY_YIELD,
                SynchronizationPolicy::BlockingSync => CU_SYNC_POLICY_BLOCKING_SYNC,
                other => return Err(unknown("synchronization policy", other)),
            };
            Ok((CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, value))
        }
        StreamAttribute::AccessPolicyWindow(window) => {
            value.accessPolicyWindow = raw_window(window)?;
            Ok((CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, value))
        }
        other => Err(unknown("attribute of streams", other)),
    }
}

/// An access-policy window that was read.
pub(crate) fn read_window(window: &CUaccessPolicyWindow) -> Result<AccessPolicyWindow> {
    Ok(AccessPolicyWindow {
        address: DevicePointer(window.base_ptr.expose_provenance() as u64),
        bytes: window.num_bytes,
        hit_ratio: window.hitRatio,
        hit: property(window.hitProp)?,
        miss: property(window.missProp)?,
    })
}

/// An access-policy window to set.
pub(crate) fn raw_window(window: &AccessPolicyWindow) -> Result<CUaccessPolicyWindow> {
    Ok(CUaccessPolicyWindow {
        base_ptr: host_address(window.address.0),
        num_bytes: window.bytes,
        hitRatio: window.hit_ratio,
        hitProp: raw_property(window.hit)?,
        missProp: raw_property(window.miss)?,
    })
}

fn property(raw: CUaccessProperty) -> Result<AccessProperty> {
    match raw {
        CU_ACCESS_PROPERTY_NORMAL => Ok(AccessProperty::Normal),
        CU_ACCESS_PROPERTY_STREAMING => Ok(AccessProperty::Streaming),
        CU_ACCESS_PROPERTY_PERSISTING => Ok(AccessProperty::Persisting),
        other => Err(unknown("access property", &other)),
    }
}

fn raw_property(property: AccessProperty) -> Result<CUaccessProperty> {
    match property {
        AccessProperty::Normal => Ok(CU_ACCESS_PROPERTY_NORMAL),
        AccessProperty::Streaming => Ok(CU_ACCESS_PROPERTY_STREAMING),
        AccessProperty::Persisting => Ok(CU_ACCESS_PROPERTY_PERSISTING),
        other => Err(unknown("access property", &other)),
    }
}

/// A newer contract or driver has a value that this back end does not know.
#[cold]
fn unknown(what: &str, value: &dyn std::fmt::Debug) -> Failure {
    Failure::argument(Status::NOT_SUPPORTED, format!("the CUDA back end knows no {what} {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::{id, read, write};
    use crate::ffi::Zeroed;
    use crate::ffi::cuda_types::CUstreamAttrValue;
    use anabranch_hal::{
        AccessPolicyWindow, AccessProperty, DevicePointer, Status, StreamAttribute, StreamAttributeKind,
        SynchronizationPolicy,
    };

    fn round_trip(attribute: StreamAttribute, kind: StreamAttributeKind) {
        let (written_id, value) = write(&attribute).unwrap();
        assert_eq!(Ok(written_id), id(kind));
        // SAFETY: the value was written for an attribute of this kind.
        assert_eq!(unsafe { read(kind, &value) }, Ok(attribute));
    }

    #[test]
    fn what_was_written_is_read() {
        use SynchronizationPolicy::{Auto, BlockingSync, Spin, Yield};
        for policy in [Auto, Spin, Yield, BlockingSync] {
            round_trip(StreamAttribute::SynchronizationPolicy(policy), StreamAttributeKind::SynchronizationPolicy);
        }
        let window = AccessPolicyWindow {
            address: DevicePointer(0x7f00_0000_1000),
            bytes: 4096,
            hit_ratio: 0.5,
            hit: AccessProperty::Persisting,
            miss: AccessProperty::Streaming,
        };
        round_trip(StreamAttribute::AccessPolicyWindow(window), StreamAttributeKind::AccessPolicyWindow);
    }

    #[test]
    fn a_value_of_a_newer_driver_is_an_error_and_no_guess() {
        let mut value = CUstreamAttrValue::zeroed();
        value.syncPolicy = 99;
        // SAFETY: the value was written for an attribute of this kind.
        let failure = unsafe { read(StreamAttributeKind::SynchronizationPolicy, &value) }.unwrap_err();
        assert_eq!(failure.status, Status::NOT_SUPPORTED);
        assert!(failure.to_string().contains("99"));
    }
}
