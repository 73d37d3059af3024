//! Kernels whose threads work together: barriers, shuffles, votes, atomic operations and locks.

mod common;

use anabranch_ptx::{BlockRun, Detail, Fault, Launch, Level, Progress, Size};
use common::{Arguments, Device, Random};

const TEXT: &str = include_str!("kernels/cooperative.ptx");

#[test]
fn a_reduction_sums_all() {
    for level in [Level::Baseline, Level::Avx512] {
        let mut device = Device::with_level(TEXT, level);
        let values: Vec<f32> = (0..5000).map(|i| (i % 17) as f32).collect();
        let (from, to) = (device.memory.upload(&values), device.memory.upload(&[0f32]));
        device.launch("reduce", 4, 256, &Arguments::new().with(from).with(to).with(5000)).unwrap();
        assert_eq!(device.memory.download::<f32>(to), [values.iter().sum::<f32>()]);
    }
}

#[test]
fn scans_add_up() {
    let mut device = Device::new(TEXT);
    let values: Vec<i32> = (0..200).map(|i| i * 7 % 23 - 5).collect();
    let sums: Vec<i32> = values
        .iter()
        .scan(0, |sum, v| {
            *sum += v;
            Some(*sum)
        })
        .collect();
    let data = device.memory.upload(&values);
    device.launch_with("scan", 1, 256, 1024, &Arguments::new().with(data).with(200)).unwrap();
    assert_eq!(device.memory.download::<i32>(data), sums);
    let (from, to) = (device.memory.upload(&values[..64]), device.memory.upload(&[0i32; 64]));
    device.launch("warp_scan", 1, 64, &Arguments::new().with(from).with(to)).unwrap();
    let second: Vec<i32> = sums[32..64].iter().map(|sum| sum - sums[31]).collect();
    assert_eq!(device.memory.download::<i32>(to), [&sums[..32], &second].concat());
}

#[test]
fn a_histogram_counts_bytes() {
    let mut device = Device::new(TEXT);
    let mut random = Random(3);
    let bytes: Vec<u8> = (0..10_000).map(|_| (random.next() % 97) as u8).collect();
    let (from, to) = (device.memory.upload(&bytes), device.memory.upload(&[0u32; 256]));
    device.launch("histogram", 3, 128, &Arguments::new().with(from).with(to).with(10_000)).unwrap();
    let mut expected = [0u32; 256];
    bytes.iter().for_each(|byte| expected[usize::from(*byte)] += 1);
    assert_eq!(device.memory.download::<u32>(to), expected);
}

#[test]
fn a_bitonic_network_sorts() {
    let mut device = Device::new(TEXT);
    let mut random = Random(4);
    let mut values: Vec<u32> = (0..512).map(|_| random.next() as u32).collect();
    let data = device.memory.upload(&values);
    device.launch_with("bitonic", 1, 512, 2048, &Arguments::new().with(data)).unwrap();
    values.sort_unstable();
    assert_eq!(device.memory.download::<u32>(data), values);
}

#[test]
fn lanes_that_spin_let_others_run() {
    let mut device = Device::new(TEXT);
    let (lock, counter) = (device.memory.upload(&[0i32]), device.memory.upload(&[0i32]));
    device.launch("locked", 2, 96, &Arguments::new().with(lock).with(counter).with(3)).unwrap();
    assert_eq!(device.memory.download::<i32>(counter), [2 * 96 * 3]);
}

#[test]
fn warps_that_spin_let_others_run() {
    let mut device = Device::new(TEXT);
    let (flag, out) = (device.memory.upload(&[0i32; 2]), device.memory.upload(&[0i32; 32]));
    device.launch("handoff", 1, 64, &Arguments::new().with(flag).with(out)).unwrap();
    assert_eq!(device.memory.download::<i32>(out), [42; 32]);
}

