//! Declarations, aliases and calls: what NVIDIA's assembler takes is taken, and what it refuses for a contradiction is refused, with
//! the line. The answers are those of `ptxas` 12.9.

#![allow(clippy::unwrap_used)]

#[path = "common/assembler.rs"]
mod assembler;
mod common;

use anabranch_ptx::Module;
use assembler::{HEAD, body, refusal, refused, taken, verdict};
use common::{Arguments, Device};

/// Adds one.
const FOO: &str = ".visible .func (.param .b32 r) foo(.param .b32 p) { .reg .b32 %z; ld.param.b32 %z, [p];
    add.u32 %z, %z, 1; st.param.b32 [r], %z; ret; }\n";
const BAR: &str = ".visible .func (.param .b32 r) bar(.param .b32 p);\n";
const ALIAS: &str = ".alias bar, foo;\n";

/// What one thread writes by these statements, which leave it in `%w`.
fn word(globals: &str, statements: &str) -> u32 {
    word_with(globals, statements, 0)
}

/// With that many bytes of dynamic shared memory.
fn word_with(globals: &str, statements: &str, shared: u32) -> u32 {
    let statements =
        format!(".reg .b64 %to; .reg .b32 %w; ld.param.u64 %to, [to]; {statements} st.global.b32 [%to], %w;");
    let mut device = Device::new(&format!("{HEAD}{globals}{}", body(&statements)));
    let to = device.memory.allocate(4);
    device.launch_with("k", 1, 1, shared, &Arguments::new().with(to)).unwrap_or_else(|fault| panic!("{fault}"));
    device.memory.download::<u32>(to)[0]
}

/// Calls a function with 41.
fn call(name: &str) -> String {
    format!("{{ .param .b32 a; .param .b32 b; st.param.b32 [a], 41; call (b), {name}, (a); ld.param.b32 %w, [b]; }}")
}

#[test]
fn an_alias_is_its_function() {
    let globals = format!("{FOO}{BAR}{ALIAS}.global .u64 table[2] = {{foo, bar}};\n");
    assert_eq!(word(&globals, &call("bar")), 42);
    let addresses = ".reg .b64 %a<3>; .reg .pred %same; mov.u64 %a0, bar; ld.global.u64 %a1, [table];
        ld.global.u64 %a2, [table+8]; setp.eq.u64 %same, %a0, %a1; selp.u32 %w, 1, 0, %same;
        setp.eq.u64 %same, %a1, %a2; @%same add.u32 %w, %w, 2;";
    assert_eq!(word(&globals, addresses), 3);
}

#[test]
fn aliases_are_declared_functions() {
    for declaration in ["", ".visible ", ".weak ", ".extern "] {
        taken(&format!("{FOO}{declaration}.func (.param .b32 other) bar(.param .b32 name);\n{ALIAS}"));
    }
    taken(&format!("{FOO}{BAR}{BAR}{}{ALIAS}{BAR}", body("")));
    refused(&format!("{FOO}{ALIAS}"), "line 6, column 8: the alias `bar` is not declared");
    refused(&format!("{FOO}.global .u32 bar = 7;\n{ALIAS}"), "an alias with the name of the variable `bar`");
    refused(&format!("{FOO}{}.alias k, foo;\n", body("")), "the alias `k` is a kernel");
    let defined = ".func (.param .b32 r) bar(.param .b32 p) { st.param.b32 [r], 1000; ret; }\n";
    refused(&format!("{FOO}{defined}{ALIAS}"), "the alias `bar` is defined");
    refused(&format!("{FOO}{BAR}{ALIAS}{ALIAS}"), "a second alias `bar`");
}

