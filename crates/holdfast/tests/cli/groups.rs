//! `cluster`, asking an agent whose answers are given.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

use crate::running::{Scratch, run, text};

/// An agent that takes one command, and answers it.
fn agent(socket: &Path, answer: Value) -> JoinHandle<Value> {
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
        serde_json::from_str(&line).unwrap()
    })
}

#[test]
fn each_command_says_as_json_what_it_did() {
    let scratch = Scratch::new();
    let (socket, config) = (scratch.path("agent.sock"), scratch.path("node.toml"));
    let group = "[[group]]\nname = \"home\"\naddresses = [\"10.0.0.50/24\"]\ndata = \"/srv/home/data\"\n";
    std::fs::write(&config, format!("node = \"a\"\ninterface = \"eth0\"\nsocket = {socket:?}\n\n{group}"))
        .unwrap();
    let ask = |arguments: &[&str], answer: Value| {
        let agent = agent(&socket, answer);
        let common = ["cluster", "--config", text(&config)];
        let output = run(&[&common[..], arguments].concat());
        let printed = String::from_utf8(output.stdout).unwrap();
        (agent.join().unwrap(), output.status.code(), printed)
    };
    let state = |state: &str| json!({ "group": "home", "state": state });
    let node = json!({ "group": "home", "node": "b" });
    let of_group = |command: &str| json!({ command: { "group": "home" } });
    let takeover = json!({ "takeover": { "group": "home", "from": "b" } });
    let moved = json!({ "move": { "group": "home", "to": "b" } });
    let cases: [(&[&str], Value, &str, i32, Value); 6] = [
        (&["start", "home"], of_group("start"), "done", 0, state("serving")),
        (&["stop", "home"], of_group("stop"), "done", 0, state("stopped")),
        (&["monitor", "home"], of_group("monitor"), "done", 0, state("serving")),
        (&["monitor", "home"], of_group("monitor"), "stopped", 7, state("stopped")),
        (&["takeover", "home", "--from", "b"], takeover, "done", 0, state("serving")),
        (&["move", "home", "b"], moved, "done", 0, node),
    ];
    for (arguments, command, answer, code, printed) in cases {
        let answer = json!(answer);
        let silent = ask(arguments, answer.clone());
        assert_eq!(silent, (command.clone(), Some(code), String::new()), "{arguments:?}");
        let (asked, exit, json) = ask(&[arguments, &["--json"]].concat(), answer);
        assert_eq!((asked, exit), (command, Some(code)), "{arguments:?}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), printed, "{arguments:?}");
    }
}