#[test]
fn votes_and_matches_are_of_the_warp() {
    let mut device = Device::new(TEXT);
    let values: Vec<i32> = (0..64).map(|i| i * 5 % 11 - 4).collect();
    let (from, to) = (device.memory.upload(&values), device.memory.upload(&[0u32; 64 * 6]));
    device.launch("votes", 1, 64, &Arguments::new().with(from).with(to)).unwrap();
    let found = device.memory.download::<u32>(to);
    for warp in 0..2 {
        let of_warp = &values[warp * 32..][..32];
        let mask =
            |holds: &dyn Fn(usize) -> bool| (0..32).filter(|lane| holds(*lane)).fold(0, |m, lane| m | 1u32 << lane);
        let active = mask(&|lane| (warp * 32 + lane) % 3 != 0);
        let first = warp as u32 * 32 + active.trailing_zeros();
        for lane in 0..32 {
            let thread = warp * 32 + lane;
            let expected = [
                mask(&|lane| of_warp[lane] > 0),
                1,
                u32::from(of_warp.contains(&7)),
                mask(&|other| of_warp[other] == of_warp[lane]),
                u32::MAX.wrapping_add(1),
                if thread % 3 != 0 { first + active.count_ones() } else { 0 },
            ];
            assert_eq!(found[thread * 6..][..6], expected, "thread {thread}");
        }
    }
}

#[test]
fn barriers_reduce_predicates() {
    let mut device = Device::new(TEXT);
    let values: Vec<i32> = (0..100).map(|i| i % 7 - 3).collect();
    let (from, to) = (device.memory.upload(&values), device.memory.upload(&[0i32; 100]));
    device.launch("counts", 1, 100, &Arguments::new().with(from).with(to)).unwrap();
    let positive = values.iter().filter(|value| **value > 0).count() as i32;
    assert_eq!(device.memory.download::<i32>(to), [positive * 4 + 2 + 1; 100]);
}

#[test]
fn atomic_operations_have_their_results() {
    let mut device = Device::new(TEXT);
    let i = device.memory.upload(&[0i32, 0, 1000, -1000]);
    let u = device.memory.upload(&[u32::MAX, 0, 0, 0, 3]);
    let l = device.memory.upload(&[0u64, 0]);
    let f = device.memory.upload(&[0f32]);
    let d = device.memory.upload(&[0f64]);
    device.launch("atomics", 2, 64, &Arguments::new().with(i).with(u).with(l).with(f).with(d)).unwrap();
    let sum: i32 = (0..128).sum();
    assert_eq!(device.memory.download::<i32>(i), [sum, -sum, 50 - 127, 127 - 50]);
    let (mut up, mut down) = (0u32, 3u32);
    for _ in 0..128 {
        up = if up >= 6 { 0 } else { up + 1 };
        down = if down == 0 || down > 6 { 6 } else { down - 1 };
    }
    assert_eq!(device.memory.download::<u32>(u), [0, u32::MAX, (0..128).fold(0, |x, t| x ^ t), up, down]);
    assert_eq!(device.memory.download::<u64>(l), [(sum as u64) << 32, 127 * 127]);
    assert_eq!(device.memory.download::<f32>(f), [64.0]);
    assert_eq!(device.memory.download::<f64>(d), [32.0]);
}

#[test]
fn named_barriers_count_threads() {
    let mut device = Device::new(TEXT);
    let out = device.memory.upload(&[0i32; 128]);
    device.launch("named", 1, 128, &Arguments::new().with(out)).unwrap();
    assert_eq!(device.memory.download::<i32>(out), [[10; 64], [11; 64]].concat());
}

#[test]
fn parts_of_a_warp_meet_again() {
    let mut device = Device::new(TEXT);
    let out = device.memory.upload(&[0i32; 64]);
    device.launch("diverged", 1, 64, &Arguments::new().with(out)).unwrap();
    let sum: i32 = (0..64)
        .map(|t| match t % 5 {
            0 => 1,
            1 => 2 * t,
            2 => {
                if t > 40 {
                    0
                } else {
                    3
                }
            }
            _ => 4,
        })
        .sum();
    let expected: Vec<i32> = (0..64).map(|t| if t % 5 == 2 && t > 40 { 0 } else { sum }).collect();
    assert_eq!(device.memory.download::<i32>(out), expected);
}