#[test]
fn aliases_name_functions_of_the_module() {
    let refused = |text: &str, reason: &str| refused(text, &format!("an alias of {reason}"));
    refused(&format!("{BAR}.alias bar, nope;\n"), "`nope`, which is not declared");
    refused(&format!("{BAR}.global .u32 x;\n.alias bar, x;\n"), "`x`, which is a variable");
    refused(&format!("{BAR}.alias bar, bar;\n"), "`bar`, which is an alias itself");
    refused(
        ".func bar(.param .u64 to);\n.entry k(.param .u64 to) { ret; }\n.alias bar, k;\n",
        "the function `k`, which is a kernel",
    );
    refused(
        &format!("{BAR}.extern .func (.param .b32 r) nope(.param .b32 p);\n.alias bar, nope;\n"),
        "the function `nope`, which is not defined",
    );
    refused(&format!("{}{BAR}{ALIAS}", FOO.replace(".visible", ".weak")), "the function `foo`, which is weak");
    let second = BAR.replace("bar", "second");
    for order in [".alias bar, foo;\n.alias second, bar;\n", ".alias second, bar;\n.alias bar, foo;\n"] {
        // The assembler refuses them where they are used.
        let user = body(&format!(".reg .b32 %w; {}", call("second")));
        refused(&format!("{FOO}{BAR}{second}{order}{user}"), "`bar`, which is an alias itself");
    }
}

#[test]
fn declarations_agree() {
    let pairs = [
        ("bar(.param .b32 p)", "bar(.param .b32 p, .param .b32 q)"),
        ("bar(.param .b32 p)", "bar(.param .b64 p)"),
        ("bar(.param .b32 p)", "bar(.param .f32 p)"),
        ("bar(.param .u32 p)", "bar(.param .s32 p)"),
        ("bar(.reg .b32 p)", "bar(.param .b32 p)"),
        ("bar(.param .b8 p[8])", "bar(.param .b8 p[16])"),
        ("bar(.param .align 4 .b8 p[8])", "bar(.param .align 8 .b8 p[8])"),
        ("bar(.param .align 4 .b8 p[4])", "bar(.param .b32 p)"),
        ("(.param .b32 r) bar(.param .b32 p)", "bar(.param .b32 p)"),
        ("(.param .b32 r) bar(.param .b32 p)", "(.param .b64 r) bar(.param .b32 p)"),
    ];
    for (one, other) in pairs {
        for (one, other) in [(one, other), (other, one)] {
            refused(&format!(".func {one};\n.func {other} {{ ret; }}\n"), "do not agree: it has other");
            refused(
                &format!(".func {one} {{ ret; }}\n.func {};\n.alias alias, bar;\n", other.replace("bar", "alias")),
                "do not agree",
            );
        }
    }
    refused(".entry bar(.param .b32 p);\n.entry bar(.param .b64 p) { ret; }\n", "line 5, column 8: the function `bar`");
    refused(".func bar(.param .b32 p);\n.entry bar(.param .b32 p) { ret; }\n", "it is a kernel in one of them only");
    taken(".func bar(.param .b32 p);\n.func bar(.param .align 4 .b32 q);\n.func bar(.param .b32 r) { ret; }\n");
    taken(".entry bar(.param .u64 p);\n.entry bar(.param .u64 .ptr .global .align 4 p) { ret; }\n");
}

#[test]
fn variables_are_defined_once() {
    refused(".global .u32 x;\n.global .u32 x;\n", "line 5, column 14: a second definition of the variable `x`");
    refused(".extern .global .u32 x;\n.visible .global .u64 x;\n", "another type or space than in line 4");
    refused(".extern .global .u32 x[3];\n.visible .global .u32 x[4];\n", "another type or space");
    refused(".global .u32 bar;\n.func bar() { ret; }\n", "a function with the name of a variable");
    taken(".extern .shared .align 4 .b8 x[];\n.extern .shared .align 16 .b8 x[];\n");
    let (declared, defined) = (".extern .global .u32 x[];\n", ".visible .global .u32 x[2] = {5, 7};\n");
    for globals in
        [format!("{declared}{defined}"), format!("{defined}{declared}"), format!("{declared}{defined}{declared}")]
    {
        assert_eq!(word(&globals, "ld.global.b32 %w, [x+4];"), 7);
    }
}

