//! What executable graphs keep alive that their graphs did not give them: host work that was put into a node afterwards,
//! and in which streams they were launched, so that a panic of host work can be reported to who waits for one of them.
//!
//! The driver has no way of giving an executable graph a reference. But an executable graph takes over what its graph
//! has when it is made or updated, and its launches hold on to that. So the graph is lent a list for that moment, and the
//! list lives until the executable graph and all launches of it are gone.

use super::host_node::{HOST_NODES, HostNode};
use super::retain::UserObject;
use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::cuda_types::*;
use crate::graph::parameters;
use crate::handles::raw_node;
use crate::panics::Place;
use anabranch_hal::{ExecutableGraphHandle, Failure, GraphNodeKind, Result, Status};
use std::collections::BTreeMap;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The lists of the executable graphs in this process.
static LISTS: Mutex<BTreeMap<ExecutableGraphHandle, Entry>> = Mutex::new(BTreeMap::new());

#[derive(Clone)]
struct Entry {
    list: Weak<List>,
    /// The driver's handle of the list, which is valid as long as the executable graph.
    object: usize,
}

/// The streams that are remembered of an executable graph, at most. Its launches run one after the other, so that most of
/// them are long done.
const MOST_PLACES: usize = 16;

#[derive(Default)]
pub(super) struct List {
    nodes: Mutex<Vec<Arc<HostNode>>>,
    /// The latest last.
    places: Mutex<Vec<Place>>,
}

impl List {
    pub(super) fn places(&self) -> Vec<Place> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn launched(&self, place: Place) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.last() != Some(&place) {
            places.retain(|other| *other != place);
            if places.len() == MOST_PLACES {
                places.remove(0);
            }
            places.push(place);
        }
    }
}

/// Nothing of the user's runs under this lock, and nothing that panics, so it is never poisoned.
fn lists() -> MutexGuard<'static, BTreeMap<ExecutableGraphHandle, Entry>> {
    LISTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A list that a graph has been lent.
pub(super) struct Lent<'a> {
    object: UserObject<'a>,
    graph: CUgraph,
    list: Weak<List>,
}

impl<'a> Lent<'a> {
    /// Lends the graph a new list, if there is any host work that could be put into it.
    ///
    /// # Safety
    ///
    /// The graph is live as long as the result.
    pub(super) unsafe fn new(driver: &'a CudaDriver, graph: CUgraph) -> Result<Option<Self>> {
        if !HOST_NODES.any() {
            return Ok(None);
        }
        let list = Arc::new(List::default());
        let lent = Arc::downgrade(&list);
        let object = UserObject::new(driver, list)?;
        // SAFETY: the caller vouches for the graph.
        unsafe { object.give(graph) }?;
        Ok(Some(Self { object, graph, list: lent }))
    }

    /// The graph has become this executable graph, whose list it is now.
    ///
    /// # Safety
    ///
    /// The graph is as it was then.
    pub(super) unsafe fn belongs_to(&self, driver: &CudaDriver, executable: ExecutableGraphHandle) {
        // SAFETY: the graph is live, as was promised when this was made.
        unsafe { tell_host_nodes(driver, self.graph, &self.list) };
        let entry = Entry { list: Weak::clone(&self.list), object: self.object.raw().expose_provenance() };
        lists().insert(executable, entry);
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // SAFETY: the graph was given the reference, and is live, as was promised when this was made.
        unsafe { self.object.take_back(self.graph) };
    }
}

/// Runs an update, during which the graph is lent the list of the executable graph.
///
/// # Safety
///
/// Both are live.
pub(super) unsafe fn while_lent(
    driver: &CudaDriver,
    executable: ExecutableGraphHandle,
    graph: CUgraph,
    update: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let entry = lists().get(&executable).cloned();
    let Some(entry) = entry.filter(|entry| entry.list.strong_count() > 0) else { return update() };
    let object: CUuserObject = ptr::with_exposed_provenance_mut(entry.object);
    // SAFETY: the caller vouches for the graph; the executable graph has a reference to the object, so that it is live.
    check(unsafe { driver.functions.cuGraphRetainUserObject(graph, object, 1, 0) })?;
    let updated = update();
    // SAFETY: as above, and the graph was given the reference just now. A failure would leave the list alive as long as the
    // graph, no more.
    let _ = unsafe { driver.functions.cuGraphReleaseUserObject(graph, object, 1) };
    if updated.is_ok() {
        // SAFETY: the caller vouches for the graph.
        unsafe { tell_host_nodes(driver, graph, &entry.list) };
    }
    updated
}

/// Tells the host work in a graph, and in the graphs inside of it, of the list of an executable graph that has it. What the
/// driver does not answer is left out: a panic is then reported to the context.
///
/// # Safety
///
/// The graph is live.
unsafe fn tell_host_nodes(driver: &CudaDriver, graph: CUgraph, list: &Weak<List>) {
    // SAFETY: the caller vouches for the graph.
    let nodes = unsafe { super::nodes(driver, graph) }.unwrap_or_default();
    for node in nodes.into_iter().map(raw_node) {
        // SAFETY: the node is one of a live graph.
        match unsafe { parameters::kind(driver, node) } {
            Ok(GraphNodeKind::HOST) => {
                // SAFETY: as above, and it is a host node.
                if let Ok(Some(host)) = unsafe { parameters::host(driver, node) } {
                    host.is_in(Weak::clone(list));
                }
            }
            Ok(GraphNodeKind::CHILD) => {
                let mut child = ptr::null_mut();
                // SAFETY: as above, and it is a node with a graph; the result is written to a variable that outlives the
                // call.
                if check(unsafe { driver.functions.cuGraphChildGraphNodeGetGraph(node, &mut child) }).is_ok() {
                    // SAFETY: the graph belongs to a node of a live graph.
                    unsafe { tell_host_nodes(driver, child, list) };
                }
            }
            _ => {}
        }
    }
}

/// The executable graph is about to be launched.
pub(super) fn launched(executable: ExecutableGraphHandle, place: Place) {
    let list = lists().get(&executable).and_then(|entry| entry.list.upgrade());
    if let Some(list) = list {
        list.launched(place);
    }
}

/// Keeps host work as long as the executable graph and its launches.
pub(super) fn keep(executable: ExecutableGraphHandle, node: Arc<HostNode>) -> Result<()> {
    let list = lists().get(&executable).and_then(|entry| entry.list.upgrade());
    let Some(list) = list else {
        let message = "the executable graph was made without host work of this library, and cannot be given any";
        return Err(Failure::argument(Status::NOT_SUPPORTED, message));
    };
    node.is_in(Arc::downgrade(&list));
    list.nodes.lock().unwrap_or_else(PoisonError::into_inner).push(node);
    Ok(())
}

/// The executable graph is about to be destroyed, and another may get its handle.
pub(super) fn forget(executable: ExecutableGraphHandle) {
    lists().remove(&executable);
}

#[cfg(test)]
mod tests {
    use super::{List, MOST_PLACES, Place};
    use anabranch_hal::ContextHandle;

    #[test]
    fn the_latest_streams_are_remembered_once_each() {
        let place = |stream| Place { context: ContextHandle::from_raw(1), stream: Some(stream) };
        let list = List::default();
        for stream in [1, 2, 2, 1] {
            list.launched(place(stream));
        }
        assert_eq!(list.places(), [2, 1].map(place));
        (0..100).map(place).for_each(|place| list.launched(place));
        assert_eq!(list.places().len(), MOST_PLACES);
        assert_eq!(list.places().last(), Some(&place(99)));
    }
}
