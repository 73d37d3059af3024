//! Overlap: pieces of work that are uploaded, computed and downloaded, all in one stream or in turns on four.
//!
//! A GPU copies in both directions while it computes. On the host device there is less to gain: it runs streams on several
//! processors, but a kernel as large as these fills them all by itself.
//!
//! ```text
//! cargo run --release --example overlap -- --device cuda:0
//! ```

mod support;

use anabranch::{Buffer, Context, Device, DualModule, HostFunction, Kernel, LaunchConfig, PinnedBuffer, Stream};
use std::error::Error;
use std::process::ExitCode;

const PIECES: usize = 8;
const LENGTH: usize = 1 << 20;
const LAUNCHES: usize = 4;

/// Host and device memory of a piece. Each has its own: the library would order work on shared memory.
struct Piece {
    host: PinnedBuffer<f32>,
    device: Buffer<f32>,
}

fn main() -> ExitCode {
    support::run(
        "Overlap: pieces of work that are uploaded, computed and downloaded on one stream and on four",
        compare,
    )
}

fn compare(device: &Device) -> Result<(), Box<dyn Error>> {
    let context = device.context()?;
    let kernel = twice(&context)?;
    let streams = [(); 4].map(|()| context.create_stream()).into_iter().collect::<anabranch::Result<Vec<_>>>()?;
    let make = |_| -> anabranch::Result<Piece> {
        let mut host = context.allocate_pinned(LENGTH)?;
        host.as_mut_slice()?.fill(1.0);
        Ok(Piece { host, device: streams[0].allocate_zeroed(LENGTH)? })
    };
    let mut pieces = (0..PIECES).map(make).collect::<anabranch::Result<Vec<_>>>()?;

    run(&streams, &kernel, &mut pieces)?; // the first run warms up, and does not count
    let one = run(&streams[..1], &kernel, &mut pieces)?;
    let four = run(&streams, &kernel, &mut pieces)?;
    support::line(format_args!(
        "{device}: one stream {one:.2} ms, four streams {four:.2} ms, ratio {:.2}",
        one / four
    ))?;

    // Three runs have doubled every number four times each.
    let expected = 2.0f32.powi(3 * LAUNCHES as i32);
    for piece in &pieces {
        if piece.host.as_slice()?.iter().any(|&number| number != expected) {
            return Err("a piece has a wrong number".into());
        }
    }
    Ok(())
}

/// Runs all pieces on the streams in turns, and returns the milliseconds that passed on the device.
fn run(streams: &[Stream], kernel: &Kernel, pieces: &mut [Piece]) -> Result<f32, Box<dyn Error>> {
    let first = streams.first().ok_or("there is no stream")?;
    let begin = first.record_event()?;
    streams.iter().try_for_each(|stream| stream.wait(&begin))?;
    let count = LENGTH as u32;
    for (Piece { host, device }, stream) in pieces.iter_mut().zip(streams.iter().cycle()) {
        stream.copy(&mut *device, &*host)?;
        for _ in 0..LAUNCHES {
            // SAFETY: `twice` takes a pointer to that many numbers and their count, and uses no other memory.
            unsafe { stream.launch(kernel, &LaunchConfig::for_elements(count), (&mut *device, count))? };
        }
        stream.copy(host, &*device)?;
    }
    streams.iter().try_for_each(|stream| first.wait(stream))?;
    let end = first.record_event()?;
    end.synchronize()?;
    Ok(end.elapsed_since(&begin)?)
}

fn twice(context: &Context) -> anabranch::Result<Kernel> {
    let twin = HostFunction::new("twice", &[8, 4], |block, arguments| {
        let (data, count) = (arguments.slice::<f32>(0), arguments.scalar::<u32>(1) as usize);
        block.phase(|thread, _shared| {
            let i = thread.global_x();
            if i < count {
                data.set(i, 2.0 * data.get(i));
            }
        });
    });
    DualModule::new().ptx(include_str!("../tests/data/twice.ptx")).host_function(twin).load(context)?.kernel("twice")
}
