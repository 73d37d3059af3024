//! Several tensors of other libraries with the same memory.

#![cfg(feature = "dlpack")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;
mod theirs;

use anabranch::dlpack::ManagedTensor;
use anabranch::{Status, flush_deferred_drops};
use common::{checked_host, hold, host, until};
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use theirs::Theirs;

#[test]
fn buffers_of_the_same_memory_outlive_each_other() {
    let context = checked_host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    for has_first in [true, false] {
        let mut memory = vec![1u32; 8];
        let at: *mut c_void = memory.as_mut_ptr().cast();
        let import = |offset, length: i64| {
            let place = |theirs: &mut Theirs| {
                theirs.tensor.dl_tensor.data = at;
                theirs.tensor.dl_tensor.byte_offset = offset;
            };
            let (tensor, deleted) = Theirs::tensor(Vec::new(), &[length], place);
            tensor.into_buffer::<u32>(&context, None).map(|buffer| (buffer, deleted))
        };
        let (mut first, first_deleted) = import(0, 8).unwrap();
        let signal = hold(&context, &stream);
        stream.fill(&mut first, 5u32).unwrap();
        let ((mut second, second_deleted), (part, _)) = (import(0, 8).unwrap(), import(8, 3).unwrap());
        // A moment later, so that a use that does not wait is seen.
        let opening = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            signal.set(1);
        });
        assert_eq!(other.download(&part).unwrap(), [5; 3]);
        opening.join().unwrap();
        if has_first {
            drop(second);
            stream.fill(&mut first, 6u32).unwrap();
            assert_eq!(stream.download(&first).unwrap(), [6; 8]);
            until("the deletion", || second_deleted.load(Ordering::SeqCst) == 1);
            drop(first);
        } else {
            drop(first);
            stream.synchronize().unwrap();
            flush_deferred_drops();
            stream.fill(&mut second, 6u32).unwrap();
            assert_eq!(stream.download(&second).unwrap(), [6; 8]);
            assert_eq!(first_deleted.load(Ordering::SeqCst), 0);
            drop(second);
        }
        assert_eq!(stream.download(&part).unwrap(), [6; 3]);
        drop(part);
        until("the deletions", || {
            [&first_deleted, &second_deleted].iter().all(|each| each.load(Ordering::SeqCst) == 1)
        });
        assert_eq!(memory, [6; 8]);
    }
    let report = context.device().memory_report().unwrap();
    assert!(report.findings.is_empty() && report.allocations.is_empty(), "{report:?}");
}

#[test]
fn safety_188_uses_of_a_buffer_follow_those_of_all_earlier_buffers_of_the_same_memory() {
    let context = checked_host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    for (is_whole, drops) in [(true, 0), (true, 1), (true, 2), (false, 0), (false, 1), (false, 2)] {
        let mut memory = vec![1u32; 8];
        let at: *mut c_void = memory.as_mut_ptr().cast();
        let import = |is_whole: bool| {
            let (offset, length) = if is_whole { (0, 8) } else { (8, 3) };
            let place = |theirs: &mut Theirs| {
                theirs.tensor.dl_tensor.data = at;
                theirs.tensor.dl_tensor.byte_offset = offset;
            };
            let (tensor, _) = Theirs::tensor(Vec::new(), &[length], place);
            tensor.into_buffer::<u32>(&context, None).unwrap()
        };
        let first = import(true);
        let mut second = import(is_whole);
        let first = (drops != 1).then_some(first);
        let signal = hold(&context, &stream);
        stream.fill(&mut second, 5u32).unwrap();
        let second = (drops != 2).then_some(second);
        let third = import(is_whole);
        // A moment later, so that a use that does not wait is seen.
        let opening = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            signal.set(1);
        });
        assert!(other.download(&third).unwrap().iter().all(|&word| word == 5), "{is_whole} {drops}");
        opening.join().unwrap();
        drop((first, second, third));
        let report = || context.device().memory_report().unwrap();
        until("the memory is given back", || {
            flush_deferred_drops();
            report().allocations.is_empty()
        });
        assert!(report().findings.is_empty(), "{:?}", report());
    }
}

#[test]
fn a_tensor_of_which_an_earlier_one_has_a_part_is_refused_meanwhile() {
    let context = host();
    let mut memory = vec![1u32; 8];
    let at: *mut c_void = memory.as_mut_ptr().cast();
    let import = |length| {
        let (tensor, _) = Theirs::tensor(Vec::new(), &[length], |theirs| theirs.tensor.dl_tensor.data = at);
        tensor.into_buffer::<u32>(&context, None)
    };
    let part = import(3).unwrap();
    let error = import(8).unwrap_err();
    assert_eq!(error.status(), Status::HOST_MEMORY_ALREADY_REGISTERED);
    assert!(error.to_string().contains("before its parts"), "{error}");
    drop(part);
    drop(import(8).unwrap());
    // Memory that the program has registered is known in another way.
    let pinned = context.register_pinned(vec![2u32; 8]).map_err(|(error, _)| error).unwrap();
    let tensor = ManagedTensor::export(pinned, &[8], None).map_err(|(error, _)| error).unwrap();
    let stream = context.create_stream().unwrap();
    assert_eq!(stream.download(&tensor.into_buffer::<u32>(&context, None).unwrap()).unwrap(), [2; 8]);
}

#[test]
fn memory_of_the_host_is_imported_again_and_again() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut memory = vec![1u32; 4];
    let at: *mut c_void = memory.as_mut_ptr().cast();
    for value in 0..10 {
        let (tensor, _) = Theirs::tensor(Vec::new(), &[4], |theirs| theirs.tensor.dl_tensor.data = at);
        let mut buffer = tensor.into_buffer::<u32>(&context, None).unwrap();
        stream.fill(&mut buffer, value).unwrap();
        stream.synchronize().unwrap();
    }
    let (tensor, _) = Theirs::tensor(Vec::new(), &[4], |theirs| theirs.tensor.dl_tensor.data = at);
    let buffer = tensor.into_buffer::<u32>(&context, None).unwrap();
    let mut copy = stream.allocate_zeroed::<u32>(4).unwrap();
    let signal = hold(&context, &stream);
    stream.copy(&mut copy, &buffer).unwrap();
    drop(buffer);
    let (tensor, deleted) = Theirs::tensor(Vec::new(), &[4], |theirs| theirs.tensor.dl_tensor.data = at);
    let error = tensor.into_buffer::<u32>(&context, None).unwrap_err();
    assert_eq!(error.status(), Status::HOST_MEMORY_ALREADY_REGISTERED);
    until("the deletion", || deleted.load(Ordering::SeqCst) == 1);
    signal.set(1);
    stream.synchronize().unwrap();
    flush_deferred_drops();
    assert_eq!(memory, [9; 4]);
}
