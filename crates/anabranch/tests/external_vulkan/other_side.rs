//! The other process: it exports memory and semaphores of Vulkan, fills the memory, and checks what comes back.

use super::socket;
use super::{COUNT, FIRST};
use ash::{khr, vk};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

const BYTES: u64 = (COUNT * size_of::<f32>()) as u64;
/// How long a wait may take, in nanoseconds.
const TIMEOUT: u64 = 30_000_000_000;
const MEMORY_KIND: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;
const SEMAPHORE_KIND: vk::ExternalSemaphoreHandleTypeFlags = vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD;

/// Exports, fills, signals 1, 3 and 5, and checks behind 2 and 6.
pub(crate) fn run(socket: &UnixStream, uuid: [u8; 16]) {
    let vulkan = match Vulkan::start(uuid) {
        Ok(vulkan) => vulkan,
        Err(reason) => return socket::send(socket, &format!("no Vulkan for this GPU: {reason}"), &[]),
    };
    let shared = vulkan.shared_buffer();
    let readback = vulkan.readback_buffer();
    let timeline = vulkan.semaphore(vk::SemaphoreType::TIMELINE);
    let binaries = [(); 2].map(|()| vulkan.semaphore(vk::SemaphoreType::BINARY));
    let mut descriptors = vec![vulkan.export_memory(shared.memory)];
    descriptors.extend([timeline, binaries[0], binaries[1]].map(|semaphore| vulkan.export_semaphore(semaphore)));
    let kind = if shared.is_dedicated { "dedicated" } else { "plain" };
    socket::send(socket, &format!("memory {} {kind}", shared.bytes), &descriptors);
    drop(descriptors);

    vulkan.submit(
        |commands| {
            // SAFETY: the commands are being recorded, and the buffer has so many bytes.
            unsafe { vulkan.device.cmd_fill_buffer(commands, shared.buffer, 0, BYTES, FIRST.to_bits()) };
            vulkan.pass_on(commands, shared.buffer, Direction::Release);
        },
        &[],
        &[(timeline, 1), (binaries[0], 0)],
    );
    vulkan.wait(timeline, 2);
    vulkan.read(&shared, &readback, &[(binaries[1], 0)]);
    vulkan.check(&readback, 2.0 * FIRST);
    vulkan.signal(timeline, 3);
    vulkan.wait(timeline, 4);
    vulkan.signal(timeline, 5);
    vulkan.wait(timeline, 6);
    vulkan.read(&shared, &readback, &[]);
    vulkan.check(&readback, 4.0 * FIRST);
}

struct Vulkan {
    /// Keeps the loader.
    _entry: ash::Entry,
    instance: ash::Instance,
    physical: vk::PhysicalDevice,
    device: ash::Device,
    family: u32,
    queue: vk::Queue,
    pool: vk::CommandPool,
}

struct Memory {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    /// As it was allocated.
    bytes: u64,
    is_dedicated: bool,
}

/// Which way memory is passed on between Vulkan and what is outside.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Acquire,
    Release,
}

