//! Random requests of administrators, made from the description of the interface: right ones, wrong ones, and nonsense. Each gets a
//! reply as described, which is no fault of the server; clients do not notice, and nothing is lost.

use fastrand::Rng;
use serde_json::{Map, Value, json};
use server::admin::escaped;

use crate::client::Client;
use crate::interface::Interface;
use crate::running::{Scratch, succeed, text};
use crate::schema::{alternatives, resolved, types};

/// Requests, unless `HOLDFAST_API_REQUESTS` is another number. `HOLDFAST_API_SEED` repeats a run.
const REQUESTS: u64 = 400;

/// The volume of a client, which no request names.
const KEPT: &str = "kept";

/// Names of volumes, pools, tokens and of nothing.
const NAMES: [&str; 10] = ["main", "a", "b", "c", "default", "none", "-x", "", "a/b", "\u{7f}\u{e9}\u{202e}"];

/// Strings in places for others than names.
const STRINGS: [&str; 10] =
    ["", "/", "/x", "0755", "99999", "*", "127.0.0.1", "premium", "\0", "\u{1f600}\n"];

const NUMBERS: [u64; 9] = [0, 1, 7, 20, 1 << 20, 1 << 32, 1 << 62, u64::MAX - 1, u64::MAX];

/// Levels of JSON, above what parsers take.
const DEEP: usize = 300;

struct Requests<'d> {
    random: Rng,
    description: &'d Value,
}

impl Requests<'_> {
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.usize(..all.len())]
    }

    /// Whether something happens that happens once in `times`.
    fn once_in(&mut self, times: u32) -> bool {
        self.random.u32(..times) == 0
    }

    /// Makes a value that mostly fits a schema.
    fn value(&mut self, schema: &Value) -> Value {
        let schema = resolved(self.description, schema);
        if self.once_in(12) {
            return self.nonsense();
        }
        if let Some(choices) = schema.get("oneOf").or_else(|| schema.get("anyOf")) {
            let chosen = &alternatives(choices)[self.random.usize(..alternatives(choices).len())];
            return self.value(chosen);
        }
        if let Some(word) = schema.get("const") {
            return word.clone();
        }
        match self.one_of(&types(&schema["type"])) {
            "object" => self.object(schema),
            "integer" => self.one_of(&NUMBERS).into(),
            "boolean" => self.random.bool().into(),
            "string" => self.string().into(),
            _ => Value::Null,
        }
    }

    fn object(&mut self, schema: &Value) -> Value {
        let mut fields = Map::new();
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        for (name, rule) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.contains(&name.as_str().into());
            if if is_required { !self.once_in(20) } else { self.random.bool() } {
                fields.insert(name.clone(), self.value(rule));
            }
        }
        if let (Some(names), Some(rule)) = (schema.get("propertyNames"), schema.get("additionalProperties")) {
            let name = self.value(names);
            fields.insert(name.as_str().unwrap_or("size").to_owned(), self.value(rule));
        }
        if self.once_in(20) {
            fields.insert(self.string(), self.nonsense());
        }
        fields.into()
    }

    fn string(&mut self) -> String {
        if self.random.bool() { self.one_of(&NAMES) } else { self.one_of(&STRINGS) }.to_owned()
    }

    fn nonsense(&mut self) -> Value {
        match self.random.u32(..8) {
            0 => Value::Null,
            1 => json!(-1),
            2 => json!(1.5e300),
            3 => json!([]),
            4 => json!({ "x": [1, { "y": null }] }),
            5 => (0..DEEP).fold(json!(1), |inner, _| json!([inner])),
            6 => "x".repeat(self.random.usize(..10_000)).into(),
            _ => self.string().into(),
        }
    }

    /// Makes the content of a request: JSON, or something near it.
    fn content(&mut self, operation: &Value) -> String {
        let rule = &operation["requestBody"]["content"]["application/json"]["schema"];
        let value = if rule.is_null() { self.nonsense() } else { self.value(rule) };
        let mut text = value.to_string();
        if self.once_in(15) {
            let end = (0..=self.random.usize(..=text.len())).rev().find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or(0));
        }
        text
    }

    /// Makes the target of a request.
    fn target(&mut self, path: &str, operation: &Value) -> String {
        // Without a name it would be the target of another operation.
        let name = Some(self.one_of(&NAMES)).filter(|name| !name.is_empty()).unwrap_or("d");
        let mut target = path.replace("{name}", &escaped(name));
        let mut separator = '?';
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            if parameter["in"] == "query" && self.random.bool() {
                let value = if parameter["schema"]["type"] == "integer" && !self.once_in(5) {
                    self.one_of(&NUMBERS).to_string()
                } else {
                    self.string()
                };
                let name = parameter["name"].as_str().expect("a parameter has a name");
                target.push_str(&format!("{separator}{name}={}", escaped(&value)));
                separator = '&';
            }
        }
        if self.once_in(20) {
            target.push_str(&format!("{separator}nothing=1"));
        }
        target
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn random_requests_are_answered_as_described_and_no_client_notices() {
    let seed = setting("HOLDFAST_API_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("HOLDFAST_API_SEED={seed}");
    let scratch = Scratch::new();
    let interface = Interface::start(&scratch);
    let directory = text(&interface.data);
    succeed(&["volume", "create", directory, KEPT, "--mode", "1777"]);
    let mut client = Client::mount(interface.server.address, "/kept");
    let file = client.write_file("kept", b"as it was");
    let mut requests = Requests { random: Rng::with_seed(seed), description: &interface.description };
    // A stream does not end.
    let mut operations = interface.operations();
    operations.retain(|(_, path, _)| *path != "/v1/live");
    let mut succeeded = 0;
    for number in 0..setting("HOLDFAST_API_REQUESTS").unwrap_or(REQUESTS) {
        let (method, path, operation) = &operations[requests.random.usize(..operations.len())];
        let target = requests.target(path, operation);
        let has_content = operation.get("requestBody").is_some() || requests.once_in(20);
        let content = has_content.then(|| requests.content(operation));
        let fields = if requests.once_in(10) { "\r\nIf-Match: \"0\", *" } else { "" };
        let (status, reply) = interface.ask_with(method, path, &target, content.as_deref(), fields);
        assert!(status < 500, "{method} {target} {content:?}: {reply}");
        succeeded += u32::from(status < 300);
        if number % 10 == 0 {
            assert_eq!(client.read_file(&file), b"as it was");
        }
    }
    assert!(succeeded > 0, "right requests are among them");
    let list = succeed(&["volume", "list", directory, "--json"]);
    let log = interface.server.stop();
    assert!(!log.contains("ERROR") && !log.contains("panicked"), "{log}");
    assert!(succeed(&["check", directory]).contains("default: no faults"));
    let named = |list: &str| -> Vec<(Value, Value)> {
        let list: Value = serde_json::from_str(list).expect("JSON");
        let volumes = list.as_array().into_iter().flatten();
        volumes.map(|volume| (volume["name"].clone(), volume["size_bytes"].clone())).collect()
    };
    assert_eq!(named(&succeed(&["volume", "list", directory, "--json"])), named(&list));
}