#[test]
fn names_are_declared_once_in_a_block() {
    let twice = [
        ".reg .b32 %a; .reg .b32 %a;",
        ".reg .b32 %a; .reg .b64 %a;",
        ".reg .b32 %a<4>; .reg .b32 %a2;",
        ".reg .b32 %a2; .reg .b32 %a<4>;",
        ".reg .b32 %a<4>; .reg .b64 %a<2>;",
        ".reg .b32 to;",
        ".reg .b32 x; .shared .b32 x;",
        ".shared .b32 x; .shared .b32 x;",
        ".local .b32 x; .local .b32 x;",
        ".param .b32 x; .param .b32 x;",
        "L: L:",
        ".reg .b32 L; L:",
        "P: .callprototype _ (.param .b32 a); P:",
        "L: T: .branchtargets L; T:",
    ];
    for statements in twice {
        refused(&body(statements), "a second declaration of `");
        refused(&body(&format!("{{ {statements} .reg .b32 to; .reg .u32 to; }}")), "in one block");
    }
    refused(".entry k(.param .b32 a, .param .b32 a) { ret; }\n", "line 4, column 37: a second declaration of `a`");
    refused(".func bar(.reg .b32 p) { .reg .b32 p; ret; }\n", "a second declaration of `p`");
    refused(".func (.param .b32 p) bar(.param .b32 p) { ret; }\n", "a second declaration of `p`");
    let once = [
        ".reg .b32 %a; { .reg .b64 %a; }",
        "{ .reg .b32 to; }",
        ".reg .b32 %a<4>; .reg .b32 %a4;",
        ".reg .b32 %a4; .reg .b32 %a<4>;",
        ".reg .b32 %tid;",
        "{ L: } { L: }",
    ];
    for statements in once {
        taken(&format!(".global .u32 x;\n{}", body(&format!(".reg .b32 x; {statements}"))));
    }
    // A name without a number is none of the range.
    assert_eq!(word("", ".reg .b32 %w<3>; mov.b32 %w0, 4; mov.b32 %w2, 5; add.u32 %w, %w0, %w2;"), 9);
}

#[test]
fn calls_agree_with_the_function() {
    let scalar = ".func (.param .b32 r) bar(.param .b32 p) { st.param.b32 [r], 5; ret; }\n";
    let unsigned = ".func bar(.param .u32 p) { ret; }\n";
    let array = ".func bar(.param .align 4 .b8 p[8]) { ret; }\n";
    let none = ".func bar() { ret; }\n";
    let variable = ".global .b32 x;\n.func bar(.param .b64 p) { ret; }\n";
    for (function, statements, reason) in [
        (scalar, ".param .b32 a; call (a), bar;", "a call with 0 of 1 argument"),
        (scalar, ".param .b32 a; call (a), bar, (a, a);", "a call with 2 of 1 argument"),
        (scalar, "call bar, (7);", "a call with 0 of 1 result"),
        (none, ".param .b32 a; call (a), bar;", "a call with 1 of 0 results"),
        (scalar, ".param .b64 b; call (b), bar, (7);", "whose result 1 has another type, size or alignment"),
        (scalar, ".reg .b64 b; call (b), bar, (7);", "whose result 1 has another type"),
        (scalar, ".param .b32 a; .param .b64 b; call (a), bar, (b);", "whose argument 1 has another type"),
        (scalar, ".param .b32 a; .param .align 4 .b8 b[4]; call (a), bar, (b);", "whose argument 1 has another type"),
        (scalar, ".param .b32 a; .reg .b64 b; mov.b64 b, 1; call (a), bar, (b);", "whose argument 1 has another type"),
        (scalar, ".param .b32 a; .reg .b16 b; mov.b16 b, 1; call (a), bar, (b);", "whose argument 1 has another type"),
        (unsigned, ".param .f32 a; call bar, (a);", "whose argument 1 has another type"),
        (unsigned, ".reg .f32 a; mov.f32 a, 0f00000000; call bar, (a);", "whose argument 1 has another type"),
        (array, ".param .align 4 .b8 a[4]; call bar, (a);", "whose argument 1 has another type"),
        (array, ".param .align 4 .b8 a[16]; call bar, (a);", "whose argument 1 has another type"),
        (array, ".param .align 2 .b8 a[8]; call bar, (a);", "whose argument 1 has another type"),
        (array, "call bar, (7);", "a number for the array that is argument 1"),
        (variable, "call bar, (x);", "`x` as argument 1 of a call"),
        (variable, "call bar, (bar);", "`bar` as argument 1 of a call"),
        (variable, "call bar, (to);", "`to` as argument 1 of a call"),
        (variable, ".local .b64 a; call bar, (a);", "`a` as argument 1 of a call"),
        (".entry bar() { ret; }\n", "call bar;", "a call of a kernel"),
    ] {
        refused(&format!("{function}{}", body(statements)), reason);
    }
    refused(
        ".func bar(.param .b32 p) { ret; }\n.func foo(.param .b32 p) { call bar, (p); ret; }\n",
        "`p` as argument 1 of a call",
    );
    for (function, statements) in [
        (scalar, ".param .f32 a; call (a), bar, (a);"),
        (scalar, ".reg .f32 a; mov.f32 a, 0f00000000; call (a), bar, (a);"),
        (unsigned, ".param .s32 a; st.param.s32 [a], 1; call bar, (a);"),
        (array, ".param .align 4 .b8 a[8]; call bar, (a);"),
        (".func bar(.reg .b32 p) { ret; }\n", ".param .b32 a; call bar, (a);"),
    ] {
        taken(&format!("{function}{}", body(statements)));
    }
    assert_eq!(word(scalar, "mov.b32 %w, 3; call (_), bar, (7);"), 3);
}

