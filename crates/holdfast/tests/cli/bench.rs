//! Runs the load generator against a real server, and checks that it executes exactly the requested work.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Shutdown, TcpListener};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::running::{Scratch, Server, command, fail, run, succeed};

/// Workloads with parameters that keep them small. Each runs exactly `--operations`.
const WORKLOADS: &[(&str, &[&str])] = &[
    ("null", &[]),
    ("getattr", &[]),
    ("access", &[]),
    ("lookup", &[]),
    ("lookup-missing", &[]),
    ("open-close", &[]),
    ("create-remove", &[]),
    ("write-file-sync", &[]),
    ("write-commit", &[]),
    ("sequential-read", &["--block", "4KiB"]),
    ("sequential-write", &["--block", "64KiB", "--stability", "commit", "--shared-file"]),
    ("random", &["--mix", "70", "--verify", "--stability", "data-sync"]),
    ("random", &["--block", "3MiB", "--mix", "50", "--verify", "--stability", "file-sync"]),
    ("random", &["--connections", "3", "--mix", "50", "--verify"]),
    ("sequential-write", &["--connections-per-thread", "2", "--block", "64KiB", "--verify"]),
];

const PROTOCOLS: [&str; 3] = ["3", "4.1", "4.2"];

const WORKLOADS_IN_PHASES: &[(&str, &[&str], u64)] = &[
    ("metadata", &["--files", "20", "--directories", "2"], 2 * 20 * 2 * 4),
    ("metadata", &["--files", "10", "--file-size", "4KiB", "--verify"], 2 * 10 * 4),
    // Directories are made and removed along the way.
    ("small-files", &["--files", "10", "--directories", "3", "--verify"], 2 * (33 + 30 + 33)),
];

fn measure(server: &Server, protocol: &str, workload: &str, more: &[&str]) -> Value {
    let target = format!("{}:/main", server.address);
    let common = ["--threads", "2", "--depth", "2", "--working-set", "8MiB", "--seed", "5", "--json"];
    let common = [&common[..], &["--protocol", protocol]].concat();
    let mut arguments = vec!["bench", "run", &target, workload, "--operations", "40"];
    arguments.extend(common);
    arguments.extend(more);
    let output = run(&arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{workload} {more:?}: {said}");
    // A file that was left behind would be reported.
    assert_eq!(said, "", "NFSv{protocol} {workload} {more:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], 1);
    assert_eq!(report["results"].as_array().unwrap().len(), 1);
    assert_eq!(report["target"]["protocol"], protocol);
    assert_eq!(report["results"][0]["protocol"], protocol);
    let result = report["results"][0].clone();
    assert_eq!(result["errors"], Value::Array(Vec::new()), "{workload} {more:?}");
    result
}

#[test]
fn every_workload_does_what_it_counts_and_cleans_up() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.path("data"), &scratch.config(""), &[]);
    for protocol in PROTOCOLS {
        for (workload, more) in WORKLOADS {
            let result = measure(&server, protocol, workload, more);
            assert_eq!(result["operations"], 40, "NFSv{protocol} {workload} {more:?}");
            assert_eq!(result["latency"]["count"], 40, "NFSv{protocol} {workload} {more:?}");
            let is_verified = more.contains(&"--verify");
            assert_eq!(result["verified_blocks"].as_u64().is_some_and(|blocks| blocks >= 20), is_verified);
        }
        for (workload, more, operations) in WORKLOADS_IN_PHASES {
            let result = measure(&server, protocol, workload, more);
            assert_eq!(result["operations"], *operations, "NFSv{protocol} {workload} {more:?}");
        }
        for workload in ["readdir", "readdirplus"] {
            let result = measure(&server, protocol, workload, &["--names", "500"]);
            assert!(result["operations"].as_u64().unwrap() >= 500, "NFSv{protocol} {workload}");
        }
    }
    assert_eq!(leftovers(&format!("{}:/main", server.address)), 0);
    drop(server);
}

