//! What the command prints for shells and for readers of manuals.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::{Command, Output};

fn anabranch(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anabranch")).args(arguments).output().unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = anabranch(arguments);
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_shell_has_completions_of_commands_and_options() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&["completions", shell]);
        for word in ["anabranch", "devices", "conformance", "fuzz", "run", "inspect", "count-calls", "compiler-option"]
        {
            assert!(script.contains(word), "{shell}: {word}");
        }
        for hidden in ["in-this-process", "worker"] {
            assert!(!script.contains(hidden), "{shell}: {hidden}");
        }
    }
    assert_eq!(anabranch(&["completions", "tea"]).status.code(), Some(2));
}

#[cfg(unix)]
#[test]
fn bash_completes_with_the_script() {
    let test = "source <(\"$0\" completions bash) || exit 1
        COMP_WORDS=(anabranch dev) COMP_CWORD=1
        _anabranch anabranch dev anabranch
        echo \"${COMPREPLY[@]}\"";
    let output = match Command::new("bash").args(["-c", test, env!("CARGO_BIN_EXE_anabranch")]).output() {
        Ok(output) => output,
        Err(error) => return eprintln!("skipped: there is no bash: {error}"),
    };
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "devices\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_manual_has_a_page_for_all_and_one_for_each_command() {
    let page = printed(&["man"]);
    for words in [".TH anabranch 1", "ANABRANCH_HOST_SEED", "Exit status", "anabranch\\-devices(1)"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let version = env!("CARGO_PKG_VERSION");
    for (command, words) in [
        ("devices", "\\-\\-json"),
        ("conformance", "\\-\\-filter"),
        ("fuzz", "\\-\\-record"),
        ("run", "inout:FILE.npy:RESULT.npy"),
        ("inspect", "\\-\\-compiler\\-option"),
        ("completions", "zsh"),
    ] {
        let page = printed(&["man", command]);
        assert!(page.contains(&format!(".TH anabranch-{command} 1  \"anabranch {version}\"")), "{page}");
        assert!(page.contains(&format!("anabranch {command}")) && page.contains(words), "{page}");
    }
    let output = anabranch(&["man", "nothing"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`nothing`"));
}
