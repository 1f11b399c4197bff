//! `pool copy` between two directories: files, handles, quotas and trees are those of the original.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::client::Client;
use crate::running::{Scratch, Server, command, fail, run, succeed, text};

/// Some in segments.
const FILES: usize = 12;

fn content(number: usize) -> Vec<u8> {
    let size = [10, 5_000, 100_000, 700_000][number % 4];
    vec![u8::try_from(number + 1).unwrap(); size]
}

fn config(scratch: &Scratch) -> std::path::PathBuf {
    scratch.config("[[export]]\npath = \"/main\"\nvolume = \"main\"\nsquash = \"none\"\n")
}

/// Fills a pool, and kills its server. Returns the handles of its files.
fn filled(scratch: &Scratch, data: &Path) -> Vec<Vec<u8>> {
    let server = Server::start(data, &config(scratch), &[]);
    succeed(&["quota", "set", text(data), "main", "--user", "1001", "--inodes", "1"]);
    let mut client = Client::mount(server.address, "/main");
    client.caller = (0, 0);
    let handles = (0..FILES).map(|number| client.write_file(&format!("file-{number}"), &content(number)));
    let handles: Vec<Vec<u8>> = handles.collect();
    client.make_directory("project");
    succeed(&["tree", "create", text(data), "main", "/project"]);
    succeed(&["quota", "set", text(data), "main", "--tree", "/project", "--bytes", "1MiB"]);
    succeed(&["volume", "create", text(data), "second"]);
    server.kill();
    handles
}

/// Checks that a served copy shows what the original did.
fn assert_served(scratch: &Scratch, data: &Path, handles: &[Vec<u8>]) {
    let server = Server::start(data, &config(scratch), &[]);
    let mut client = Client::mount(server.address, "/main");
    for (number, handle) in handles.iter().enumerate() {
        assert!(client.read_file(handle) == content(number), "the handle of file-{number} is still good");
        assert!(client.has_file(&format!("file-{number}")));
    }
    client.caller = (1001, 101);
    client.write_file("one", b"");
    assert_eq!(client.try_write_file("two", b"").unwrap_err().to_string(), "Dquot");
    let trees = succeed(&["tree", "list", text(data), "main"]);
    assert!(trees.contains("/project"), "{trees}");
    server.stop();
    assert!(succeed(&["check", text(data)]).contains("no faults"));
}