#[test]
fn indirect_calls_agree_with_their_prototype() {
    let prototype = ".reg .b64 f; mov.u64 f, foo; P: .callprototype (.param .b32 r) _ (.param .b32 p);";
    assert_eq!(word(FOO, &format!("{prototype} call (%w), f, (6), P;")), 7);
    let refused = |statements: &str, reason: &str| {
        refused(&format!("{FOO}{}", body(&format!("{prototype} {statements}"))), reason)
    };
    refused("call (_), f, P;", "a call with 0 of 1 argument");
    refused("call f, (6), P;", "a call with 0 of 1 result");
    refused(".param .b64 a; call (_), f, (a), P;", "whose argument 1 has another type");
}

#[test]
fn what_is_called_is_said_once() {
    let address = ".reg .b64 f; mov.u64 f, foo;";
    let prototype = "P: .callprototype (.param .b32 r) _ (.param .b32 p);";
    let bar = FOO.replace("foo", "bar").replace(", 1;", ", 2;");
    let targets = "T: .calltargets foo, bar; call (%w), f, (40), T;";
    assert_eq!(word(&format!("{FOO}{bar}"), &format!("{address} {targets}")), 41);
    assert_eq!(word(&format!("{FOO}{bar}"), &format!("{} {targets}", address.replace("foo", "bar"))), 42);
    for (statements, reason) in [
        ("call (_), f, (6);", "without `.callprototype` or `.calltargets`"),
        ("call (_), f, (6), foo;", "`foo` as a prototype"),
        ("T: .branchtargets L; L: call (_), f, (6), T;", "`T` as a prototype"),
        ("P: .callprototype (.param .b32 r) _ (.param .b32 p); call (_), foo, (6), P;", "a prototype for a function"),
        ("T: .calltargets foo, none; call (_), f, (6), T;", "`none` of calls, which is no function"),
        ("T: .calltargets foo, other; call (_), f, (6), T;", "`other` of calls, which takes or returns something else"),
        ("T: .calltargets foo; call f, T;", "a call with 0 of 1 result"),
        ("P: .callprototype (.param .b32 r) _ (.param .b32 p) .noreturn; call (_), f, (6), P;", "`.noreturn`"),
        ("P: .callprototype (.param .b32 r) bar (.param .b32 p); call (_), f, (6), P;", "`_` in place of a name"),
    ] {
        let text = format!("{FOO}.func other(.param .b64 p) {{ ret; }}\n{}", body(&format!("{address} {statements}")));
        let message = verdict(&text).unwrap_or_else(|| panic!("{statements}"));
        assert!(message.contains(reason), "{message}");
    }
    assert_eq!(word(FOO, &format!("{address} {prototype} call (%w), f, (6), P;")), 7);
}