/// Runs a text's kernel `k` with one warp, of which each lane writes one word for each place.
fn words_of_lanes(text: &str, places: usize) -> Vec<Vec<u32>> {
    let text = format!(".version 8.4\n.target sm_90\n.address_size 64\n{text}");
    let mut device = Device::new(&text);
    let to = device.memory.upload(&vec![0u32; 32 * places]);
    device.launch("k", 1, 32, &Arguments::new().with(to)).unwrap_or_else(|fault| panic!("{fault}"));
    device.memory.download::<u32>(to).chunks(32).map(<[u32]>::to_vec).collect()
}

const LANES_BEGIN: &str = ".visible .entry k(.param .u64 to) { .reg .b64 %o, %t; .reg .b32 %r, %m, %v, %lane; .reg .pred %p, %q, %s;\n\
    ld.param.u64 %o, [to]; mov.u32 %lane, %laneid; mul.wide.u32 %t, %lane, 4; add.u64 %o, %o, %t;\n";

#[test]
fn lanes_at_one_place_may_name_different_lanes() {
    // Tiles of 16 lanes, and of the lanes whose number has the same remainder by 3; in the kernel, and in a function that lanes call at
    // three places, one of them in another function.
    for (by_remainder, in_calls) in [(false, false), (true, false), (false, true), (true, true)] {
        let tile = |lane: u32| if by_remainder { lane % 3 } else { lane / 16 };
        let number = if by_remainder { "rem.u32 %r, %lane, 3;" } else { "shr.u32 %r, %lane, 4;" };
        let body = format!(
            "{number} match.any.sync.b32 %m, %r, -1; st.global.u32 [%o], %m;
             and.b32 %r, %lane, 1; setp.eq.u32 %q, %r, 1; vote.sync.ballot.b32 %v, %q, %m; st.global.u32 [%o+128], %v;
             redux.sync.add.u32 %v, %lane, %m; st.global.u32 [%o+256], %v;
             shr.u32 %r, %lane, 2; match.any.sync.b32 %v, %r, %m; st.global.u32 [%o+384], %v;
             elect.sync %v|%q, %m; selp.b32 %r, 100, 0, %q; add.u32 %v, %v, %r; st.global.u32 [%o+512], %v;
             setp.gt.u32 %q, %lane, 7; vote.sync.all.pred %q, %q, %m; selp.b32 %v, 1, 0, %q; st.global.u32 [%o+640], %v;
             bfind.u32 %r, %m; shfl.sync.idx.b32 %v, %lane, %r, 31, %m; st.global.u32 [%o+768], %v;
             setp.lt.u32 %s, %lane, 20; vote.sync.ballot.b32 %v, %s, -1; and.b32 %m, %m, %v; mov.b32 %v, 7;
             @%s redux.sync.add.u32 %v, %lane, %m; st.global.u32 [%o+896], %v; bar.warp.sync %m; ret; }}"
        );
        let body = body.replace("bar.warp.sync %m", "@%s bar.warp.sync %m");
        let text = if in_calls {
            format!(
                ".func work(.param .b64 to, .param .b32 lane) {{ .reg .b64 %o; .reg .b32 %r, %m, %v, %lane; .reg .pred %p, %q, %s;
                 ld.param.u64 %o, [to]; ld.param.u32 %lane, [lane]; {body}
                 .func outer(.param .b64 to, .param .b32 lane) {{ .reg .b64 %o; .reg .b32 %lane;
                 ld.param.u64 %o, [to]; ld.param.u32 %lane, [lane]; call work, (%o, %lane); ret; }}
                 {LANES_BEGIN} and.b32 %r, %lane, 3; setp.eq.u32 %p, %r, 1; @%p bra A; setp.eq.u32 %p, %r, 2; @%p bra B;
                 call work, (%o, %lane); ret; A: call work, (%o, %lane); ret; B: call outer, (%o, %lane); ret; }}"
            )
        } else {
            format!("{LANES_BEGIN}{body}")
        };
        let found = words_of_lanes(&text, 8);
        for lane in 0..32u32 {
            let own: Vec<u32> = (0..32).filter(|&other| tile(other) == tile(lane)).collect();
            let bits = |chosen: &dyn Fn(u32) -> bool| {
                own.iter().filter(|&&other| chosen(other)).fold(0u32, |bits, other| bits | 1 << other)
            };
            let leads = own[0] == lane;
            let low: Vec<u32> = own.iter().copied().filter(|&other| other < 20).collect();
            let expected = [
                bits(&|_| true),
                bits(&|other| other % 2 == 1),
                own.iter().sum(),
                bits(&|other| other / 4 == lane / 4),
                own[0] + if leads { 100 } else { 0 },
                u32::from(own.iter().all(|&other| other > 7)),
                own[own.len() - 1],
                if lane < 20 { low.iter().sum() } else { 7 },
            ];
            let found: Vec<u32> = found.iter().map(|words| words[lane as usize]).collect();
            assert_eq!(found, expected, "lane {lane}, {by_remainder}, {in_calls}");
        }
    }
}

