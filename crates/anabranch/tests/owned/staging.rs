//! The memory by way of which transfers go.

use super::*;

const BLOCK: usize = 4096;

/// When a future is dropped.
#[derive(Clone, Copy, Debug)]
enum Stage {
    NotPolled,
    Waiting,
    /// Its work is complete, but it was not notified.
    Complete,
}

const STAGES: [Stage; 3] = [Stage::NotPolled, Stage::Waiting, Stage::Complete];

#[test]
fn safety_19_staging_memory_of_a_cancelled_download_is_not_used_again_before_the_copy_has_run() {
    for stage in STAGES {
        let context = own_context();
        let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let source = stream.upload(&[1u8; BLOCK]).unwrap();
        let late = hold(&context, &other);
        let signal = hold(&context, &stream);
        let mut cancelled = stream.download_async(&source);
        match stage {
            Stage::NotPolled => drop(cancelled),
            Stage::Waiting => {
                assert!(poll(&mut cancelled).is_pending());
                drop(cancelled);
            }
            Stage::Complete => {
                assert!(poll(&mut cancelled).is_pending());
                signal.set(1);
                stream.synchronize().unwrap();
                drop(cancelled);
            }
        }
        flush_deferred_drops();
        if !matches!(stage, Stage::Complete) {
            assert_eq!(context.idle_staging(), 0, "{stage:?}: the copy is still to come");
        }
        // Were the block used again, the cancelled download would now overwrite what is to be uploaded.
        let mut upload = other.upload_async([2u8; BLOCK]);
        assert!(poll(&mut upload).is_pending());
        signal.set(1);
        stream.synchronize().unwrap();
        late.set(1);
        let uploaded = block_on(upload).unwrap();
        assert_eq!(other.download(&uploaded).unwrap(), [2; BLOCK], "{stage:?}");
        until("the block's return", || context.idle_staging() >= BLOCK);
    }
}

#[test]
fn safety_19_staging_memory_of_a_cancelled_upload_is_read_before_it_is_used_again() {
    for stage in STAGES {
        let context = own_context();
        let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let before = stream.upload_async([4u8; BLOCK]);
        let before = block_on(before).unwrap();
        assert_eq!(context.idle_staging(), BLOCK);
        let signal = hold(&context, &stream);
        let mut cancelled = stream.upload_async([1u8; BLOCK]);
        let mut kept = stream.upload_async([3u8; BLOCK]);
        assert!(poll(&mut kept).is_pending());
        if !matches!(stage, Stage::NotPolled) {
            assert!(poll(&mut cancelled).is_pending());
        }
        if matches!(stage, Stage::Complete) {
            signal.set(1);
            stream.synchronize().unwrap();
        }
        drop(cancelled);
        flush_deferred_drops();
        let uploads: Vec<_> = (10..20u8).map(|value| other.upload_async([value; BLOCK])).collect();
        signal.set(1);
        for (upload, value) in uploads.into_iter().zip(10..) {
            assert_eq!(other.download(&block_on(upload).unwrap()).unwrap(), [value; BLOCK], "{stage:?}");
        }
        assert_eq!(stream.download(&block_on(kept).unwrap()).unwrap(), [3; BLOCK], "{stage:?}");
        assert_eq!(stream.download(&before).unwrap(), [4; BLOCK]);
        // All that was used is idle again.
        until("the blocks' return", || context.idle_staging() >= 3 * BLOCK);
    }
}

#[test]
fn transfers_one_after_another_use_one_block() {
    let context = own_context();
    let stream = context.create_stream().unwrap();
    block_on(async {
        for round in 0..100u32 {
            let buffer = stream.upload_async([round; 100]).await.unwrap();
            assert_eq!(stream.download_async(&buffer).await.unwrap(), [round; 100]);
            assert_eq!(context.idle_staging(), BLOCK);
        }
        let buffer = stream.upload_async(vec![1u8; BLOCK + 1]).await.unwrap();
        assert_eq!(context.idle_staging(), 3 * BLOCK);
        assert_eq!(stream.download_async(&buffer).await.unwrap().len(), BLOCK + 1);
        assert_eq!(context.idle_staging(), 3 * BLOCK);
        stream.upload_async::<u8>([]).await.unwrap();
        assert_eq!(context.idle_staging(), 3 * BLOCK);
    });
}

