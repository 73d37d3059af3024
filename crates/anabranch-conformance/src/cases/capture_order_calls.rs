//! Tables of calls on a stream, for the order in which a capture and the arguments of a call are looked at.

use super::capture_raw::{Place, RawEvent};
use super::memory_raw::{GARBAGE, HUGE};
use crate::case::{Failed, status_of};
use crate::environment::Environment;
use crate::kernels;
use crate::live::Owner;
use anabranch::hal::{
    Copy3d, CopyKind, CopyPlace, Driver, FunctionHandle, HostWork, Launch, Live, RepeatableWork, StreamAttribute,
    StreamAttributeKind, Value,
};
use anabranch::{
    Buffer, Context, ContextFlags, ContextHandle, DevicePointer, EventFlags, EventRecordFlags, EventWaitFlags,
    FillPattern, Kernel, Module, Status, StreamHandle, SynchronizationPolicy, WaitValueFlags, WriteValueFlags,
};

/// What the calls of the tables need. None of their work runs.
pub(super) struct Work<'e> {
    place: Place<'e>,
    memory: Buffer<u32>,
    add: Kernel,
    /// A kernel of another context.
    foreign: Kernel,
    never: RawEvent<'e>,
    _other: (Module, Context),
}

/// A call and its name.
pub(super) type Call = (&'static str, fn(&Work<'_>, Live<'_, StreamHandle>) -> Status);

impl<'e> Work<'e> {
    pub(super) fn new(environment: &'e Environment) -> Result<Self, Failed> {
        let (place, stream) = (Place::primary(environment), environment.stream()?);
        let other = environment.device().create_context(ContextFlags::empty())?;
        let module = kernels::program().load(&other)?;
        let memory = environment.context().allocate_zeroed(&stream, 16)?;
        stream.synchronize()?;
        Ok(Self {
            place,
            memory,
            add: environment.kernel("add")?,
            foreign: module.kernel("add")?,
            never: place.event(EventFlags::DISABLE_TIMING)?,
            _other: (module, other),
        })
    }

    fn driver(&self) -> &'e dyn Driver {
        self.place.driver()
    }

    fn context(&self) -> Live<'e, ContextHandle> {
        self.place.context()
    }

    fn address(&self) -> DevicePointer {
        self.memory.device_pointer()
    }

    fn copy(&self, stream: Live<'_, StreamHandle>, to: u64, bytes: usize) -> Status {
        let (kind, from) = (CopyKind::DeviceToDevice, self.address().byte_add(32).0);
        // SAFETY: the driver refuses the copy.
        status_of(unsafe { self.driver().copy_async(&self.context().into(), kind, to, from, bytes, stream) })
    }

    fn copy_region(&self, stream: Live<'_, StreamHandle>, width: usize) -> Status {
        let end =
            |address: DevicePointer| CopyPlace { address: address.0, host: false, pitch: 8, height: 2, origin: [0; 3] };
        let (source, destination) = (end(self.address().byte_add(32)), end(self.address()));
        let copy = Copy3d { source, destination, extent: [width, 2, 1] };
        // SAFETY: the driver refuses the copy.
        status_of(unsafe { self.driver().copy_3d_async(&self.context().into(), &copy, stream) })
    }

    fn fill(&self, stream: Live<'_, StreamHandle>, address: DevicePointer, count: usize) -> Status {
        let pattern = FillPattern::U32(0);
        // SAFETY: the driver refuses the fill.
        status_of(unsafe { self.driver().fill_async(&self.context().into(), address, pattern, count, stream) })
    }

    fn write(&self, stream: Live<'_, StreamHandle>, address: DevicePointer) -> Status {
        let (value, flags) = (Value::U32(0), WriteValueFlags::empty());
        // SAFETY: the driver refuses the write.
        status_of(unsafe { self.driver().stream_write_value(&self.context().into(), stream, address, value, flags) })
    }

    fn await_value(&self, stream: Live<'_, StreamHandle>, address: DevicePointer, flags: WaitValueFlags) -> Status {
        let value = Value::U32(0);
        // SAFETY: the driver refuses the wait.
        status_of(unsafe { self.driver().stream_wait_value(&self.context().into(), stream, address, value, flags) })
    }

    fn record(&self, stream: Live<'_, StreamHandle>, flags: EventRecordFlags) -> Status {
        status_of(self.driver().event_record(&self.context().into(), self.never.live(), stream, flags))
    }

    /// The status of a launch of `add` that was changed.
    pub(super) fn launch(&self, stream: Live<'_, StreamHandle>, change: fn(&mut Launch<'_>)) -> Status {
        self.launch_of(stream, self.add.live(), change)
    }

    fn launch_of(
        &self,
        stream: Live<'_, StreamHandle>,
        function: Live<'_, FunctionHandle>,
        change: fn(&mut Launch<'_>),
    ) -> Status {
        let (address, factor, value) = (self.address(), 1u32, 0u32);
        let arguments = [(&raw const address).cast(), (&raw const factor).cast(), (&raw const value).cast()];
        let mut launch = Launch {
            grid: [1; 3],
            block: [1; 3],
            cluster: None,
            dynamic_shared_bytes: 0,
            cooperative: false,
            priority: None,
            attributes: None,
            overlap: None,
            arguments: &arguments,
            ranges: &[],
        };
        change(&mut launch);
        // SAFETY: the driver refuses the launch, or a capture makes a node of it that does not run.
        status_of(unsafe { self.driver().launch(&self.context().into(), stream, function, &launch) })
    }
}