#[test]
fn lanes_meet_in_places_apart_while_others_wait_elsewhere() {
    // Lanes 0 to 7 and 8 to 15 meet at two places. The others are at a barrier of the block, or wait for lane 0 in a loop.
    for others in
        ["barrier.sync 0;", "W: ld.volatile.shared.u32 %r, [flag]; setp.eq.u32 %s, %r, 0; @%s bra W; barrier.sync 0;"]
    {
        let body = format!(
            "st.shared.u32 [flag], 0; bar.warp.sync -1; mov.b32 %v, 0; setp.ge.u32 %p, %lane, 16; @%p bra C;
             setp.ge.u32 %p, %lane, 8; @%p bra B; bar.warp.sync 0xffff; mov.u32 %v, 1; st.volatile.shared.u32 [flag], 1; bra D;
             B: bar.warp.sync 0xffff; mov.u32 %v, 2; D: barrier.sync 0; bra E; C: {others}
             E: st.global.u32 [%o], %v; ret; }}"
        );
        let found = words_of_lanes(&format!(".shared .u32 flag;\n{LANES_BEGIN}{body}"), 1);
        let expected: Vec<u32> = (0..32)
            .map(|lane| {
                if lane < 8 {
                    1
                } else if lane < 16 {
                    2
                } else {
                    0
                }
            })
            .collect();
        assert_eq!(found[0], expected);
    }
}

#[test]
fn lanes_meet_in_calls_of_one_function_from_several_places() {
    // Lanes come to the sum at different times and depths; some end before, and some wait for one that is in a loop.
    let function = ".func (.reg .b32 %sum) add(.reg .b32 %x, .reg .b32 %depth) { .reg .pred %p; .reg .b32 %d;\n\
        setp.eq.u32 %p, %depth, 0; @%p bra L; sub.u32 %d, %depth, 1; call (%sum), add, (%x, %d); ret;\n\
        L: redux.sync.add.u32 %sum, %x, 0x7fffffff; ret; }\n";
    let body = "setp.eq.u32 %p, %lane, 30; @%p exit; setp.eq.u32 %p, %lane, 31; @%p bra E; and.b32 %r, %lane, 7;
        and.b32 %m, %lane, 1; setp.eq.u32 %p, %m, 0; @%p bra A; call (%v), add, (%lane, %r); bra E;
        A: mov.b32 %m, %lane; W: setp.eq.u32 %p, %m, 0; @%p bra C; sub.u32 %m, %m, 1; bra W; C: call (%v), add, (%lane, 3);
        E: st.global.u32 [%o], %v; ret; }";
    let body = body.replacen("setp.eq", "mov.b32 %v, 9; setp.eq", 1);
    let found = words_of_lanes(&format!("{function}{LANES_BEGIN}{body}"), 1);
    let sum = (0..30).sum::<u32>();
    let expected: Vec<u32> = (0..32).map(|lane| if lane < 30 { sum } else { 9 * (lane - 30) }).collect();
    assert_eq!(found[0], expected);
}

/// Runs a block whose threads do what `body` says, with `%r1` as their numbers. Returns how many get to the end.
fn threads_that_pass(threads: u32, body: &str) -> Result<u32, Box<Fault>> {
    let mut device = Device::new(&format!(
        "
.version 8.0
.target sm_80
.address_size 64
.visible .entry meet(.param .u64 out)
{{
    .reg .u64 %rd<2>; .reg .u32 %r<4>; .reg .pred %p<3>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, 0;
    {body}
    atom.global.add.u32 %r3, [%rd1], 1;
    ret;
}}"
    ));
    let out = device.memory.upload(&[0u32]);
    device.launch("meet", 1, threads, &Arguments::new().with(out))?;
    Ok(device.memory.download::<u32>(out)[0])
}