#[test]
fn directives_are_known_and_do_not_contradict_each_other() {
    let kernel = |directives: &str| format!(".entry k(.param .u64 to) {directives} {{ ret; }}\n");
    for directives in [
        ".maxntid 32",
        ".maxntid 16, 2, 1 .minnctapersm 2 .maxnreg 32",
        ".maxntid 32 .maxntid 64",
        ".reqntid 0x20",
        ".explicitcluster .reqnctapercluster 2, 1",
        ".maxclusterrank 8",
        ".pragma \"nounroll\";",
    ] {
        taken(&kernel(directives));
    }
    for (directives, reason) in [
        (".maxntid 32 .reqntid 64", "both `.maxntid` and `.reqntid`"),
        (".reqnctapercluster 2 .maxclusterrank 8", "both `.reqnctapercluster`"),
        (".maxntid 0", "`.maxntid` with a number that is not between 1 and"),
        (".reqntid 8, 0", "`.reqntid` with a number"),
        (".maxntid 4294967296", "`.maxntid` with a number"),
        (".maxntid", "`.maxntid` with 0 numbers"),
        (".maxntid 1, 2, 3, 4", "`.maxntid` with 4 numbers"),
        (".maxntid 1 2", "`{` was expected"),
        (".maxntid 1,", "a number was expected"),
        (".foobar 5", "`.foobar` is no directive"),
        (".noreturn", "`.noreturn` is for functions"),
    ] {
        refused(&kernel(directives), reason);
    }
    refused(".func foo() .maxntid 32 { ret; }\n", "`.maxntid` is for kernels");
    refused(&format!(".entry k(.param .u64 to) .maxntid 32;\n{}", body("")), "of a kernel that is not defined here");
    refused(".func (.param .b32 r) foo() .noreturn { ret; }\n", "`.noreturn` of a function with results");
    taken(".func foo() .noreturn { exit; }\n.extern .func bar() .noreturn;\n");
    let module = Module::parse(&format!("{HEAD}{}", kernel(".maxntid 32 .maxntid 64"))).unwrap();
    assert_eq!(module.kernel("k").unwrap().most_threads(), Some(64));
}

#[test]
fn linkage_is_that_of_a_definition() {
    refused(".extern .func foo() { ret; }\n", "`foo` is `.extern` and has a body");
    refused(".visible .weak .func foo() { ret; }\n", "was expected");
    refused(".common .func foo() { ret; }\n", "was expected");
    refused(".common .const .u32 x;\n", "`.common` and not `.global`");
    taken(".common .global .u32 x;\n.weak .global .u32 y = 5;\n.visible .shared .u32 z;\n");
    // A function that nothing uses is not looked for.
    let unused = Module::parse(&format!("{HEAD}{}{}", BAR.replace(".visible", ".extern"), body(""))).unwrap();
    assert!(!unused.functions()[0].used);
    for user in [body(&format!(".reg .b32 %w; {}", call("foo"))), ".global .u64 x = foo;\n".to_owned()] {
        let used = Module::parse(&format!("{HEAD}{FOO}{user}")).unwrap();
        assert!(used.functions()[0].used);
    }
}

#[test]
fn text_begins_with_a_version_and_a_target() {
    for (text, reason) in [
        (".target sm_90\n", "`.version`, with which PTX begins"),
        (".version 8.4\n.address_size 64\n.target sm_90\n", "line 2, column 1: `.target`, which follows `.version`"),
        (".version 8.4\n.target sm_90\n.address_size 32\n", "line 3, column 1: addresses of another size"),
        (".version 8.4\n.target sm_90\n.target sm_90\n", "line 3, column 1: `.entry`, `.func`, or"),
    ] {
        let message = Module::parse(text).unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
    }
    assert_eq!(Module::parse(".version 8.4\n.target sm_90, sm_80\n").unwrap().targets.len(), 2);
    refused(".file 1 \"a\"\n.file 1 \"b\"\n", "line 5, column 7: a second file of the number 1");
    refused(";\n", "a directive was expected");
    refused(&body(";"), "a statement was expected");
}

#[test]
fn variables_are_such_as_there_are() {
    for (declaration, reason) in [
        (".global .pred x;", "a predicate that is no single register"),
        (".global .u32 x[0];", "a variable that has no size"),
        (".global .u32 x[2+1];", "`]` was expected"),
        (".const .align 8 .b8 x[65537];", "more than 65536 bytes of constant memory"),
        (".const .align 8 .b8 x[65536];\n.const .u32 y;", "line 5, column 13: more than 65536 bytes"),
    ] {
        refused(&format!("{declaration}\n"), reason);
    }
    for (declaration, reason) in [
        (".reg .u32 x[3];", "`x` is an array of registers"),
        (".reg .v2 .pred x;", "a predicate that is no single register"),
        (".local .pred x;", "a predicate that is no single register"),
        (".reg .v4 .b64 x;", "a vector of more than 128 bits"),
        (".local .u32 x[];", "`x`, which has no size"),
        (".param .u32 x[0];", "`x`, which has no size"),
        (".local .u32 x = 3;", "an initial value of `x`, which is in .local"),
        (".reg .u32 x = 3;", "an initial value of `x`, which is in .reg"),
    ] {
        refused(&body(declaration), reason);
    }
    taken(".const .align 8 .b8 x[65536];\n.global .align 16 .b8 y[4];\n.global .u32 z[0x10];\n");
}

