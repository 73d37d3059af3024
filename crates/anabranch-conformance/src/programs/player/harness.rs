//! What all programs use: contexts, kernels, memory and gates.

use super::super::call::Place;
use super::super::slots::{ContextSlot, GateSlot, RegionSlot, WordSlot};
use super::arena::Arena;
use crate::kernels;
use anabranch::hal::{
    self, Call, Capabilities, ContextFlags, ContextHandle, CopyKind, DeviceOrdinal, DevicePointer, Driver,
    FunctionHandle, HostModule, Live, ModuleHandle, ModuleImage, PinnedFlags,
};
use anabranch::{Device, Error};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// The bytes of each buffer.
pub(super) const BYTES: usize = 4096;
/// Where the number is that fulfils the condition of every open wait, in device memory.
pub(super) const OPEN: usize = 480;
/// Where numbers are written by streams, in device memory.
pub(super) const MARKS: usize = 256;
/// How many numbers are written by streams.
pub(super) const MARK_COUNT: usize = 8;
/// How many numbers kernels change.
pub(super) const WORD_COUNT: usize = 48;
/// How many gates there are.
pub(super) const GATE_COUNT: usize = 64;
/// How many regions there are, and the bytes of each.
pub(super) const REGION_COUNT: usize = 16;
pub(super) const REGION_BYTES: usize = 64;
/// How long work of a lost context may run on.
const LONGEST_RUN: Duration = Duration::from_secs(5);
/// How long to wait before looking again whether it still runs, at first and at most.
const SHORTEST_PAUSE: Duration = Duration::from_micros(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
/// Where the regions are that copies read, and those that copies and fills write.
const IMAGE: usize = 512;
const TARGET: usize = IMAGE + REGION_COUNT * REGION_BYTES;

/// One of the two contexts.
pub(super) struct HarnessContext {
    pub(super) device_ordinal: DeviceOrdinal,
    pub(super) handle: ContextHandle,
    module: ModuleHandle,
    pub(super) count_up: FunctionHandle,
    pub(super) add: FunctionHandle,
    pub(super) fault: FunctionHandle,
    pub(super) trap: FunctionHandle,
    pub(super) device: DevicePointer,
}

pub(super) struct Harness {
    driver: Arc<dyn Driver>,
    pub(super) is_host: bool,
    pub(super) contexts: [HarnessContext; 2],
    pub(super) pinned: *mut u8,
    pub(super) pageable: *mut u8,
    pub(super) arena: Arena,
    /// The sum of the numbers of all host functions that have run.
    pub(super) host_sum: Arc<AtomicU64>,
}

// SAFETY: the pointers are those of memory that the harness owns. The host reads and writes it through atomics, or while no
// work is pending.
unsafe impl Send for Harness {}

/// The byte that a region is filled with.
pub(super) fn pattern(region: usize) -> u8 {
    0xa1 + region as u8
}

/// What the buffers contain before a program.
pub(super) fn initial() -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    bytes[OPEN..OPEN + 8].copy_from_slice(&1u64.to_le_bytes());
    for region in 0..REGION_COUNT {
        let start = IMAGE + region * REGION_BYTES;
        bytes[start..start + REGION_BYTES].fill(pattern(region));
    }
    bytes
}

/// Where a region is written to.
pub(super) fn target(region: usize) -> usize {
    TARGET + region % REGION_COUNT * REGION_BYTES
}

