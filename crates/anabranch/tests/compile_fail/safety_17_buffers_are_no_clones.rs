//! A copy of a buffer can fail, so that it is asked for with a copy and not with `clone`.

use anabranch::Buffer;

fn duplicate(buffer: &Buffer<u32>) -> Buffer<u32> {
    fn clone<T: Clone>(value: &T) -> T {
        value.clone()
    }
    clone(buffer)
}

fn main() {}
