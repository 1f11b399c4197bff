//! `volume`, `check` and `dump`.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::client::Client;
use crate::running::{Scratch, Server, fail, json, run, succeed, text, with_main};

#[test]
fn without_a_server_volumes_are_created_shown_renamed_and_deleted() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let directory = text(&data);
    let sentence = fail(&["volume", "list", directory], 1);
    assert!(sentence.contains("there is no data directory"), "{sentence}");
    succeed(&["volume", "create", directory, "home", "--journal-size", "32 MiB"]);
    let sentence = fail(&["volume", "create", directory, "late", "--journal-size", "32 MiB"], 2);
    assert!(sentence.contains("has a pool already"), "{sentence}");
    let made = json(&["volume", "create", directory, "temporary", "--mode", "1777", "--json"]);
    assert_eq!((&made["name"], &made["pool"]), (&Value::from("temporary"), &Value::from("default")));
    assert_eq!(made["root"]["mode"], "1777");
    let sentence = fail(&["volume", "create", directory, "home"], 1);
    assert!(sentence.contains("already"), "{sentence}");
    let sentence = fail(&["volume", "create", directory, "a/b"], 2);
    assert!(sentence.contains("cannot be named"), "{sentence}");
    let sentence = fail(&["volume", "create", directory, "other", "--pool", "none"], 1);
    assert!(sentence.contains("there is no pool"), "{sentence}");
    for forgotten in [
        &["volume", "create", directory, "tiny", "--size", "10"][..],
        &["volume", "resize", directory, "home", "10"],
    ] {
        let sentence = fail(forgotten, 2);
        assert!(sentence.contains("did you mean \"10 GiB\"? Write at least \"1 MiB\", or 0"), "{sentence}");
    }
    let sentence = fail(&["volume", "resize", directory, "home", "1023 KiB"], 2);
    assert!(sentence.contains("cannot be 1023 KiB: write at least \"1 MiB\""), "{sentence}");
    let resized = json(&["volume", "resize", directory, "temporary", "8 MiB", "--json"]);
    assert_eq!(resized["size_bytes"], 8 << 20);
    let resized = json(&["volume", "resize", directory, "temporary", "0", "--json"]);
    assert_eq!(resized["size_bytes"], Value::Null);
    let renamed = json(&["volume", "rename", directory, "temporary", "scratch", "--json"]);
    assert_eq!((&renamed["name"], &renamed["id"]), (&Value::from("scratch"), &made["id"]));

    let server = Server::start(&data, &config, &[]);
    assert!(server.greeting.contains(":/home /mnt") && server.greeting.contains(":/scratch /mnt"));
    server.stop();

    let sentence = fail(&["volume", "delete", directory, "scratch"], 2);
    assert!(sentence.contains("--yes"), "{sentence}");
    assert!(succeed(&["volume", "show", directory, "scratch"]).contains("mode 1777"));
    succeed(&["volume", "delete", directory, "scratch", "--yes"]);
    let list = json(&["volume", "list", directory, "--json"]);
    assert_eq!((list.as_array().unwrap().len(), &list[0]["name"]), (1, &Value::from("home")));
    let sentence = fail(&["volume", "show", directory, "scratch"], 1);
    assert!(sentence.contains("there is no volume \"scratch\""), "{sentence}");
    assert!(succeed(&["check", directory]).contains("default: no faults"));
}

#[test]
fn volumes_come_and_go_while_a_client_writes_to_another() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let directory = text(&data);
    let server = Server::start(&data, &config, &[]);
    let (address, done) = (server.address, AtomicBool::new(false));
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = Client::mount(address, "/main");
            let mut count = 0;
            while !done.load(Ordering::Relaxed) {
                client.write_file(&format!("f{count}"), b"kept");
                count += 1;
            }
            count
        });
        for round in 0..3 {
            let name = format!("v{round}");
            let made = json(&["volume", "create", directory, &name, "--mode", "1777", "--json"]);
            assert_eq!(made["exports"][0], format!("/{name}"));
            let mut client = Client::mount(address, &format!("/{name}"));
            let file = client.write_file("x", b"y");
            succeed(&["volume", "resize", directory, &name, "1 MiB"]);
            assert!(client.try_write_file("large", &vec![1; 900_000]).is_ok());
            assert!(client.try_write_file("too large", &vec![1; 900_000]).is_err(), "no space left");
            let resized = json(&["volume", "resize", directory, &name, "4 MiB", "--json"]);
            assert_eq!(resized["size_bytes"], 4 << 20);
            assert!(client.try_write_file("again", &vec![1; 900_000]).is_ok());
            let other = format!("w{round}");
            succeed(&["volume", "rename", directory, &name, &other]);
            assert_eq!(client.read_file(&file), b"y", "handles stay valid");
            assert!(Client::connect(address).try_mount(&format!("/{name}")).is_err());
            Client::mount(address, &format!("/{other}"));
            succeed(&["volume", "delete", directory, &other, "--yes"]);
            client.ask_for(&file, 0, 1);
            assert_eq!(client.take_status(), "NFS3ERR_STALE");
            assert!(Client::connect(address).try_mount(&format!("/{other}")).is_err());
        }
        done.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    assert!(written > 3, "{written}");
    let kept = json(&["volume", "create", directory, "kept", "--mode", "1777", "--json"]);
    Client::mount(address, "/kept").write_file("k", b"1");
    server.kill();

    let server = Server::start(&data, &config, &[]);
    assert_eq!(json(&["volume", "show", directory, "kept", "--json"])["id"], kept["id"]);
    assert!(Client::mount(server.address, "/kept").has_file("k"));
    assert_eq!(json(&["volume", "list", directory, "--json"]).as_array().unwrap().len(), 2);
    let log = server.stop();
    assert!(!log.contains("ERROR"), "{log}");
    assert!(succeed(&["check", directory]).contains("default: no faults"));
}

