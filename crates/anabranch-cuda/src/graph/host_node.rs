//! Host work in graphs, which runs at every launch.
//!
//! The driver is given the address of the work, which it hands back at each launch, and a share in the work, which it
//! lets go of when no graph and no launch can need it any more. The address is never followed: it is looked up among those
//! of the works that there are. So whatever the driver does, nothing is run after it was dropped.

use crate::dropping::DROPS;
use crate::graph::kept::List;
use crate::panics::{PANICS, Place, contain};
use anabranch_hal::{ContextHandle, RepeatableWork};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The works in this process that graphs may run.
pub(crate) static HOST_NODES: HostNodes = HostNodes::new();

pub(crate) struct HostNodes {
    any: AtomicBool,
    by_address: Mutex<BTreeMap<usize, Weak<HostNode>>>,
}

/// The work of a host node, and of all copies of the node.
pub(crate) struct HostNode {
    /// What the driver knows it by.
    address: usize,
    context: ContextHandle,
    work: RepeatableWork,
    /// The one that keeps this one alive, if the driver does not.
    keeper: Option<Weak<HostNode>>,
    /// Those that took the place of this one in a node. The driver has no share in them, but one in this, as long as it
    /// can run them: which graph a node belongs to is something that most drivers cannot be asked.
    kept: Mutex<Vec<Arc<HostNode>>>,
    /// The lists of the executable graphs that have it.
    lists: Mutex<Vec<Weak<List>>>,
}

impl HostNode {
    pub(crate) fn new(context: ContextHandle, work: RepeatableWork) -> Arc<Self> {
        Self::with_keeper(context, work, None)
    }

    fn with_keeper(context: ContextHandle, work: RepeatableWork, keeper: Option<Weak<Self>>) -> Arc<Self> {
        let node = Arc::new_cyclic(|weak: &Weak<Self>| Self {
            address: weak.as_ptr().addr(),
            context,
            work,
            keeper,
            kept: Mutex::new(Vec::new()),
            lists: Mutex::new(Vec::new()),
        });
        HOST_NODES.insert(&node);
        node
    }

    /// Work to take the place of this in a node, to be [kept](Self::keep) when it has.
    pub(crate) fn successor(self: &Arc<Self>, context: ContextHandle, work: RepeatableWork) -> Arc<Self> {
        let keeper = self.keeper.clone().unwrap_or_else(|| Arc::downgrade(self));
        Self::with_keeper(context, work, Some(keeper))
    }

    /// Keeps a successor as long as the driver has a share in this, or in what keeps this.
    pub(crate) fn keep(&self, successor: Arc<Self>) {
        let keeper = self.keeper.as_ref().and_then(Weak::upgrade);
        let keeper = keeper.as_deref().unwrap_or(self);
        keeper.kept.lock().unwrap_or_else(PoisonError::into_inner).push(successor);
    }

    /// An executable graph has the work, and its list tells where that is launched.
    pub(super) fn is_in(&self, list: Weak<List>) {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&list));
        lists.push(list);
    }

    /// Where the work may be running: the driver does not say. Another library may have launched it, in a stream that
    /// nothing is known of.
    fn places(&self) -> Vec<Place> {
        let lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let mut places: Vec<Place> = lists.iter().filter_map(Weak::upgrade).flat_map(|list| list.places()).collect();
        if places.is_empty() {
            places.push(Place { context: self.context, stream: None });
        }
        places
    }

    /// The address, as the driver takes it.
    pub(crate) fn as_user_data(&self) -> *mut c_void {
        ptr::without_provenance_mut(self.address)
    }

    pub(crate) fn work(&self) -> RepeatableWork {
        self.work.clone()
    }
}

impl Drop for HostNode {
    fn drop(&mut self) {
        HOST_NODES.remove(self.address);
    }
}

impl HostNodes {
    const fn new() -> Self {
        Self { any: AtomicBool::new(false), by_address: Mutex::new(BTreeMap::new()) }
    }

