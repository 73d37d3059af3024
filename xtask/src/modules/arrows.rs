//! Which crate of the workspace may use which.

use crate::packages::Package;

/// Each crate, from the bottom up, and what it may use of the others. Tests and examples may use more: a crate of the
/// lower floors is tried out with a driver of the upper ones.
const MAY_USE: &[(&str, &[&str])] = &[
    ("anabranch-sync", &[]),
    ("anabranch-hal", &["anabranch-sync"]),
    ("anabranch-ptx", &[]),
    ("anabranch-cuda", &["anabranch-hal", "anabranch-sync"]),
    ("anabranch-hip", &["anabranch-hal", "anabranch-sync"]),
    ("anabranch-host", &["anabranch-hal", "anabranch-ptx", "anabranch-sync"]),
    ("anabranch-layers", &["anabranch-hal", "anabranch-sync"]),
    ("anabranch-core", &["anabranch-hal", "anabranch-sync"]),
    (
        "anabranch",
        &[
            "anabranch-core",
            "anabranch-cuda",
            "anabranch-hal",
            "anabranch-hip",
            "anabranch-host",
            "anabranch-layers",
            "anabranch-sync",
        ],
    ),
    ("anabranch-conformance", &["anabranch", "anabranch-sync"]),
    ("anabranch-cli", &["anabranch", "anabranch-conformance", "anabranch-ptx", "anabranch-sync"]),
    ("anabranch-python", &["anabranch"]),
    ("xtask", &[]),
    ("xtask-kernels", &["anabranch-cuda", "anabranch-hal"]),
];

/// What is wrong with the arrows of a crate, one text each.
pub(crate) fn problems(package: &Package) -> Vec<String> {
    let Package { name, uses, .. } = package;
    let Some((_, allowed)) = MAY_USE.iter().find(|(listed, _)| listed == name) else {
        return vec![format!("{name} has no place in the house: say in xtask/src/modules/arrows.rs what it may use")];
    };
    let wrong = uses.iter().filter(|used| !allowed.contains(&&***used));
    wrong.map(|used| format!("{name} uses {used}, which it may not: its Cargo.toml points up")).collect()
}

#[cfg(test)]
mod tests {
    use super::{MAY_USE, problems};
    use crate::packages::Package;

    #[test]
    fn each_crate_uses_only_what_is_listed_before_it() {
        for (position, (name, uses)) in MAY_USE.iter().enumerate() {
            for used in *uses {
                assert!(MAY_USE[..position].iter().any(|(below, _)| below == used), "{name} uses {used}");
            }
        }
    }

    fn found(name: &str, uses: &[&str]) -> Vec<String> {
        let uses = uses.iter().map(|&used| used.to_owned()).collect();
        problems(&Package { name: name.to_owned(), uses, ..Package::default() })
    }

    #[test]
    fn arrows_that_point_up_are_reported() {
        assert!(found("anabranch-host", &["anabranch-hal"]).is_empty());
        let [problem] = &*found("anabranch-hal", &["anabranch", "anabranch-sync"]) else { panic!("one was expected") };
        assert!(problem.starts_with("anabranch-hal uses anabranch,"), "{problem}");
        assert!(found("stranger", &[])[0].starts_with("stranger has no place"));
    }
}
