//! Prometheus scrapes a server under load: each query of the dashboard and of the alert rules must have an answer, and an alert
//! must fire when the server is gone.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Options;
use super::lab::Lab;
use super::libnfs::Client;
use crate::process::{self, root};

/// Where the server answers Prometheus, and Prometheus answers us, in the namespace.
const API: &str = "127.0.0.1:9049";
const PROMETHEUS: &str = "127.0.0.1:9090";

/// Time limit from a scrape that must show something to the query that sees it.
const SEEN: Duration = Duration::from_secs(45);
/// What Grafana would put in place of `$__rate_interval`: the time of ten scrapes.
const RATE_INTERVAL: &str = "10s";

/// A running Prometheus, killed at the end.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        process::stop(&mut self.0);
    }
}

pub(super) fn run(lab: &mut Lab, options: &Options) -> Result<String, String> {
    check_rules()?;
    lab.configure(&format!("[api]\nlisten = \"{API}\"\n[metrics]\nclients = 4\n"));
    lab.start()?;
    let _prometheus = start(lab)?;
    limit(lab)?;
    let mut client = Client::new(lab, options.seed)?;
    load(&mut client)?;
    let panels = dashboard()?;
    let (rules, metrics) = rules()?;
    let end = Instant::now() + SEEN;
    let mut waiting: BTreeSet<&str> = panels.iter().chain(&metrics).map(String::as_str).collect();
    while !waiting.is_empty() {
        if Instant::now() > end {
            return Err(format!("without an answer: {waiting:#?}"));
        }
        load(&mut client)?;
        let mut unanswered = BTreeSet::new();
        for query in waiting {
            if answers(query)? == 0 {
                unanswered.insert(query);
            }
        }
        waiting = unanswered;
    }
    if answers("ALERTS{alertname!=\"HoldfastVolumeNearlyFull\"}")? > 0 {
        return Err("an alert is pending although nothing is wrong".to_owned());
    }
    lab.kill();
    await_answer("ALERTS{alertname=\"HoldfastDown\"}")?;
    lab.start()?;
    client.verify()?;
    Ok(format!(
        "{} queries of the dashboard, {rules} alerts, {} metrics in them",
        panels.len(),
        metrics.len()
    ))
}

/// Checks the rules, and runs their tests.
fn check_rules() -> Result<(), String> {
    let folder = root().join("package/prometheus");
    for words in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]] {
        process::output(Command::new("promtool").args(words).current_dir(&folder))?;
    }
    Ok(())
}

/// Starts Prometheus with a token of the server.
fn start(lab: &Lab) -> Result<Prometheus, String> {
    let mut create = Command::new(lab.binary());
    let token = process::output(create.args(["token", "create"]).arg(lab.data()).arg("prometheus"))?;
    let rules = root().join("package/prometheus/alerts.yml");
    let config = lab.folder.join("prometheus.yml");
    let text = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\nscrape_configs:\n- job_name: holdfast\n  \
         authorization: {{credentials: '{}'}}\n  static_configs: [{{targets: ['{API}']}}]\n",
        rules.display(),
        token.trim()
    );
    fs::write(&config, text).map_err(process::at(&config))?;
    process::output(Command::new("promtool").args(["check", "config"]).arg(&config))?;
    let mut command = Command::new("prometheus");
    command.arg("--config.file").arg(&config).arg("--storage.tsdb.path").arg(lab.folder.join("prometheus"));
    command.args(["--web.listen-address", PROMETHEUS, "--log.level", "warn"]);
    let prometheus = Prometheus(process::start(&mut command)?);
    let end = Instant::now() + SEEN;
    // It listens before it is ready, and until then answers queries with 503 Service Unavailable.
    while !get("/-/ready").is_ok_and(|answer| answer.split(' ').nth(1) == Some("200")) {
        if Instant::now() > end {
            return Err("prometheus does not become ready".to_owned());
        }
        thread::sleep(Duration::from_millis(100));
    }
    await_answer("up{job=\"holdfast\"} == 1")?;
    Ok(prometheus)
}

/// Sets limits whose metrics the dashboard shows: a soft one that the first file exceeds, and one of rates.
fn limit(lab: &Lab) -> Result<(), String> {
    for [command, words @ ..] in [
        ["quota", "main", "--whole-volume", "--inodes", "1:1000000"],
        ["qos", "--volume", "main", "--total-ops", "100000"],
    ] {
        let mut set = Command::new(lab.binary());
        process::output(set.args([command, "set"]).arg(lab.data()).args(words))?;
    }
    Ok(())
}

/// Calls of NFSv3 and NFSv4, with data in both directions, and one that fails.
fn load(client: &mut Client) -> Result<(), String> {
    if !client.put(2 << 20)? {
        return Err("nfs-cp failed".to_owned());
    }
    client.list_over_nfs4(5)?;
    client.verify()?;
    client.miss()
}

