//! Host memory that runs out: a call that needs much of it returns an error.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{BatchCopy, Status};
use common::host;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Has no memory for so many bytes and more at once.
struct Limited(AtomicUsize);

// SAFETY: memory comes from the system's allocator, or there is none.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= self.0.load(Ordering::SeqCst) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller promises what that allocator asks for, too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the memory is of that allocator, and the caller promises what it asks for.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static MEMORY: Limited = Limited(AtomicUsize::new(usize::MAX));

#[test]
fn a_batch_with_plain_memory_for_pinned_memory_is_an_error_without_memory() {
    const BYTES: usize = 1 << 20;
    let context = host();
    let stream = context.create_stream().unwrap();
    let source = vec![7u8; BYTES];
    let mut small = context.allocate_pinned::<u8>(1).unwrap();
    let mut pinned = context.allocate_pinned::<u8>(BYTES).unwrap();
    MEMORY.0.store(BYTES, Ordering::SeqCst);
    let copies = [BatchCopy::from_host(&mut small, &[7]).unwrap(), BatchCopy::from_host(&mut pinned, &source).unwrap()];
    let refused = stream.copy_batch(copies);
    MEMORY.0.store(usize::MAX, Ordering::SeqCst);
    assert_eq!(refused.unwrap_err().status(), Status::OUT_OF_MEMORY);
    stream.synchronize().unwrap();
    assert_eq!((small.as_slice().unwrap()[0], pinned.as_slice().unwrap()[BYTES - 1]), (0, 0), "nothing was copied");
    stream.copy_batch([BatchCopy::from_host(&mut pinned, &source).unwrap()]).unwrap();
    stream.synchronize().unwrap();
    assert!(pinned.as_slice().unwrap().iter().all(|&byte| byte == 7));
}