#[test]
fn reads_are_verified_and_processor_time_is_reported() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.path("data"), &scratch.config(""), &[]);
    let pid = server.pid().to_string();
    // Without writes, nothing is read back at the end.
    let result = measure(&server, "3", "random", &["--verify", "--server-pid", &pid]);
    assert_eq!(result["verified_blocks"], 40);
    assert_eq!(result["server"]["pid"], server.pid());
    drop(server);
}

#[test]
fn each_number_of_threads_makes_a_measurement() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.path("data"), &scratch.config(""), &[]);
    let target = format!("{}:/main", server.address);
    let arguments = ["bench", "run", &target, "getattr", "--threads", "1..64", "--connections", "4"];
    let more = ["--operations", "128", "--json"];
    let report: Value = serde_json::from_str(&succeed(&[&arguments[..], &more[..]].concat())).unwrap();
    let threads: Vec<u64> = report["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["threads"].as_u64().unwrap())
        .collect();
    assert_eq!(threads, [1, 2, 4, 8, 16, 32, 64]);
    drop(server);
}

/// Whether a process has signals that none of its threads has taken.
fn has_pending_signals(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let masks = status.lines().filter_map(|line| line.split_once("Pnd:"));
    masks.into_iter().any(|(_, mask)| mask.trim().bytes().any(|digit| digit != b'0'))
}

/// Whether the first thread of a process sleeps.
fn sleeps(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

#[test]
fn a_signal_does_not_break_a_waiting_call() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (target, port) = (format!("{address}:/main"), address.port().to_string());
    let child = command(&["bench", "run", &target, "getattr", "--mount-port", &port])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A server that receives a call, and closes the connection once the signal has arrived.
    let (mut connection, _) = listener.accept().unwrap();
    connection.read_exact(&mut [0; 24]).unwrap();
    while !sleeps(child.id()) {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    while has_pending_signals(child.id()) {
        std::thread::yield_now();
    }
    connection.shutdown(Shutdown::Write).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "holdfast: the server closed the connection\n");
}

#[test]
fn a_run_prints_the_table_of_its_report_and_reads_sizes_like_fio() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.path("data"), &scratch.config(""), &[]);
    let target = format!("{}:/main", server.address);
    let small = ["--block", "4k,64K", "--working-set", "8M", "--operations", "40"];
    let said = succeed(&[&["bench", "run", &target, "random"][..], &small].concat());
    assert!(
        said.starts_with("target  ") && said.contains("random 64 KiB") && said.contains("p99.9"),
        "{said}"
    );
    let result = scratch.path("result.json");
    let json = succeed(&[&["bench", "run", &target, "random", "--json"][..], &small].concat());
    std::fs::write(&result, json).unwrap();
    let again = succeed(&["bench", "report", result.to_str().unwrap()]);
    let head = |text: &str| {
        text.lines().find(|line| line.starts_with("workload")).map(|line| line.split_whitespace().count())
    };
    assert_eq!(head(&said), head(&again));
    drop(server);
}

/// Counts the directories of measurements in the export.
fn leftovers(target: &str) -> usize {
    let said = succeed(&["bench", "clean", target, "--dry-run"]);
    said.lines().filter(|line| line.starts_with("would remove holdfast-bench-")).count()
}

