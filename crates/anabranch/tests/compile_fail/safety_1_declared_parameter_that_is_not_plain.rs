//! A parameter by value is a plain value, of which every byte can be copied to the device.

anabranch::kernels! {
    struct Kernels {
        fn set(value: Box<u32>);
    }
}

fn main() {}
