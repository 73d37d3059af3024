//! Kernels of CUDA C++, as NVRTC compiles them: element-wise ones, products, loops and recursion. The results are compared
//! with plain Rust.

mod common;

use anabranch_ptx::{Detail, FaultCode, Level, Module};
use common::{Arguments, Device, Random};

const TEXT: &str = include_str!("kernels/basic.ptx");

const LEVELS: [Level; 3] = [Level::Baseline, Level::Avx2, Level::Avx512];

#[test]
fn saxpy_is_that_of_plain_rust_at_every_level() {
    for level in LEVELS {
        let mut device = Device::with_level(TEXT, level);
        for n in [1usize, 31, 32, 100, 1000] {
            let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let y: Vec<f32> = (0..n).map(|i| 100.0 - i as f32).collect();
            let (px, py) = (device.memory.upload(&x), device.memory.upload(&y));
            let arguments = Arguments::new().with(2.5f32).with(px).with(py).with(n as i32);
            device.launch("saxpy", (n as u32).div_ceil(128), 128, &arguments).unwrap();
            let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 2.5f32.mul_add(*x, *y)).collect();
            assert_eq!(device.memory.download::<f32>(py), expected);
        }
    }
}

#[test]
fn a_tiled_product_is_the_product() {
    const N: usize = 48;
    let mut device = Device::new(TEXT);
    let mut random = Random(1);
    let a: Vec<f32> = (0..N * N).map(|_| random.real()).collect();
    let b: Vec<f32> = (0..N * N).map(|_| random.real()).collect();
    let [pa, pb] = [device.memory.upload(&a), device.memory.upload(&b)];
    let pc = device.memory.upload(&vec![0f32; N * N]);
    let arguments = Arguments::new().with(pa).with(pb).with(pc).with(N as i32);
    device.launch("tiled", (3, 3), (16, 16), &arguments).unwrap();
    let mut expected = vec![0f32; N * N];
    for row in 0..N {
        for column in 0..N {
            expected[row * N + column] = (0..N).fold(0.0, |sum, k| a[row * N + k].mul_add(b[k * N + column], sum));
        }
    }
    assert_eq!(device.memory.download::<f32>(pc), expected);
}

#[test]
fn a_chain_of_products_is_fused() {
    let mut device = Device::new(TEXT);
    let values: Vec<f32> = (0..64).map(|i| i as f32 / 64.0).collect();
    let data = device.memory.upload(&values);
    device.launch("chain", 2, 32, &Arguments::new().with(data).with(0.999f32).with(0.001f32).with(1000)).unwrap();
    let expected: Vec<f32> =
        values.iter().map(|value| (0..1000).fold(*value, |v, _| v.mul_add(0.999, 0.001))).collect();
    assert_eq!(device.memory.download::<f32>(data), expected);
}

#[test]
fn lanes_recurse_to_different_depths() {
    let mut device = Device::new(TEXT);
    let out = device.memory.upload(&[0i32; 64]);
    device.launch("recursive", 1, 64, &Arguments::new().with(out).with(12)).unwrap();
    fn fibonacci(n: i32) -> i32 {
        if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 2) }
    }
    let expected: Vec<i32> = (0..64).map(|i| fibonacci(i % 12)).collect();
    assert_eq!(device.memory.download::<i32>(out), expected);
}

#[test]
fn recursion_has_a_limit() {
    let mut device = Device::new(TEXT);
    device.options.call_depth = 300;
    let out = device.memory.upload(&[0i32; 32]);
    device.launch("endless", 1, 32, &Arguments::new().with(out).with(250)).unwrap();
    assert_eq!(device.memory.download::<i32>(out), [250; 32]);
    let fault = device.launch("endless", 1, 32, &Arguments::new().with(out).with(5000)).unwrap_err();
    assert_eq!((fault.code, &fault.detail), (FaultCode::HARDWARE_STACK_ERROR, &Detail::CallDepth));
    assert_eq!(fault.kernel, "endless");
}

