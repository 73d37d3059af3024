//! A thread's current stream is put back by that thread.

use anabranch::Stream;

fn leave(stream: &'static Stream) {
    let guard = stream.enter();
    std::thread::spawn(move || drop(guard));
}

fn main() {}