#[test]
fn a_copy_of_a_pool_has_the_files_handles_quotas_and_trees_of_the_original() {
    let scratch = Scratch::new();
    let [data, other, back] = ["data", "other", "back"].map(|name| scratch.path(name));
    let handles = filled(&scratch, &data);
    let index = fs::read(data.join("pools/default/index")).unwrap();

    let said = succeed(&["pool", "copy", text(&data), "default", text(&other), "--name", "moved", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    let (pool, copied) = (&said["pool"], &said["copied"]);
    assert_eq!((&pool["name"], &pool["volumes"]), (&"moved".into(), &vec!["main", "second"].into()));
    assert_eq!((&copied["files"], &copied["volumes"]), (&FILES.into(), &2.into()));
    assert_eq!(copied["journal_bytes"], 32 << 20);
    assert!(copied["bytes"].as_u64().unwrap() > (32 << 20) + 1_000_000, "{copied}");
    let shown = |data: &Path, name: &str| {
        let shown = succeed(&["pool", "show", text(data), name, "--json"]);
        serde_json::from_str::<Value>(&shown).unwrap()
    };
    assert_eq!(shown(&other, "moved")["id"], shown(&data, "default")["id"]);
    assert!(fs::read(data.join("pools/default/index")).unwrap() == index, "the source is not changed");

    let said = succeed(&["pool", "copy", text(&other), "moved", text(&back)]);
    assert!(said.contains("read again and compared") && said.contains("main, second"), "{said}");
    for data in [&other, &back, &data] {
        assert_served(&scratch, data, &handles);
    }
}

#[test]
fn a_copy_has_its_parts_on_other_devices_if_wanted() {
    let scratch = Scratch::new();
    let [data, other, third, disk, logs] =
        ["data", "other", "third", "disk", "logs"].map(|name| scratch.path(name));
    let handles = filled(&scratch, &data);
    fs::create_dir(&disk).unwrap();
    let places = ["--path", text(&disk), "--journal", text(&logs)];
    let copy =
        |to: &Path| [&["pool", "copy", text(&data), "default", text(to)][..], &places].concat().join("\0");
    let words = copy(&other);
    let words: Vec<&str> = words.split('\0').collect();
    succeed(&words);
    let shown = succeed(&["pool", "show", text(&other), "default", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["path"], text(&disk.join("default")));
    assert_eq!(shown["journal"], text(&logs.join("default")));
    // The files there belong to the first copy.
    let words = copy(&third);
    let words: Vec<&str> = words.split('\0').collect();
    assert!(fail(&words, 1).contains("exists; choose another directory"));
    let into_logs = ["pool", "copy", text(&data), "default", text(&third), "--journal", text(&logs)];
    assert!(fail(&into_logs, 1).contains("may hold another pool's journal"));
    for data in [&other, &data] {
        assert_served(&scratch, data, &handles);
    }
    succeed(&["pool", "delete", text(&other), "default", "--with-volumes", "--yes"]);
    assert_eq!(fs::read_dir(&disk).unwrap().count() + fs::read_dir(&logs).unwrap().count(), 0);
    assert_served(&scratch, &data, &handles);
}

#[test]
fn places_that_are_served_or_have_the_pool_are_refused() {
    let scratch = Scratch::new();
    let [data, other] = ["data", "other"].map(|name| scratch.path(name));
    filled(&scratch, &data);
    let server = Server::start(&data, &config(&scratch), &[]);
    let copy = ["pool", "copy", text(&data), "default", text(&other)];
    assert!(fail(&copy, 3).contains("in use by process"));
    assert!(!other.exists());
    server.stop();
    succeed(&copy);
    assert!(fail(&copy, 1).contains("there is a pool \"default\" already"));
    assert!(fail(&["pool", "copy", text(&data), "default", text(&data), "--name", "x"], 2).contains("both"));
    assert!(fail(&["pool", "copy", text(&data), "none", text(&other)], 1).contains("there is no pool"));
    let server = Server::start(&other, &config(&scratch), &[]);
    assert!(fail(&[&copy[..], &["--name", "y"]].concat(), 3).contains("in use by process"));
    server.stop();
}

/// Whether a pool is being made.
fn has_begun(data: &Path) -> bool {
    let entries = fs::read_dir(data.join("pools")).into_iter().flatten();
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(".new-"))
}

#[test]
fn copies_that_are_killed_or_interrupted_leave_no_pool_and_can_be_repeated() {
    let scratch = Scratch::new();
    let [data, other] = ["data", "other"].map(|name| scratch.path(name));
    let handles = filled(&scratch, &data);
    let copy = ["pool", "copy", text(&data), "default", text(&other)];
    let mut ended = 0;
    for (number, signal) in ["KILL", "TERM", "KILL", "INT", "KILL", "KILL"].into_iter().enumerate() {
        // Otherwise, remains of the last copy would be mistaken for the start of this one. Those of the last round stay for the copy at
        // the end.
        let _ = fs::remove_dir_all(&other);
        let mut child = command(&copy).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while !has_begun(&other) && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(number as u64 / 2 * 20));
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        let status = child.wait().unwrap();
        assert!(sent.success());
        let listed = String::from_utf8(run(&["pool", "list", text(&other)]).stdout).unwrap();
        if listed.is_empty() {
            ended += 1;
            assert_eq!(status.code(), (signal != "KILL").then_some(130));
        } else {
            // It was faster this time.
            assert!(succeed(&["check", text(&other)]).contains("no faults"));
            succeed(&["pool", "delete", text(&other), "default", "--with-volumes", "--yes"]);
        }
    }
    assert!(ended > 0);
    succeed(&copy);
    let entries = |path: &Path| fs::read_dir(path.join("pools")).unwrap().count();
    assert_eq!(entries(&other), 2, "nothing is left of the others");
    for data in [&other, &data] {
        assert_served(&scratch, data, &handles);
    }
}

#[test]
fn a_damaged_pool_is_refused_with_the_files_that_are_damaged() {
    let scratch = Scratch::new();
    let [data, other] = ["data", "other"].map(|name| scratch.path(name));
    filled(&scratch, &data);
    // Closing puts everything into segments.
    Server::start(&data, &config(&scratch), &[]).stop();
    let segments = fs::read_dir(data.join("pools/default/segments")).unwrap();
    for segment in segments.map(|entry| entry.unwrap().path()) {
        let mut bytes = fs::read(&segment).unwrap();
        if let Some(at) = bytes.windows(64).rposition(|bytes| bytes == [12; 64]) {
            bytes[at] ^= 1;
        }
        fs::write(&segment, bytes).unwrap();
    }
    let error = fail(&["pool", "copy", text(&data), "default", text(&other)], 1);
    assert!(error.contains("/file-11: ") && error.contains("run `holdfast check"), "{error}");
    assert!(!other.exists());
}