/// The image of the kernels for a device.
pub(super) fn with_image<R>(is_host: bool, load: impl FnOnce(ModuleImage<'_>) -> R) -> R {
    static HOST: LazyLock<HostModule> = LazyLock::new(kernels::host_module);
    if is_host { load(ModuleImage::Host(&HOST)) } else { load(ModuleImage::Ptx(kernels::PTX)) }
}

impl HarnessContext {
    /// The module of the kernels.
    pub(super) fn module(&self) -> ModuleHandle {
        self.module
    }

    fn open(
        driver: &dyn Driver,
        is_host: bool,
        device_ordinal: DeviceOrdinal,
        handle: ContextHandle,
    ) -> hal::Result<Self> {
        // SAFETY: the context was just retained or created, and exists as long as the harness does.
        let call = Call::new(unsafe { Live::new(handle) }, "preparing programs");
        let module = with_image(is_host, |image| {
            // SAFETY: the image is no binary.
            unsafe { driver.module_load(&call, image) }
        })?;
        // SAFETY: the module was just loaded.
        let function = |name| driver.module_function(&call, unsafe { Live::new(module) }, name);
        Ok(Self {
            device_ordinal,
            handle,
            module,
            count_up: function("count_up")?,
            add: function("add")?,
            fault: function("fault")?,
            trap: function("trap")?,
            device: driver.allocate(&call, BYTES)?,
        })
    }
}

impl Harness {
    /// Without a peer, both contexts are of the device.
    pub(super) fn open(device: &Device, peer: Option<&Device>) -> Result<Self, Error> {
        Self::with_driver(device, peer).map_err(|failure| Error::driver("preparing random programs", failure))
    }

    fn with_driver(device: &Device, peer: Option<&Device>) -> hal::Result<Self> {
        let (driver, ordinal) = (device.driver().clone(), device.ordinal());
        let is_host = device.capabilities().contains(Capabilities::HOST_FUNCTIONS);
        let primary = driver.primary_context_retain(ordinal)?;
        let (second, of) = match peer {
            Some(peer) => (driver.primary_context_retain(peer.ordinal())?, peer.ordinal()),
            None => (driver.context_create(ordinal, ContextFlags::empty())?, ordinal),
        };
        let open = |ordinal, handle| HarnessContext::open(&*driver, is_host, ordinal, handle);
        let contexts = [open(ordinal, primary)?, open(of, second)?];
        // SAFETY: the contexts were just retained or created.
        let calls = [primary, second].map(|handle| Call::new(unsafe { Live::new(handle) }, "preparing programs"));
        let [call, _] = calls;
        let arena = Arena::open(&*driver, &calls)?;
        let pinned = driver.allocate_pinned(&call, BYTES, PinnedFlags::PORTABLE | PinnedFlags::DEVICE_MAP)?;
        let pageable = Box::into_raw(vec![0u64; BYTES / 8].into_boxed_slice()).cast();
        Ok(Self { driver, is_host, contexts, pinned, pageable, arena, host_sum: Arc::default() })
    }

    pub(super) fn call(&self, context: ContextSlot) -> Call<'static> {
        // SAFETY: the contexts of the harness exist until it is dropped, and nothing uses it afterwards.
        Call::new(unsafe { Live::new(self.context(context).handle) }, "a call of a program")
    }

    pub(super) fn context(&self, context: ContextSlot) -> &HarnessContext {
        &self.contexts[usize::from(context.0 % 2)]
    }

    /// The device of a context.
    pub(super) fn device(&self, context: ContextSlot) -> DeviceOrdinal {
        self.context(context).device_ordinal
    }

    /// The device of that number: 0 and 1 are those of the two contexts, and later ones come behind the first.
    pub(super) fn ordinal(&self, number: u32) -> DeviceOrdinal {
        match number {
            0 | 1 => self.device(ContextSlot(number as u16)),
            number => DeviceOrdinal(number.wrapping_add(self.device(ContextSlot(0)).0)),
        }
    }

    pub(super) fn has_two_devices(&self) -> bool {
        self.device(ContextSlot(0)) != self.device(ContextSlot(1))
    }

    /// The devices of the contexts, each once.
    pub(super) fn devices(&self) -> impl Iterator<Item = DeviceOrdinal> + use<> {
        let [first, second] = [0, 1].map(|context| self.device(ContextSlot(context)));
        [Some(first), Some(second).filter(|&second| second != first)].into_iter().flatten()
    }

    /// The address of a number that kernels change.
    pub(super) fn word(&self, context: ContextSlot, word: WordSlot) -> DevicePointer {
        self.context(context).device.byte_add(usize::from(word.0) % WORD_COUNT * 4)
    }

    fn base(&self, context: ContextSlot, place: Place) -> u64 {
        match place {
            Place::Device => self.context(context).device.0,
            Place::Other => self.context(ContextSlot(1 - context.0 % 2)).device.0,
            Place::Pinned => self.pinned as u64,
            Place::Pageable => self.pageable as u64,
        }
    }

    /// Where a region is read.
    pub(super) fn source(&self, context: ContextSlot, place: Place, region: RegionSlot) -> u64 {
        self.base(context, place) + (IMAGE + usize::from(region.0) % REGION_COUNT * REGION_BYTES) as u64
    }

    /// Where a region is written.
    pub(super) fn target(&self, context: ContextSlot, place: Place, region: RegionSlot) -> u64 {
        self.base(context, place) + target(usize::from(region.0)) as u64
    }

    /// The address of a gate.
    pub(super) fn gate(&self, gate: GateSlot) -> DevicePointer {
        DevicePointer(self.pinned as u64).byte_add(usize::from(gate.0) % GATE_COUNT * 4)
    }

    pub(super) fn open_gate(&self, gate: GateSlot) {
        // SAFETY: the gates are numbers at the start of pinned memory, which is aligned, and which the host and the device
        // access as whole numbers of this size.
        let gate = unsafe { AtomicU32::from_ptr(self.gate(gate).0 as *mut u32) };
        gate.store(1, Ordering::Release);
    }

    fn open_all_gates(&self) {
        (0..GATE_COUNT as u16).for_each(|gate| self.open_gate(GateSlot(gate)));
    }

    /// Sets all memory to what it is before a program. No work is pending.
    pub(super) fn reset(&self) -> hal::Result<()> {
        let initial = initial();
        self.host_sum.store(0, Ordering::Release);
        for place in [self.pinned, self.pageable] {
            // SAFETY: both buffers have this many bytes, and no work is pending that uses them.
            unsafe { place.copy_from_nonoverlapping(initial.as_ptr(), BYTES) };
        }
        for context in [ContextSlot(0), ContextSlot(1)] {
            let (call, device) = (self.call(context), self.context(context).device.0);
            // SAFETY: both ranges are valid. The call is followed by a wait before the source is dropped.
            unsafe { self.driver.copy(&call, CopyKind::HostToDevice, device, initial.as_ptr() as u64, BYTES) }?;
            self.driver.context_synchronize(&call)?;
        }
        Ok(())
    }

    /// Waits for all work of both contexts, also if one of them is lost.
    pub(super) fn synchronize(&self) -> hal::Result<()> {
        let both = || {
            let [first, second] =
                [0, 1].map(|context| self.driver.context_synchronize(&self.call(ContextSlot(context))));
            first.and(second)
        };
        let complete = both();
        // Pools of one device give back what streams of the other have freed when their own device is waited for afterwards.
        if self.has_two_devices() { complete.and(both()) } else { complete }
    }

    /// Waits until no work of a lost context runs any more, and returns whether that is so.
    fn outlast(&self) -> bool {
        let is_running = |context| self.driver.lost_context_is_running(&self.call(ContextSlot(context)));
        let (start, mut pause) = (Instant::now(), SHORTEST_PAUSE);
        while is_running(0) || is_running(1) {
            if start.elapsed() > LONGEST_RUN {
                return false;
            }
            std::thread::sleep(pause);
            pause = LONGEST_PAUSE.min(pause * 2);
        }
        true
    }

    /// The contents of the device memory of a context. No work is pending.
    pub(super) fn read(&self, context: ContextSlot) -> hal::Result<Vec<u8>> {
        let (mut bytes, device) = (vec![0u8; BYTES], self.context(context).device.0);
        let destination = bytes.as_mut_ptr() as u64;
        // SAFETY: both ranges are valid, and the call waits until the copy to pageable memory is complete.
        unsafe { self.driver.copy(&self.call(context), CopyKind::DeviceToHost, destination, device, BYTES) }?;
        Ok(bytes)
    }

    /// The contents of host memory. No work is pending.
    pub(super) fn read_host(&self, address: *const u8) -> Vec<u8> {
        // SAFETY: the caller gives one of the two buffers of this many bytes, and no work is pending.
        unsafe { std::slice::from_raw_parts(address, BYTES) }.to_vec()
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.open_all_gates();
        if self.synchronize().is_err() {
            // Of a lost context nothing can be freed. Its work uses kernels of this driver.
            if !self.outlast() {
                std::mem::forget(self.driver.clone());
            }
            return;
        }
        // SAFETY: all work is complete, and nobody uses the harness any more. The pageable memory was made from a box of
        // this many numbers.
        unsafe {
            self.arena.close(&*self.driver, &[0, 1].map(|context| self.call(ContextSlot(context))));
            for context in [0, 1].map(ContextSlot) {
                let (call, own) = (self.call(context), self.context(context));
                let _ = self.driver.free(&call, own.device);
                let _ = self.driver.module_unload(&call, own.module);
            }
            let _ = self.driver.free_pinned(&self.call(ContextSlot(0)), self.pinned);
            let [first, second] = [0, 1].map(|context| self.device(ContextSlot(context)));
            let _ = match self.has_two_devices() {
                true => self.driver.primary_context_release(second),
                false => self.driver.context_destroy(&self.call(ContextSlot(1))),
            };
            let _ = self.driver.primary_context_release(first);
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.pageable.cast::<u64>(), BYTES / 8)));
        }
    }
}