#[test]
fn lanes_leave_loops_at_different_times() {
    let mut device = Device::new(TEXT);
    let out = device.memory.upload(&vec![0i32; 96 * 16]);
    device.launch("mandelbrot", (3, 16), 32, &Arguments::new().with(out).with(96).with(200)).unwrap();
    let found = device.memory.download::<i32>(out);
    for y in 0..16 {
        for x in 0..96 {
            let (cx, cy) = (3.0f32 * x as f32 / 96.0 + -2.0, 2.0f32 * y as f32 / 16.0 + -1.0);
            let (mut zx, mut zy, mut n) = (0f32, 0f32, 0);
            while n < 200 && zx.mul_add(zx, zy * zy) < 4.0 {
                let t = zx.mul_add(zx, -(zy * zy)) + cx;
                zy = (zx + zx).mul_add(zy, cy);
                zx = t;
                n += 1;
            }
            let difference = (found[y * 96 + x] - n).abs();
            // Where the compiler has contracted otherwise, points at the border differ by a step.
            assert!(difference <= 1 || n > 100, "({x}, {y}): {} and {n}", found[y * 96 + x]);
        }
    }
}

#[test]
fn collatz_counts_steps() {
    let mut device = Device::new(TEXT);
    let values: Vec<u32> = (1..=200).collect();
    let (from, to) = (device.memory.upload(&values), device.memory.upload(&vec![0u32; 200]));
    device.launch("collatz", 4, 64, &Arguments::new().with(from).with(to).with(200)).unwrap();
    let steps = |value: u32| {
        let (mut value, mut steps) = (u64::from(value), 0);
        while value != 1 {
            value = if value % 2 == 1 { 3 * value + 1 } else { value / 2 };
            steps += 1;
        }
        steps
    };
    assert_eq!(device.memory.download::<u32>(to), values.iter().map(|value| steps(*value)).collect::<Vec<_>>());
}

#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C)]
struct Particle {
    position: [f32; 3],
    velocity: [f32; 3],
    kind: i32,
    unused: i32,
    weight: f64,
}

#[test]
fn structures_are_parameters_by_value() {
    let mut device = Device::new(TEXT);
    let particle = |i: usize| Particle {
        position: [i as f32, 1.0, -2.0],
        velocity: [0.5, i as f32 * 0.25, 4.0],
        kind: i as i32 % 3,
        unused: 0,
        weight: i as f64,
    };
    let particles: Vec<Particle> = (0..50).map(particle).collect();
    let address = device.memory.upload(&particles);
    let step = Particle { velocity: [1.0, 2.0, 3.0], weight: 1.5, ..particle(0) };
    device.launch("advance", 2, 32, &Arguments::new().with(address).with(step).with(50)).unwrap();
    let expected: Vec<Particle> = particles
        .iter()
        .map(|particle| {
            let mut moved = *particle;
            for axis in 0..3 {
                let by = step.velocity[(axis + particle.kind as usize) % 3];
                moved.position[axis] = particle.velocity[axis].mul_add(by, moved.position[axis]);
            }
            moved.weight *= 1.5;
            moved
        })
        .collect();
    assert_eq!(device.memory.download::<Particle>(address), expected);
}

#[test]
fn modules_say_what_they_contain() {
    let module = Module::parse(TEXT).unwrap();
    assert_eq!(module.version, (8, 0));
    assert_eq!(module.targets, ["sm_70"]);
    let saxpy = module.kernel("saxpy").unwrap();
    let places: Vec<(u32, u32)> =
        saxpy.parameters.iter().map(|parameter| (parameter.offset, parameter.bytes)).collect();
    assert_eq!(places, [(0, 4), (8, 8), (16, 8), (24, 4)]);
    assert_eq!(saxpy.parameter_bytes, 28);
    assert!(saxpy.refusals.is_empty());
    assert_eq!(module.kernel("tiled").unwrap().shared_bytes, 2048);
    assert_eq!(saxpy.shared_bytes, 0);
    assert!(module.kernel("fibonacci").is_none());
}