#[test]
fn every_volume_can_be_deleted_and_no_client_of_another_loses_what_it_holds() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let directory = text(&data);
    let server = Server::start(&data, &config, &[]);
    succeed(&["volume", "create", directory, "kept", "--mode", "1777"]);
    let mut client = Client::mount(server.address, "/kept");
    let file = client.write_file("f", b"locked");
    assert!(client.lock(&file, "one") && !client.lock(&file, "other"));
    // The volume of the first start: what clients hold was kept in it once.
    succeed(&["volume", "delete", directory, "main", "--yes"]);
    server.kill();

    let server = Server::start(&data, &config, &[]);
    let mut client = Client::mount(server.address, "/kept");
    assert!(!client.lock(&file, "other") && client.lock(&file, "one"), "the lock is still there");
    assert_eq!(json(&["volume", "list", directory, "--json"]).as_array().unwrap().len(), 1);
    succeed(&["volume", "delete", directory, "kept", "--yes"]);
    let sentence = fail(&["volume", "delete", directory, ".clients", "--yes"], 1);
    assert!(sentence.contains("there is no volume \".clients\""), "{sentence}");
    server.stop();

    let server = Server::start(&data, &config, &[]);
    assert!(!server.greeting.contains("mount -t nfs"), "{}", server.greeting);
    assert_eq!(json(&["volume", "list", directory, "--json"]), Value::Array(Vec::new()));
    succeed(&["volume", "create", directory, "again", "--mode", "1777"]);
    let mut client = Client::mount(server.address, "/again");
    let file = client.write_file("f", b"new");
    assert!(client.lock(&file, "other"));
    let log = server.stop();
    assert!(!log.contains("ERROR"), "{log}");
    assert!(succeed(&["check", directory]).contains("default: no faults"));
    let copy = scratch.path("copy");
    succeed(&["dump", directory, "--files", text(&copy)]);
    assert_eq!(std::fs::read(copy.join("f")).unwrap(), b"new");
}

#[test]
fn a_volume_that_the_configuration_exports_keeps_its_name() {
    let scratch = Scratch::new();
    let data = with_main(&scratch);
    let directory = text(&data);
    succeed(&["volume", "create", directory, "home"]);
    let config = scratch.config("[[export]]\npath = \"/a\"\nvolume = \"home\"\nsquash = \"none\"\n");
    let server = Server::start(&data, &config, &[]);
    for refused in
        [&["volume", "delete", directory, "home", "--yes"], &["volume", "rename", directory, "home", "b"]]
    {
        let sentence = fail(refused, 1);
        assert!(sentence.contains("holdfast.toml") && sentence.contains("path = \"/a\""), "{sentence}");
    }
    let made = json(&["volume", "create", directory, "new", "--json"]);
    assert_eq!(made["exports"].as_array().unwrap().len(), 0, "the configuration says what is exported");
    let said = String::from_utf8(run(&["volume", "create", directory, "more"]).stderr).unwrap();
    assert!(said.contains("add an [[export]] with volume = \"more\""), "{said}");
    assert!(succeed(&["volume", "show", directory, "more"]).contains(" in 1 object\n"));
    Client::mount(server.address, "/a").write_file("x", b"y");
    server.stop();
}

#[test]
fn many_names_are_listed_in_part() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let directory = text(&data);
    let server = Server::start(&data, &scratch.config(""), &[]);
    for number in 10..40 {
        succeed(&["volume", "create", directory, &format!("volume-{number}")]);
    }
    let sentence = fail(&["volume", "show", directory, "volum-30"], 1);
    assert!(
        sentence.contains(", only volume-30, main, ") && sentence.ends_with(" and 21 more"),
        "{sentence}"
    );
    let pool = succeed(&["pool", "show", directory, "default"]);
    assert!(pool.contains("main, volume-10, ") && pool.contains("volume-28 and 11 more\n"), "{pool}");
    server.stop();
    let list = json(&["pool", "list", directory, "--json"]);
    assert_eq!(list[0]["volumes"].as_array().unwrap().len(), 31);
}

#[test]
fn a_volume_that_is_refused_leaves_no_data_directory() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let directory = text(&data);
    fail(&["volume", "create", directory, "bad name"], 2);
    fail(&["volume", "create", directory, "main", "--journal-size", "1 TiB"], 1);
    fail(&["pool", "create", directory, "bad name"], 2);
    assert!(!data.exists());
}

