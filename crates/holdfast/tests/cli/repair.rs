//! `check --repair`: a volume whose index has lost records is whole again.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::client::Client;
use crate::copies::{content, with_lost_names};
use crate::running::{Scratch, Server, fail, run, succeed, text};

/// Runs a repair without a terminal; returns its exit code and its output.
fn repair(data: &Path, more: &[&str]) -> (i32, String) {
    let output = run(&[&["check", text(data), "--pool", "default", "--repair", "--yes"], more].concat());
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_damaged_volume_is_whole_after_a_repair_and_can_be_served() {
    let scratch = Scratch::new();
    let data = with_lost_names(&scratch);
    let index = data.join("pools/default/index");
    let before = fs::read(&index).unwrap();
    let asked = fail(&["check", text(&data), "--pool", "default", "--repair"], 2);
    assert!(asked.contains("add --yes"), "{asked}");
    let asked = fail(&["check", text(&data), "--pool", "default", "--repair", "--json"], 2);
    assert!(asked.contains("prints JSON") && asked.contains("add --yes"), "{asked}");
    assert!(fs::read(&index).unwrap() == before, "nothing was changed");
    let report = String::from_utf8(run(&["check", text(&data)]).stdout).unwrap();
    assert!(report.contains("--pool default --repair` repairs the pool"), "{report}");

    let (code, said) = repair(&data, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("of its 300 names"), "{said}");
    assert!(said.contains("default: a repair would\n  - replace the index by a copy"), "{said}");
    assert!(said.contains("default: repair: /lost+found/#"), "{said}");
    assert!(said.contains("default: no faults\n"), "the result of the check afterwards: {said}");
    let kept = data.join("pools/default/index.damaged");
    assert!(said.contains("/pools/default/index.damaged; it may be deleted\n"), "{said}");
    assert_eq!(fs::metadata(&kept).unwrap().len(), before.len() as u64);
    assert!(succeed(&["check", text(&data)]).contains("default: no faults\n"));

    // Everything is there, in the directory or in lost+found.
    let to = scratch.path("copy");
    succeed(&["dump", text(&data), "--files", text(&to)]);
    let listed = |name: &str| fs::read_dir(to.join(name)).unwrap().map(|entry| entry.unwrap().path());
    let mut contents: Vec<Vec<u8>> =
        listed("directory").chain(listed("lost+found")).map(|path| fs::read(path).unwrap()).collect();
    contents.sort();
    assert!(contents == (0..300).map(content).collect::<Vec<_>>());

    let server = Server::start(
        &data,
        &scratch.config("[[export]]\npath = \"/main\"\nvolume = \"main\"\nsquash = \"none\"\n"),
        &[],
    );
    let mut client = Client::mount(server.address, "/main");
    let handle = client.write_file("after", b"served again");
    assert_eq!(client.read_file(&handle), b"served again");
    let used = fail(&["check", text(&data), "--pool", "default", "--repair", "--yes"], 3);
    assert!(used.contains("in use by process"), "{used}");
    server.stop();
    assert!(succeed(&["check", text(&data)]).contains("default: no faults\n"));
}

#[test]
fn a_repair_says_in_json_what_it_did_and_does_nothing_a_second_time() {
    let scratch = Scratch::new();
    let data = with_lost_names(&scratch);
    let (code, said) = repair(&data, &["--json"]);
    assert_eq!(code, 0, "{said}");
    let said: Value = serde_json::from_str(&said).unwrap();
    assert!(said["before"]["repairable_faults"].as_u64().unwrap() > 0);
    assert_eq!((&said["after"]["clean"], &said["clean"]), (&Value::Bool(true), &Value::Bool(true)));
    let repaired = &said["repaired"];
    assert!(repaired["summary"]["objects_found"].as_u64().unwrap() > 0, "{repaired}");
    assert!(repaired["changes"].as_array().unwrap().iter().any(|change| change["kind"] == "tree"));
    assert_eq!(repaired["kept"].as_array().unwrap().len(), 2, "the damaged one, and its copy");

    let index = fs::read(data.join("pools/default/index")).unwrap();
    let (code, said) = repair(&data, &["--json"]);
    assert_eq!(code, 0, "{said}");
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["repaired"], &said["clean"]), (&Value::Null, &Value::Bool(true)));
    let (code, said) = repair(&data, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("default: there is nothing to repair, and nothing is changed\n"), "{said}");
    assert!(fs::read(data.join("pools/default/index")).unwrap() == index);
}

#[test]
fn a_volume_that_cannot_be_repaired_is_refused() {
    let scratch = Scratch::new();
    let data = with_lost_names(&scratch);
    let missing = run(&["check", text(&data), "--repair", "--yes"]);
    assert_eq!(missing.status.code(), Some(2), "a pool must be named");
    let missing = run(&["check", text(&data), "--yes"]);
    assert_eq!(missing.status.code(), Some(2), "there is nothing to confirm");
    // The journal of another pool.
    succeed(&["pool", "create", text(&data), "other", "--journal-size", "32 MiB"]);
    let (journal, other) = (data.join("pools/default/journal/0000"), data.join("pools/other/journal/0000"));
    fs::copy(other, journal).unwrap();
    let listed = ["check", text(&data), "--pool", "default", "--max-faults"];
    for count in ["0", "1000"] {
        let error = fail(&[&listed[..], &[count, "--repair", "--yes"]].concat(), 1);
        assert!(error.contains("cannot be repaired, as its journal"), "{error}");
        assert!(error.contains("holdfast dump --files"), "{error}");
        let output = run(&[&listed[..], &[count, "--repair", "--yes", "--json"]].concat());
        assert_eq!(output.status.code(), Some(1));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(said["error"].as_str().unwrap().contains("cannot be repaired"), "{said}");
        assert_eq!((&said["before"]["clean"], &said["repaired"]), (&Value::Bool(false), &Value::Null));
        let said = String::from_utf8(run(&[&listed[..], &[count]].concat()).stdout).unwrap();
        assert!(said.contains("neither served nor repaired, as its journal"), "{said}");
        assert!(!said.contains("--repair"), "it is not recommended: {said}");
    }
    assert!(!data.join("pools/default/index.damaged").exists(), "no index was replaced");
}
