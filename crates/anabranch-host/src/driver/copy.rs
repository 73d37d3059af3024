//! Copies: checked, and enqueued or captured.

use super::Shared;
use crate::capture::Target;
use crate::engine::{Moment, Operation, Position, StreamState, Turn, Use, WaitStrategy, work};
use crate::memory::{
    AllocationTable, Copy, Lookup, MemoryKind, SMALL_COPY, SmallCopy, StagedBytes, StagedCopy, VolumeCopy, address,
};
use anabranch_hal::{
    AttributedCopy, Copy3d, CopyKind, CopyPlace, CopySourceOrder, Failure, NodeParameters, Result, Status,
};
use std::ptr;
use std::sync::Arc;

/// The largest upload from pageable memory that is staged. H100: 128 KiB do not block the host, 64 MiB do.
const STAGING_LIMIT: usize = 256 << 10;

/// How many bytes may be staged at once, in all streams. Beyond it uploads wait for their turn.
const STAGED_IN_ALL: u64 = 64 << 20;

/// The largest staged copy of a synchronous call that the call does itself where nothing comes before it. It takes less than
/// waking a worker.
const QUICK: usize = 32 << 10;

/// The part of the host in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    /// The largest copy whose source is read now, and not when the copy runs. 0 if it must not be.
    stage: usize,
    /// The host waits until the copy is done, unless it was staged.
    wait: bool,
    /// The host may wait for a copy that was staged.
    may_wait: bool,
    /// The source is host memory.
    from_host: bool,
    /// The destination is.
    to_host: bool,
    /// One of them is a variable of a module, which nothing but the program orders uses of.
    races: bool,
}

/// Enqueues a copy, and waits for it where the hardware does. `synchronous`: by the rules of the call without a stream.
///
/// # Safety
/// Both ranges stay valid until the copy has run.
pub(super) unsafe fn copy(
    shared: &Shared,
    target: Target<'_>,
    kind: CopyKind,
    destination: u64,
    source: u64,
    bytes: usize,
    synchronous: bool,
) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let manner = manner(&shared.memory.table, kind, destination, source, bytes, synchronous)?;
    let stream = match target {
        Target::Queue(stream) => stream,
        Target::Capture(mut recording) => {
            let end = |address, host| CopyPlace { address, host, pitch: bytes, height: 1, origin: [0; 3] };
            let copy = Copy3d {
                source: end(source, manner.from_host),
                destination: end(destination, manner.to_host),
                extent: [bytes, 1, 1],
            };
            // SAFETY: the caller keeps both ranges valid until the copy has run, which is at each launch of the node.
            return unsafe { recording.add(NodeParameters::Copy(copy)) }.map(|_| ());
        }
    };
    // SAFETY: the caller keeps both ranges valid until the copy has run.
    unsafe { enqueue_checked(shared, stream, manner, Range { destination, source, bytes }) }
}

/// Enqueues a copy, and lets the checker look at what of it is done now.
///
/// # Safety
/// The destination stays valid until the copy has run. So does the source, unless the manner says that it is read now, or
/// waited for.
unsafe fn enqueue_checked(shared: &Shared, stream: &Arc<StreamState>, manner: Manner, range: Range) -> Result<()> {
    let engine = &shared.engine;
    if manner.stage > 0 && engine.observer.is_some() {
        // What is staged is read now, and not when the copy runs.
        let source = Use { address: range.source, bytes: range.bytes as u64, may_be_host: manner.from_host };
        let staging = Operation::new("the staging of a copy", [source]);
        let turn = Turn { engine, stream, sequence: 0 };
        if !engine.check(&turn, Some(&staging), Moment::Before) {
            return stream.core.check();
        }
    }
    // SAFETY: the caller keeps both ranges valid as long as the copy uses them.
    unsafe {
        if manner.races {
            enqueue::<true>(shared, stream, manner, range)
        } else {
            enqueue::<false>(shared, stream, manner, range)
        }
    }
}

/// How a copy with attributes is enqueued. The source is read in stream order unless it is to be read during the call.
pub(super) fn attributed(table: &AllocationTable, one: &AttributedCopy) -> Result<Manner> {
    let AttributedCopy { destination, source, bytes, attributes } = *one;
    if bytes == 0 {
        return Err(Failure::new(Status::INVALID_VALUE));
    }
    let manner = manner(table, CopyKind::Inferred, destination, source, bytes, false)?;
    let at_once = attributes.source_order == CopySourceOrder::DuringCall;
    // What nothing but the program orders uses of is read when the copy runs.
    Ok(Manner { stage: if at_once && !manner.races { usize::MAX } else { 0 }, wait: at_once, ..manner })
}