#[test]
fn labels_and_registers_of_a_range_are_apart() {
    taken(&body(".reg .b32 r<20>; r3:"));
    assert_eq!(word("", "r3: .reg .b32 r<5>; mov.b32 r3, 7; mov.b32 r04, 5; add.u32 %w, r03, r4;"), 12);
    // A jump from above the registers knows the label alone, and goes there.
    assert_eq!(word("", "mov.b32 %w, 1; bra r3; .reg .b32 r<5>; mov.b32 %w, 2; r3: add.u32 %w, %w, 10;"), 11);
    let message = verdict(&body(".reg .b32 r<20>; r3: bra r3;")).unwrap();
    assert!(message.contains("the label `r3`, which is not declared"), "{message}");
    refused(&body("{ .reg .b32 r; r: }"), "a second declaration of `r`");
}

#[test]
fn elements_are_counted_in_numbers() {
    let globals = ".global .u32 a[2][3] = {{1, 2, 3}, {4, 5, 6}};\n.global .v2 .u32 v[2] = {{1, 2}, {3, 4}};\n\
        .const .u16 c[4] = {7, 8, 9, 10};\n";
    let statements = ".reg .b32 %x; .reg .b64 %d; .local .u32 l[4]; ld.global.u32 %w, a[4]; ld.global.u32 %x, v[2];
        mad.lo.u32 %w, %w, 10, %x; st.local.u32 l[3], 6; ld.local.u32 %x, [l+12]; mad.lo.u32 %w, %w, 10, %x;
        ld.const.u16 %x, c[2]; mad.lo.u32 %w, %w, 10, %x; mov.u64 %d, a[5]; ld.u32 %x, [%d]; mad.lo.u32 %w, %w, 10, %x;";
    assert_eq!(word(globals, statements), 53_696);
}

#[test]
fn local_variables_of_blocks_stay_apart() {
    let statements =
        ".reg .b64 %kept; .reg .b32 %x; { .local .u32 one[4]; mov.u64 %kept, one; cvta.local.u64 %kept, %kept;
        st.local.u32 [one], 5; } { .local .u32 other[4]; st.local.u32 [other], 9; ld.local.u32 %x, [other]; }
        ld.u32 %w, [%kept]; mad.lo.u32 %w, %w, 10, %x;";
    assert_eq!(word("", statements), 59);
}

#[test]
fn parameters_of_kernels_are_not_written() {
    refused(&body("st.param.u64 [to], 7;"), "line 4, column 37: a store to the parameter `to` of the kernel");
    refused(&body("st.param.v2.b32 [to], {1, 2};"), "a store to the parameter `to`");
}