/// The queries of the dashboard, with its variables replaced, except those of annotations, which have no answer as long as
/// nothing happens.
fn dashboard() -> Result<Vec<String>, String> {
    let path = root().join("package/grafana/holdfast.json");
    let text = fs::read_to_string(&path).map_err(process::at(&path))?;
    let dashboard: Value =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let panels = dashboard["panels"].as_array().into_iter().flatten();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let mut queries: Vec<&str> = targets.filter_map(|target| target["expr"].as_str()).collect();
    let variables = dashboard["templating"]["list"].as_array().into_iter().flatten();
    // Of label_values(METRIC, LABEL), Prometheus knows the metric.
    queries.extend(variables.filter_map(|variable| {
        variable["definition"]
            .as_str()?
            .strip_prefix("label_values(")?
            .rsplit_once(',')
            .map(|(metric, _)| metric)
    }));
    let replaced = |query: &&str| {
        let query = query.replace("$instance", ".*").replace("$volume", ".*");
        query.replace("$__rate_interval", RATE_INTERVAL)
    };
    let queries: Vec<String> = queries.iter().map(replaced).collect();
    match queries.iter().find(|query| query.contains('$')) {
        Some(query) => Err(format!("unknown variable in {query}")),
        None if queries.is_empty() => Err("the dashboard has no query".to_owned()),
        None => Ok(queries),
    }
}

/// The number of rules, which Prometheus must all have evaluated without an error, and the metrics that they use.
fn rules() -> Result<(usize, Vec<String>), String> {
    let end = Instant::now() + SEEN;
    loop {
        let answer = ask("rules", "")?;
        let groups = answer["groups"].as_array().into_iter().flatten();
        let rules: Vec<&Value> = groups.filter_map(|group| group["rules"].as_array()).flatten().collect();
        if let Some(failed) = rules.iter().find(|rule| rule["health"] == "err") {
            return Err(format!("{failed}"));
        }
        if !rules.is_empty() && rules.iter().all(|rule| rule["health"] == "ok") {
            let queries = rules.iter().filter_map(|rule| rule["query"].as_str());
            let words = queries.flat_map(|query| {
                query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            });
            // Agents are asked in the scenario `pair`.
            let is_of_server = |word: &&str| {
                (word.starts_with("holdfast_") || word.starts_with("process_")) && !is_of_agent(word)
            };
            let metrics: BTreeSet<String> = words.filter(is_of_server).map(str::to_owned).collect();
            return Ok((rules.len(), metrics.into_iter().collect()));
        }
        if Instant::now() > end {
            return Err("prometheus does not evaluate the rules".to_owned());
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Whether a metric is that of an agent.
fn is_of_agent(metric: &str) -> bool {
    metric.starts_with("holdfast_group_") || metric.starts_with("holdfast_node_")
}

/// The metrics of agents that the alert rules use.
pub(super) fn alerted_of_agents() -> Result<BTreeSet<String>, String> {
    let path = root().join("package/prometheus/alerts.yml");
    let rules = fs::read_to_string(&path).map_err(process::at(&path))?;
    let words = rules.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    Ok(words.filter(|word| is_of_agent(word)).map(str::to_owned).collect())
}

/// Waits until a query has an answer.
fn await_answer(query: &str) -> Result<(), String> {
    let end = Instant::now() + SEEN;
    while answers(query)? == 0 {
        if Instant::now() > end {
            return Err(format!("without an answer: {query}"));
        }
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// The number of series in the answer to a query.
fn answers(query: &str) -> Result<usize, String> {
    let answer = ask("query", &format!("?query={}", encoded(query)))?;
    Ok(answer["result"].as_array().map_or(0, Vec::len))
}

/// Sends a GET request to Prometheus, and returns the whole answer.
fn get(target: &str) -> Result<String, String> {
    let words = |error: std::io::Error| format!("prometheus: {error}");
    let mut stream = TcpStream::connect(PROMETHEUS).map_err(words)?;
    let request = format!("GET {target} HTTP/1.0\r\nHost: {PROMETHEUS}\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(words)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(words)?;
    Ok(answer)
}

/// Asks the API of Prometheus, and returns the data of its answer.
fn ask(path: &str, parameters: &str) -> Result<Value, String> {
    let answer = get(&format!("/api/v1/{path}{parameters}"))?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let body: Value = serde_json::from_str(body).map_err(|error| format!("prometheus: {error}: {answer}"))?;
    if body["status"] == "success" {
        Ok(body["data"].clone())
    } else {
        Err(format!("{path}{parameters}: {body}"))
    }
}

/// Encodes a value for a URL.
fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric();
    text.bytes()
        .map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
