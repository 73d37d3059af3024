//! Random programs of calls of the driver contract.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use anabranch::hal::{Call, Driver, Forward, Layered, Live, Result, Status, StreamHandle, Value, WaitValueFlags};
use anabranch::{Device, DevicePointer, Instance, InstanceBuilder};
use anabranch_conformance::programs::{
    Answer, Family, Header, Outcome, Player, Program, Recorded, Recording, first_difference, shrink,
};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn device(builder: InstanceBuilder) -> Device {
    builder.cuda(false).isolated().build().unwrap().device("host").unwrap()
}

fn player(builder: InstanceBuilder) -> Player {
    Player::open(&device(builder)).unwrap()
}

/// A player with as many devices as a family needs.
fn player_for(family: Family, builder: InstanceBuilder) -> Player {
    let instance = builder.cuda(false).isolated().host_devices(2).build().unwrap();
    let [device, peer] = instance.devices() else { panic!("there are two devices") };
    match family.device_count() {
        1 => Player::open(device).unwrap(),
        _ => Player::open_two(device, peer).unwrap(),
    }
}

/// The answers to programs of all families. A player that is lost is replaced.
fn answers(builder: impl Fn() -> InstanceBuilder, seeds: std::ops::Range<u64>) -> Vec<(Program, Vec<Answer>)> {
    let mut found = Vec::new();
    for family in Family::ALL {
        let mut player = player_for(family, builder());
        for seed in seeds.clone() {
            let program = Program::new(family, seed);
            let played = player.play(&program);
            if played.is_lost {
                player = player_for(family, builder());
            }
            found.push((program, played.answers));
        }
    }
    found
}

#[test]
fn a_program_is_made_from_its_family_and_seed_alone() {
    let mut fingerprints = HashSet::new();
    for family in Family::ALL {
        for seed in 0..50 {
            let (one, other) = (Program::new(family, seed), Program::new(family, seed));
            let texts = |program: &Program| (0..program.len()).map(|index| program.text(index)).collect::<Vec<_>>();
            assert_eq!(texts(&one), texts(&other));
            assert_eq!(one.fingerprint(), other.fingerprint());
            assert!(fingerprints.insert(one.fingerprint()), "{family} {seed} is the program of another seed");
        }
        assert_eq!(family.name().parse(), Ok(family));
    }
}

#[test]
fn programs_make_nearly_every_call_of_the_contract() {
    let mut names = BTreeSet::new();
    for family in Family::ALL {
        for program in (0..200).map(|seed| Program::new(family, seed)) {
            names.extend((0..program.len()).map(|index| program.name(index)));
        }
    }
    assert!(names.len() >= 100, "{} calls: {names:?}", names.len());
}

#[test]
fn the_software_device_answers_the_same_again() {
    let (first, second) = (answers(Instance::builder, 0..12), answers(Instance::builder, 0..12));
    for ((program, one), (_, other)) in first.iter().zip(&second) {
        assert_eq!(first_difference(one, other), None, "{} {}", program.family(), program.seed());
        assert_eq!(one.len(), program.len() + 1);
        assert!(!one.iter().any(Answer::is_fatal), "{} {}", program.family(), program.seed());
    }
}

/// What programs ask depends on no order that the device is free to choose.
#[test]
fn the_deterministic_software_device_answers_the_same() {
    let usual = answers(Instance::builder, 0..12);
    for host_seed in [1, 2] {
        let seeded = answers(|| Instance::builder().host_seed(host_seed), 0..12);
        for ((program, one), (_, other)) in usual.iter().zip(&seeded) {
            let difference = first_difference(other, one);
            let text = difference.as_ref().map(|difference| program.text(difference.index));
            assert_eq!(difference, None, "{} {}: {text:?}", program.family(), program.seed());
        }
    }
}

