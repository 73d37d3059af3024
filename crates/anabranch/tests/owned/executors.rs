//! Owned operations on executors, and dropped wherever a task may be.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::time::timeout;

async fn round_trip(stream: Arc<Stream>, seed: u32) {
    let source: Vec<u32> = (0..1000).map(|index| index * seed).collect();
    let buffer = stream.upload_async(source.clone()).await.unwrap();
    let target = stream.allocate_zeroed::<u32>(1000).unwrap();
    let (target, _source) = stream.copy_async(target, buffer).await.unwrap();
    assert_eq!(stream.download_async(&target).await.unwrap(), source);
}

#[test]
fn round_trips_on_several_executors() {
    let context = host();
    let streams: Vec<_> = (0..3).map(|_| Arc::new(context.create_stream().unwrap())).collect();
    let task = |index: u32| round_trip(streams[index as usize % 3].clone(), index);
    block_on(futures::future::join_all((0..20).map(task)));
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..200).map(|index| tokio::spawn(task(index))).collect();
        for task in tasks {
            timeout(Duration::from_secs(60), task).await.unwrap().unwrap();
        }
    });
    Builder::new_current_thread().build().unwrap().block_on(task(7));
    let threads: Vec<_> = (0..4)
        .map(|index| {
            std::thread::spawn({
                let task = task(index);
                move || block_on(task)
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_timeout_gives_an_operation_up() {
    let context = own_context();
    let stream = context.create_stream().unwrap();
    let source = stream.upload(&[1u8; 100]).unwrap();
    let signal = hold(&context, &stream);
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        // The stream is held up until the end, so that whatever returns does so because of the timeout.
        let short = Duration::from_millis(5);
        assert!(timeout(short, stream.upload_async([1u8; 100])).await.is_err());
        assert!(timeout(short, stream.download_async(&source)).await.is_err());
        let buffer = stream.allocate_zeroed::<u8>(100).unwrap();
        assert!(timeout(short, stream.fill_async(buffer, 1)).await.is_err());
        assert_eq!(context.idle_staging(), 0);
        signal.set(1);
        assert_eq!(stream.download_async(&source).await.unwrap(), [1; 100]);
    });
    until("the blocks' return", || context.idle_staging() >= 3 * 4096);
}

#[test]
fn tasks_that_are_aborted_leave_the_others_their_data() {
    let context = host();
    let stream = Arc::new(context.create_stream().unwrap());
    let signal = hold(&context, &stream);
    let done = Arc::new(AtomicUsize::new(0));
    let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..100)
            .map(|index| {
                let (stream, done) = (stream.clone(), done.clone());
                tokio::spawn(async move {
                    round_trip(stream, index).await;
                    done.fetch_add(1, Ordering::SeqCst);
                })
            })
            .collect();
        tasks.iter().step_by(2).for_each(tokio::task::JoinHandle::abort);
        signal.set(1);
        for (index, task) in tasks.into_iter().enumerate() {
            match task.await {
                Ok(()) => {}
                Err(error) => assert!(error.is_cancelled() && index % 2 == 0),
            }
        }
    });
    assert!(done.load(Ordering::SeqCst) >= 50);
}

#[test]
fn safety_12_owned_operations_are_dropped_inside_of_a_host_function() {
    let context = own_context();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let source = stream.upload(&[1u8; 100]).unwrap();
    for polled in [false, true] {
        let signal = hold(&context, &stream);
        let mut upload = stream.upload_async([1u8; 100]);
        let mut download = stream.download_async(&source);
        let mut fill = stream.fill_async(stream.allocate_zeroed::<u8>(100).unwrap(), 1);
        if polled {
            assert!(poll(&mut upload).is_pending() && poll(&mut download).is_pending() && poll(&mut fill).is_pending());
        }
        let ready = block_on(other.upload_async([1u8; 100])).unwrap();
        other.launch_host_func(move || drop((upload, download, fill, ready))).unwrap();
        other.synchronize().unwrap();
        assert!(!stream.query().unwrap());
        signal.set(1);
        assert_eq!(block_on(stream.download_async(&source)).unwrap(), [1; 100]);
    }
    until("the blocks' return", || context.idle_staging() >= 3 * 4096);
}