#[test]
fn two_signals_within_a_second_leave_no_files() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.path("data"), &scratch.config(""), &[]);
    let target = format!("{}:/main", server.address);
    let child = command(&["bench", "run", &target, "random", "--working-set", "8MiB", "--seconds", "3600"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while leftovers(&target) == 0 {
        std::thread::yield_now();
    }
    for _ in 0..2 {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        while has_pending_signals(child.id()) {
            std::thread::yield_now();
        }
    }
    assert_ne!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert_eq!(leftovers(&target), 0);
    drop(server);
}

#[test]
fn an_interrupted_sweep_says_how_far_it_came() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.path("data"), &scratch.config(""), &[]);
    let target = format!("{}:/main", server.address);
    let sweep = ["--threads", "1,2,4", "--warmup", "3", "--seconds", "1"];
    let mut child = command(&[&["bench", "run", &target, "getattr"][..], &sweep].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    said.read_line(&mut first).unwrap();
    assert!(first.starts_with("1/3 GETATTR"), "{first}");
    // While the second measurement warms up, so that nothing of it counts.
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), rest.as_str()),
        (Some(1), "holdfast: interrupted after 1 of 3 measurements\n")
    );
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(table.lines().filter(|line| line.starts_with("GETATTR")).count(), 1, "{table}");
    assert!(table.contains("Interrupted after 1 of 3 measurements."), "{table}");
    assert_eq!(leftovers(&target), 0);
    drop(server);
}

#[test]
fn files_of_a_killed_run_are_removed_on_request() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.path("data"), &scratch.config(""), &[]);
    let target = format!("{}:/main", server.address);
    let mut child =
        command(&["bench", "run", &target, "random", "--working-set", "8MiB", "--seconds", "3600"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
    while leftovers(&target) == 0 {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(leftovers(&target), 1);
    assert!(succeed(&["bench", "clean", &target]).starts_with("removed holdfast-bench-"));
    assert_eq!(leftovers(&target), 0);
    drop(server);
}

#[test]
fn a_measurement_without_length_prints_no_row() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.path("data"), &scratch.config(""), &[]);
    let target = format!("{}:/main", server.address);
    let output = run(&["bench", "run", &target, "getattr", "--seconds", "0", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing was measured"));
    assert!(output.stdout.is_empty());
    drop(server);
}

#[test]
fn few_slots_are_reported() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.path("data"), &scratch.config(""), &[]);
    let target = format!("{}:/main", server.address);
    let deep = ["--protocol", "4.2", "--depth", "1000", "--operations", "2000"];
    let said = succeed(&[&["bench", "run", &target, "getattr"][..], &deep].concat());
    assert!(said.contains("NFSv4.2") && said.contains(" of 1,000"), "{said}");
    assert!(said.contains("fewer slots per session than there were calls"), "{said}");
    drop(server);
}

#[test]
fn mistakes_are_reported_clearly() {
    let scratch = Scratch::new();
    let config = scratch.config("[[export]]\npath = \"/frozen\"\nvolume = \"main\"\nread_only = true\n");
    let server = Server::start(&scratch.path("data"), &config, &[]);
    let frozen = format!("{}:/frozen", server.address);
    assert!(fail(&["bench", "run", &frozen, "random"], 1).contains("read-only"));
    let nowhere = format!("{}:/nowhere", server.address);
    assert!(fail(&["bench", "run", &nowhere, "random"], 1).contains("has no export"));
    assert!(fail(&["bench", "run", "127.0.0.1", "null"], 2).contains("HOST[:PORT]:/EXPORT"));
    assert!(fail(&["bench", "run", &frozen, "random", "--block", "5"], 2).contains("multiples of 512"));
    assert!(fail(&["bench", "run", "127.0.0.1:1:/x", "null"], 1).contains("cannot connect"));
    let four = ["--protocol", "4.2"];
    assert!(fail(&[&["bench", "run", &frozen, "random"][..], &four].concat(), 1).contains("read-only"));
    assert!(fail(&[&["bench", "run", &nowhere, "random"][..], &four].concat(), 1).contains("has no export"));
    let output = run(&["bench", "run", &frozen, "random", "--protocol", "5"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("\"5\" is not 3, 4.1 or 4.2"));
    drop(server);
}

#[test]
fn who_enters_an_export_over_nfs4_mounts_it() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.path("data"), &scratch.config(""), &[]);
    measure(&server, "4.2", "getattr", &[]);
    let log = server.stop();
    let mounted = log.lines().filter(|line| line.contains("export mounted")).collect::<Vec<&str>>();
    assert!(!mounted.is_empty() && mounted.iter().all(|line| line.contains("path=/main")), "{log}");
}
