//! Mojo.

use crate::common::host;
use crate::has_trait;
use anabranch::Stream;

#[test]
fn streams_are_moved_between_threads_and_not_copied() {
    const { assert!(has_trait!(Stream: Send) && has_trait!(Stream: Sync) && has_trait!(Stream: Unpin)) };
    const { assert!(!has_trait!(Stream: Clone) && !has_trait!(Stream: Copy)) };
    let stream = host().create_stream().unwrap();
    let id = stream.id();
    let stream = std::thread::spawn(move || stream.synchronize().map(|()| stream)).join().unwrap().unwrap();
    assert_eq!(stream.id(), id);
    assert_eq!(*stream.to_borrowed(), stream);
}

#[test]
fn a_context_has_no_stream_until_one_is_made() {
    let context = host();
    let default = context.legacy_stream().unwrap();
    let (one, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    assert!(one != other && one != default && other != default);
    assert_eq!(one.context(), context);
    assert_eq!(context.device().context().unwrap(), context, "opened again, it is the same");
}
