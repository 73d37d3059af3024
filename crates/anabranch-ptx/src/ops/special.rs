//! Special registers, parameters of kernels, and addresses of spaces.

use std::marker::PhantomData;
use std::sync::OnceLock;
use std::time::Instant;

use super::load::Element;
use crate::machine::{
    Body, Form, LANES, LOCAL_WINDOW, Lanes, Op, PARAMETER_WINDOW, SHARED_WINDOW, Step, Vectors, WINDOW_BYTES, When,
    Width,
};

/// Special registers, by their numbers in operations: name, part, bits.
pub(crate) const REGISTERS: &[(&str, &str, u32)] = &[
    ("%tid", "x", 32),
    ("%tid", "y", 32),
    ("%tid", "z", 32),
    ("%ntid", "x", 32),
    ("%ntid", "y", 32),
    ("%ntid", "z", 32),
    ("%ctaid", "x", 32),
    ("%ctaid", "y", 32),
    ("%ctaid", "z", 32),
    ("%nctaid", "x", 32),
    ("%nctaid", "y", 32),
    ("%nctaid", "z", 32),
    ("%laneid", "", 32),
    ("%warpid", "", 32),
    ("%nwarpid", "", 32),
    ("%smid", "", 32),
    ("%nsmid", "", 32),
    ("%gridid", "", 64),
    ("%lanemask_eq", "", 32),
    ("%lanemask_le", "", 32),
    ("%lanemask_lt", "", 32),
    ("%lanemask_ge", "", 32),
    ("%lanemask_gt", "", 32),
    ("%clock", "", 32),
    ("%clock_hi", "", 32),
    ("%clock64", "", 64),
    ("%globaltimer", "", 64),
    ("%globaltimer_lo", "", 32),
    ("%globaltimer_hi", "", 32),
    ("%dynamic_smem_size", "", 32),
    ("%total_smem_size", "", 32),
    ("%aggr_smem_size", "", 32),
    ("%reserved_smem_offset_begin", "", 32),
    ("%reserved_smem_offset_end", "", 32),
    ("%reserved_smem_offset_cap", "", 32),
    ("%is_explicit_cluster", "", 1),
    ("%current_graph_exec", "", 64),
    ("%tid", "w", 32),
    ("%ntid", "w", 32),
    ("%ctaid", "w", 32),
    ("%nctaid", "w", 32),
    ("%reserved_smem_offset_0", "", 32),
    ("%reserved_smem_offset_1", "", 32),
    // What a driver tells its kernels: nothing here.
    ("%envreg0", "", 32),
    ("%envreg1", "", 32),
    ("%envreg2", "", 32),
    ("%envreg3", "", 32),
    ("%envreg4", "", 32),
    ("%envreg5", "", 32),
    ("%envreg6", "", 32),
    ("%envreg7", "", 32),
    ("%envreg8", "", 32),
    ("%envreg9", "", 32),
    ("%envreg10", "", 32),
    ("%envreg11", "", 32),
    ("%envreg12", "", 32),
    ("%envreg13", "", 32),
    ("%envreg14", "", 32),
    ("%envreg15", "", 32),
    ("%envreg16", "", 32),
    ("%envreg17", "", 32),
    ("%envreg18", "", 32),
    ("%envreg19", "", 32),
    ("%envreg20", "", 32),
    ("%envreg21", "", 32),
    ("%envreg22", "", 32),
    ("%envreg23", "", 32),
    ("%envreg24", "", 32),
    ("%envreg25", "", 32),
    ("%envreg26", "", 32),
    ("%envreg27", "", 32),
    ("%envreg28", "", 32),
    ("%envreg29", "", 32),
    ("%envreg30", "", 32),
    ("%envreg31", "", 32),
    ("%clusterid", "x", 32),
    ("%clusterid", "y", 32),
    ("%clusterid", "z", 32),
    ("%clusterid", "w", 32),
    ("%nclusterid", "x", 32),
    ("%nclusterid", "y", 32),
    ("%nclusterid", "z", 32),
    ("%nclusterid", "w", 32),
    ("%cluster_ctaid", "x", 32),
    ("%cluster_ctaid", "y", 32),
    ("%cluster_ctaid", "z", 32),
    ("%cluster_ctaid", "w", 32),
    ("%cluster_nctaid", "x", 32),
    ("%cluster_nctaid", "y", 32),
    ("%cluster_nctaid", "z", 32),
    ("%cluster_nctaid", "w", 32),
    ("%cluster_ctarank", "", 32),
    ("%cluster_nctarank", "", 32),
    // What tools for performance set up: nothing is counted here.
    ("%pm0", "", 32),
    ("%pm1", "", 32),
    ("%pm2", "", 32),
    ("%pm3", "", 32),
    ("%pm4", "", 32),
    ("%pm5", "", 32),
    ("%pm6", "", 32),
    ("%pm7", "", 32),
    ("%pm0_64", "", 64),
    ("%pm1_64", "", 64),
    ("%pm2_64", "", 64),
    ("%pm3_64", "", 64),
    ("%pm4_64", "", 64),
    ("%pm5_64", "", 64),
    ("%pm6_64", "", 64),
    ("%pm7_64", "", 64),
];

