//! The golden kernels as conformance cases.

use super::model;
use crate::case::{Case, Failed, Need, Verdict, equal};
use crate::environment::Environment;
use crate::ptx::player::{Played, Player};
use crate::ptx::recording::{Recorded, Recording};
use crate::ptx::{Family, Subject, differences};
use anabranch::Capabilities;
use std::sync::LazyLock;

const PTX: &[Need] = &[Need::Capability(Capabilities::PTX_MODULES)];

/// What a GPU computed: `anabranch kernels --device cuda:0 --family golden --record` writes it. An empty file is none.
static RECORDING: &[u8] = include_bytes!("recording.gz");

macro_rules! cases {
    ($($name:ident)*) => {
        pub(crate) const CASES: &[Case] = &[
            $(Case::new(concat!("golden.", stringify!($name)), "X5", |environment| verdict(environment, stringify!($name)))
                .needs(PTX),)*
        ];
    };
}

// `lock_in_warp` is none: while memory is checked, a barrier behind a loop that lanes leave one by one counts as divergent.
cases! {
    add_numbers
    divide
    histogram_global
    histogram_shared
    philox
    find_text
    life
    sieve
    crc32
    sha256
    floyd_warshall
    binary_search
    edit_distance
    long_sums
    by_value
    recursion
    indirect
    switches
    collatz
    sum_shared
    sum_shuffles
    scan_shared
    scan_shuffles
    matrix_product
    transpose
    bitonic_sort
    radix_pass
    ballots
    last_block
    barriers
    saxpy
    softmax
    layer_norm
    fft
    sparse_product
    n_body
    black_scholes
    mandelbrot
    heat
    convolve
    matrix_vector
    nearest_centre
    rounding
    half_products
    elementary
    elementary_single
    horner
    lock_over_blocks
    hand_over
}

fn recording() -> Result<Option<&'static Recording>, Failed> {
    static READ: LazyLock<Result<Option<Recording>, String>> =
        LazyLock::new(|| if RECORDING.is_empty() { Ok(None) } else { Recording::read(RECORDING).map(Some) });
    READ.as_ref().map(Option::as_ref).map_err(|reason| Failed(format!("the recording of golden kernels: {reason}")))
}

fn played(player: &Player, subject: &Subject) -> Result<Played, Failed> {
    let mut found = None;
    player.play(std::slice::from_ref(subject), |_, played| found = Some(played));
    found.ok_or_else(|| Failed("the kernel did not run".to_owned()))
}

/// What a kernel computes is what was recorded, what its model computes, and the same again.
fn verdict(environment: &Environment, name: &str) -> Verdict {
    let numbers = 0..Subject::golden_count();
    let mut subjects = numbers.filter_map(|seed| Subject::new(Family::Golden, seed));
    let subject = subjects.find(|subject| subject.name == Some(name));
    let Some(subject) = subject else { return Err(Failed(format!("there is no golden kernel {name}"))) };
    let player = Player::of(environment.context())?;
    let found = played(&player, &subject)?;
    if let Some(reason) = found.outputs.iter().find_map(|output| output.as_ref().err()) {
        return Err(Failed(reason.clone()));
    }
    if let Some(expected) = model::of(name, &subject.arguments) {
        equal("the model", found.outputs.first().and_then(|output| output.as_ref().ok()), Some(&expected))?;
    }
    let here = Recorded::new(&subject, &found);
    let again = Recorded::new(&subject, &played(&player, &subject)?);
    compare("again", &subject, &here, &again)?;
    let Some(recording) = recording()? else { return Ok(()) };
    let recorded = recording.kernels.iter().find(|recorded| recorded.seed == subject.seed());
    match recorded {
        None => Err(Failed(format!("{name} is not in the recording: record anew"))),
        Some(recorded) => {
            recorded.subject().map_err(Failed)?;
            compare("recorded", &subject, &here, recorded)
        }
    }
}

fn compare(what: &str, subject: &Subject, here: &Recorded, there: &Recorded) -> Verdict {
    match differences(subject, here, there).first() {
        None => Ok(()),
        Some(first) => Err(Failed(format!(
            "{}, element {}: found {}, {what} {}",
            first.label,
            first.element.unwrap_or_default(),
            first.here,
            first.there
        ))),
    }
}