#[test]
fn programs_over_two_devices_let_them_work_together() {
    let mut player = player_for(Family::Devices, Instance::builder());
    let mut succeeded = BTreeSet::new();
    for program in (0..60).map(|seed| Program::new(Family::Devices, seed)) {
        let answers = player.play(&program).answers;
        let texts = (0..program.len()).map(|index| program.text(index));
        let made = texts.zip(&answers).filter(|(_, answer)| answer.outcome == Outcome::Status(0));
        succeeded.extend(made.map(|(text, _)| text.split_once(' ').unwrap().1.to_owned()));
    }
    let some = |parts: &[&str]| succeeded.iter().any(|text| parts.iter().all(|part| text.contains(part)));
    for parts in [
        &["context_enable_peer_access(c0,c1)"][..],
        &["context_disable_peer_access(c1,c0)"],
        &["launch_on_peer("],
        &["copy_peer_async(", "c0,c1"],
        &["copy_async_inferred(", "Other"],
        &["copy_3d_async(", "Other"],
        &["memory_pool_set_access(", ",1,true"],
        &["memory_pool_create(", ",1,0"],
        &["prefetch_async(", ",1)"],
        &["stream_write_value(", ",w"],
        &["graph_add_node(", "in c0,count_up"],
        &["graph_add_node(", "in c1,fill"],
        &["graph_add_node(", "copy,", "Other"],
        &["enter_context(c1)"],
    ] {
        assert!(some(parts), "no call of {parts:?} succeeds");
    }
}

#[test]
fn a_player_with_one_device_leaves_out_programs_over_two() {
    let program = Program::new(Family::Devices, 0);
    let played = player(Instance::builder()).play(&program);
    assert!(played.answers.iter().all(|answer| answer.outcome == Outcome::Skipped), "{played:?}");
    assert_eq!((played.answers.len(), played.is_lost), (program.len() + 1, false));
}

#[test]
fn programs_of_the_safe_api_do_not_depend_on_how_the_software_device_runs_work() {
    let answers = |builder: &dyn Fn() -> InstanceBuilder| {
        let mut player = player(builder());
        (100..150).map(|seed| player.play(&Program::new(Family::Front, seed)).answers).collect::<Vec<_>>()
    };
    let usual = answers(&Instance::builder);
    let others: [&dyn Fn() -> InstanceBuilder; 4] = [
        &|| Instance::builder().host_seed(3),
        &|| Instance::builder().host_workers(1),
        &|| Instance::builder().host_workers(5),
        &|| Instance::builder().host_check_memory(true),
    ];
    for other in others {
        for ((seed, one), other) in (100..).zip(&usual).zip(answers(other)) {
            assert_eq!(one.last().map(|answer| answer.outcome), Some(Outcome::Status(0)), "{seed}");
            let difference = first_difference(&other, one);
            let text = difference.as_ref().map(|it| Program::new(Family::Front, seed).text(it.index));
            assert_eq!(difference, None, "{seed}: {text:?}");
        }
    }
}

/// Most calls of the safe API are made, and most are not refused.
#[test]
fn programs_of_the_safe_api_do_something() {
    let mut player = player(Instance::builder());
    let (mut all, mut done, mut successful) = (0, 0, BTreeSet::new());
    for program in (0..100).map(|seed| Program::new(Family::Front, seed)) {
        for (index, answer) in player.play(&program).answers.iter().enumerate() {
            (all, done) = (all + 1, done + usize::from(answer.outcome == Outcome::Status(0)));
            if answer.outcome == Outcome::Status(0) {
                successful.insert(program.name(index));
            }
        }
    }
    assert!(done * 10 > all * 7, "{done} of {all}");
    assert!(successful.len() >= 85, "{} calls: {successful:?}", successful.len());
}

#[test]
fn a_recording_is_read_as_it_was_written() {
    let programs = answers(Instance::builder, 0..3);
    let header = Header { device: "a device".into(), driver: "CUDA 13.0".into(), date: "2026-11-22".into() };
    let mut programs: Vec<Recorded> =
        programs.into_iter().map(|(program, answers)| Recorded::new(&program, answers)).collect();
    programs[1].answers = vec![Answer::new(Outcome::Status(0)), Answer::with(Outcome::Crashed, "signal: 11 (SIGSEGV)")];
    let recording = Recording { header, programs };
    let mut file = Vec::new();
    recording.write(&mut file).unwrap();
    assert_eq!(Recording::read(&file[..]), Ok(recording.clone()));
    assert!(Recording::read(&file[..file.len() / 2]).is_err());
    for recorded in &recording.programs {
        let program = recorded.program().unwrap();
        assert_eq!((program.family(), program.seed()), (recorded.family, recorded.seed));
    }
}

