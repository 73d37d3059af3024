//! What is no declaration of a kernel is refused, with the forms that there are.

anabranch::kernels! {
    struct Reference {
        fn set(data: &mut u32);
    }
}

anabranch::kernels! {
    struct Address {
        fn set(data: *mut u32);
    }
}

anabranch::kernels! {
    struct Pattern {
        fn set((data, value): [u32; 2]);
    }
}

anabranch::kernels! {
    struct Name {
        #[name("_Z3setj")]
        fn set(value: u32);
    }
}

anabranch::kernels! {
    struct Answer {
        fn get() -> u32;
    }
}

fn main() {}
