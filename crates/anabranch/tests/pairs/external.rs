//! Calls of memory and semaphores of other APIs and processes.

use crate::graphs::launch_one;
use crate::table::{Call, call};
use anabranch::{Context, ExternalMemory, ExternalSemaphore, ExternalSemaphoreKind, NodeWork, Result};
use std::path::Path;

/// What is imported from files.
pub(crate) struct External {
    memory: ExternalMemory,
    semaphore: ExternalSemaphore,
}

impl External {
    /// Imports files in a folder. `None` where the platform has no such imports.
    #[cfg(unix)]
    pub(crate) fn import(context: &Context, folder: &Path) -> Result<Option<Self>> {
        let file = |name: &str| {
            let path = folder.join(name);
            std::fs::write(&path, [0; 64]).unwrap();
            std::fs::File::options().read(true).write(true).open(path).unwrap().into()
        };
        // SAFETY: the files keep their lengths, and nobody else uses them.
        unsafe {
            let memory = context.import_external_memory(file("memory"), 64)?;
            let semaphore = context.import_external_semaphore(file("semaphore"), ExternalSemaphoreKind::Timeline)?;
            Ok(Some(Self { memory, semaphore }))
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn import(_: &Context, _: &Path) -> Result<Option<Self>> {
        Ok(None)
    }
}

pub(crate) const CALLS: &[Call] = &[
    call("ExternalMemory::byte_len", |world, _| {
        if let Some(External { memory, .. }) = &world.external {
            assert_eq!(memory.byte_len(), 64);
        }
        Ok(())
    }),
    call("ExternalSemaphore::kind", |world, _| {
        if let Some(External { semaphore, .. }) = &world.external {
            assert_eq!(semaphore.kind(), ExternalSemaphoreKind::Timeline);
        }
        Ok(())
    }),
    call("NodeWork::signal_external_semaphore", |world, side| {
        let Some(External { semaphore, .. }) = &world.external else { return Ok(()) };
        launch_one(world, side, NodeWork::signal_external_semaphore(semaphore, 1))
    }),
    call("NodeWork::wait_external_semaphore", |world, side| {
        let Some(External { semaphore, .. }) = &world.external else { return Ok(()) };
        launch_one(world, side, NodeWork::wait_external_semaphore(semaphore, 0))
    }),
    call("Stream::batch_signal_external_semaphores", |world, side| {
        let Some(External { semaphore, .. }) = &world.external else { return Ok(()) };
        world.stream(&mut side.random).batch_signal_external_semaphores(&[(semaphore, 1), (semaphore, 2)])
    }),
    call("Stream::batch_wait_external_semaphores", |world, side| {
        let Some(External { semaphore, .. }) = &world.external else { return Ok(()) };
        world.stream(&mut side.random).batch_wait_external_semaphores(&[(semaphore, 0), (semaphore, 0)])
    }),
    call("Stream::signal_external_semaphore", |world, side| {
        let Some(External { semaphore, .. }) = &world.external else { return Ok(()) };
        world.stream(&mut side.random).signal_external_semaphore(semaphore, 3)
    }),
    call("Stream::wait_external_semaphore", |world, side| {
        let Some(External { semaphore, .. }) = &world.external else { return Ok(()) };
        world.stream(&mut side.random).wait_external_semaphore(semaphore, 0)
    }),
];