#[test]
fn a_rounded_journal_size_is_reported() {
    let scratch = Scratch::new();
    let output =
        run(&["volume", "create", text(&scratch.path("data")), "main", "--journal-size", "17 MiB", "--json"]);
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(warning.contains("rounded up") && warning.contains("effective=\"32 MiB\""), "{warning}");
    let pool = json(&["pool", "show", text(&scratch.path("data")), "default", "--json"]);
    assert_eq!(pool["journal_bytes"], 32 << 20);

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
    let segments = || std::fs::read_dir(data.join("pools/default/segments")).unwrap();
    assert!(segments().all(|segment| segment.unwrap().metadata().unwrap().len() <= 2 << 20));
    let log = server.stop();
    let (said, created) = (log.find("reserves about 52 MiB in ").unwrap(), log.find("pool created").unwrap());
    assert!(said < created && !log.contains("makes it smaller"), "{log}");
    assert_eq!(json(&["pool", "show", text(&data), "default", "--json"])["journal_bytes"], 16 << 20);

    let elsewhere = scratch.path("fast");
    let create = ["pool", "create", text(&data), "other", "--journal-size", "16 MiB", "--journal"];
    let output = run(&[&create[..], &[text(&elsewhere)]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("creating pool other: reserves 16 MiB for its journal in "), "{said}");

    let disk = scratch.path("disk");
    let create = ["pool", "create", text(&data), "third", "--journal-size", "32 MiB", "--path", text(&disk)];
    for refused in [&create[..], &["pool", "create", text(&data), "other"]] {
        let said = String::from_utf8(run(refused).stderr).unwrap();
        assert!(said.lines().count() == 1 && !said.contains("reserves"), "{said}");
    }
    std::fs::create_dir(&disk).unwrap();
    let said = String::from_utf8(run(&create).stderr).unwrap();
    let notice =
        format!(" in {}, 32 MiB of it for its journal; --journal-size makes it smaller", text(&disk));
    assert!(said.contains(&notice), "{said}");
}

#[test]
fn directories_with_other_files_are_refused_by_every_command() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    std::fs::create_dir_all(home.join("alice")).unwrap();
    let home = text(&home);
    let commands: [&[&str]; 11] = [
        &["serve", home, "--listen", "127.0.0.1:0"],
        &["volume", "create", home, "main", "--journal-size", "16 MiB"],
        &["volume", "list", home],
        &["volume", "show", home, "main"],
        &["volume", "set", home, "main", "--mode", "0755"],
        &["volume", "delete", home, "main", "--yes"],
        &["pool", "list", home],
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
fn every_command_refuses_what_earlier_releases_made() {
    let scratch = Scratch::new();
    let former = scratch.path("former");
    std::fs::create_dir_all(former.join("volumes/main")).unwrap();
    std::fs::write(former.join("lock"), "").unwrap();
    let later = scratch.path("later");
    succeed(&["volume", "create", text(&later), "main", "--journal-size", "16 MiB"]);
    let format = later.join("pools/default/format");
    let described = std::fs::read_to_string(&format).unwrap().replace("pool format 1", "pool format 9");
    std::fs::write(&format, described).unwrap();
    let refused = [
        (former, "was made by an earlier release, whose format this one cannot read: copy the files"),
        (later, "has format version 9, and this version of holdfast reads only 1"),
    ];
    let to = scratch.path("to");
    for (data, expected) in refused {
        let data = text(&data);
        let commands: [&[&str]; 6] = [
            &["serve", data, "--listen", "127.0.0.1:0"],
            &["volume", "create", data, "other"],
            &["volume", "list", data],
            &["pool", "show", data, "default"],
            &["dump", "journal", data],
            &["dump", data, "--files", text(&to)],
        ];
        for command in commands {
            let sentence = fail(command, 1);
            assert!(sentence.contains(expected) && sentence.lines().count() == 1, "{command:?}: {sentence}");
        }
    }
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
    assert!(succeed(&["check", directory]).contains("default: no faults"));
    assert!(succeed(&["dump", "journal", directory]).contains("entry seq="));
    Server::start(&data, &config, &[]).stop();
    let report = json(&["check", directory, "--json"]);
    assert_eq!((&report["clean"], &report["pools"][0]["clean"]), (&Value::from(true), &Value::from(true)));
    assert_eq!(report["pools"][0]["summary"]["files"], 1);
    let records = succeed(&["dump", "records", directory, "--table", "name", "--json"]);
    assert!(records.lines().any(|line| line.contains("precious")), "{records}");

    let segments = data.join("pools/default/segments");
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
    assert!(said.contains("default: /precious: "), "{said}");
    assert!(!said.contains("no faults"), "{said}");
    assert!(succeed(&["check", directory, "--no-data"]).contains("no faults"));
    let report: Value = serde_json::from_slice(&run(&["check", directory, "--json"]).stdout).unwrap();
    assert_eq!(report["pools"][0]["faults"][0]["path"], "/precious");
}