#[test]
fn initial_values_are_of_the_type() {
    refused(".global .f32 x = 7;\n", "line 4, column 14: an integer for the type .f32");
    refused(".global .u32 x[2] = {1, 1.5};\n", "a floating-point number for the type .u32");
    refused(".global .u32 y;\n.global .b16 x = y;\n", "line 5, column 18: the address of `y` as a value of type .b16");
    refused(".global .u32 y;\n.global .f64 x = y;\n", "the address of `y` as a value of type .f64");
    refused(".shared .u32 x = 5;\n", "an initial value of a variable that is neither `.global` nor `.const`");
    refused(".extern .global .u32 x = 5;\n", "an initial value of a variable that is `.extern`");
    refused(&body(".shared .u32 x = 5;"), "an initial value of `x`, which is in .shared");
    taken(".global .f32 x[3] = {1.0, 0f3f800000, 0d3ff0000000000000};\n.global .f64 y[2] = {1.0, 0f3f800000};\n");
    for (variable, reason) in [
        (".u32 x = {7};", "a list as the initial value of one number"),
        (".u32 x[1] = 7;", "an initial value for several"),
        (".u32 x[1] = {{7}};", "a list as the initial value of one number"),
        (".u32 x[2][2] = {{1, 2, 3}, {4}};", "3 initial values for 2"),
        (".u32 x[2][2] = {{1}, {2}, {3}};", "3 initial values for 2"),
        (".u32 x[2][2] = {1, 2, 3, 4};", "4 initial values for 2"),
        (".u32 x[2][2] = {1, {2, 3}};", "an initial value for several"),
        (".u32 x[2][2] = {{1, 2}, 3};", "an initial value for several"),
        (".u32 x[][2] = {1, 2, 3};", "an initial value for several"),
        (".u32 x[2] = {1,};", "what follows the comma was expected"),
        (".v2 .u32 x = 1;", "an initial value for several"),
        (".v2 .u32 x = {1, 2, 3};", "3 initial values for 2"),
        (".v4 .u32 x[1] = {{1, 2}};", "2 initial values for the 4 of a vector"),
        (".v2 .u32 x[2] = {1, 2, 3, 4};", "4 initial values for 2"),
        (".f16 x = 1.0;", "an initial value of type .f16"),
        (".u64 x = s;", "neither `.global` nor `.const`: `s`"),
        (".u64 x = generic(s);", "neither `.global` nor `.const`: `s`"),
        (".u64 x = f+4;", "an offset from the function `f`"),
        (".u64 x = generic(f);", "the generic address of the function `f`"),
        (".u32 x = 5u;", "this is no integer"),
    ] {
        refused(&format!(".shared .u32 s;\n.func f() {{ ret; }}\n.global {variable}\n"), reason);
    }
    for variable in [
        ".u32 x[2][2] = {{1}, {2, 3}};",
        ".u32 x[2][2] = {};",
        ".u32 x[][2] = {{1, 2}, {3}};",
        ".v2 .u32 x[2] = {{1, 2}, {3, 4}};",
        ".f32 x = .5;",
        ".u64 x = f;",
        ".u32 x = 5U;",
    ] {
        taken(&format!(".func f() {{ ret; }}\n.global {variable}\n"));
    }
    assert_eq!(word(".global .f32 x = .5;\n", "ld.global.b32 %w, [x];"), 0x3f00_0000);
    taken(".global .b32 x = 0f3f800000;\n.global .b64 y[2] = {1.5, 0f3f800000};\n.global .u8 z = 300;\n");
    for (variable, bits) in [
        (".b32 x = 1.5;", 0x3fc0_0000),
        (".b32 x = 0f3f800000;", 0x3f80_0000),
        (".align 4 .b64 x = 0f3f800000;", 0x3f80_0000),
        (".align 4 .f64 x = 0f3f800000;", 0x3f80_0000),
        (".align 4 .b16 x[2] = {0f3f804321, 1.5};", 0x4321),
    ] {
        assert_eq!(word(&format!(".global {variable}\n"), "ld.global.b32 %w, [x];"), bits, "{variable}");
    }
}

#[test]
fn shared_variables_without_a_size_are_external() {
    refused(".shared .u32 x[];\n", "line 4, column 14: a variable that has no size");
    refused(&body(".shared .u32 x[];"), "`x`, which has no size");
    refused(&body(".extern .shared .u32 x[];"), "a declaration without linkage");
    taken(&format!(".extern .shared .u32 x[];\n{}", body("")));
}