#[test]
fn a_program_that_has_changed_is_noticed() {
    let program = Program::new(Family::Graphs, 5);
    let shorter = program.keep(&(1..program.len()).collect::<Vec<_>>());
    let reason = Recorded::new(&shorter, Vec::new()).program().unwrap_err();
    assert!(reason.contains("graphs 5") && reason.contains("record anew"), "{reason}");
}

/// Does as if waits for values were met, from some call on.
#[derive(Debug)]
struct Impatient {
    driver: Arc<dyn Driver>,
    waits: AtomicUsize,
}

// SAFETY: all calls go to the one driver, with what they were given, or are not made.
unsafe impl Forward for Impatient {
    fn inner(&self) -> &dyn Driver {
        &*self.driver
    }

    unsafe fn stream_wait_value(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        address: DevicePointer,
        value: Value,
        flags: WaitValueFlags,
    ) -> Result<()> {
        if self.waits.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
            return Ok(());
        }
        // SAFETY: the caller promises that the address is valid.
        unsafe { self.inner().stream_wait_value(call, stream, address, value, flags) }
    }
}

#[test]
fn waits_that_are_left_out_are_found_by_queries_and_shown_by_few_calls() {
    // With a seed, what a query finds does not depend on how far a worker has come.
    let impatient = || {
        Instance::builder()
            .host_seed(1)
            .wrap(|driver| Arc::new(Layered(Impatient { driver, waits: AtomicUsize::new(0) })))
    };
    let mut right = player(Instance::builder().host_seed(1));
    let mut found = 0;
    for program in (0..20).map(|seed| Program::new(Family::Gates, seed)) {
        let mut difference = |program: &Program| {
            // Each time the same waits are left out.
            let wrong = player(impatient()).play(program).answers;
            first_difference(&wrong, &right.play(program).answers)
        };
        let Some(first) = difference(&program) else { continue };
        assert!(program.name(first.index).ends_with("_query"), "{first:?}");
        let calls = shrink(first.index + 1, 100, |calls| {
            let kept = program.keep(calls);
            let found = difference(&kept);
            Ok::<_, String>(found.is_some_and(|found| kept.name(found.index) == program.name(first.index)))
        });
        // Two streams or an event at most, two waits, a record and the query.
        assert!(calls.as_ref().is_ok_and(|calls| calls.len() <= 8), "{calls:?}");
        found += 1;
        if found == 2 {
            return;
        }
    }
    panic!("nothing was found");
}

#[test]
fn a_call_that_one_device_does_not_make_may_be_refused_by_the_other() {
    let [skipped, refused, made] =
        [Outcome::Skipped, Outcome::Status(801), Outcome::Status(0)].map(|outcome| [Answer::new(outcome)]);
    assert_eq!(first_difference(&skipped, &refused), None);
    assert_eq!(first_difference(&refused, &skipped), None);
    for (here, there) in [(&skipped, &made), (&made, &skipped), (&refused, &made)] {
        assert!(first_difference(here, there).is_some(), "{here:?} and {there:?}");
    }
}

#[test]
fn a_call_that_panics_is_an_answer() {
    #[derive(Debug)]
    struct Panics(Arc<dyn Driver>);

    // SAFETY: all calls that return go to the one driver, with what they were given.
    unsafe impl Forward for Panics {
        fn inner(&self) -> &dyn Driver {
            &*self.0
        }

        fn stream_priority(&self, _: &Call<'_>, _: Live<'_, StreamHandle>) -> Result<i32> {
            panic!("no priority today")
        }
    }

    let asks = |program: &Program| (0..program.len()).any(|index| program.name(index) == "stream_priority");
    let program = (0..100).map(|seed| Program::new(Family::Streams, seed)).find(asks).unwrap();
    let mut player = player(Instance::builder().wrap(|driver| Arc::new(Layered(Panics(driver)))));
    let played = player.play(&program);
    // The unwinding ends in the layer.
    let answered = |index: usize| program.name(index) == "stream_priority";
    let answer = (0..program.len()).find(|&index| answered(index)).map(|index| &played.answers[index]);
    assert_eq!(answer.map(|answer| answer.outcome), Some(Outcome::Status(Status::UNKNOWN.0)));
}
