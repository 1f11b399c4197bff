//! The load generator with two servers, with two client hosts, and with published tests.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::running::{Scratch, Server, fail, run, succeed, text};

fn start(scratch: &Scratch, name: &str) -> (Server, String) {
    let server = Server::start(&scratch.path(name), &scratch.config(""), &[]);
    let target = format!("{}:/main", server.address);
    (server, target)
}

#[test]
fn two_servers_are_compared_in_turn() {
    let scratch = Scratch::new();
    let ((a, target_a), (b, target_b)) = (start(&scratch, "a"), start(&scratch, "b"));
    let (pid_a, pid_b, page) = (a.pid().to_string(), b.pid().to_string(), scratch.path("page.html"));
    let arguments = ["bench", "compare", &target_a, &target_b, "random", "--mix", "100,0", "--rounds", "3"];
    let small = ["--operations", "60", "--threads", "2", "--working-set", "1MiB", "--json", "--report"];
    let pids = [text(&page), "--server-pid-a", &pid_a, "--server-pid-b", &pid_b, "--label-b", "other"];
    let said = succeed(&[&arguments[..], &small, &pids].concat());
    let report: Value = serde_json::from_str(&said).unwrap();
    let comparison = &report["comparison"];
    assert_eq!((&comparison["rounds"], &comparison["b"]["label"]), (&Value::from(3), &Value::from("other")));
    let rows = comparison["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let figure = |name: &str| row[name].as_f64().unwrap();
        assert!(figure("ratio_low") <= figure("ratio") && figure("ratio") <= figure("ratio_high"), "{row}");
        assert!(row["a_cpu_ns_per_operation"].is_number(), "{row}");
        assert_eq!((&row["a_errors"], &row["b_errors"]), (&Value::from(0), &Value::from(0)));
    }
    assert!(std::fs::read_to_string(page).unwrap().contains("A against B"));
    let said = fail(&["bench", "compare", &target_a, "127.0.0.1:1:/main", "null", "--operations", "1"], 1);
    assert!(said.contains("B, 127.0.0.1:1: cannot connect"), "{said}");
}

#[test]
fn a_comparison_of_protocols_names_them() {
    let scratch = Scratch::new();
    let (server, target) = start(&scratch, "data");
    let page = scratch.path("page.html");
    let arguments = ["bench", "compare", &target, &target, "open-close", "--rounds", "1"];
    let more = ["--protocol-a", "4.2", "--operations", "60", "--json", "--report", text(&page)];
    let report: Value = serde_json::from_str(&succeed(&[&arguments[..], &more].concat())).unwrap();
    let comparison = &report["comparison"];
    assert_eq!((&comparison["a"]["protocol"], &comparison["b"]["protocol"]), (&"4.2".into(), &"3".into()));
    let title = format!("<h1>A: {target}, NFSv4.2 against B: {target}, NFSv3</h1>");
    assert!(std::fs::read_to_string(page).unwrap().contains(&title));
    drop(server);
}

