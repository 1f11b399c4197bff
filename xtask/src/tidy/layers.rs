//! Dependencies between crates, read from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Violation;

/// For each crate of the workspace, the other members it may depend on, in any kind of dependency.
const TABLE: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("volume", &[]),
    ("store", &["volume"]),
    ("rados", &["volume", "cluster"]),
    ("nfs", &["wire", "volume"]),
    ("http_request", &[]),
    ("qos", &[]),
    ("server", &["wire", "volume", "store", "rados", "nfs", "http_request", "qos"]),
    ("load", &["wire"]),
    ("address", &[]),
    ("node", &["wire", "store", "address", "http_request", "cluster", "rados"]),
    ("cluster", &["volume"]),
    ("sim", &["wire", "volume", "nfs", "cluster"]),
    ("holdfast", &["wire", "volume", "store", "nfs", "server", "load", "node", "cluster", "rados"]),
    ("xtask", &[]),
];

/// Crates with an event loop of their own, which no member may depend on.
const RUNTIMES: &[&str] =
    &["tokio", "async-std", "smol", "async-executor", "futures-executor", "glommio", "monoio"];

/// Crates that open sockets.
const SOCKETS: &[&str] = &["mio", "socket2", "polling", "tokio", "async-io", "hyper", "quinn"];

/// Members that may not depend on [`SOCKETS`].
const WITHOUT_SOCKETS: &[&str] =
    &["wire", "volume", "nfs", "store", "sim", "http_request", "qos", "cluster", "rados"];

/// Permissive licences. `deny.toml` has the same list.
const LICENCES: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "0BSD",
];

/// Dependencies within the workspace that the table does not allow. Development dependencies count: a test that needs a
/// higher crate belongs there.
pub(super) fn crates(metadata: &Value) -> Vec<Violation> {
    let members = members(metadata);
    let mut violations = Vec::new();
    for (name, package) in &members {
        let Some((_, allowed)) = TABLE.iter().find(|(known, _)| known == name) else {
            violations.push(format!("crate {name} is not in the table of layers"));
            continue;
        };
        for dependency in array(package, "dependencies").iter().filter_map(|entry| entry["name"].as_str()) {
            if members.contains_key(dependency) && !allowed.contains(&dependency) {
                violations.push(format!(
                    "crate {name} depends on {dependency}, which the table of layers does not allow"
                ));
            }
        }
    }
    violations
}

/// Async runtimes and socket crates among the transitive dependencies.
pub(super) fn foundations(metadata: &Value) -> Vec<Violation> {
    let mut violations = Vec::new();
    for name in members(metadata).keys() {
        let dependencies = dependencies(metadata, name);
        for runtime in RUNTIMES.iter().filter(|runtime| dependencies.contains(**runtime)) {
            violations.push(format!("crate {name} depends on the async runtime {runtime}"));
        }
        if WITHOUT_SOCKETS.contains(name) {
            for socket in SOCKETS.iter().filter(|socket| dependencies.contains(**socket)) {
                violations.push(format!("crate {name} depends on {socket}, which opens sockets"));
            }
        }
    }
    violations
}

/// Packages without a permissive licence, and packages from outside the registry.
pub(super) fn origins(metadata: &Value) -> Vec<Violation> {
    let mut violations = Vec::new();
    for package in array(metadata, "packages") {
        let name = package["name"].as_str().unwrap_or_default();
        let licence = package["license"].as_str().unwrap_or_default();
        if !is_permissive(licence) {
            violations.push(format!("{name} has the licence \"{licence}\", which is not in the list"));
        }
        if package["source"].as_str().is_some_and(|source| !source.starts_with("registry+")) {
            violations.push(format!("{name} does not come from the registry"));
        }
    }
    violations
}

/// Whether some alternative of a licence expression has only licences from the list.
fn is_permissive(expression: &str) -> bool {
    let expression = expression.replace(['(', ')'], "").replace('/', " OR ");
    // AND binds tighter than OR in "A AND B OR C"; without parentheses, "(A OR B) AND C" is tried as well.
    let listed = |licence: &str| LICENCES.contains(&licence.trim());
    let alternatives = expression.split(" OR ").any(|alternative| alternative.split(" AND ").all(listed));
    alternatives || expression.split(" AND ").all(|part| part.split(" OR ").any(listed))
}

