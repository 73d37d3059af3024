//! A hundred operations that are awaited with timeouts. Every tenth is held up, and given up when its time is over. Giving up
//! waits for nothing and loses nothing: what was queued still runs, and its memory is freed behind it.
//!
//! ```text
//! cargo run --example timeouts -- --device cuda:0
//! ```

mod support;

use anabranch::{Device, Signal, Stream, WaitCondition};
use futures::future::{FutureExt, join, join_all};
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{sleep, timeout};

fn main() -> ExitCode {
    support::run("A hundred operations that are awaited with timeouts", |device| {
        tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(await_all(device))
    })
}

async fn await_all(device: &Device) -> Result<(), Box<dyn Error>> {
    let context = device.context()?;
    let gate = context.create_signal()?;
    // Pinning memory and creating streams may wait for streams that are held up.
    context.reserve_staging(4 * 1000, 200)?;
    let streams = (0..100).map(|_| context.create_stream()).collect::<anabranch::Result<Vec<_>>>()?;
    // A GPU has few queues: streams that are held up hold up others, so that the gate opens before all have ended.
    let open = sleep(Duration::from_secs(1)).map(|()| gate.set(1));
    let operations = join_all((0..).zip(streams).map(|(number, stream)| operation(stream, &gate, number)));
    let (operations, ()) = join(operations, open).await;

    let (mut complete, mut given_up) = (0, Vec::new());
    for operation in operations {
        match operation? {
            None => complete += 1,
            Some(stream) => given_up.push(stream),
        }
    }
    support::line(format_args!("{device}: {complete} complete, {} given up", given_up.len()))?;
    join_all(given_up.iter().map(Stream::synchronize_async)).await.into_iter().collect::<anabranch::Result<()>>()?;
    if complete == 90 { Ok(()) } else { Err("only every tenth was held up".into()) }
}

/// Uploads and downloads some numbers. Returns the stream if that took too long.
async fn operation(stream: Stream, gate: &Signal, number: u32) -> Result<Option<Stream>, Box<dyn Error>> {
    let mut limit = Duration::from_secs(60);
    if number.is_multiple_of(10) {
        stream.wait_signal(gate, WaitCondition::GreaterOrEqual, 1)?;
        limit = Duration::from_millis(50);
    }
    let work = async {
        let buffer = stream.upload_async(vec![number; 1000]).await?;
        stream.download_async(&buffer).await
    };
    let Ok(numbers) = timeout(limit, work).await else { return Ok(Some(stream)) };
    if numbers?.iter().all(|found| *found == number) { Ok(None) } else { Err("a number is wrong".into()) }
}
