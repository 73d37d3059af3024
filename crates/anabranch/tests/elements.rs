//! Memory whose elements an iterator or a closure makes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{Buffer, ErrorKind, Status};
use common::{hold, host};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn elements_come_from_an_iterator() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let none = Buffer::<u32>::from_elements([]).map(drop).unwrap_err();
    assert_eq!(none.status(), Status::ILLEGAL_STATE, "no stream is current");
    let odd = stream.upload_elements((0..1000u32).filter(|number| number % 2 == 1)).unwrap();
    assert_eq!(stream.download(&odd).unwrap(), (0..500).map(|index| index * 2 + 1).collect::<Vec<_>>());
    let endless = stream.upload_elements(0..u64::MAX).map(drop).unwrap_err();
    assert_eq!((endless.status(), endless.kind()), (Status::OUT_OF_MEMORY, ErrorKind::Argument));
    let _entered = stream.enter();
    assert_eq!(Buffer::from_elements([1.5f32, 2.5]).unwrap().to_vec().unwrap(), [1.5, 2.5]);
    assert!(Buffer::<u8>::from_elements(std::iter::empty()).unwrap().is_empty());
}

#[test]
fn elements_of_host_memory_come_from_a_closure() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut pinned = context.allocate_pinned::<u32>(1000).unwrap();
    let signal = hold(&context, &stream);
    stream.fill(&mut pinned, 7).unwrap();
    let opener = std::thread::spawn(move || {
        std::thread::yield_now();
        signal.set(1);
    });
    pinned.fill_with(|index| index as u32 * 3).unwrap();
    assert_eq!(pinned.as_slice().unwrap(), (0..1000).map(|index| index * 3).collect::<Vec<_>>());
    opener.join().unwrap();
    let unwound =
        catch_unwind(AssertUnwindSafe(|| pinned.fill_with(|index| if index < 2 { 1 } else { panic!("on purpose") })));
    assert!(unwound.is_err());
    assert_eq!(pinned.as_slice().unwrap()[..4], [1, 1, 6, 9]);
    let mut managed = context.allocate_managed::<u8>(3).unwrap();
    managed.fill_with(|index| index as u8).unwrap();
    assert_eq!(managed.as_slice().unwrap(), [0, 1, 2]);
}
