//! Bytes that may be a `.npy` file are read as `anabranch run` reads them: an array or one sentence, and nothing panics.

#![no_main]
#![allow(dead_code, reason = "the command uses more of it")]

#[path = "../../crates/anabranch-cli/src/run/array.rs"]
mod array;
#[path = "../../crates/anabranch-cli/src/run/element.rs"]
mod element;

use array::{Array, header};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match Array::read_from(&mut &bytes[..]) {
        Ok(array) => {
            let mut again = header(array.element, &array.shape).expect("a vector takes all");
            again.extend(&array.data);
            assert_eq!(Array::read_from(&mut &again[..]), Ok(array));
        }
        Err(sentence) => assert!(!sentence.is_empty()),
    }
});
