//! Tells the crate for which kind of interpreter it is built, such as one without a global lock.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
