//! Kernels in PTX, and launches of them.

use crate::support::Gpu;
use anabranch_hal::{DevicePointer, FunctionHandle, Launch, Live, Modules, Result};
use std::ffi::c_void;

/// `add(values, value, count)` adds to each of `count` 32-bit numbers; `spin(nanoseconds)` takes time.
pub(crate) const PTX: &str = "
.version 7.0
.target sm_70
.address_size 64

.global .align 8 .u64 counter;

.visible .entry add(.param .u64 values, .param .u32 value, .param .u32 count)
{
    .reg .pred %p;
    .reg .b32 %r<7>;
    .reg .b64 %d<3>;
    .shared .align 4 .b8 scratch[256];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r0, %r0, %r1, %r2;
    ld.param.u32 %r3, [count];
    setp.ge.u32 %p, %r0, %r3;
    @%p bra done;
    ld.param.u64 %d0, [values];
    cvta.to.global.u64 %d0, %d0;
    mul.wide.u32 %d1, %r0, 4;
    add.u64 %d0, %d0, %d1;
    ld.param.u32 %r4, [value];
    ld.global.u32 %r5, [%d0];
    add.u32 %r5, %r5, %r4;
    st.global.u32 [%d0], %r5;
done:
    ret;
}

.visible .entry spin(.param .u64 nanoseconds)
{
    .reg .pred %p;
    .reg .b64 %d<4>;
    ld.param.u64 %d0, [nanoseconds];
    mov.u64 %d1, %globaltimer;
again:
    mov.u64 %d2, %globaltimer;
    sub.u64 %d3, %d2, %d1;
    setp.lt.u64 %p, %d3, %d0;
    @%p bra again;
    ret;
}
";

/// A launch of one block, with nothing special about it.
pub(crate) const PLAIN: Launch<'static> = Launch {
    grid: [1, 1, 1],
    block: [1, 1, 1],
    cluster: None,
    dynamic_shared_bytes: 0,
    cooperative: false,
    priority: None,
    attributes: None,
    overlap: None,
    arguments: &[],
    ranges: &[],
};

fn address<T>(value: &T) -> *const c_void {
    (&raw const *value).cast()
}

/// Queues `add`, with the rest of the launch as given.
pub(crate) fn add(
    gpu: &Gpu,
    add: Live<'static, FunctionHandle>,
    launch: Launch<'_>,
    values: DevicePointer,
    value: u32,
    count: u32,
) -> Result<()> {
    let arguments = [address(&values), address(&value), address(&count)];
    let launch = Launch {
        grid: [count.div_ceil(128).next_multiple_of(2), 1, 1],
        block: [128, 1, 1],
        arguments: &arguments,
        ..launch
    };
    // SAFETY: the arguments are those that the kernel declares; the tests give memory for as many numbers as they say.
    unsafe { gpu.launch(&gpu.context.into(), gpu.stream, add, &launch) }
}

/// Queues work that takes that long.
pub(crate) fn spin(gpu: &Gpu, spin: Live<'_, FunctionHandle>, milliseconds: u64) {
    let nanoseconds = milliseconds * 1_000_000;
    let launch = Launch { arguments: &[address(&nanoseconds)], ..PLAIN };
    // SAFETY: the argument is the one that the kernel declares.
    unsafe { gpu.launch(&gpu.context.into(), gpu.stream, spin, &launch) }.expect("a launch");
}
