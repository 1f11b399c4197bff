//! `holdfast top`, as programs and pipes see it.

use std::process::Stdio;

use serde_json::Value;

use crate::client::Client;
use crate::running::{Scratch, Server, command, fail, text};

const EXPORT: &str = "[[export]]\npath = \"/a\"\nvolume = \"main\"\nsquash = \"none\"\n";

/// Runs `top` with these options while a client writes and reads; returns what it printed.
fn watched(client: &mut Client, data: &std::path::Path, options: &[&str]) -> String {
    let mut top = command(&["top", text(data), "--interval", "1"]);
    let mut top = top.args(options).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut number = 0;
    while top.try_wait().unwrap().is_none() {
        number += 1;
        let file = client.write_file(&format!("{}{number}", options.concat()), b"some data");
        assert_eq!(client.read_file(&file), b"some data");
    }
    let output = top.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn tables_and_json_show_who_does_what_where() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let server = Server::start(&data, &scratch.config(EXPORT), &[]);
    let mut client = Client::mount(server.address, "/a");

    let tables = watched(&mut client, &data, &["--count", "2"]);
    assert_eq!(tables.matches("CLIENT").count(), 2, "{tables}");
    let (_, second) = tables.trim_end().rsplit_once("\n\n").unwrap();
    for expected in ["holdfast ", " 1 connection\n", " calls/s, ", " a call, ", "DURAB."] {
        assert!(second.contains(expected), "no {expected:?} in {tables}");
    }
    for operation in ["nfs3 WRITE", "nfs3 READ "] {
        let line = second.lines().find(|line| line.contains(operation));
        assert!(line.is_some_and(|line| line.starts_with("127.0.0.1 main ")), "no {operation} in {tables}");
    }

    let options = ["--plain", "--count", "1", "--by", "operation", "--filter", "write", "--sort", "time"];
    let table = watched(&mut client, &data, &options);
    assert!(table.contains("\nnfs3 WRITE ") && !table.contains("nfs3 READ"), "{table}");

    let line = watched(&mut client, &data, &["--json", "--count", "1"]);
    let interval: Value = serde_json::from_str(&line).unwrap();
    let activities = interval["activities"].as_array().unwrap();
    let write = activities.iter().find(|activity| activity["operation"] == "WRITE").unwrap();
    let calls = write["calls"].as_u64().unwrap();
    assert!(calls > 0 && write["written_bytes"] == calls * 9, "{write}");
    assert!(write["nanoseconds"]["engine"].as_u64() > Some(0), "{write}");
    assert!(write["client"] == "127.0.0.1" && write["volume"] == "main" && write["protocol"] == "nfs3");
    assert_eq!(interval["others"]["calls"], 0);
    server.stop();
}

#[test]
fn hot_files_and_directories_have_their_paths() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let server = Server::start(&data, &scratch.config(EXPORT), &[]);
    let mut client = Client::mount(server.address, "/a");
    let long = "the name of this file is too long for the cache of names, and is read";
    let file = client.write_file(long, b"0123456789");
    let inode = client.inode(long);
    let odd = client.write_file("a line\nfeed", b"odd");

    let mut watch = |options: &[&str]| {
        let mut top = command(&["top", text(&data), "--interval", "2"]);
        let mut top = top.args(options).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while top.try_wait().unwrap().is_none() {
            assert_eq!(client.read_file(&file), b"0123456789");
            assert_eq!(client.read_file(&file), b"0123456789");
            assert_eq!(client.read_file(&odd), b"odd");
            client.inode(long);
        }
        String::from_utf8(top.wait_with_output().unwrap().stdout).unwrap()
    };
    let line = watch(&["--json", "--count", "1"]);
    let interval: Value = serde_json::from_str(&line).unwrap();
    let objects = interval["objects"].as_array().unwrap();
    let find =
        |path: &str| objects.iter().find(|object| object["path"] == path).unwrap_or_else(|| panic!("{line}"));
    let hot = find(&format!("/{long}"));
    let calls = hot["calls"].as_u64().unwrap();
    assert!(calls > 0 && hot["read_bytes"] == calls * 10 && hot["written_bytes"] == 0, "{hot}");
    assert!(hot["kinds"]["read"] == calls && hot["inode"] == inode, "{hot}");
    assert!(hot["volume"] == "main" && hot["kind"] == "file", "{hot}");
    let root = find("/");
    assert!(root["kinds"]["name"].as_u64() > Some(0) && root["kind"] == "directory", "{root}");
    find("/a line\\x0afeed");

    let table = watch(&["--count", "1", "--by", "file", "--sort", "read"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[2].starts_with("VOLUME PATH ") && lines[2].ends_with(" CALLS    READ WRITTEN KINDS"),
        "{table}"
    );
    assert!(lines[3].starts_with(&format!("main   /{long} ")) && lines[3].ends_with(" rrrrrrrr"), "{table}");
    let table = watch(&["--count", "1", "--by", "file", "--filter", "FEED"]);
    assert!(table.contains("\nmain   /a line\\x0afeed ") && !table.contains(long), "{table}");
    server.stop();
}

#[test]
fn without_a_server_it_says_so() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    Server::start(&data, &scratch.config(EXPORT), &[]).stop();
    let sentence = fail(&["top", text(&data), "--count", "1"], 1);
    assert!(sentence.contains("no server runs"), "{sentence}");
}
