//! Futures on an executor with threads and timers.

use super::*;
use tokio::runtime::Builder;
use tokio::time::timeout;

#[test]
fn a_timeout_returns_and_leaves_the_stream_as_it_was() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let signal = hold(&context, &stream);
    let event = stream.record_event().unwrap();
    let executable = stream.capture_executable(CaptureMode::Relaxed, |_| Ok(())).unwrap();
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let short = Duration::from_millis(5);
        // The stream is held up until the end, so that whatever returns does so because of the timeout.
        assert!(timeout(short, stream.completion_future()).await.is_err());
        assert!(timeout(short, stream.synchronize_async()).await.is_err());
        assert!(timeout(short, event.completed()).await.is_err());
        assert!(timeout(short, executable.launch_async(&stream)).await.is_err());
        assert!(timeout(short, stream.enqueue_async(|stream| stream.allocate_zeroed::<u8>(64))).await.is_err());
        assert!(!stream.query().unwrap());
        signal.set(1);
        timeout(Duration::from_secs(60), stream.synchronize_async()).await.unwrap().unwrap();
        event.completed().await.unwrap();
        let buffer = stream.enqueue_async(|stream| stream.allocate_zeroed::<u8>(64)).await.unwrap();
        assert_eq!(stream.download(&buffer).unwrap(), [0; 64]);
    });
}

#[test]
fn a_thousand_tasks() {
    let context = host();
    let streams: Vec<_> = (0..4).map(|_| Arc::new(context.create_stream().unwrap())).collect();
    let count = Arc::new(AtomicUsize::new(0));
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..1000)
            .map(|task| {
                let (stream, count) = (streams[task % streams.len()].clone(), count.clone());
                tokio::spawn(async move {
                    let done = Arc::new(AtomicBool::new(false));
                    let (inside, count) = (done.clone(), count);
                    stream
                        .enqueue_async(move |stream| {
                            stream.launch_host_func(move || {
                                inside.store(true, Ordering::SeqCst);
                                count.fetch_add(1, Ordering::SeqCst);
                            })
                        })
                        .await
                        .unwrap();
                    assert!(done.load(Ordering::SeqCst));
                })
            })
            .collect();
        for task in tasks {
            timeout(Duration::from_secs(60), task).await.unwrap().unwrap();
        }
    });
    assert_eq!(count.load(Ordering::SeqCst), 1000);
}

#[test]
fn tasks_that_are_aborted() {
    let context = host();
    let stream = Arc::new(context.create_stream().unwrap());
    let signal = hold(&context, &stream);
    let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let stream = stream.clone();
                tokio::spawn(async move { stream.synchronize_async().await })
            })
            .collect();
        for task in tasks.iter().step_by(2) {
            task.abort();
        }
        signal.set(1);
        for (index, task) in tasks.into_iter().enumerate() {
            match task.await {
                Ok(result) => result.unwrap(),
                Err(error) => assert!(error.is_cancelled() && index % 2 == 0),
            }
        }
        tokio::select! {
            biased;
            result = stream.completion_future() => result.unwrap(),
            () = std::future::pending() => {}
        }
    });
}