/// Where dynamic shared memory begins: a number beyond those of the registers.
pub(crate) const DYNAMIC_SHARED: u64 = 1000;

/// Whether a special register changes within a launch, for one warp: the place of the block, and clocks.
pub(crate) fn changes(number: u64) -> bool {
    matches!(number, 6..=8 | 23..=28 | 75..=77 | 83..=85 | 91)
}

/// Whether a special register has a number for each lane of a warp.
pub(crate) fn differs(number: u64) -> bool {
    matches!(number, 0..=2 | 12 | 18..=22)
}

fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The value of a register that is the same for all lanes.
fn value(lanes: &Lanes<'_>, number: u64) -> u64 {
    let geometry = lanes.geometry;
    let threads = geometry.block.iter().map(|&size| u64::from(size)).product::<u64>();
    match number {
        3..=5 => geometry.block[number as usize - 3].into(),
        6..=8 => lanes.block_index[number as usize - 6].into(),
        9..=11 => geometry.grid[number as usize - 9].into(),
        13 => lanes.warp.into(),
        14 => threads.div_ceil(LANES as u64),
        16 => 1,
        17 => geometry.grid_id,
        23 | 25 | 26 | 27 => nanoseconds(),
        24 | 28 => nanoseconds() >> 32,
        29 => geometry.dynamic_shared.into(),
        30 | 31 => geometry.total_shared.into(),
        // No shared memory is reserved: what is there is out of bounds.
        41 | 42 => geometry.total_shared.into(),
        75..=77 => {
            let axis = number as usize - 75;
            (lanes.block_index[axis] / geometry.cluster[axis]).into()
        }
        79..=81 => {
            let axis = number as usize - 79;
            (geometry.grid[axis] / geometry.cluster[axis]).into()
        }
        83..=85 => {
            let axis = number as usize - 83;
            (lanes.block_index[axis] % geometry.cluster[axis]).into()
        }
        87..=89 => geometry.cluster[number as usize - 87].into(),
        91 => {
            let within = |axis: usize| lanes.block_index[axis] % geometry.cluster[axis];
            let [x, y, _] = geometry.cluster;
            (within(0) + x * (within(1) + y * within(2))).into()
        }
        92 => geometry.cluster.iter().map(|&extent| u64::from(extent)).product(),
        DYNAMIC_SHARED => u64::from(geometry.total_shared - geometry.dynamic_shared),
        _ => 0,
    }
}

/// A special register of 32 bits; `imm` is its number.
pub(crate) struct Register;
impl Body for Register {
    const FORM: Form = Form::made(Width::W32).when(When::Special);

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        let one = |f: fn(u32) -> u32| std::array::from_fn(|lane| f(lane as u32));
        let values: [u32; LANES] = match op.imm {
            0..=2 => lanes.threads[op.imm as usize].0,
            12 => one(|lane| lane),
            18 => one(|lane| 1 << lane),
            19 => one(|lane| (2u64 << lane).wrapping_sub(1) as u32),
            20 => one(|lane| (1 << lane) - 1),
            21 => one(|lane| !0 << lane),
            22 => one(|lane| (!1u64 << lane) as u32),
            number => [value(lanes, number) as u32; LANES],
        };
        // SAFETY: `d` is a plane of 32 bits.
        unsafe { lanes.set_plane(op.d, &values) };
        Step::Next
    }
}

