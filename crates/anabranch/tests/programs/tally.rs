//! How often programs did what they may be kept from: a program is worth little whose operations have nothing to work on, or are
//! refused.

use std::collections::BTreeMap;
use std::sync::Mutex;

static TALLY: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// Notes that something was done, or was refused.
pub(crate) fn note(what: &'static str) {
    *TALLY.lock().unwrap().entry(what).or_default() += 1;
}

/// Says what all tests have noted until now, for those who run them with `--nocapture`.
pub(crate) fn report() {
    println!("{:#?}", TALLY.lock().unwrap());
}