/// Work that nothing is wrong with.
pub(super) const GOOD: &[Call] = &[
    ("launching a kernel", |work, stream| work.launch(stream, |_| ())),
    ("copying", |work, stream| work.copy(stream, work.address().0, 4)),
    ("copying a region", |work, stream| work.copy_region(stream, 4)),
    ("filling", |work, stream| work.fill(stream, work.address(), 1)),
    ("writing a value", |work, stream| work.write(stream, work.address())),
    ("waiting for a value", |work, stream| work.await_value(stream, work.address(), WaitValueFlags::EQUAL)),
    ("recording an event", |work, stream| work.record(stream, EventRecordFlags::empty())),
    ("waiting for an event never recorded", |work, stream| {
        work.place.wait(stream, &work.never, EventWaitFlags::empty())
    }),
];

/// Host functions.
pub(super) const HOST: &[Call] = &[("launching a host function", |work, stream| {
    let function = HostWork::from(RepeatableWork::new(|| ()));
    status_of(work.driver().stream_launch_host_function(&work.context().into(), stream, function))
})];

/// Work that does nothing.
pub(super) const EMPTY: &[Call] = &[
    ("copying nothing", |work, stream| work.copy(stream, 0, 0)),
    ("copying an empty region", |work, stream| work.copy_region(stream, 0)),
    ("filling nothing", |work, stream| work.fill(stream, DevicePointer::NULL, 0)),
];

/// The same, for devices with memory pools.
pub(super) const EMPTY_POOLED: &[Call] = &[
    ("allocating nothing", |work, stream| {
        status_of(work.driver().allocate_async(&work.context().into(), 0, None, stream))
    }),
    ("freeing nothing", |work, stream| {
        // SAFETY: the null address is no memory.
        status_of(unsafe { work.driver().free_async(&work.context().into(), DevicePointer::NULL, stream) })
    }),
];

/// Work whose arguments are wrong.
pub(super) const BAD: &[Call] = &[
    ("copying to nowhere", |work, stream| work.copy(stream, 0, 4)),
    ("copying past the end", |work, stream| work.copy(stream, work.address().0, HUGE)),
    ("filling what is not aligned", |work, stream| work.fill(stream, work.address().byte_add(1), 1)),
    ("writing a value where nothing is", |work, stream| work.write(stream, GARBAGE)),
    ("writing a value that is not aligned", |work, stream| work.write(stream, work.address().byte_add(1))),
    ("waiting for a value with unknown flags", |work, stream| {
        work.await_value(stream, work.address(), WaitValueFlags::from_bits_retain(0x10))
    }),
    ("recording with unknown flags", |work, stream| work.record(stream, EventRecordFlags::from_bits_retain(0x40))),
    ("waiting with unknown flags", |work, stream| {
        work.place.wait(stream, &work.never, EventWaitFlags::from_bits_retain(0x40))
    }),
    ("launching no kernel", |work, stream| work.launch_of(stream, Live::<FunctionHandle>::NULL, |_| ())),
    ("launching a kernel of another context", |work, stream| work.launch_of(stream, work.foreign.live(), |_| ())),
    ("launching without arguments", |work, stream| work.launch(stream, |launch| launch.arguments = &[])),
    ("launching no blocks", |work, stream| work.launch(stream, |launch| launch.grid = [1, 1, 0])),
    ("launching too many threads", |work, stream| work.launch(stream, |launch| launch.block = [1025, 1, 1])),
    ("launching with too much shared memory", |work, stream| {
        work.launch(stream, |launch| launch.dynamic_shared_bytes = u32::MAX)
    }),
];

/// The same, for devices with clusters and cooperative launches.
pub(super) const BAD_GRIDS: &[Call] = &[
    ("launching a cluster that does not fit", |work, stream| {
        work.launch(stream, |launch| launch.cluster = Some([2, 1, 1]))
    }),
    ("launching a cluster that is too large", |work, stream| {
        work.launch(stream, |launch| (launch.grid, launch.cluster) = ([17, 1, 1], Some([17, 1, 1])))
    }),
    ("launching a cluster of nothing", |work, stream| work.launch(stream, |launch| launch.cluster = Some([0, 1, 1]))),
    ("launching too large a cooperative grid", |work, stream| {
        work.launch(stream, |launch| (launch.grid, launch.cooperative) = ([1 << 20, 1, 1], true))
    }),
];

/// What is asked of a stream, and set, while it captures.
pub(super) const QUESTIONS: &[Call] = &[
    ("querying the priority", |work, stream| status_of(work.driver().stream_priority(&work.context().into(), stream))),
    ("setting an attribute", |work, stream| {
        let attribute = StreamAttribute::SynchronizationPolicy(SynchronizationPolicy::Auto);
        status_of(work.driver().stream_set_attribute(&work.context().into(), stream, &attribute))
    }),
];

/// More of that.
pub(super) const ATTRIBUTE: &[Call] = &[("querying an attribute", |work, stream| {
    let kind = StreamAttributeKind::SynchronizationPolicy;
    status_of(work.driver().stream_attribute(&work.context().into(), stream, kind))
})];

/// What the legacy stream can be asked beside a capture.
pub(super) const CONTEXT: &[Call] =
    &[("querying the context", |work, stream| status_of(work.driver().stream_context(&work.context().into(), stream)))];

/// What is refused while a stream captures, and invalidates the capture.
pub(super) const REFUSED_QUESTIONS: &[Call] = &[
    ("querying the flags", |work, stream| status_of(work.driver().stream_flags(&work.context().into(), stream))),
    ("querying the id", |work, stream| status_of(work.driver().stream_id(&work.context().into(), stream))),
];