#[test]
fn numbers_are_of_the_type() {
    let refusal = |instruction: &str| {
        let registers =
            ".reg .b16 %h<3>; .reg .b32 %r<3>; .reg .b64 %d<3>; .reg .f32 %f<3>; .reg .f64 %e<3>; .reg .pred %p<3>;";
        let module = Module::parse(&format!("{HEAD}{}", body(&format!("{registers} {instruction}")))).unwrap();
        module.kernel("k").unwrap().refusals.first().map(|refusal| refusal.what.clone())
    };
    for instruction in [
        "mov.f32 %f1, 1;",
        "mov.f32 %f1, 0x3f800000;",
        "mul.f64 %e1, %e2, 2;",
        "setp.eq.f32 %p1, %f1, 0;",
        "st.global.v2.f32 [%d1], {1, 2};",
        "atom.global.add.f32 %f1, [%d1], 1;",
    ] {
        let refusal = refusal(instruction).unwrap_or_else(|| panic!("{instruction}"));
        assert!(refusal.contains("an integer for the type .f"), "{refusal}");
    }
    for instruction in [
        "mov.u32 %r1, 0f3f800000;",
        "mov.b32 %r1, 1.5;",
        "mov.b64 %d1, 0f3f800000;",
        "mov.b16 %h1, 0f3f800000;",
        "add.u32 %r1, %r2, 1.5;",
        "bar.sync 1.5;",
        "cvt.rn.f32.u32 %f1, 1.5;",
        "atom.global.add.u32 %r1, [%d1], 0f3f800000;",
    ] {
        let refusal = refusal(instruction).unwrap_or_else(|| panic!("{instruction}"));
        assert!(refusal.contains("a floating-point number for the type ."), "{refusal}");
    }
    for instruction in [
        "mov.b32 %r1, 0f3f800000;",
        "mov.b64 %d1, 1.5;",
        "mov.b64 %d1, {0f3f800000, 0f40000000};",
        "and.b32 %r1, %r2, 0f3f800000;",
        "add.f32 %f1, %f2, 1.0;",
        "add.f64 %e1, %e2, 0f3f800000;",
        "slct.f32.f32 %f1, 1.0, 2.0, 1.0;",
        "shf.l.wrap.b32 %r1, 0f3f800000, 1, 3;",
        "cvt.rn.f32.s32 %f1, 1;",
        "cvt.rzi.s32.f32 %r1, 1.5;",
    ] {
        assert_eq!(refusal(instruction), None, "{instruction}");
    }
}

/// The bytes are those that the assembler writes for the same initial values.
#[test]
fn integers_of_constant_expressions_have_signs_or_not() {
    for (expression, value) in [
        ("(7 % 4) - 5 > 0 ? 1 : 2", 1),
        ("(7 & 3) - 5 > 0 ? 1 : 2", 2),
        ("(7U & 3) - 5 > 0 ? 1 : 2", 1),
        ("((-(4 ? 9 : 8U)) / 3)", -3i32 as u32),
        ("((-(0 ? 9U : 8)) / 2)", -4i32 as u32),
        ("(~0) > 0 ? 1 : 2", 1),
    ] {
        let globals = format!(".global .align 8 .u64 x = {expression};\n");
        assert_eq!(word(&globals, "ld.global.u32 %w, [x];"), value, "{expression}");
        assert_eq!(refusal(&globals), None);
    }
}

#[test]
fn names_of_shared_variables_say_where_they_are() {
    let (sized, open) = (".shared .u32 s[4];", ".extern .shared .u32 s[];");
    for (globals, own) in [(sized, ""), ("", sized), (open, "")] {
        let statements = format!(
            "{own} .reg .b32 %x; st.shared.u32 [s], 1; st.shared.u32 [s+4], 5; st.u32 [s], 3; atom.add.u32 %x, [s+4], 2;
             red.add.u32 [s+4], 10; ld.u32 %w, [s]; mad.lo.u32 %w, %w, 100, %x; ld.volatile.shared.u32 %x, [s+4];
             mad.lo.u32 %w, %w, 100, %x;"
        );
        assert_eq!(word_with(&format!("{globals}\n"), &statements, 16), 30_517);
    }
}

#[test]
fn no_list_ends_with_a_comma() {
    let inside = |text: &str| body(&format!(".reg .b32 %r<3>; .reg .b32 %v<2>; {text}"));
    for text in [
        inside("mov.u32 %r1, %r2,;"),
        inside("ld.global.v2.u32 {%r1, %r2,}, [0];"),
        ".func f(.param .b32 a,) { ret; }\n".to_owned(),
        ".global .u32 x[2] = {1, 2,};\n".to_owned(),
        format!(".func f(.param .b32 a);\n{}", inside("call f, (%r1,);")),
    ] {
        refused(&text, "what follows the comma was expected");
    }
}

#[test]
fn local_variables_are_in_functions() {
    refused(".local .b32 x[4];\n", "a variable of `.local` outside of functions");
    taken(&body(".local .b32 x[4];"));
}