#[test]
fn a_warp_that_waits_at_a_counted_barrier_counts_as_a_whole_one() {
    let together = "barrier.sync 1, {count};";
    let apart = "and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra even;
        barrier.sync 1, {count}; bra over; even: barrier.sync 1, {count}; over:";
    let one_less = "setp.eq.u32 %p1, %r1, 5; @%p1 exit;";
    // The others have come when the last lane ends.
    let late = "setp.eq.u32 %p1, %r1, 5; @%p1 bra late; barrier.sync 1, {count}; bra over;
        late: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 100000; @%p1 bra late; exit; over:";
    for (threads, count) in [(40u32, 64u32), (64, 64), (8, 32), (33, 64), (31, 32)] {
        for (body, ends) in [
            (together.to_owned(), 0),
            (apart.to_owned(), 0),
            (format!("{one_less} {together}"), 1),
            (format!("{one_less} {apart}"), 1),
            (late.to_owned(), 1),
        ] {
            let passed = threads_that_pass(threads, &body.replace("{count}", &count.to_string())).unwrap();
            assert_eq!(passed, threads - ends, "{threads} threads, {count}: {body}");
        }
    }
}

#[test]
fn a_warp_arrives_when_all_its_lanes_have_that_have_not_ended() {
    // The first warp waits for what the second one does.
    let text = |count: u32, arrive: &str| {
        format!(
            "setp.lt.u32 %p2, %r1, 32; @%p2 bra first; {} bra all; first: barrier.sync 1, {count}; all:",
            arrive.replace("{count}", &count.to_string())
        )
    };
    let whole = "barrier.arrive 1, {count};";
    let halves = "and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra even;
        barrier.arrive 1, {count}; bra over; even: barrier.arrive 1, {count}; over:";
    // The others end.
    let half = "and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra all; barrier.arrive 1, {count};";
    let guarded = "setp.lt.u32 %p1, %r1, 34; @%p1 barrier.arrive 1, {count};";
    for arrive in [whole, halves, half, guarded] {
        for threads in [40, 64] {
            assert_eq!(threads_that_pass(threads, &text(64, arrive)).unwrap(), threads, "{arrive}");
        }
    }
    let twice = "barrier.arrive 1, {count}; barrier.arrive 1, {count};";
    assert_eq!(threads_that_pass(64, &text(96, twice)).unwrap(), 64);
    // Two halves are one arrival.
    let fault = threads_that_pass(64, &text(96, halves)).unwrap_err();
    assert_eq!(fault.detail, Detail::Deadlock);
}

/// Blocks meet each other without `nanosleep`. `{waiting}` says which threads do not look, by their number and 0, and `{read}` how
/// those do that look.
const MEETING: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry meet(.param .u64 count, .param .u32 blocks)
{
    .reg .u64 %rd<3>; .reg .u32 %r<9>; .reg .pred %p<4>;
    ld.param.u64 %rd1, [count];
    ld.param.u32 %r1, [blocks];
    mov.u32 %r2, %tid.x;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra look;
    atom.global.add.u32 %r3, [%rd1], 1;
look:
    setp.{waiting}.u32 %p2, %r2, 0;
    @%p2 bra done;
again:
    {read}
    setp.lt.u32 %p3, %r4, %r1;
    @%p3 bra again;
done:
    bar.sync 0;
    ret;
}";

