//! Programs that must not compile, with what the compiler says of them. `docs/safety.md` lists the classes of defects by
//! the numbers in their names.
//!
//! After a change of compiler, `TRYBUILD=overwrite cargo test -p anabranch --test compile_fail` writes down what it says
//! now; read the difference before you keep it.

#[test]
fn programs_that_would_be_unsound_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