#[test]
fn published_tests_name_their_figures() {
    let scratch = Scratch::new();
    // A small server closes connections that hold what the others wait for, if the machine is busy.
    let server = Server::start(&scratch.path("data"), &scratch.config(""), &["--memory", "1 GiB"]);
    let target = format!("{}:/main", server.address);
    let page = scratch.path("page.html");
    let arguments = ["bench", "suite", "published", "--target", &target, "--quick", "--caches", "all warm"];
    let only = ["--only", "dell-mdtest-empty-stat,anf-8k-uncached-read", "--report", text(&page), "--json"];
    let said = succeed(&[&arguments[..], &only].concat());
    assert!(
        said.contains("dell-mdtest-empty-create") && said.contains("server: all warm; client: none"),
        "{said}"
    );
    let report: Value = serde_json::from_str(&said).unwrap();
    let figures: Vec<usize> = report["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["published"].as_array().unwrap().len())
        .collect();
    assert_eq!(figures, [3, 1]);
    assert!(report["limits"]["null_calls_per_s"].as_f64().unwrap() > 0.0);
    assert!(std::fs::read_to_string(page).unwrap().contains("Azure NetApp Files"));
    let output = run(&[&arguments[..], &["--only", "nonsense"]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no published figure has this name"));
    drop(server);
}

/// A running agent.
struct Agent {
    child: Child,
    address: String,
}

impl Agent {
    fn start(token: &Path, allowed: &str) -> Agent {
        Agent::start_with(token, &["--allow", allowed])
    }

    fn start_with(token: &Path, more: &[&str]) -> Agent {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.args(["bench", "agent", "--listen", "127.0.0.1:0", "--token-file", text(token)]);
        command.args(more).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("Waiting for a coordinator at ").unwrap().to_owned();
        Agent { child, address }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn token(scratch: &Scratch, name: &str, words: &str) -> PathBuf {
    let path = scratch.path(name);
    std::fs::write(&path, words).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path
}

#[test]
fn two_hosts_measure_together() {
    let scratch = Scratch::new();
    let (server, target) = start(&scratch, "data");
    let secret = token(&scratch, "token", "the token of this test\n");
    let agents = [Agent::start(&secret, &target), Agent::start(&secret, &target)];
    let names = agents.each_ref().map(|agent| agent.address.clone()).join(",");
    let common = ["bench", "run", &target, "random", "--operations", "100", "--threads", "4", "--seed", "9"];
    let more =
        ["--working-set", "4MiB", "--verify", "--limits", "--json", "--agents", &names, "--token-file"];
    let arguments = [&common[..], &more].concat();
    let report: Value = serde_json::from_str(&succeed(&[&arguments[..], &[text(&secret)]].concat())).unwrap();
    assert_eq!(report["agents"].as_array().unwrap().len(), 2);
    let result = &report["results"][0];
    assert_eq!((&result["operations"], &result["threads"]), (&Value::from(100), &Value::from(4)));
    assert_eq!((&result["latency"]["count"], &result["seed"]), (&Value::from(100), &Value::from(9)));
    assert_eq!(result["verified_blocks"], 100);
    assert!(report["notes"][0].as_str().unwrap().contains("2 hosts began within"), "{report}");
    let four = [&arguments[..], &[text(&secret), "--protocol", "4.2"]].concat();
    let report: Value = serde_json::from_str(&succeed(&four)).unwrap();
    let result = &report["results"][0];
    assert_eq!((&result["protocol"], &result["verified_blocks"]), (&"4.2".into(), &100.into()));
    assert_eq!((&result["operations"], &result["slots"]["granted"]), (&100.into(), &1.into()));

    let wrong = token(&scratch, "wrong", "another token than theirs");
    let said = fail(&[&arguments[..], &[text(&wrong)]].concat(), 1);
    assert!(said.contains("the token is wrong"), "{said}");
    std::fs::set_permissions(&wrong, PermissionsExt::from_mode(0o644)).unwrap();
    let said = fail(&[&arguments[..], &[text(&wrong)]].concat(), 1);
    assert!(said.contains("others may read this token"), "{said}");
    let elsewhere = format!("{}:/elsewhere", server.address);
    let said =
        fail(&["bench", "run", &elsewhere, "null", "--agents", &names, "--token-file", text(&secret)], 1);
    assert!(said.contains("is not allowed here"), "{said}");
    let output = run(&["bench", "run", &target, "null", "--agents", &names]);
    assert_eq!(output.status.code(), Some(2));
    drop(server);
}

#[test]
fn server_processes_and_directories_are_measured_by_the_coordinator() {
    let scratch = Scratch::new();
    let (server, target) = start(&scratch, "data");
    let secret = token(&scratch, "token", "the token of this test\n");
    let agents = [Agent::start(&secret, &target), Agent::start(&secret, &target)];
    let names = agents.each_ref().map(|agent| agent.address.clone()).join(",");
    let (pid, data) = (server.pid().to_string(), scratch.path("data"));
    let local = ["--server-pid", &pid, "--directory", text(&data), "--json", "--token-file", text(&secret)];
    let hosts = ["getattr", "--operations", "4000", "--threads", "2", "--agents", &names];
    let said = succeed(&[&["bench", "run", &target][..], &hosts, &local].concat());
    let report: Value = serde_json::from_str(&said).unwrap();
    assert!(report["limits"]["directory"]["syncs_per_s"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["results"][0]["server"]["pid"], server.pid());
    // This machine does not have an address reserved for examples, and nothing connects to it.
    for option in [&local[..2], &local[2..4]] {
        let command = ["bench", "run", "192.0.2.1:/main", "null", "--agents", "192.0.2.2:1"];
        let said = fail(&[&command[..], &local[5..], option].concat(), 2);
        assert!(said.contains("for a coordinator on the server's host"), "{said}");
    }
    drop(server);
}

#[test]
fn two_hosts_become_steady_together() {
    let scratch = Scratch::new();
    let (server, target) = start(&scratch, "data");
    let secret = token(&scratch, "token", "the token of this test\n");
    let agents = [Agent::start(&secret, &target), Agent::start(&secret, &target)];
    let names = agents.each_ref().map(|agent| agent.address.clone()).join(",");
    let hosts = ["--agents", &names, "--token-file", text(&secret), "--threads", "2", "--warmup", "0"];
    let rounds = ["--until-steady", "--steady-round", "0.2", "--steady-rounds", "3", "--max-seconds", "1"];
    let arguments = [&["bench", "run", &target, "null"][..], &hosts, &rounds].concat();
    let loose = ["--steady-spread", "1e9", "--steady-slope", "1e9", "--json"];
    let report: Value = serde_json::from_str(&succeed(&[&arguments[..], &loose].concat())).unwrap();
    let result = &report["results"][0];
    assert_eq!((&result["steady"]["reached"], &result["threads"]), (&Value::from(true), &Value::from(2)));
    assert_eq!(result["operations"], result["latency"]["count"]);
    let said = succeed(&[&arguments[..], &["--steady-spread", "0", "--steady-slope", "0"]].concat());
    assert!(said.contains("NOT steady") && said.contains("over 0.6 s"), "{said}");
    drop(server);
}

#[test]
fn results_of_two_hosts_are_fractions_of_the_tcp_line_rate() {
    let scratch = Scratch::new();
    let (server, target) = start(&scratch, "data");
    let secret = token(&scratch, "token", "the token of this test\n");
    let far = Agent::start_with(&secret, &[]);
    let (with_peer, page) =
        (["--allow", &target, "--line-rate-peer", &far.address], scratch.path("page.html"));
    let agents = [Agent::start_with(&secret, &with_peer), Agent::start_with(&secret, &with_peer)];
    let names = agents.each_ref().map(|agent| agent.address.clone()).join(",");
    let work = ["--block", "1MiB", "--operations", "8", "--threads", "2", "--working-set", "4MiB"];
    let peer = ["--line-rate-peer", &far.address, "--token-file", text(&secret)];
    for (workload, limit) in [("sequential-read", "tcp_line_rate"), ("sequential-write", "tcp_sent_rate")] {
        let command =
            ["bench", "run", &target, workload, "--agents", &names, "--json", "--report", text(&page)];
        let said = succeed(&[&command[..], &work, &peer].concat());
        let report: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(report["limits"]["tcp_peer"], far.address.as_str());
        assert_eq!(report["results"][0]["limit"]["limit"], limit);
        assert!(report["results"][0]["limit"]["fraction"].as_f64().unwrap() > 0.0, "{report}");
    }
    assert!(std::fs::read_to_string(page).unwrap().contains(&far.address));
    // The same from this host alone.
    let said = succeed(&[&["bench", "limits", &target, "--seconds", "0.1"][..], &peer].concat());
    assert!(said.contains("TCP, sent") && said.contains(&far.address), "{said}");
    let output = run(&["bench", "limits", &target, "--line-rate-peer", &far.address]);
    assert_eq!(output.status.code(), Some(2));
    drop(server);
}