#[test]
fn constants_are_computed() {
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n\
        .global .attribute(.unified(19, 95)) .b32 of_integers[9] = { 1 | 6, (1 | 2) & 6 ^ 1, 5 > 3 ? 10 : 20, 0 ? 1 : 0 ? 2 : 3,\n\
            -7 % 4, 1 << 4 | 3, 1 || 0, (.u64)7 / 2, 1 == 2 };\n\
        .global .f64 of_reals[4] = { 1.5 + 2.0 * 4.0, 1.0 / 4.0 - 1.0, 2.0 > 1.0 ? 3.0 : 4.0, 1.5 };\n\
        .func .attribute(.unified(1, 2)) nothing() { ret; }\n\
        .entry copy(.param .u64 out) { .reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [out];\n\
            mov.b32 %r, (.s64)-5; st.global.u32 [%d], %r; mov.b32 %r, 8 | 3; st.global.u32 [%d+4], %r; ret; }";
    let mut device = Device::new(text);
    let initial = |name: &str| {
        let program = &device.program;
        let variable = program.module().variables().iter().find(|variable| variable.name == name).unwrap();
        program.initial(variable)
    };
    let integers: Vec<i32> =
        initial("of_integers").chunks(4).map(|four| i32::from_le_bytes(four.try_into().unwrap())).collect();
    // A remainder is that of integers without signs.
    assert_eq!(integers, [7, 3, 10, 3, 1, 19, 1, 3, 0]);
    let reals: Vec<f64> =
        initial("of_reals").chunks(8).map(|all| f64::from_le_bytes(all.try_into().unwrap())).collect();
    assert_eq!(reals, [9.5, -0.75, 3.0, 1.5]);
    let out = device.memory.upload(&[0i32; 2]);
    device.launch("copy", 1, 1, &Arguments::new().with(out)).unwrap();
    assert_eq!(device.memory.download::<i32>(out), [-5, 11]);
}

#[test]
fn registers_and_numbers_are_passed_to_functions() {
    let text = ".version 7.0\n.target sm_70\n.address_size 64\n\
        .func (.reg .u32 %sum, .reg .f64 %half) add(.reg .u32 %a, .reg .u32 %b, .reg .f64 %c) {\n\
            .reg .pred %p; setp.gt.u32 %p, %a, 100; add.u32 %sum, %a, %b; mul.f64 %half, %c, 0.5;\n\
            { .reg .u32 %sum; mov.u32 %sum, 9; @%p ret; }\n add.u32 %sum, %sum, 1000; }\n\
        .func (.param .u32 r) twice(.param .u32 x) { .reg .u32 %a; ld.param.u32 %a, [x]; add.u32 %a, %a, %a;\n\
            st.param.u32 [r], %a; ret; }\n\
        .func (.reg .u64 %n) deep(.reg .u64 %m) { .reg .pred %p; .reg .u64 %o; setp.eq.u64 %p, %m, 0; mov.u64 %n, 0;\n\
            @%p ret; sub.u64 %o, %m, 1; call (%n), deep, (%o); add.u64 %n, %n, %m; ret; }\n\
        .entry k(.param .u64 out) { .reg .u32 %r<4>; .reg .f64 %f; .reg .u64 %d<4>; .reg .pred %q;\n\
            ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 20; add.u64 %d0, %d0, %d1;\n\
            call (%r1, %f), add, (%r0, 7, 0d4008000000000000); st.global.u32 [%d0], %r1;\n\
            cvt.rzi.u32.f64 %r1, %f; st.global.u32 [%d0+4], %r1;\n\
            call.uni (%r2), twice, (%r0); call (%r2), twice, (%r2); st.global.u32 [%d0+8], %r2;\n\
            setp.lt.u32 %q, %r0, 50; mov.u32 %r3, 5; @%q call (%r3), twice, (%r0); st.global.u32 [%d0+12], %r3;\n\
            cvt.u64.u32 %d2, %r0; call (%d2), deep, (%d2); cvt.u32.u64 %r0, %d2; st.global.u32 [%d0+16], %r0; ret; }";
    for checked in [false, true] {
        let mut device = Device::new(text);
        device.options.checked = checked;
        let out = device.memory.upload(&[0u32; 5 * 128]);
        device.launch("k", 1, 128, &Arguments::new().with(out)).unwrap();
        for (t, found) in (0u32..).zip(device.memory.download::<u32>(out).chunks(5)) {
            let sum = t + 7 + if t > 100 { 0 } else { 1000 };
            assert_eq!(found, [sum, 1, 4 * t, if t < 50 { 2 * t } else { 5 }, t * (t + 1) / 2], "{t}");
        }
    }
}

