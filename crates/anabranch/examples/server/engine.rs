//! The work of requests: a context, its kernels, and streams that requests take turns with.

use crate::kernels::{Kernels, for_pixels};
use crate::protocol::Injection;
use anabranch::{
    Buffer, Context, ContextFlags, Device, DualModule, HostFunction, Kernel, KernelFault, LaunchConfig, Result, Stream,
    WaitCondition,
};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A context and what is in it. When a context is lost, a new engine takes over.
pub(crate) struct Engine {
    context: Context,
    kernels: Kernels,
    /// A kernel that traps, on the host device.
    trap: Option<Kernel>,
    idle: Mutex<Vec<Arc<Stream>>>,
    permits: Arc<Semaphore>,
    runtime: Handle,
    streams: usize,
}

impl Engine {
    /// Opens a context. As many requests are worked on at a time as there are streams. `ptx`: the software device runs the
    /// PTX of the kernels, and not their twins.
    pub(crate) fn open(device: &Device, streams: usize, ptx: bool, runtime: Handle) -> Result<Self> {
        let context = device.create_context(ContextFlags::empty())?;
        let trap = DualModule::new()
            .host_function(HostFunction::new("trap", &[], |_, _| KernelFault::trap("injected").raise()))
            .load(&context)
            .and_then(|module| module.kernel("trap"));
        Ok(Self {
            kernels: Kernels::load_for(&context, ptx)?,
            trap: trap.ok(),
            idle: Mutex::new((0..streams).map(|_| context.create_stream().map(Arc::new)).collect::<Result<_>>()?),
            permits: Arc::new(Semaphore::new(streams)),
            context,
            runtime,
            streams,
        })
    }

    /// The edges in a picture, whose size is that of `pixels`.
    pub(crate) async fn edges(
        self: &Arc<Self>,
        width: u32,
        height: u32,
        pixels: &[u8],
        inject: Option<Injection>,
    ) -> Result<Vec<u8>> {
        let mut lane = self.lane().await;
        let stream = lane.stream.clone();
        let source = stream.upload_async(pixels).await?;
        if let Some(injection) = inject {
            self.inject(&stream, injection)?;
        }
        // Nothing of this waits, and what it allocates is freed in the order of the stream.
        let stretched = self.queue(&stream, width, height, &source)?;
        let edges = stream.download_async(&stretched).await;
        lane.is_idle = edges.is_ok();
        edges
    }

    fn queue(&self, stream: &Stream, width: u32, height: u32, source: &Buffer<u8>) -> Result<Buffer<u8>> {
        // A frame has fewer than 2³² bytes.
        let count = source.len() as u32;
        let mut blurred = stream.allocate_zeroed::<u8>(source.len())?;
        let mut edges = stream.allocate_zeroed::<u16>(source.len())?;
        let mut peak = stream.allocate_zeroed::<u32>(1)?;
        let mut scale = stream.allocate_zeroed::<u32>(1)?;
        let mut stretched = stream.allocate_zeroed::<u8>(source.len())?;
        let (kernels, pixels) = (&self.kernels, for_pixels(width, height));
        let blur = kernels.blur(&mut blurred, source, width, height);
        // SAFETY: `blur` uses `width` times `height` pixels of either buffer, which is all that they have.
        unsafe { blur.launch(stream, &pixels)? };
        let gradient = kernels.gradient(&mut edges, &mut peak, &blurred, width, height, 0, height);
        // SAFETY: `gradient` reads all of `blurred`, writes as many elements of `edges`, and one of `peak`.
        unsafe { gradient.launch(stream, &pixels)? };
        let choose_scale = kernels.choose_scale(&mut scale, &peak, 1);
        // SAFETY: `choose_scale` writes one number, reads as many as its argument says, and uses no other memory.
        unsafe { choose_scale.launch(stream, &LaunchConfig::new(1, 256))? };
        let stretch = kernels.stretch(&mut stretched, &edges, &scale, count);
        // SAFETY: `stretch` uses `count` elements of `stretched` and `edges`, which is all that they have, and one of
        // `scale`.
        unsafe { stretch.launch(stream, &LaunchConfig::for_elements(count))? };
        Ok(stretched)
    }

    fn inject(&self, stream: &Stream, injection: Injection) -> Result<()> {
        match injection {
            // Without a message of the panic hook.
            Injection::Panic => stream.launch_host_func(|| resume_unwind(Box::new("injected"))),
            Injection::Stall(milliseconds) => {
                let signal = self.context.create_signal()?;
                stream.wait_signal(&signal, WaitCondition::Equal, 1)?;
                self.runtime.spawn(async move {
                    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
                    signal.set(1);
                });
                Ok(())
            }
            Injection::Fault => match &self.trap {
                // SAFETY: the kernel takes nothing and uses no memory.
                Some(trap) => unsafe { stream.launch(trap, &LaunchConfig::new(1, 1), ()) },
                None => Ok(()),
            },
        }
    }

    /// A stream for one request, as soon as there is one.
    async fn lane(self: &Arc<Self>) -> Lane {
        loop {
            // The semaphore is never closed.
            let permit = self.permits.clone().acquire_owned().await.ok();
            // There are as many permits as streams.
            if let Some(stream) = self.idle().pop() {
                return Lane { engine: self.clone(), stream, permit, is_idle: false };
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Arc<Stream>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no request uses a stream, and no stream has work left.
    pub(crate) async fn quiet(&self) {
        let all = u32::try_from(self.streams).unwrap_or(u32::MAX);
        let _ = self.permits.acquire_many(all).await;
    }
}

/// A stream that belongs to one request.
struct Lane {
    engine: Arc<Engine>,
    stream: Arc<Stream>,
    permit: Option<OwnedSemaphorePermit>,
    /// Whether all of its work is known to be complete.
    is_idle: bool,
}

impl Drop for Lane {
    /// Gives the stream back. Where a request was given up that is when its work is complete, so that the next one neither
    /// waits for that work nor learns of its failure.
    fn drop(&mut self) {
        let (engine, stream, permit) = (self.engine.clone(), self.stream.clone(), self.permit.take());
        if self.is_idle {
            engine.idle().push(stream);
            return;
        }
        self.engine.runtime.spawn(async move {
            // The client that gave the work up is not interested in its result.
            let _ = stream.checked_completion_future().await;
            engine.idle().push(stream);
            drop(permit);
        });
    }
}
