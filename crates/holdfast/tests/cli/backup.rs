//! `docs/backup.md`: its commands, executed word for word, and mixtures of copies.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::client::Client;
use crate::running::{Scratch, Server, command, fail, succeed, text};

const PAGE: &str = include_str!("../../../../docs/backup.md");

/// Returns the shell commands of the page, block by block.
fn blocks() -> Vec<&'static str> {
    PAGE.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap()).collect()
}

/// Runs one block of the page.
fn execute(block: &str, data: &Path, backup: &Path) {
    let binary = Path::new(command(&[]).get_program()).parent().unwrap().to_owned();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-ec", block]).env("DATA", data).env("BACKUP", backup).env("PATH", path);
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{block}\n{}", String::from_utf8_lossy(&output.stderr));
}

fn has(tool: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {tool}")])
        .output()
        .is_ok_and(|out| out.status.success())
}

#[test]
fn the_commands_of_the_page_make_a_copy_and_restore_it() {
    let scratch = Scratch::new();
    let (data, backup, config) = (scratch.path("data"), scratch.path("backup"), scratch.config(""));
    let server = Server::start(&data, &config, &[]);
    let mut client = Client::mount(server.address, "/main");
    let large = vec![7; 700_000];
    let (small, big) = (client.write_file("small", b"1"), client.write_file("large", &large));
    server.stop();

    let blocks = blocks();
    let (restores, copies): (Vec<&str>, Vec<&str>) =
        blocks.iter().partition(|block| block.contains("\"$BACKUP\" \"$DATA\"") || block.contains("-x"));
    assert!(copies.len() >= 4 && restores.len() == 2, "{blocks:#?}");
    for block in copies {
        if block.starts_with("rsync") && !has("rsync") {
            eprintln!("rsync is not installed; its command is not tested");
            continue;
        }
        execute(block, &data, &backup);
    }

    for block in restores {
        // What is done after the copy is lost.
        let server = Server::start(&data, &config, &[]);
        let mut client = Client::mount(server.address, "/main");
        client.write_file("later", b"2");
        server.stop();
        execute(block, &data, &backup);
        let server = Server::start(&data, &config, &[]);
        let mut client = Client::mount(server.address, "/main");
        assert!(client.has_file("small") && !client.has_file("later"));
        assert_eq!(client.read_file(&small), b"1", "the handle is still good");
        assert!(client.read_file(&big) == large);
        server.stop();
    }
}

/// Copies a directory as the page says.
fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let status = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(status.success());
}

#[test]
fn an_index_or_a_journal_of_another_moment_is_refused_and_changes_nothing() {
    let scratch = Scratch::new();
    let (data, config) = (scratch.path("data"), scratch.config(""));
    let mut moments = Vec::new();
    for (moment, name) in ["first", "second"].into_iter().enumerate() {
        // Stopping makes a checkpoint.
        let server = Server::start(&data, &config, &[]);
        Client::mount(server.address, "/main").write_file(name, &[7; 100_000]);
        server.stop();
        // The next start states in the journal that this was the last checkpoint.
        Server::start(&data, &config, &[]).stop();
        moments.push(scratch.path(&format!("copy {moment}")));
        copy(&data, &moments[moment]);
    }
    for (part, of, expected) in
        [("index", 0, "the index is an old copy"), ("journal", 0, "the journal is an old copy")]
    {
        let mixed = scratch.path("mixed");
        copy(&moments[1 - of], &mixed);
        let path = Path::new("pools/default").join(part);
        let target = mixed.join(&path);
        if target.is_dir() {
            fs::remove_dir_all(&target).unwrap()
        } else {
            fs::remove_file(&target).unwrap()
        }
        copy(&moments[of].join(&path), &target);
        let segments = || {
            let mut names: Vec<_> = fs::read_dir(mixed.join("pools/default/segments"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            names
        };
        let before = segments();
        let error = fail(&["serve", text(&mixed), "--config", text(&config), "--listen", "127.0.0.1:0"], 1);
        assert!(error.contains(expected), "{part}: {error}");
        assert_eq!(segments(), before);
        let report = String::from_utf8(crate::running::run(&["check", text(&mixed)]).stdout).unwrap();
        assert!(report.contains(expected), "{part}: {report}");
        // All of a copy is sound.
        assert!(succeed(&["check", text(&moments[of])]).contains("no faults"));
    }
}
