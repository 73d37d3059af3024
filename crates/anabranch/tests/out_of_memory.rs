//! Host memory that runs out: a call that needs much of it returns an error.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{BatchCopy, Instance, LaunchConfig, Module, Status, WaitCondition};
use common::host;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

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

/// One test at a time has little memory.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_batch_with_plain_memory_for_pinned_memory_is_an_error_without_memory() {
    const BYTES: usize = 1 << 20;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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

#[test]
fn safety_53_a_kernel_whose_local_memory_does_not_fit_is_an_error() {
    const KERNEL: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry large(.param .u64 to)
{
    .local .align 8 .b8 array[1048000];
    .reg .u64 %rd<3>; .reg .u32 %r<2>;
    ld.param.u64 %rd1, [to];
    mov.u64 %rd2, array;
    st.local.u32 [%rd2], 7;
    ld.local.u32 %r1, [%rd2];
    st.global.u32 [%rd1], %r1;
    ret;
}";
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let launch = |limit: usize| {
        let context = host();
        let stream = context.create_stream().unwrap();
        let kernel = Module::load_ptx(&context, KERNEL).unwrap().kernel("large").unwrap();
        let mut to = stream.upload(&[0u32]).unwrap();
        stream.synchronize().unwrap();
        MEMORY.0.store(limit, Ordering::SeqCst);
        // SAFETY: the kernel takes the address of a number, which it writes.
        let launched = unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 64), (&mut to,)) };
        let waited = launched.and_then(|()| stream.synchronize());
        MEMORY.0.store(usize::MAX, Ordering::SeqCst);
        waited.and_then(|()| stream.download(&to))
    };
    let failed = launch(16 << 20).unwrap_err();
    assert_eq!(failed.status(), Status::LAUNCH_FAILED, "{failed}");
    assert!(failed.to_string().contains("there is no memory"), "{failed}");
    assert_eq!(launch(usize::MAX).unwrap(), [7]);
}

#[test]
fn safety_174_an_upload_without_memory_for_its_copy_is_made_all_the_same() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let context = host();
    let stream = context.create_stream().unwrap();
    for bytes in [40_000, 1 << 18, 1 << 20] {
        let mut memory = stream.allocate_zeroed::<u8>(bytes).unwrap();
        let source = vec![7u8; bytes];
        stream.synchronize().unwrap();
        MEMORY.0.store(bytes, Ordering::SeqCst);
        let uploaded = stream.copy_from_host(&mut memory, &source);
        MEMORY.0.store(usize::MAX, Ordering::SeqCst);
        match uploaded {
            Ok(()) => assert_eq!(stream.download(&memory).unwrap(), source),
            Err(error) => assert_eq!(error.status(), Status::OUT_OF_MEMORY),
        }
    }
}

#[test]
fn safety_176_memory_that_is_dropped_without_memory_to_check_it_with_is_not_used_again_before_its_uses() {
    const BYTES: usize = 1 << 20;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let instance = Instance::builder().cuda(false).isolated().host_check_memory(true).build().unwrap();
    let context = instance.device("host").unwrap().context().unwrap();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let signal = context.create_signal().unwrap();
    let mut memory = stream.allocate_zeroed::<u8>(BYTES).unwrap();
    context.synchronize().unwrap();
    other.wait_signal(&signal, WaitCondition::Equal, 1).unwrap();
    other.fill(&mut memory, 7u8).unwrap();
    MEMORY.0.store(BYTES, Ordering::SeqCst);
    drop(memory);
    MEMORY.0.store(usize::MAX, Ordering::SeqCst);
    let next = stream.allocate_zeroed::<u8>(BYTES).unwrap();
    signal.set(1);
    assert!(stream.download(&next).unwrap().iter().all(|&byte| byte == 0));
    context.synchronize().unwrap();
}