#[test]
fn no_more_is_kept_than_the_limit() {
    let context = own_context();
    let stream = context.create_stream().unwrap();
    assert_eq!(context.staging_limit(), 64 << 20);
    context.reserve_staging(BLOCK, 5).unwrap();
    assert_eq!(context.idle_staging(), 5 * BLOCK);
    context.set_staging_limit(3 * BLOCK);
    assert_eq!((context.staging_limit(), context.idle_staging()), (3 * BLOCK, 3 * BLOCK));
    block_on(async {
        // Larger than what may be kept: it is not kept, and drives out nothing.
        let large: Vec<u32> = (0..10_000).collect();
        let buffer = stream.upload_async(&large).await.unwrap();
        assert_eq!(stream.download_async(&buffer).await.unwrap(), large);
        assert_eq!(context.idle_staging(), 3 * BLOCK);
        // The latest drives out what was used longest ago.
        let buffer = stream.upload_async(vec![1u8; 2 * BLOCK]).await.unwrap();
        assert_eq!(context.idle_staging(), 3 * BLOCK);
        context.set_staging_limit(0);
        assert_eq!(context.idle_staging(), 0);
        assert_eq!(stream.download_async(&buffer).await.unwrap(), [1; 2 * BLOCK]);
        assert_eq!(context.idle_staging(), 0);
    });
    // A reserve of nothing, and one that cannot be had.
    context.reserve_staging(0, 0).unwrap();
    context.reserve_staging(0, 2).unwrap();
    context.reserve_staging(0, usize::MAX).unwrap();
    for (bytes, count) in [(1, 1), (4096, usize::MAX), (usize::MAX / 2, 1)] {
        assert_eq!(context.reserve_staging(bytes, count).unwrap_err().status(), Status::INVALID_VALUE);
    }
    // More pieces than there is memory to keep account of.
    context.set_staging_limit(usize::MAX);
    assert_eq!(context.reserve_staging(1, usize::MAX >> 20).unwrap_err().status(), Status::OUT_OF_MEMORY);
}

#[test]
fn a_context_ends_though_it_keeps_staging_memory() {
    let context = own_context();
    let diagnostics = context.completion_diagnostics();
    let stream = context.create_stream().unwrap();
    context.reserve_staging(1 << 16, 3).unwrap();
    let buffer = stream.upload(&[1u8; 100]).unwrap();
    let signal = hold(&context, &stream);
    let mut cancelled = stream.download_async(&buffer);
    assert!(poll(&mut cancelled).is_pending());
    assert!(diagnostics.is_running());
    let (never, waiting) = (stream.upload_async([1u8; 100]), stream.completion_future());
    drop((context, stream, buffer));
    drop((cancelled, never));
    signal.set(1);
    block_on(waiting).unwrap();
    drop(signal);
    // The thread runs until the last user of the context is dropped.
    until("the context's end", || !diagnostics.is_running());
}

/// How much memory the process has, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[cfg(target_os = "linux")]
#[test]
fn idle_staging_memory_goes_with_its_context() {
    // The driver's context lives on, so that what it is not given back it keeps.
    let kept = host();
    let before = resident();
    for _ in 0..64 {
        let context = kept.device().context().unwrap();
        context.reserve_staging(8 << 20, 1).unwrap();
        assert_eq!(context.idle_staging(), 8 << 20);
        drop(context);
        flush_deferred_drops();
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 256 << 20, "{grown} bytes are left of 512 MiB");
}

#[test]
fn nothing_is_left_of_cancelled_operations() {
    let context = host();
    let pool = context.device().default_memory_pool().unwrap();
    let used = || pool.attribute(MemoryPoolAttribute::UsedCurrent).unwrap();
    let stream = context.create_stream().unwrap();
    let kept = stream.upload(&[1u8; 1 << 16]).unwrap();
    stream.synchronize().unwrap();
    let before = used();
    for round in 0..30 {
        let signal = hold(&context, &stream);
        let mut upload = stream.upload_async(vec![1u8; 1 << 16]);
        let mut fill = stream.fill_async(stream.allocate_zeroed::<u32>(1 << 14).unwrap(), 7);
        let mut download = stream.download_async(&kept);
        if round % 2 == 0 {
            assert!(poll(&mut upload).is_pending() && poll(&mut fill).is_pending());
            assert!(poll(&mut download).is_pending());
        }
        assert!(used() > before);
        drop((upload, fill, download));
        signal.set(1);
        stream.synchronize().unwrap();
        flush_deferred_drops();
        assert_eq!(used(), before);
    }
    until("the blocks' return", || context.idle_staging() >= 2 << 16);
    assert_eq!(stream.download(&kept).unwrap(), [1; 1 << 16]);
}
