//! Kernels on one core, beside the same in plain Rust, and parsing.

#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;

use anabranch_ptx::{DirectMemory, Launch, Module, NoHooks, Options, Program, Size};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const TEXT: &str = include_str!("../tests/kernels/basic.ptx");

fn program() -> Program {
    Program::link(Arc::new(Module::parse(TEXT).unwrap()), |_| 0)
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn run(program: &Program, kernel: &str, grid: [u32; 3], block: [u32; 3], parameters: &[u8]) {
    // SAFETY: every benchmark gives its kernel pointers to memory of the sizes that the kernel accesses.
    let memory = unsafe { DirectMemory::new() };
    let size = Size { grid, block, dynamic_shared: 0 };
    let launch = Launch::new(program, kernel, size, parameters, &memory, &NoHooks, Options::default());
    launch.unwrap().run().unwrap();
}

fn address<T>(values: &mut [T]) -> u64 {
    values.as_mut_ptr().expose_provenance() as u64
}

fn saxpy(criterion: &mut Criterion) {
    const N: usize = 1 << 18;
    let program = program();
    let (mut x, mut y) = (vec![1f32; N], vec![2f32; N]);
    let mut parameters = 0.5f32.to_le_bytes().to_vec();
    parameters.extend([0; 4]);
    parameters.extend(bytes(&[address(&mut x), address(&mut y)]));
    parameters.extend((N as i32).to_le_bytes());
    let mut group = criterion.benchmark_group("saxpy");
    group.throughput(Throughput::Elements(N as u64));
    group.bench_function("ptx", |bencher| {
        bencher.iter(|| run(&program, "saxpy", [(N / 256) as u32, 1, 1], [256, 1, 1], &parameters));
    });
    group.bench_function("plain", |bencher| {
        bencher.iter(|| {
            for (y, x) in y.iter_mut().zip(black_box(&x)) {
                *y += 0.5 * *x;
            }
        });
    });
}

fn chain(criterion: &mut Criterion) {
    const STEPS: u64 = 10_000;
    let program = program();
    let mut data = vec![0.5f32; 256];
    let mut parameters = bytes(&[address(&mut data)]);
    parameters.extend(0.999f32.to_le_bytes());
    parameters.extend(0.001f32.to_le_bytes());
    parameters.extend((STEPS as i32).to_le_bytes());
    let mut group = criterion.benchmark_group("chain");
    // Two operations for each step of each thread.
    group.throughput(Throughput::Elements(2 * STEPS * 256));
    group.bench_function("ptx", |bencher| {
        bencher.iter(|| run(&program, "chain", [1, 1, 1], [256, 1, 1], &parameters));
    });
    group.bench_function("plain", |bencher| {
        bencher.iter(|| {
            for value in black_box(&mut data) {
                *value = (0..STEPS).fold(*value, |value, _| value.mul_add(0.999, 0.001));
            }
        });
    });
}

fn tiled(criterion: &mut Criterion) {
    const N: usize = 128;
    let program = program();
    let (mut a, mut b, mut c) = (vec![1f32; N * N], vec![2f32; N * N], vec![0f32; N * N]);
    let mut parameters = bytes(&[address(&mut a), address(&mut b), address(&mut c)]);
    parameters.extend((N as i32).to_le_bytes());
    let mut group = criterion.benchmark_group("tiled product");
    group.throughput(Throughput::Elements(2 * (N * N * N) as u64));
    let blocks = (N / 16) as u32;
    group.bench_function("ptx", |bencher| {
        bencher.iter(|| run(&program, "tiled", [blocks, blocks, 1], [16, 16, 1], &parameters));
    });
    group.bench_function("plain", |bencher| {
        bencher.iter(|| {
            for row in 0..N {
                for column in 0..N {
                    c[row * N + column] = (0..N).map(|k| a[row * N + k] * b[k * N + column]).sum();
                }
            }
            black_box(&mut c);
        });
    });
}

fn others(criterion: &mut Criterion) {
    let program = program();
    criterion.bench_function("empty kernel, one block of 32 threads", |bencher| {
        bencher.iter(|| run(&program, "empty", [1, 1, 1], [32, 1, 1], &[]));
    });
    let kernel = &TEXT[TEXT.find(".visible .entry saxpy").unwrap()..];
    let kernel = &kernel[..kernel.find("\n}\n").unwrap() + 3];
    let mut large = TEXT.to_owned();
    for copy in 0.. {
        if large.len() > 1 << 20 {
            break;
        }
        large.push_str(&kernel.replace("saxpy", &format!("saxpy{copy}")));
    }
    let mut group = criterion.benchmark_group("parse");
    group.throughput(Throughput::Bytes(large.len() as u64));
    group.bench_function("1 MB", |bencher| bencher.iter(|| Module::parse(black_box(&large)).unwrap()));
}

criterion_group!(benches, saxpy, chain, tiled, others);
criterion_main!(benches);