/// Enqueues a copy with attributes.
///
/// # Safety
/// The destination stays valid until the copy has run. So does the source, unless it is read during the call.
pub(super) unsafe fn attributed_copy(
    shared: &Shared,
    stream: &Arc<StreamState>,
    manner: Manner,
    &AttributedCopy { destination, source, bytes, .. }: &AttributedCopy,
) -> Result<()> {
    // SAFETY: the caller keeps the destination valid until the copy has run, and the source until then or for this call.
    unsafe { enqueue_checked(shared, stream, manner, Range { destination, source, bytes }) }
}

/// What is copied to where.
struct Range {
    destination: u64,
    source: u64,
    bytes: usize,
}

/// Enqueues a copy, atomically if it is `RACING`.
///
/// # Safety
/// As for [`enqueue_checked`].
unsafe fn enqueue<const RACING: bool>(
    shared: &Shared,
    stream: &Arc<StreamState>,
    manner: Manner,
    Range { destination, source, bytes }: Range,
) -> Result<()> {
    let staged = |entry| match manner.may_wait && bytes <= QUICK {
        true => stream.enqueue_and_run(entry),
        false => stream.enqueue(entry),
    };
    if bytes <= SMALL_COPY.min(manner.stage) {
        let mut data = [0; SMALL_COPY];
        // SAFETY: the caller keeps the source valid; the array is large enough and the call's own.
        unsafe { ptr::copy_nonoverlapping(address(source).cast_const(), data.as_mut_ptr(), bytes) };
        staged(work(SmallCopy::<RACING> { destination, length: bytes as u8, source: data }));
        return Ok(());
    }
    if bytes <= manner.stage {
        // SAFETY: the caller keeps the source valid until the copy has run, which is later.
        let copied = unsafe { StagedBytes::copy_from(source, bytes, &shared.memory.staged_bytes, STAGED_IN_ALL) };
        if let Some(source) = copied {
            staged(work(StagedCopy::<RACING> { destination, source }));
            return Ok(());
        }
    }
    let (to_host, from_host) = (manner.to_host, manner.from_host);
    let copy = work(Copy::<RACING> { destination, source, bytes, to_host, from_host });
    if !manner.wait {
        stream.enqueue(copy);
    } else {
        let sequence = stream.enqueue_and_run(copy);
        shared.engine.wait(&Position { stream: Arc::clone(stream), sequence }, WaitStrategy::Auto);
        stream.core.check()?;
    }
    Ok(())
}

fn manner(
    table: &AllocationTable,
    kind: CopyKind,
    destination: u64,
    source: u64,
    bytes: usize,
    synchronous: bool,
) -> Result<Manner> {
    let from = table.find(source, bytes);
    let to = table.find(destination, bytes);
    let known = |place| matches!(place, Lookup::Inside(_));
    let is_host =
        |place| matches!(place, Lookup::Unknown | Lookup::Inside(MemoryKind::Pinned | MemoryKind::Registered));
    let possible = match kind {
        CopyKind::HostToDevice => known(to),
        CopyKind::DeviceToHost => known(from),
        CopyKind::DeviceToDevice => known(to) && known(from),
        CopyKind::Inferred => true,
    };
    if !possible || from == Lookup::Overrun || to == Lookup::Overrun || source == 0 || destination == 0 {
        return Err(Failure::new(Status::INVALID_VALUE));
    }
    let from_pageable = from == Lookup::Unknown;
    let to_pageable = to == Lookup::Unknown;
    let between_hosts = kind == CopyKind::Inferred && is_host(from) && is_host(to);
    let touches_host = is_host(from) || is_host(to);
    Ok(Manner {
        stage: if from_pageable && !between_hosts { STAGING_LIMIT } else { 0 },
        wait: from_pageable || to_pageable || between_hosts || (synchronous && touches_host),
        may_wait: synchronous,
        from_host: is_host(from),
        to_host: is_host(to),
        races: [from, to].contains(&Lookup::Inside(MemoryKind::Global)),
    })
}

/// Enqueues a copy of rows and slices.
///
/// # Safety
/// Both volumes stay valid until the copy has run.
pub(super) unsafe fn copy_3d(shared: &Shared, target: Target<'_>, copy: &Copy3d) -> Result<()> {
    if copy.extent.contains(&0) {
        return Ok(());
    }
    let checked = VolumeCopy::new(&shared.memory.table, copy)?;
    let stream = match target {
        Target::Queue(stream) => stream,
        Target::Capture(mut recording) => {
            // SAFETY: the caller keeps both volumes valid until the copy has run, which is at each launch of the node.
            return unsafe { recording.add(NodeParameters::Copy(*copy)) }.map(|_| ());
        }
    };
    if !checked.touches_pageable {
        stream.enqueue(work(checked));
    } else {
        let sequence = stream.enqueue_and_run(work(checked));
        shared.engine.wait(&Position { stream: Arc::clone(stream), sequence }, WaitStrategy::Auto);
        stream.core.check()?;
    }
    Ok(())
}
