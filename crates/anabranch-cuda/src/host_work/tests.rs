//! What the driver would call.

use super::{QUEUED, QueuedWork, describe, read, run_callback, run_host_function};
use crate::ffi::cuda_types::CUDA_HOST_NODE_PARAMS;
use anabranch_hal::{ContextHandle, HostWork, HostWorkKey, RepeatableWork, Status, StreamHandle};
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const CONTEXT: ContextHandle = ContextHandle::from_raw(0x40);

/// Queues work, and gives what the driver would be given.
fn queued(work: QueuedWork) -> *mut c_void {
    QUEUED.insert(CONTEXT, StreamHandle::LEGACY, work).expect("there is room").as_user_data()
}

fn call_host_function(data: *mut c_void) {
    // SAFETY: the function takes any key.
    unsafe { run_host_function(data) };
}

fn call_node(key: HostWorkKey) {
    let node = describe(key);
    let run = node.fn_.expect("there is a function");
    // SAFETY: the function takes any key.
    unsafe { run(node.userData) };
}

#[test]
fn a_host_function_runs_once_and_is_dropped_once_however_often_it_is_called() {
    let counted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&counted);
    let data = queued(QueuedWork::HostFunction(HostWork::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    })));
    assert_eq!((counted.load(Ordering::SeqCst), Arc::strong_count(&counted)), (0, 2));
    call_host_function(data);
    call_host_function(data);
    assert_eq!((counted.load(Ordering::SeqCst), Arc::strong_count(&counted)), (1, 1));
}

#[test]
fn a_callback_is_told_the_status() {
    let told = Arc::new(AtomicUsize::new(0));
    let tell = Arc::clone(&told);
    let data =
        queued(QueuedWork::Callback(Box::new(move |status: Status| tell.store(status.0 as usize, Ordering::SeqCst))));
    // SAFETY: the function takes any key, and does not look at the stream.
    unsafe { run_callback(ptr::null_mut(), 700, data) };
    assert_eq!((told.load(Ordering::SeqCst), Arc::strong_count(&told)), (700, 1));
}

#[test]
fn a_node_runs_its_work_as_often_as_it_is_called_until_the_owner_is_gone() {
    let counted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&counted);
    let work = RepeatableWork::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let key = work.key();
    (0..3).for_each(|_| call_node(key));
    drop(work);
    call_node(key);
    assert_eq!((counted.load(Ordering::SeqCst), Arc::strong_count(&counted)), (3, 1));
}

#[test]
fn only_nodes_of_this_library_have_a_key() {
    let key = HostWorkKey::from_raw(7);
    assert_eq!(read(&describe(key)), Some(key));
    let another_function = CUDA_HOST_NODE_PARAMS { fn_: Some(run_host_function), ..describe(key) };
    assert_eq!(read(&another_function), None);
    let no_function = CUDA_HOST_NODE_PARAMS { fn_: None, ..describe(key) };
    assert_eq!(read(&no_function), None);
}

#[test]
fn unwinding_ends_before_the_driver() {
    struct UnwindsOnDrop;
    impl Drop for UnwindsOnDrop {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(2));
        }
    }
    let unwinds = || std::panic::resume_unwind(Box::new(UnwindsOnDrop));
    call_host_function(queued(QueuedWork::HostFunction(HostWork::new(unwinds))));
    let work = RepeatableWork::new(unwinds);
    call_node(work.key());
    let (captured, context) = (UnwindsOnDrop, ContextHandle::from_raw(0x50));
    let work = HostWork::new(move || std::mem::forget(captured));
    QUEUED.insert(context, StreamHandle::LEGACY, QueuedWork::HostFunction(work)).expect("there is room");
    QUEUED.context_in_error(context);
}

#[test]
fn an_unknown_key_is_ignored() {
    call_host_function(ptr::null_mut());
    call_host_function(ptr::without_provenance_mut(usize::MAX));
    call_node(HostWorkKey::from_raw(u64::MAX));
}
