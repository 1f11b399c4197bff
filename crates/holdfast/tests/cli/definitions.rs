//! What is made from the definitions of the command line: completions and man pages.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::running::{Scratch, succeed, text};

/// Whether a program can be run. Shells and formatters other than bash need not be installed.
fn has(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Writes the completions for a shell to a file.
fn script(scratch: &Scratch, shell: &str) -> std::path::PathBuf {
    let path = scratch.path(shell);
    std::fs::write(&path, succeed(&["completions", shell])).unwrap();
    path
}

/// Returns what bash offers at the end of these words.
fn completed(script: &Path, words: &[&str]) -> Vec<String> {
    let call = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_LINE=\"$*\"
        _holdfast \"$1\" \"${@: -1}\" \"${@: -2:1}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", call, "bash", text(script)]).args(words).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let scratch = Scratch::new();
    let script = script(&scratch, "bash");
    let checked = Command::new("bash").arg("-n").arg(&script).output().unwrap();
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
    assert_eq!(completed(&script, &["holdfast", "vol"]), ["volume"]);
    assert!(completed(&script, &["holdfast", "volume", ""]).contains(&"create".to_owned()));
    assert_eq!(completed(&script, &["holdfast", "serve", "--journal-"]), ["--journal-size"]);
    assert_eq!(completed(&script, &["holdfast", "completions", "f"]), ["fish"]);
    assert_eq!(completed(&script, &["holdfast", "token", "create", "--role", "o"]), ["operator"]);
}

#[test]
fn zsh_and_fish_can_read_their_completions() {
    let scratch = Scratch::new();
    for (shell, check) in [("zsh", "-n"), ("fish", "--no-execute")] {
        let script = script(&scratch, shell);
        assert!(std::fs::read_to_string(&script).unwrap().contains("volume"), "{shell}");
        if has(shell) {
            let checked = Command::new(shell).arg(check).arg(&script).output().unwrap();
            assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
        }
    }
    if has("fish") {
        let call = "source $argv[1]; complete --do-complete 'holdfast volume cr'";
        let script = scratch.path("fish");
        let completed =
            Command::new("fish").args(["--no-config", "-c", call, text(&script)]).output().unwrap();
        assert!(String::from_utf8_lossy(&completed.stdout).starts_with("create\t"), "{completed:?}");
    }
}

#[test]
fn every_command_has_a_man_page_without_faults() {
    let scratch = Scratch::new();
    let directory = scratch.path("man");
    succeed(&["man", text(&directory)]);
    let page = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let create = page("holdfast-volume-create.1");
    for expected in
        [".TH holdfast-volume-create 1", ".SH EXAMPLES\n.nf\nholdfast volume create", "EXIT STATUS"]
    {
        assert!(create.contains(expected), "no {expected:?} in {create}");
    }
    assert!(!page("holdfast-serve.1").contains("sync"), "hidden options are not shown");
    let mut files = std::fs::read_dir(&directory).unwrap();
    let pages: Vec<_> = files.by_ref().map(|file| file.unwrap().path()).collect();
    assert!(pages.len() > 20, "{pages:?}");
    let checks: [(&str, &[&str]); 2] = [
        ("groff", &["-man", "-ww", "-z", "-Tutf8", "-K", "utf8"]),
        ("mandoc", &["-T", "lint", "-W", "error"]),
    ];
    for (program, arguments) in checks.iter().filter(|(program, _)| has(program)) {
        for page in &pages {
            let checked = Command::new(program).args(*arguments).arg(page).output().unwrap();
            let said = [checked.stdout.clone(), checked.stderr.clone()].concat();
            assert!(checked.status.success() && said.is_empty(), "{page:?}: {checked:?}");
        }
    }
}