impl Vulkan {
    fn start(uuid: [u8; 16]) -> Result<Self, String> {
        let failed = |what: &'static str| move |error: vk::Result| format!("{what}: {error}");
        // SAFETY: the library of that name is the loader of Vulkan, and is kept as long as this.
        let entry = unsafe { ash::Entry::load() }.map_err(|error| error.to_string())?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the description is complete.
        let instance = unsafe { entry.create_instance(&info, None) }.map_err(failed("making an instance"))?;
        // SAFETY: the instance was made above.
        let devices = unsafe { instance.enumerate_physical_devices() }.map_err(failed("listing devices"))?;
        let is_wanted = |device: &vk::PhysicalDevice| {
            let mut ids = vk::PhysicalDeviceIDProperties::default();
            let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut ids);
            // SAFETY: the device is one of the instance.
            unsafe { instance.get_physical_device_properties2(*device, &mut properties) };
            ids.device_uuid == uuid
        };
        let count = devices.len();
        let physical = devices.into_iter().find(is_wanted);
        let physical = physical.ok_or_else(|| format!("it is none of the {count} devices of Vulkan"))?;
        // SAFETY: the device is one of the instance.
        let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
        let can_copy = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE | vk::QueueFlags::TRANSFER;
        let family = families.iter().position(|family| family.queue_flags.intersects(can_copy));
        let family = family.ok_or("no queue can copy")? as u32;
        let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
        let extensions = [khr::external_memory_fd::NAME, khr::external_semaphore_fd::NAME].map(|name| name.as_ptr());
        let mut features = vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&extensions);
        let info = info.push_next(&mut features);
        // SAFETY: the description is complete, and what it points to is there.
        let device = unsafe { instance.create_device(physical, &info, None) }.map_err(failed("opening the device"))?;
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(family);
        // SAFETY: the device was opened with one queue of this family.
        let (queue, pool) = unsafe { (device.get_device_queue(family, 0), device.create_command_pool(&info, None)) };
        let pool = pool.map_err(failed("making a pool of commands"))?;
        Ok(Self { _entry: entry, instance, physical, device, family, queue, pool })
    }

    /// Whether exported memory of a buffer has to be for that buffer only.
    fn needs_dedicated(&self, usage: vk::BufferUsageFlags) -> bool {
        let info = vk::PhysicalDeviceExternalBufferInfo::default().usage(usage).handle_type(MEMORY_KIND);
        let mut properties = vk::ExternalBufferProperties::default();
        // SAFETY: the device is one of the instance.
        unsafe { self.instance.get_physical_device_external_buffer_properties(self.physical, &info, &mut properties) };
        let features = properties.external_memory_properties.external_memory_features;
        assert!(features.contains(vk::ExternalMemoryFeatureFlags::EXPORTABLE), "it cannot be exported");
        features.contains(vk::ExternalMemoryFeatureFlags::DEDICATED_ONLY)
    }

    fn shared_buffer(&self) -> Memory {
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let is_dedicated = self.needs_dedicated(usage);
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(MEMORY_KIND);
        let info = vk::BufferCreateInfo::default().size(BYTES).usage(usage).push_next(&mut external);
        // SAFETY: the description is complete.
        let buffer = unsafe { self.device.create_buffer(&info, None) }.unwrap();
        let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(MEMORY_KIND);
        let mut dedicated = vk::MemoryDedicatedAllocateInfo::default().buffer(buffer);
        let info = vk::MemoryAllocateInfo::default().push_next(&mut export);
        let info = if is_dedicated { info.push_next(&mut dedicated) } else { info };
        let (memory, bytes) = self.allocate(buffer, info, vk::MemoryPropertyFlags::DEVICE_LOCAL);
        Memory { buffer, memory, bytes, is_dedicated }
    }

    /// A buffer that the host can read.
    fn readback_buffer(&self) -> Memory {
        let info = vk::BufferCreateInfo::default().size(BYTES).usage(vk::BufferUsageFlags::TRANSFER_DST);
        // SAFETY: the description is complete.
        let buffer = unsafe { self.device.create_buffer(&info, None) }.unwrap();
        let wanted = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let (memory, bytes) = self.allocate(buffer, vk::MemoryAllocateInfo::default(), wanted);
        Memory { buffer, memory, bytes, is_dedicated: false }
    }

    fn allocate(
        &self,
        buffer: vk::Buffer,
        info: vk::MemoryAllocateInfo<'_>,
        wanted: vk::MemoryPropertyFlags,
    ) -> (vk::DeviceMemory, u64) {
        // SAFETY: the buffer was made by this device, which is one of the instance.
        let (requirements, types) = unsafe {
            let types = self.instance.get_physical_device_memory_properties(self.physical);
            (self.device.get_buffer_memory_requirements(buffer), types)
        };
        let is_fit = |&index: &u32| {
            let flags = types.memory_types[index as usize].property_flags;
            requirements.memory_type_bits & (1 << index) != 0 && flags.contains(wanted)
        };
        let index = (0..types.memory_type_count).find(is_fit).unwrap();
        let info = info.allocation_size(requirements.size).memory_type_index(index);
        // SAFETY: the description is complete, and the memory is for this buffer, to which nothing is bound yet.
        unsafe {
            let memory = self.device.allocate_memory(&info, None).unwrap();
            self.device.bind_buffer_memory(buffer, memory, 0).unwrap();
            (memory, requirements.size)
        }
    }

    fn semaphore(&self, kind: vk::SemaphoreType) -> vk::Semaphore {
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(kind);
        let mut export = vk::ExportSemaphoreCreateInfo::default().handle_types(SEMAPHORE_KIND);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind).push_next(&mut export);
        // SAFETY: the description is complete.
        unsafe { self.device.create_semaphore(&info, None) }.unwrap()
    }

    fn export_memory(&self, memory: vk::DeviceMemory) -> OwnedFd {
        let extension = khr::external_memory_fd::Device::new(&self.instance, &self.device);
        let info = vk::MemoryGetFdInfoKHR::default().memory(memory).handle_type(MEMORY_KIND);
        // SAFETY: the memory was allocated to be exported so; the descriptor is new, and nobody else's.
        unsafe { OwnedFd::from_raw_fd(extension.get_memory_fd(&info).unwrap()) }
    }

    fn export_semaphore(&self, semaphore: vk::Semaphore) -> OwnedFd {
        let extension = khr::external_semaphore_fd::Device::new(&self.instance, &self.device);
        let info = vk::SemaphoreGetFdInfoKHR::default().semaphore(semaphore).handle_type(SEMAPHORE_KIND);
        // SAFETY: the semaphore was made to be exported so; the descriptor is new, and nobody else's.
        unsafe { OwnedFd::from_raw_fd(extension.get_semaphore_fd(&info).unwrap()) }
    }

    /// Takes the buffer over from what is outside of Vulkan, or hands it over.
    fn pass_on(&self, commands: vk::CommandBuffer, buffer: vk::Buffer, direction: Direction) {
        let barrier = vk::BufferMemoryBarrier::default().buffer(buffer).size(vk::WHOLE_SIZE);
        let barrier = match direction {
            Direction::Acquire => barrier
                .dst_access_mask(vk::AccessFlags::TRANSFER_READ)
                .src_queue_family_index(vk::QUEUE_FAMILY_EXTERNAL)
                .dst_queue_family_index(self.family),
            Direction::Release => barrier
                .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
                .src_queue_family_index(self.family)
                .dst_queue_family_index(vk::QUEUE_FAMILY_EXTERNAL),
        };
        let (stages, flags) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::DependencyFlags::empty());
        // SAFETY: the commands are being recorded, and the buffer was made by this device.
        unsafe { self.device.cmd_pipeline_barrier(commands, stages, stages, flags, &[], &[barrier], &[]) };
    }

    /// Records commands, submits them, and waits until they are complete.
    fn submit(
        &self,
        record: impl FnOnce(vk::CommandBuffer),
        waits: &[(vk::Semaphore, u64)],
        signals: &[(vk::Semaphore, u64)],
    ) {
        let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the pool is of this device, and only this thread uses it.
        let commands = unsafe {
            let commands = self.device.allocate_command_buffers(&info).unwrap()[0];
            self.device.begin_command_buffer(commands, &begin).unwrap();
            commands
        };
        record(commands);
        let (wait_for, wait_values): (Vec<_>, Vec<_>) = waits.iter().copied().unzip();
        let (signal, signal_values): (Vec<_>, Vec<_>) = signals.iter().copied().unzip();
        let stages = vec![vk::PipelineStageFlags::ALL_COMMANDS; waits.len()];
        let mut values = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_values)
            .signal_semaphore_values(&signal_values);
        let all = [commands];
        let info = vk::SubmitInfo::default()
            .command_buffers(&all)
            .wait_semaphores(&wait_for)
            .wait_dst_stage_mask(&stages)
            .signal_semaphores(&signal)
            .push_next(&mut values);
        // SAFETY: the commands are recorded, the semaphores were made by this device, and what the description points to is
        // there until the call returns. The fence is waited for.
        unsafe {
            self.device.end_command_buffer(commands).unwrap();
            let fence = self.device.create_fence(&vk::FenceCreateInfo::default(), None).unwrap();
            self.device.queue_submit(self.queue, &[info], fence).unwrap();
            self.device.wait_for_fences(&[fence], true, TIMEOUT).unwrap();
        }
    }

    /// Copies the shared memory to where the host can read it.
    fn read(&self, shared: &Memory, readback: &Memory, waits: &[(vk::Semaphore, u64)]) {
        let record = |commands| {
            self.pass_on(commands, shared.buffer, Direction::Acquire);
            let region = vk::BufferCopy::default().size(BYTES);
            let visible = vk::MemoryBarrier::default()
                .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
                .dst_access_mask(vk::AccessFlags::HOST_READ);
            let (from, to) = (vk::PipelineStageFlags::TRANSFER, vk::PipelineStageFlags::HOST);
            // SAFETY: the commands are being recorded, and both buffers have so many bytes.
            unsafe {
                self.device.cmd_copy_buffer(commands, shared.buffer, readback.buffer, &[region]);
                let flags = vk::DependencyFlags::empty();
                self.device.cmd_pipeline_barrier(commands, from, to, flags, &[visible], &[], &[]);
            }
            self.pass_on(commands, shared.buffer, Direction::Release);
        };
        self.submit(record, waits, &[]);
    }

    fn check(&self, readback: &Memory, expected: f32) {
        // SAFETY: the memory can be seen by the host, is mapped by nobody else, and no work uses it now.
        let found = unsafe {
            let start =
                self.device.map_memory(readback.memory, 0, BYTES, vk::MemoryMapFlags::empty()).unwrap().cast::<f32>();
            let found = std::slice::from_raw_parts(start, COUNT).to_vec();
            self.device.unmap_memory(readback.memory);
            found
        };
        let wrong = found.iter().position(|&value| value != expected);
        assert_eq!(wrong.map(|index| (index, found[index])), None, "expected {expected}");
    }

    /// Waits on the host.
    fn wait(&self, semaphore: vk::Semaphore, value: u64) {
        let (semaphores, values) = ([semaphore], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the semaphore was made by this device.
        unsafe { self.device.wait_semaphores(&info, TIMEOUT) }.unwrap();
    }

    /// Signals on the host.
    fn signal(&self, semaphore: vk::Semaphore, value: u64) {
        let info = vk::SemaphoreSignalInfo::default().semaphore(semaphore).value(value);
        // SAFETY: the semaphore was made by this device, and had a smaller value.
        unsafe { self.device.signal_semaphore(&info) }.unwrap();
    }
}