    /// Nothing of the user's runs under this lock, and nothing that panics, so it is never poisoned.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Weak<HostNode>>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is any, and so whether any graph can have one of ours.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// The work at an address that the driver hands back. None if the address is not that of a work.
    pub(crate) fn find(&self, data: *mut c_void) -> Option<Arc<HostNode>> {
        self.lock().get(&data.addr())?.upgrade()
    }

    fn insert(&self, node: &Arc<HostNode>) {
        let mut nodes = self.lock();
        nodes.insert(node.address, Arc::downgrade(node));
        self.any.store(true, Ordering::Release);
    }

    fn remove(&self, address: usize) {
        let mut nodes = self.lock();
        nodes.remove(&address);
        if nodes.is_empty() {
            self.any.store(false, Ordering::Release);
        }
    }
}

/// What the driver calls for a host node.
pub(crate) unsafe extern "C" fn run_host_node(data: *mut c_void) {
    let Some(node) = HOST_NODES.find(data) else { return };
    contain(|| node.work.run(), |payload| PANICS.note_at(node.places(), payload));
    // The graph may have gone meanwhile. What the work captured is not dropped here, where the driver must not be called.
    if let Some(node) = Arc::into_inner(node) {
        DROPS.hand_over(Arc::new(node));
    }
}

#[cfg(test)]
mod tests {
    use super::{HOST_NODES, HostNode, run_host_node};
    use crate::panics::PANICS;
    use anabranch_hal::{ContextHandle, RepeatableWork};
    use std::ptr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn counting() -> (Arc<AtomicUsize>, RepeatableWork) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let work = RepeatableWork::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        (count, work)
    }

    #[test]
    fn work_runs_as_often_as_it_is_called_until_it_is_gone() {
        let (count, work) = counting();
        let node = HostNode::new(ContextHandle::from_raw(1), work.clone());
        let data = node.as_user_data();
        assert!(HOST_NODES.any() && HOST_NODES.find(data).expect("it is there").work().is_same(&work));
        for _ in 0..3 {
            // SAFETY: the function takes any address.
            unsafe { run_host_node(data) };
        }
        assert_eq!(count.load(Ordering::SeqCst), 3);
        drop((node, work));
        // SAFETY: as above.
        unsafe { run_host_node(data) };
        assert_eq!((count.load(Ordering::SeqCst), Arc::strong_count(&count)), (3, 1));
        // SAFETY: as above.
        unsafe { run_host_node(ptr::null_mut()) };
    }

    #[test]
    fn successors_live_as_long_as_the_first() {
        let context = ContextHandle::from_raw(2);
        let (first_count, first) = counting();
        let (count, work) = counting();
        let first = HostNode::new(context, first);
        let second = first.successor(context, work.clone());
        first.keep(Arc::clone(&second));
        let third = second.successor(context, work);
        second.keep(Arc::clone(&third));
        let data = third.as_user_data();
        drop((second, third));
        // SAFETY: the function takes any address.
        unsafe { run_host_node(data) };
        assert_eq!(count.load(Ordering::SeqCst), 1);
        drop(first);
        assert!(HOST_NODES.find(data).is_none());
        assert_eq!((Arc::strong_count(&first_count), Arc::strong_count(&count)), (1, 1));
    }

    #[test]
    fn unwinding_ends_before_the_driver_and_is_reported_to_the_context() {
        let context = ContextHandle::from_raw(3);
        let work = RepeatableWork::new(|| std::panic::resume_unwind(Box::new("in a node")));
        let node = HostNode::new(context, work);
        // SAFETY: the function takes any address.
        unsafe { run_host_node(node.as_user_data()) };
        assert!(PANICS.report_context(context).unwrap_err().to_string().contains("in a node"));
        assert_eq!(PANICS.report_context(context), Ok(()));
    }
}
