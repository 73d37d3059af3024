//! Copies: checked, and enqueued or captured.

use super::Shared;
use crate::capture::Target;
use crate::engine::{Moment, Operation, Position, StreamState, Turn, Use, WaitStrategy, work};
use crate::memory::{
    AllocationTable, Copy, Lookup, MemoryKind, SMALL_COPY, SmallCopy, StagedBytes, StagedCopy, VolumeCopy, address,
};
use anabranch_hal::{Copy3d, CopyKind, CopyPlace, Failure, NodeParameters, Result, Status};
use std::ptr;
use std::sync::Arc;

/// The largest upload from pageable memory that is staged. H100: 128 KiB do not block the host, 64 MiB do.
const STAGING_LIMIT: usize = 256 << 10;

/// How many bytes may be staged at once, in all streams. Beyond it uploads wait for their turn.
const STAGED_IN_ALL: u64 = 64 << 20;

/// The part of the host in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Manner {
    /// The source is pageable host memory, and may be staged.
    stage: bool,
    /// The host waits until the copy is done, unless it was staged.
    wait: bool,
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
    let engine = &shared.engine;
    if manner.stage && engine.observer.is_some() {
        // What is staged is read now, and not when the copy runs.
        let staging =
            Operation::new("the staging of a copy", [Use { address: source, bytes: bytes as u64, may_be_host: true }]);
        let turn = Turn { engine, stream, sequence: 0 };
        if !engine.check(&turn, Some(&staging), Moment::Before) {
            return stream.core.check();
        }
    }
    let range = Range { destination, source, bytes };
    // SAFETY: the caller keeps both ranges valid until the copy has run.
    unsafe {
        if manner.races {
            enqueue::<true>(shared, stream, manner, range)
        } else {
            enqueue::<false>(shared, stream, manner, range)
        }
    }
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
/// Both ranges stay valid until the copy has run.
unsafe fn enqueue<const RACING: bool>(
    shared: &Shared,
    stream: &Arc<StreamState>,
    manner: Manner,
    Range { destination, source, bytes }: Range,
) -> Result<()> {
    if manner.stage && bytes <= SMALL_COPY {
        let mut data = [0; SMALL_COPY];
        // SAFETY: the caller keeps the source valid; the array is large enough and the call's own.
        unsafe { ptr::copy_nonoverlapping(address(source).cast_const(), data.as_mut_ptr(), bytes) };
        stream.enqueue(work(SmallCopy::<RACING> { destination, length: bytes as u8, source: data }));
        return Ok(());
    }
    if manner.stage && bytes <= STAGING_LIMIT {
        // SAFETY: the caller keeps the source valid until the copy has run, which is later.
        let staged = unsafe { StagedBytes::copy_from(source, bytes, &shared.memory.staged_bytes, STAGED_IN_ALL) };
        if let Some(source) = staged {
            stream.enqueue(work(StagedCopy::<RACING> { destination, source }));
            return Ok(());
        }
    }
    let (to_host, from_host) = (manner.to_host, manner.from_host);
    let sequence = stream.enqueue(work(Copy::<RACING> { destination, source, bytes, to_host, from_host }));
    if manner.wait {
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
        stage: from_pageable && !between_hosts,
        wait: from_pageable || to_pageable || between_hosts || (synchronous && touches_host),
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
    let sequence = stream.enqueue(work(checked));
    if checked.touches_pageable {
        shared.engine.wait(&Position { stream: Arc::clone(stream), sequence }, WaitStrategy::Auto);
        stream.core.check()?;
    }
    Ok(())
}