/// Whether a special register is one of the place of the block, for which there is an operation of its own: it is read for
/// each warp of each block.
pub(crate) fn is_place(number: u64) -> bool {
    matches!(number, 6..=8)
}

/// `%ctaid`; `imm` is its number.
pub(crate) struct BlockIndex;
impl Body for BlockIndex {
    const FORM: Form = Form::made(Width::W32).when(When::Special);

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        let [x, y, z] = lanes.block_index;
        let number = match op.imm {
            6 => x,
            7 => y,
            _ => z,
        };
        // SAFETY: `d` is a plane of 32 bits.
        unsafe { lanes.set_plane(op.d, &[number; LANES]) };
        Step::Next
    }
}

/// `%is_explicit_cluster`.
pub(crate) struct IsCluster;
impl Body for IsCluster {
    const FORM: Form = Form::made(Width::Predicate).when(When::Special);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        let bits = if lanes.geometry.cluster == [1; 3] { 0 } else { !0 };
        // SAFETY: `d` is a predicate.
        unsafe { lanes.set_predicate(op.d, bits) };
        Step::Next
    }
}

/// A special register of 64 bits.
pub(crate) struct WideRegister;
impl Body for WideRegister {
    const FORM: Form = Form::made(Width::W64).when(When::Special);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: `d` is a plane of 64 bits.
        unsafe { lanes.set_plane(op.d, &[value(lanes, op.imm); LANES]) };
        Step::Next
    }
}

/// A parameter of the kernel, at the offset `imm`.
pub(crate) struct Parameter<E>(PhantomData<E>);
impl<E: Element> Body for Parameter<E> {
    const FORM: Form = Form::made(Width::of_type::<E>()).when(When::Parameter);

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: the parameter is within the parameters of the kernel, as was checked, which has a buffer of that size, and
        // `d` is a plane of this type.
        unsafe {
            let value = E::load(lanes.parameters.start + op.imm);
            lanes.set_plane(op.d, &[value; LANES]);
        }
        Step::Next
    }
}

/// An address in the frame's part of local memory, of 32 or 64 bits; `target` is added for a generic address.
pub(crate) struct FrameAddress<T>(PhantomData<T>);
macro_rules! frame_address {
    ($($type:ident)*) => {$(
        impl Body for FrameAddress<$type> {
            const FORM: Form = Form::made(Width::of_type::<$type>());

            unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
                let address = (lanes.frame_local + op.imm) as $type;
                // SAFETY: `d` is a plane of this type.
                unsafe { lanes.set_plane(op.d, &[address; LANES]) };
                Step::Next
            }
        }
    )*};
}
frame_address!(u32 u64);

/// `isspacep`: `imm` is 0 for global, 1 for shared, 2 for local, 3 for parameters. `b` to `c` is the range of constants.
pub(crate) struct IsSpace;
impl Body for IsSpace {
    const FORM: Form = Form::one(Width::Predicate, Width::W64);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: `a` is a plane of 64 bits, and `d` is a predicate.
        unsafe {
            let a = *lanes.plane::<u64>(op.a);
            let mut bits = 0u32;
            let constants = lanes.constants;
            let is_constant = |address: u64| {
                let after = constants.partition_point(|(start, _)| *start <= address);
                constants[..after].last().is_some_and(|(_, end)| address < *end)
            };
            for lane in 0..LANES {
                let holds = match op.imm {
                    0 => a[lane] < SHARED_WINDOW && !is_constant(a[lane]),
                    1 => a[lane] & !(WINDOW_BYTES - 1) == SHARED_WINDOW,
                    2 => a[lane] & !(WINDOW_BYTES - 1) == LOCAL_WINDOW,
                    4 => is_constant(a[lane]),
                    _ => a[lane] & !(WINDOW_BYTES - 1) == PARAMETER_WINDOW,
                };
                bits |= u32::from(holds) << lane;
            }
            lanes.set_predicate(op.d, bits);
        }
        Step::Next
    }
}