/// Runs blocks that meet, each for some operations in turn. There are not many rounds.
fn meet(waiting: &str, read: &str, threads: u32) {
    let blocks = 5u32;
    let mut device = Device::new(&MEETING.replace("{waiting}", waiting).replace("{read}", read));
    let count = device.memory.upload(&[0u32]);
    device.options.operation_limit = Some(1 << 20);
    let size = Size { grid: [blocks, 1, 1], block: [threads, 1, 1], dynamic_shared: 0 };
    let arguments = Arguments::new().with(count).with(blocks);
    let Device { program, memory, record, options } = &device;
    let launch = Launch::new(program, "meet", size, &arguments.0, memory, record, *options)
        .unwrap_or_else(|error| panic!("{error}"));
    let mut runs: Vec<_> = (0..blocks).map(|_| BlockRun::new(&launch)).collect();
    runs.iter_mut().zip(0..).for_each(|(run, block)| run.start(block));
    let mut left = runs.iter_mut().collect::<Vec<_>>();
    for round in 0.. {
        left.retain_mut(|run| match run.step(u64::MAX) {
            Progress::Done => false,
            Progress::Yielded => true,
            Progress::Fault(fault) => panic!("{waiting} {read} {threads}: {fault}"),
        });
        if left.is_empty() {
            break;
        }
        assert!(round < 2, "{waiting} {read} {threads}");
    }
}

#[test]
fn a_block_that_looks_at_memory_lets_others_run() {
    let loads =
        ["acquire.gpu.global", "volatile.global", "global.cg"].map(|kind| format!("ld.{kind}.u32 %r4, [%rd1];"));
    let reads = loads.iter().map(String::as_str).chain(["atom.add.u32 %r4, [%rd1], 0;"]);
    for threads in [1, 32, 100, 1024] {
        for read in reads.clone() {
            // All threads look; the first one does; all but the first one do.
            for waiting in ["lt", "ne", "eq"] {
                meet(waiting, read, threads);
            }
        }
        // The loop ends with an indirect branch.
        let targets = "turns: .branchtargets over, again;";
        let branch = "setp.lt.u32 %p3, %r4, %r1; selp.u32 %r5, 1, 0, %p3; brx.idx %r5, turns; over:";
        meet("lt", &format!("{targets} {} {branch}", loads[0]), threads);
        // All threads meet in each round, of which all look, or the first one does.
        let all = "setp.lt.u32 %p2, %r4, %r1; bar.red.or.pred %p2, 0, %p2; selp.u32 %r4, 0, %r1, %p2;";
        for read in &loads {
            meet("lt", &format!("{read} {all}"), threads);
            meet("lt", &format!("mov.u32 %r4, %r1; @!%p1 {read} {all}"), threads);
        }
    }
}

#[test]
fn warps_that_meet_themselves_let_others_run() {
    // The second warp waits for the first one, and has barriers of its own.
    for (before, after) in
        [("bar.sync 1, 32;", ""), ("", "bar.sync 1, 32;"), ("bar.sync 1, 32;", "bar.red.or.pred %p2, 1, 32, %p2;")]
    {
        for steps in [u64::MAX, 100, 7, 1] {
            let mut device = Device::new(&format!(
                "
.version 8.0
.target sm_80
.address_size 64
.visible .entry wait(.param .u64 out)
{{
    .reg .u64 %rd<2>; .reg .u32 %r<4>; .reg .pred %p<3>; .shared .u32 flag;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    st.volatile.shared.u32 [flag], 0;
    bar.sync 0;
    setp.lt.u32 %p1, %r1, 32;
    @%p1 bra set;
again:
    {before}
    ld.volatile.shared.u32 %r2, [flag];
    setp.eq.u32 %p2, %r2, 0;
    {after}
    @%p2 bra again;
    st.global.u32 [%rd1], 1;
    ret;
set:
    st.volatile.shared.u32 [flag], 1;
    ret;
}}"
            ));
            let out = device.memory.upload(&[0u32]);
            device.options.operation_limit = Some(1 << 20);
            let size = Size { grid: [1; 3], block: [64, 1, 1], dynamic_shared: 0 };
            let arguments = Arguments::new().with(out);
            let Device { program, memory, record, options } = &device;
            let launch = Launch::new(program, "wait", size, &arguments.0, memory, record, *options).unwrap();
            let mut run = BlockRun::new(&launch);
            run.start(0);
            loop {
                match run.step(steps) {
                    Progress::Done => break,
                    Progress::Yielded => {}
                    Progress::Fault(fault) => panic!("{before} {after} {steps}: {fault}"),
                }
            }
            assert_eq!(device.memory.download::<u32>(out), [1]);
        }
    }
}
