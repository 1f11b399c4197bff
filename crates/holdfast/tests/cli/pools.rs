//! `pool`: pools are created, listed, served and deleted, also with files that are missing or damaged.

use serde_json::Value;

use crate::client::Client;
use crate::running::{Scratch, Server, fail, json, run, succeed, text, with_main};

#[test]
fn pools_are_created_elsewhere_shown_served_and_deleted() {
    let scratch = Scratch::new();
    let (data, config, elsewhere) = (with_main(&scratch), scratch.config(""), scratch.path("disk"));
    let directory = text(&data);
    std::fs::create_dir(&elsewhere).unwrap();
    let small = ["--journal-size", "32 MiB", "--path", text(&elsewhere)];
    let made =
        json(&[&["pool", "create", directory, "fast", "--volume", "scratch", "--json"], &small[..]].concat());
    assert_eq!((&made["name"], &made["journal_bytes"]), (&Value::from("fast"), &Value::from(32 << 20)));
    assert!(elsewhere.join("fast/index").exists());
    let again = [&["pool", "create", directory, "slow", "--volume", "scratch"], &small[..]].concat();
    assert!(fail(&again, 1).contains("there is a volume \"scratch\" already"));

    let server = Server::start(&data, &config, &[]);
    let list = json(&["pool", "list", directory, "--json"]);
    assert_eq!((&list[0]["name"], &list[1]["in_use_by"]), (&Value::from("default"), &server.pid().into()));
    let made = json(&["volume", "create", directory, "more", "--pool", "fast", "--mode", "1777", "--json"]);
    assert_eq!(made["pool"], "fast");
    let fast = json(&["pool", "show", directory, "fast", "--json"]);
    assert_eq!(fast["volumes"], serde_json::json!(["more", "scratch"]));
    assert!(succeed(&["pool", "show", directory, "fast"]).contains("volumes   more, scratch"));
    assert_eq!(list[0]["volumes"], serde_json::json!(["main"]));
    assert!(fail(&["pool", "show", directory, "slow"], 1).contains("only default, fast"));
    assert!(fail(&["pool", "create", directory, "late"], 3).contains("stop it"));
    Client::mount(server.address, "/more").write_file("x", b"y");
    Client::mount(server.address, "/main").write_file("x", b"y");
    for served in [&["--yes"][..], &["--with-volumes", "--yes"], &[]] {
        let refused = fail(&[&["pool", "delete", directory, "fast"], served].concat(), 3);
        assert!(refused.contains("stop it"), "{refused}");
    }
    let served = succeed(&["pool", "list", directory]);
    server.stop();
    for text in [served, succeed(&["pool", "list", directory])] {
        let (first, second) = text.trim_end().split_once('\n').unwrap();
        assert!(first.ends_with("  volumes main") && second.ends_with("  volumes more, scratch"), "{text}");
        assert_eq!(first.find("volumes"), second.find("volumes"), "{text}");
    }
    assert!(succeed(&["pool", "show", directory, "fast"]).contains("volumes   more, scratch"));
    let list = json(&["pool", "list", directory, "--json"]);
    assert_eq!(list[1]["volumes"], serde_json::json!(["more", "scratch"]));

    let refused = fail(&["pool", "delete", directory, "fast", "--yes"], 2);
    for said in ["more (", "scratch (", " objects)", "--with-volumes"] {
        assert!(refused.contains(said), "{refused}");
    }
    let refused = fail(&["pool", "delete", directory, "fast", "--with-volumes"], 2);
    assert!(refused.contains("more (") && refused.contains("confirm with --yes"), "{refused}");
    let unknown = fail(&["pool", "delete", directory, "none", "--with-volumes", "--yes"], 1);
    assert!(unknown.contains("which has the pools default, fast"), "{unknown}");
    assert_eq!(
        json(&["volume", "list", directory, "--json"]).as_array().unwrap().len(),
        3,
        "nothing was deleted"
    );
    succeed(&["pool", "delete", directory, "fast", "--with-volumes", "--yes"]);
    assert!(!elsewhere.join("fast").exists());
    assert!(succeed(&["pool", "show", directory, "default"]).contains("not in use"));
    assert_eq!(json(&["volume", "list", directory, "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_pool_without_volumes_is_deleted_and_a_damaged_one_only_if_its_volumes_may_go() {
    let scratch = Scratch::new();
    let data = with_main(&scratch);
    let directory = text(&data);
    succeed(&["pool", "create", directory, "other", "--journal-size", "32 MiB"]);
    succeed(&["volume", "delete", directory, "other", "--yes"]);
    succeed(&["pool", "delete", directory, "other", "--yes"]);
    assert!(!data.join("pools/other").exists());

    std::fs::write(data.join("pools/default/index"), b"no index").unwrap();
    let refused = fail(&["pool", "delete", directory, "default", "--yes"], 1);
    assert!(
        refused.contains("cannot open") && refused.contains("; confirm with --with-volumes"),
        "{refused}"
    );
    succeed(&["pool", "delete", directory, "default", "--with-volumes", "--yes"]);
    assert!(!data.join("pools/default").exists());

    for lost in ["format", "index", "journal"] {
        succeed(&["pool", "create", directory, "other", "--journal-size", "16 MiB"]);
        let files = data.join("pools/other");
        std::fs::rename(files.join(lost), scratch.path(lost)).unwrap();
        let refused = fail(&["pool", "delete", directory, "other", "--yes"], 1);
        assert!(
            refused.contains("which cannot be listed (") && refused.contains("--with-volumes"),
            "{refused}"
        );
        assert!(files.exists());
        succeed(&["pool", "delete", directory, "other", "--with-volumes", "--yes"]);
        assert!(!files.exists());
    }
}

#[test]
fn a_pool_that_is_missing_or_damaged_hides_no_other() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let directory = text(&data);
    for name in ["first", "second", "third"] {
        succeed(&["pool", "create", directory, name, "--journal-size", "16 MiB"]);
    }
    assert!(fail(&["pool", "create", directory, "first"], 1).contains("there is a pool \"first\" already"));
    std::fs::write(data.join("pools/first/format"), b"nonsense").unwrap();
    std::fs::rename(data.join("pools/third"), scratch.path("away")).unwrap();
    for form in [&["pool", "list", directory][..], &["pool", "list", directory, "--json"]] {
        let output = run(form);
        let (out, err) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(out.contains("second") && !out.contains("third"), "{out}");
        assert!(err.contains("does not describe a pool") && err.contains("\"third\" is missing"), "{err}");
        assert_eq!(output.status.code(), Some(1), "{err}");
    }
}

#[test]
fn a_pool_that_is_missing_is_deleted_if_its_volumes_may_go() {
    let scratch = Scratch::new();
    let (data, elsewhere) = (with_main(&scratch), scratch.path("disk"));
    let directory = text(&data);
    std::fs::create_dir(&elsewhere).unwrap();
    let create =
        ["pool", "create", directory, "fast", "--journal-size", "16 MiB", "--path", text(&elsewhere)];
    succeed(&create);
    std::fs::rename(&elsewhere, scratch.path("away")).unwrap();

    let command = format!("`holdfast pool delete {directory} fast --with-volumes`");
    for refused in [
        &["pool", "delete", directory, "fast", "--yes"][..],
        &["pool", "show", directory, "fast"],
        &["volume", "list", directory],
        &create,
    ] {
        let sentence = fail(refused, 1);
        assert!(sentence.contains("\"fast\" is missing") && sentence.ends_with(&command), "{sentence}");
    }
    let refused = fail(&["pool", "delete", directory, "fast", "--with-volumes"], 2);
    assert!(
        refused.contains("which cannot be listed") && refused.ends_with("confirm with --yes"),
        "{refused}"
    );
    let deleted = run(&["pool", "delete", directory, "fast", "--with-volumes", "--yes"]);
    let said = String::from_utf8(deleted.stderr).unwrap();
    assert!(deleted.status.success() && says_what_is_left(&said, &elsewhere.join("fast")), "{said}");
    assert_eq!(json(&["volume", "list", directory, "--json"]).as_array().unwrap().len(), 1);
    std::fs::rename(scratch.path("away"), &elsewhere).unwrap();
    assert!(elsewhere.join("fast/format").exists());
    assert!(fail(&create, 1).contains("choose another directory, or remove it"));
}

/// Whether a log names the place where files of a deleted pool may be.
fn says_what_is_left(log: &str, place: &std::path::Path) -> bool {
    log.contains("remove them by hand") && log.contains(text(place))
}

#[test]
fn a_deletion_that_cannot_reach_the_files_of_a_pool_names_their_place() {
    let scratch = Scratch::new();
    let (data, elsewhere) = (with_main(&scratch), scratch.path("disk"));
    let directory = text(&data);
    std::fs::create_dir(&elsewhere).unwrap();
    let create = ["pool", "create", directory, "--json", "--journal-size", "16 MiB"];
    let made = json(&[&create[..], &["fast", "--path", text(&elsewhere)]].concat());
    // A deletion that was interrupted, and whose disk is away when the data directory is next opened.
    let pools = data.join("pools");
    std::fs::remove_file(pools.join(".pool-fast")).unwrap();
    let unfinished = format!(".deleted-fast.{}", made["id"].as_str().unwrap());
    std::fs::rename(pools.join("fast"), pools.join(&unfinished)).unwrap();
    std::fs::rename(&elsewhere, scratch.path("away")).unwrap();
    let listed = run(&["pool", "list", directory]);
    let said = String::from_utf8(listed.stderr).unwrap();
    assert!(listed.status.success() && says_what_is_left(&said, &elsewhere.join("fast")), "{said}");
    assert!(!pools.join(unfinished).is_symlink());

    // A journal elsewhere.
    let journals = scratch.path("journals");
    succeed(&[&create[..], &["logged", "--journal", text(&journals)]].concat());
    std::fs::rename(&journals, scratch.path("journals-away")).unwrap();
    let deleted = run(&["pool", "delete", directory, "logged", "--with-volumes", "--yes"]);
    let said = String::from_utf8(deleted.stderr).unwrap();
    assert!(deleted.status.success() && says_what_is_left(&said, &journals.join("logged")), "{said}");
}

#[test]
fn an_interrupted_creation_of_a_pool_elsewhere_can_be_repeated() {
    let scratch = Scratch::new();
    let (data, elsewhere) = (scratch.path("data"), scratch.path("disk"));
    std::fs::create_dir(&elsewhere).unwrap();
    let create =
        ["pool", "create", text(&data), "fast", "--journal-size", "16 MiB", "--path", text(&elsewhere)];
    let made = json(&[&create[..], &["--json"]].concat());
    let pools = data.join("pools");
    std::fs::remove_file(pools.join(".pool-fast")).unwrap();
    let unfinished = format!(".new-fast.{}", made["id"].as_str().unwrap());
    std::fs::rename(pools.join("fast"), pools.join(unfinished)).unwrap();
    let again = json(&[&create[..], &["--json"]].concat());
    assert_ne!(again["id"], made["id"]);
}
