//! Tasks that reach pinned and managed memory.

use super::*;

#[test]
fn safety_23_tasks_reach_pinned_memory_after_the_work_that_uses_it() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let source = stream.upload(&[5u8; 64]).unwrap();
    let mut pinned = context.allocate_pinned::<u8>(64).unwrap();
    let signal = hold(&context, &stream);
    stream.copy(&mut pinned, &source).unwrap();
    let later = {
        let mut reading = pin!(pinned.as_slice_async());
        assert!(poll(&mut reading).is_pending());
        // What is queued now is not waited for. If it were, this thread would wait for ever.
        let later = hold(&context, &stream);
        signal.set(1);
        assert_eq!(block_on(reading).unwrap(), [5; 64]);
        later
    };
    assert_eq!(pinned.as_slice().unwrap(), [5; 64], "nothing is waited for again");
    {
        // A second reader, and one that is given up.
        let mut given_up = pin!(pinned.as_slice_async());
        assert!(poll(&mut given_up).is_ready());
    }
    later.set(1);

    let mut target = stream.allocate_zeroed::<u8>(64).unwrap();
    let signal = hold(&context, &stream);
    stream.copy(&mut target, &pinned).unwrap();
    assert_eq!(block_on(pinned.as_slice_async()).unwrap(), [5; 64], "reading does not wait for readers");
    {
        let mut writing = pin!(pinned.as_mut_slice_async());
        assert!(poll(&mut writing).is_pending());
        signal.set(1);
        block_on(writing).unwrap().fill(6);
    }
    assert_eq!(stream.download(&target).unwrap(), [5; 64]);
    assert_eq!(stream.download(&pinned).unwrap(), [6; 64]);
}

#[test]
fn tasks_reach_managed_memory_after_the_work_that_uses_it() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut managed = context.allocate_managed::<u32>(64).unwrap();
    let signal = hold(&context, &stream);
    stream.fill(&mut managed, 5).unwrap();
    other.fill(managed.slice_mut(..1).unwrap(), 6).unwrap();
    {
        let mut reading = pin!(managed.as_slice_async());
        assert!(poll(&mut reading).is_pending());
        signal.set(1);
        let elements = block_on(reading).unwrap();
        assert!(elements[0] == 6 && elements[1..].iter().all(|&element| element == 5));
    }
    block_on(managed.as_mut_slice_async()).unwrap().fill(1);
    assert_eq!(stream.download(&managed).unwrap(), [1; 64]);
}

#[test]
fn memory_of_a_graph_is_refused() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut pinned = context.allocate_pinned::<u8>(64).unwrap();
    let graph = stream.capture(CaptureMode::Global, |scope| scope.fill(&mut pinned, 1)).unwrap();
    assert_eq!(block_on(pinned.as_slice_async()).unwrap_err().status(), Status::ILLEGAL_STATE);
    assert_eq!(block_on(pinned.as_mut_slice_async()).unwrap_err().status(), Status::ILLEGAL_STATE);
    drop(graph);
    assert_eq!(block_on(pinned.as_slice_async()).unwrap(), [0; 64]);
}

#[test]
fn futures_of_host_access_can_be_sent() {
    fn send<T: Send>(value: T) -> T {
        value
    }
    let context = host();
    let mut pinned = context.allocate_pinned::<u8>(4).unwrap();
    block_on(send(async {
        pinned.as_mut_slice_async().await.unwrap().fill(1);
        assert_eq!(pinned.as_slice_async().await.unwrap(), [1; 4]);
    }));
}
