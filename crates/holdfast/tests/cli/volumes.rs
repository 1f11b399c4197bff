//! `volume`, `check` and `dump`.

use serde_json::Value;

use crate::client::Client;
use crate::running::{Scratch, Server, fail, run, succeed, text};

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&succeed(arguments)).unwrap()
}

#[test]
fn volumes_are_created_shown_served_and_deleted() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let directory = text(&data);
    let sentence = fail(&["volume", "list", directory], 1);
    assert!(sentence.contains("there is no data directory"), "{sentence}");
    let small = ["--journal-size", "32 MiB"];
    succeed(&[&["volume", "create", directory, "home"], &small[..]].concat());
    let made = json(&[&["volume", "create", directory, "scratch", "--json"], &small[..]].concat());
    assert_eq!((&made["name"], &made["journal_bytes"]), (&Value::from("scratch"), &Value::from(32 << 20)));
    let sentence = fail(&["volume", "create", directory, "home"], 1);
    assert!(sentence.contains("already"), "{sentence}");
    let sentence = fail(&["volume", "create", directory, "a/b"], 2);
    assert!(sentence.contains("cannot be named"), "{sentence}");

    let server = Server::start(&data, &config, &[]);
    assert!(server.greeting.contains(":/home /mnt") && server.greeting.contains(":/scratch /mnt"));
    let list = json(&["volume", "list", directory, "--json"]);
    assert_eq!(list[0]["in_use_by"], server.pid());
    let sentence = fail(&["volume", "create", directory, "late"], 3);
    assert!(sentence.contains("in use"), "{sentence}");
    fail(&["volume", "delete", directory, "home", "--yes"], 3);
    server.stop();

    let sentence = fail(&["volume", "delete", directory, "home"], 2);
    assert!(sentence.contains("--yes"), "{sentence}");
    succeed(&["volume", "delete", directory, "home", "--yes"]);
    let list = json(&["volume", "list", directory, "--json"]);
    assert_eq!((list.as_array().unwrap().len(), &list[0]["name"]), (1, &Value::from("scratch")));
    assert!(succeed(&["volume", "show", directory, "scratch"]).contains("not in use"));
    let sentence = fail(&["volume", "show", directory, "home"], 1);
    assert!(sentence.contains("there is no volume \"home\""), "{sentence}");
}

#[test]
fn a_rounded_journal_size_is_reported() {
    let scratch = Scratch::new();
    let output =
        run(&["volume", "create", text(&scratch.path("data")), "main", "--journal-size", "17 MiB", "--json"]);
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(warning.contains("rounded up") && warning.contains("effective=\"32 MiB\""), "{warning}");
    let volume: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(volume["journal_bytes"], 32 << 20);

    let config = scratch.path("odd.toml");
    std::fs::write(&config, "journal_size = \"17 MiB\"\nmemory = \"128 MiB\"\nworkers = 2\n").unwrap();
    let log = Server::start(&scratch.path("served"), &config, &[]).stop();
    assert!(log.contains("effective=\"32 MiB\""), "{log}");
    let log = Server::start(&scratch.path("even"), &scratch.config(""), &[]).stop();
    assert!(!log.contains("rounded up"), "{log}");
}

#[test]
fn a_small_journal_makes_a_small_volume_whose_size_is_printed_before_its_creation() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let server = Server::start(&data, &config, &["--journal-size", "16 MiB"]);
    let segments = || std::fs::read_dir(data.join("volumes/main/segments")).unwrap();
    assert!(segments().all(|segment| segment.unwrap().metadata().unwrap().len() <= 2 << 20));
    let log = server.stop();
    let (said, created) =
        (log.find("reserves about 52 MiB in ").unwrap(), log.find("volume created").unwrap());
    assert!(said < created && log.contains("--journal-size makes it smaller"), "{log}");
    assert_eq!(json(&["volume", "show", text(&data), "main", "--json"])["journal_bytes"], 16 << 20);

    let elsewhere = scratch.path("fast");
    let create = ["volume", "create", text(&data), "other", "--journal-size", "16 MiB", "--journal"];
    let output = run(&[&create[..], &[text(&elsewhere)]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("creating volume other: reserves 16 MiB for its journal in "), "{said}");
}

#[test]
fn directories_with_other_files_are_refused_by_every_command() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    std::fs::create_dir_all(home.join("alice")).unwrap();
    let home = text(&home);
    let commands: [&[&str]; 10] = [
        &["serve", home, "--listen", "127.0.0.1:0"],
        &["volume", "create", home, "main", "--journal-size", "16 MiB"],
        &["volume", "list", home],
        &["volume", "show", home, "main"],
        &["volume", "set", home, "main", "--mode", "0755"],
        &["volume", "delete", home, "main", "--yes"],
        &["check", home],
        &["dump", "journal", home],
        &["dump", "segment", home, "1"],
        &["status", home],
    ];
    for command in commands {
        let sentence = fail(command, 2);
        let expected = format!(
            "holdfast: {home} has other files. Holdfast does not share existing files; it keeps volumes of its own. \
             Choose an empty directory."
        );
        assert_eq!(sentence, expected, "{command:?}");
    }
    assert_eq!(std::fs::read_dir(home).unwrap().count(), 1, "nothing was created");
}

#[test]
fn check_finds_a_fault_and_dump_prints_the_contents() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let directory = text(&data);
    let server = Server::start(&data, &config, &[]);
    let sentence = fail(&["check", directory], 3);
    assert!(sentence.contains("in use"), "{sentence}");
    fail(&["dump", "journal", directory], 3);
    let mut client = Client::mount(server.address, "/main");
    client.write_file("precious", &vec![0x5a; 600_000]);
    server.kill();

    // The volume as the kill left it.
    assert!(succeed(&["check", directory]).contains("main: no faults"));
    assert!(succeed(&["dump", "journal", directory]).contains("entry seq="));
    Server::start(&data, &config, &[]).stop();
    let report = json(&["check", directory, "--json"]);
    assert_eq!((&report["clean"], &report["volumes"][0]["clean"]), (&Value::from(true), &Value::from(true)));
    assert_eq!(report["volumes"][0]["summary"]["files"], 1);
    let records = succeed(&["dump", "records", directory, "--table", "name", "--json"]);
    assert!(records.lines().any(|line| line.contains("precious")), "{records}");

    let segments = data.join("volumes/main/segments");
    let is_ours = |path: &std::path::PathBuf| std::fs::read(path).unwrap().contains(&0x5a);
    let mut paths = std::fs::read_dir(segments).unwrap().map(|entry| entry.unwrap().path());
    let segment = paths.find(is_ours).unwrap();
    let name = segment.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(succeed(&["dump", "segment", directory, &name]).contains("extent"));
    let mut bytes = std::fs::read(&segment).unwrap();
    let place = bytes.iter().position(|byte| *byte == 0x5a).unwrap();
    bytes[place + 1000] ^= 1;
    std::fs::write(&segment, bytes).unwrap();

    let output = run(&["check", directory]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("main: /precious: "), "{said}");
    assert!(!said.contains("no faults"), "{said}");
    assert!(succeed(&["check", directory, "--no-data"]).contains("no faults"));
    let report: Value = serde_json::from_slice(&run(&["check", directory, "--json"]).stdout).unwrap();
    assert_eq!(report["volumes"][0]["faults"][0]["path"], "/precious");
}