#[test]
fn addresses_of_constants_are_told_apart() {
    let text = ".version 7.0\n.target sm_70\n.address_size 64\n\
        .const .b32 one; .const .align 8 .b8 two[24]; .global .b32 other;\n\
        .entry k(.param .u64 out) { .reg .b64 %d<6>; .reg .b32 %r; .reg .pred %p; .shared .b32 s; ld.param.u64 %d0, [out];\n\
        mov.u64 %d1, one; cvta.const.u64 %d1, %d1; mov.u64 %d2, two; cvta.const.u64 %d2, %d2; add.u64 %d2, %d2, 23;\n\
        add.u64 %d3, %d2, 1; mov.u64 %d4, other; mov.u64 %d5, s; cvta.shared.u64 %d5, %d5;\n\
        isspacep.const %p, %d1; selp.u32 %r, 1, 0, %p; st.global.u32 [%d0], %r;\n\
        isspacep.const %p, %d2; selp.u32 %r, 1, 0, %p; st.global.u32 [%d0+4], %r;\n\
        isspacep.const %p, %d3; selp.u32 %r, 1, 0, %p; st.global.u32 [%d0+8], %r;\n\
        isspacep.const %p, %d4; selp.u32 %r, 1, 0, %p; st.global.u32 [%d0+12], %r;\n\
        isspacep.const %p, %d5; selp.u32 %r, 1, 0, %p; st.global.u32 [%d0+16], %r; ret; }";
    let mut device = Device::new(text);
    let out = device.memory.upload(&[7u32; 5]);
    device.launch("k", 1, 1, &Arguments::new().with(out)).unwrap();
    assert_eq!(device.memory.download::<u32>(out), [1, 1, 0, 0, 0]);
}

#[test]
fn registers_of_drivers_and_reserved_memory_are_read() {
    let text = ".version 8.5\n.target sm_90\n.address_size 64\n\
        .entry k(.param .u64 out) { .reg .b64 %d<3>; .reg .b32 %r; .reg .pred %p; .shared .b32 s[4]; ld.param.u64 %d0, [out];\n\
        mov.u32 %r, %envreg0; st.global.u32 [%d0], %r; mov.b32 %r, %envreg31; st.global.u32 [%d0+4], %r;\n\
        st.shared.u32 [s], %r; mov.u32 %r, %reserved_smem_offset_1; st.global.u32 [%d0+8], %r;\n\
        mov.u64 %d1, s; cvta.shared.u64 %d1, %d1; isspacep.shared::cluster %p, %d1; selp.u32 %r, 1, 0, %p;\n\
        st.global.u32 [%d0+12], %r; isspacep.shared::cluster %p, %d0; selp.u32 %r, 1, 0, %p; st.global.u32 [%d0+16], %r; ret; }";
    let mut device = Device::new(text);
    let out = device.memory.upload(&[7u32; 5]);
    device.launch("k", 1, 1, &Arguments::new().with(out)).unwrap();
    assert_eq!(device.memory.download::<u32>(out), [0, 0, 16, 1, 0]);
}

#[test]
fn a_variable_of_another_module_has_no_contents_here() {
    let header = ".version 8.0\n.target sm_90\n.address_size 64\n";
    let [few, many] = [
        format!("{header}.global .b64 first = 5;"),
        format!("{header}.global .b64 first = 6; .global .b64 second[2] = {{ second, 7 }};"),
    ]
    .map(|text| Device::new(&text).program);
    let [first, second] = many.module().variables() else { panic!("two variables") };
    assert_eq!(many.initial(&first.clone()), 6u64.to_le_bytes());
    assert_eq!(many.initial(second).len(), 16);
    assert_eq!([few.initial(first), few.initial(second)], [[]; 2]);
}

#[test]
fn constant_memory_is_not_global() {
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n.const .b32 c[2]; .global .b32 g[2];\n\
        .entry k(.param .u64 out) { .reg .b64 %d<3>; .reg .b32 %r; .reg .pred %p; ld.param.u64 %d0, [out];\n\
        mov.u64 %d1, c; cvta.const.u64 %d1, %d1; mov.u64 %d2, g; isspacep.global %p, %d1; selp.u32 %r, 1, 0, %p;\n\
        st.global.u32 [%d0], %r; isspacep.const %p, %d1; selp.u32 %r, 1, 0, %p; st.global.u32 [%d0+4], %r;\n\
        isspacep.global %p, %d2; selp.u32 %r, 1, 0, %p; st.global.u32 [%d0+8], %r; ret; }";
    let mut device = Device::new(text);
    let out = device.memory.upload(&[7u32; 3]);
    device.launch("k", 1, 1, &Arguments::new().with(out)).unwrap();
    assert_eq!(device.memory.download::<u32>(out), [0, 1, 1]);
}
