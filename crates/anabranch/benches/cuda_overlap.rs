//! Overlap of copies and kernels on a CUDA device: 256 MiB in 64 chunks through 4 streams, each chunk uploaded, worked on
//! by a kernel as long as two copies, and downloaded.
//!
//! The kernel fills the device, so that kernels do not overlap with each other and are the longest stage. The time of
//! the whole, beside that of the longest stage alone, says how much of the rest is hidden: 1 is all of it. Without a CUDA
//! device it says so and ends.

use anabranch::{BackendKind, Buffer, Context, Instance, Kernel, LaunchConfig, Module, PinnedBuffer, Result, Stream};
use std::time::{Duration, Instant};

const CHUNKS: usize = 64;
const CHUNK_BYTES: usize = (256 << 20) / CHUNKS;
const STREAMS: usize = 4;

struct Work {
    streams: Vec<Stream>,
    uploads: Vec<PinnedBuffer<u8>>,
    downloads: Vec<PinnedBuffer<u8>>,
    buffers: Vec<Buffer<u8>>,
    spin: Kernel,
    config: LaunchConfig<'static>,
    nanoseconds: u64,
}

#[derive(Clone, Copy)]
struct Stages {
    upload: bool,
    kernel: bool,
    download: bool,
}

impl Work {
    fn new(context: &Context) -> Result<Self> {
        let streams = (0..STREAMS).map(|_| context.create_stream()).collect::<Result<Vec<_>>>()?;
        let buffers = (0..CHUNKS)
            .map(|chunk| streams[chunk % STREAMS].allocate_zeroed(CHUNK_BYTES))
            .collect::<Result<Vec<_>>>()?;
        let pinned = || (0..CHUNKS).map(|_| context.allocate_pinned(CHUNK_BYTES)).collect::<Result<Vec<_>>>();
        let spin = Module::load_ptx(context, include_str!("kernels.ptx"))?.kernel("spin")?;
        let blocks = spin.max_active_blocks(1024, 0)? * context.device().properties().multiprocessor_count;
        let config = LaunchConfig::new(blocks, 1024);
        Ok(Self { uploads: pinned()?, downloads: pinned()?, streams, buffers, spin, config, nanoseconds: 0 })
    }

    fn run(&mut self, stages: Stages) -> Result<Duration> {
        for stream in &self.streams {
            stream.synchronize()?;
        }
        let start = Instant::now();
        for chunk in 0..CHUNKS {
            let stream = &self.streams[chunk % STREAMS];
            if stages.upload {
                stream.copy(&mut self.buffers[chunk], &self.uploads[chunk])?;
            }
            if stages.kernel {
                // SAFETY: the kernel takes a number, and uses no memory.
                unsafe { stream.launch(&self.spin, &self.config, (self.nanoseconds,))? };
            }
            if stages.download {
                stream.copy(&mut self.downloads[chunk], &self.buffers[chunk])?;
            }
        }
        for stream in &self.streams {
            stream.synchronize()?;
        }
        Ok(start.elapsed())
    }

    /// The median of several runs.
    fn time(&mut self, stages: Stages) -> Result<Duration> {
        self.run(stages)?;
        let mut times = (0..9).map(|_| self.run(stages)).collect::<Result<Vec<_>>>()?;
        times.sort();
        Ok(times[times.len() / 2])
    }
}

fn main() -> Result<()> {
    let instance = Instance::new()?;
    let Some(device) = instance.devices().iter().find(|device| device.backend() == BackendKind::Cuda) else {
        println!("no CUDA device: nothing to overlap");
        return Ok(());
    };
    println!("{}, driver of CUDA {}", device.properties().name, device.driver_version());
    let mut work = Work::new(&device.context()?)?;
    let none = Stages { upload: false, kernel: false, download: false };
    let upload = work.time(Stages { upload: true, ..none })?;
    let download = work.time(Stages { download: true, ..none })?;
    work.nanoseconds = 2 * u64::try_from(upload.as_nanos()).unwrap_or(u64::MAX) / CHUNKS as u64;
    let kernel = work.time(Stages { kernel: true, ..none })?;
    let all = work.time(Stages { upload: true, kernel: true, download: true })?;
    let longest = upload.max(download).max(kernel);
    println!(
        "upload {upload:.2?}, kernels {kernel:.2?}, download {download:.2?}, all together {all:.2?}: {:.3} of the longest",
        longest.as_secs_f64() / all.as_secs_f64()
    );
    Ok(())
}
