//! Slices as other elements, and clones of buffers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{BufferSlice, BufferSliceMut, CaptureMode, Status};
use common::{hold, host};

#[test]
fn a_slice_can_have_other_elements() {
    let stream = host().create_stream().unwrap();
    let mut buffer = stream.upload(&[1u32, 2, 3, 4]).unwrap();
    assert_eq!(stream.download(buffer.slice(2..).unwrap().cast::<u64>().unwrap()).unwrap(), [3 | 4 << 32]);
    assert_eq!(stream.download(buffer.slice(..1).unwrap().cast::<u8>().unwrap()).unwrap(), 1u32.to_ne_bytes());
    stream.fill(BufferSliceMut::from(&mut buffer).cast::<u16>().unwrap().slice(1..2).unwrap(), 7u16).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [1 | 7 << 16, 2, 3, 4]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let stream = host().create_stream().unwrap();
    let buffer = stream.upload(&[1u32, 2, 3]).unwrap();
    let all = BufferSlice::from(&buffer);
    let status = |result: anabranch::Result<usize>| result.unwrap_err().status();
    assert_eq!(
        status(all.cast::<u64>().map(|slice| slice.len())),
        Status::INVALID_VALUE,
        "no whole number of elements"
    );
    let late = all.slice(1..).unwrap();
    assert_eq!(status(late.cast::<u64>().map(|slice| slice.len())), Status::INVALID_VALUE, "not aligned");
    assert_eq!(status(all.cast::<()>().map(|slice| slice.len())), Status::INVALID_VALUE, "no size");
    let none = all.slice(1..1).unwrap();
    assert_eq!(none.cast::<u16>().unwrap().len(), 0);
    let empty = stream.upload(&[(); 5]).unwrap();
    assert_eq!(BufferSlice::from(&empty).cast::<[u32; 0]>().unwrap().len(), 5);
    assert_eq!(BufferSlice::from(&empty).cast::<u32>().unwrap().len(), 0);
}

#[test]
fn a_clone_has_memory_of_its_own() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = stream.upload(&[1u32, 2, 3]).unwrap();
    let signal = hold(&context, &stream);
    stream.fill(buffer.slice_mut(..1).unwrap(), 9).unwrap();
    // It comes behind the use in the other stream, and does not wait.
    let clone = other.clone_buffer(&buffer).unwrap();
    let part = other.clone_buffer(buffer.slice(2..).unwrap()).unwrap();
    assert!(!other.is_complete().unwrap());
    stream.fill(&mut buffer, 0).unwrap();
    signal.set(1);
    assert_eq!(stream.download(&clone).unwrap(), [9, 2, 3]);
    assert_eq!(stream.download(&part).unwrap(), [3]);
    assert_eq!(stream.download(&buffer).unwrap(), [0; 3]);
}

#[test]
fn a_clone_is_refused_in_captures() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = stream.upload(&[1u32, 2, 3]).unwrap();
    let (mut here, mut there) = (None, None);
    stream
        .capture(CaptureMode::Relaxed, |scope| {
            scope.fill(&mut buffer, 2)?;
            here = Some(scope.clone_buffer(&buffer).map(drop).unwrap_err().status());
            there = Some(other.clone_buffer(&buffer).map(drop).unwrap_err().status());
            Ok(())
        })
        .unwrap();
    assert_eq!((here, there), (Some(Status::STREAM_CAPTURE_UNSUPPORTED), Some(Status::STREAM_CAPTURE_UNSUPPORTED)));
    assert_eq!(other.download(&other.clone_buffer(&buffer).unwrap()).unwrap(), [1, 2, 3]);
}