/// The members of the workspace by name.
pub(super) fn members(metadata: &Value) -> BTreeMap<&str, &Value> {
    let ids: BTreeSet<&str> = array(metadata, "workspace_members").iter().filter_map(Value::as_str).collect();
    let ours = |package: &&Value| package["id"].as_str().is_some_and(|id| ids.contains(id));
    let packages = array(metadata, "packages").iter().filter(ours);
    packages.filter_map(|package| Some((package["name"].as_str()?, package))).collect()
}

/// The elements of an array field; empty if there is none.
pub(super) fn array<'v>(object: &'v Value, key: &str) -> &'v [Value] {
    object[key].as_array().map_or(&[], Vec::as_slice)
}

/// The names of `name` and its transitive dependencies, development dependencies aside.
fn dependencies<'v>(metadata: &'v Value, name: &str) -> BTreeSet<&'v str> {
    let names: BTreeMap<&str, &str> = array(metadata, "packages")
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect();
    let nodes: BTreeMap<&str, &Value> = array(&metadata["resolve"], "nodes")
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let mut waiting: Vec<&str> =
        names.iter().filter(|(_, known)| **known == name).map(|(id, _)| *id).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !seen.insert(id) {
            continue;
        }
        let Some(node) = nodes.get(id) else { continue };
        let shipped = |entry: &&Value| array(entry, "dep_kinds").iter().any(|kind| kind["kind"] != "dev");
        waiting.extend(array(node, "deps").iter().filter(shipped).filter_map(|entry| entry["pkg"].as_str()));
    }
    seen.into_iter().filter_map(|id| names.get(id).copied()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A workspace of `wire` and `volume`, where `volume` has the given dependency.
    fn workspace(dependency: &str, kind: Value) -> Value {
        json!({
            "workspace_members": ["w", "v"],
            "packages": [
                {"id": "w", "name": "wire", "dependencies": []},
                {"id": "v", "name": "volume", "dependencies": [{"name": dependency}]},
                {"id": "m", "name": "mio", "dependencies": []},
                {"id": "t", "name": "tokio", "dependencies": []},
                {"id": "b", "name": "between", "dependencies": [{"name": "mio"}]},
            ],
            "resolve": {"nodes": [
                {"id": "w", "deps": []},
                {"id": "v", "deps": [{"pkg": dependency.get(..1).unwrap_or(""), "dep_kinds": [{"kind": kind}]}]},
                {"id": "b", "deps": [{"pkg": "m", "dep_kinds": [{"kind": null}]}]},
                {"id": "m", "deps": []},
                {"id": "t", "deps": []},
            ]},
        })
    }

    #[test]
    fn dependencies_outside_the_table_are_found() {
        assert_eq!(crates(&workspace("wire", Value::Null)).len(), 1);
        assert!(crates(&workspace("between", Value::Null)).is_empty());
    }

    #[test]
    fn crates_missing_from_the_table_are_found() {
        let metadata = json!({"workspace_members": ["x"], "packages": [{"id": "x", "name": "stray"}]});
        assert_eq!(crates(&metadata), ["crate stray is not in the table of layers"]);
    }

    #[test]
    fn transitive_socket_crates_are_found() {
        assert_eq!(foundations(&workspace("between", Value::Null)).len(), 1);
        assert!(foundations(&workspace("between", json!("dev"))).is_empty());
    }

    #[test]
    fn other_licences_and_origins_are_found() {
        let package = |licence: &str, source: Value| json!({"packages": [{"name": "x", "license": licence, "source": source}]});
        for licence in ["MIT OR GPL-2.0", "MIT/Apache-2.0", "(MIT OR Apache-2.0) AND Unicode-3.0", "Zlib"] {
            assert!(origins(&package(licence, json!("registry+x"))).is_empty(), "{licence}");
        }
        assert_eq!(origins(&package("GPL-3.0", Value::Null)).len(), 1);
        assert_eq!(origins(&package("MIT AND GPL-3.0", Value::Null)).len(), 1);
        assert_eq!(origins(&package("MIT", json!("git+x"))).len(), 1);
    }

    #[test]
    fn async_runtimes_are_found() {
        assert_eq!(
            foundations(&workspace("tokio", Value::Null)).len(),
            2,
            "a runtime that also opens sockets"
        );
    }
}
