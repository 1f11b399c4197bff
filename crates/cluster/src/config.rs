//! The groups of a cluster, as administrators write them: `cluster.toml`.
//!
//! ```toml
//! [[group]]
//! name = "home"
//! addresses = ["10.0.0.50/24", "2001:db8::50/64"]
//! ports = [2049, 111]     # 2049 if left out
//! nodes = ["a", "b"]      # in the order of preference; any by least load if left out
//! config = "/etc/holdfast/home.toml"     # of the server, the same file on all nodes; all volumes are exported if left out
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use toml::de::{DeTable, DeValue};

use crate::limits::{GROUPS_MAX, NODES_MAX, SOCKETS_MAX};
use crate::name::Name;

/// The port of NFS.
const PORT_DEFAULT: u16 = 2049;

/// The keys of a group.
const KEYS: [&str; 5] = ["name", "addresses", "ports", "nodes", "config"];

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The groups, in the order of the file.
    pub groups: Vec<GroupConfig>,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupConfig {
    /// Its name.
    pub name: Name,
    /// Its addresses, with the lengths of their networks' prefixes.
    pub addresses: Vec<IpNet>,
    /// The ports at which it is served.
    pub ports: Vec<u16>,
    /// The nodes that it prefers, the best one first.
    pub nodes: Vec<Name>,
    /// The configuration file of its server, which each node has; none if all volumes are exported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<PathBuf>,
}

/// A mistake in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where it is, in bytes of the file.
    pub span: Range<usize>,
    /// The line, from 1 on.
    pub line: usize,
    /// What is wrong, and what to write instead.
    pub sentence: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.sentence)
    }
}

impl ClusterConfig {
    /// Reads `text`.
    ///
    /// # Errors
    /// All mistakes, in the order of the file. If it is not TOML, only errors of syntax, because what follows them cannot be
    /// trusted.
    pub fn parse(text: &str) -> Result<ClusterConfig, Vec<Mistake>> {
        let mut reader =
            Reader { text, mistakes: Vec::new(), names: BTreeSet::new(), sockets: BTreeMap::new() };
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            reader.wrong(error.span().unwrap_or(0..0), error.message().replace('\n', ", "));
        }
        let groups = if errors.is_empty() { reader.groups(root.get_ref()) } else { Vec::new() };
        let mut mistakes = reader.mistakes;
        mistakes.sort_by_key(|mistake| mistake.span.start);
        if mistakes.is_empty() { Ok(ClusterConfig { groups }) } else { Err(mistakes) }
    }
}

type Value<'t> = toml::Spanned<DeValue<'t>>;

struct Reader<'t> {
    text: &'t str,
    mistakes: Vec<Mistake>,
    /// The groups so far and the owner of each address, to find duplicates.
    names: BTreeSet<Name>,
    sockets: BTreeMap<SocketAddr, String>,
}

impl Reader<'_> {
    fn wrong(&mut self, span: Range<usize>, sentence: impl Into<String>) {
        let before = self.text.as_bytes().iter().take(span.start);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        self.mistakes.push(Mistake { span, line, sentence: sentence.into() });
    }

    fn groups(&mut self, root: &DeTable<'_>) -> Vec<GroupConfig> {
        for (key, _) in root.iter().filter(|(key, _)| key.get_ref() != "group") {
            self.wrong(
                key.span(),
                format!("unknown key `{}`: the file consists of [[group]]", key.get_ref()),
            );
        }
        let Some(value) = root.get("group") else { return Vec::new() };
        let DeValue::Array(tables) = value.get_ref() else {
            self.wrong(value.span(), "write [[group]], with two brackets");
            return Vec::new();
        };
        if tables.len() > GROUPS_MAX {
            self.wrong(value.span(), format!("a cluster has at most {GROUPS_MAX} groups"));
        }
        tables.iter().filter_map(|table| self.group(table)).collect()
    }

    fn group(&mut self, value: &Value<'_>) -> Option<GroupConfig> {
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong(value.span(), "write [[group]], and its keys below it");
            return None;
        };
        for (key, _) in table.iter().filter(|(key, _)| !KEYS.contains(&&**key.get_ref())) {
            let known = KEYS.join(", ");
            self.wrong(key.span(), format!("unknown key `{}`: a group has {known}", key.get_ref()));
        }
        let name = match table.get("name") {
            Some(name) => self.name(name),
            None => self.missing(value, "name = \"home\""),
        };
        let addresses = match table.get("addresses") {
            Some(addresses) => self.list(addresses, "addresses", Self::address),
            None => self.missing(value, "addresses = [\"10.0.0.50/24\"]"),
        };
        let default = vec![(0..0, PORT_DEFAULT)];
        let ports = table.get("ports").map_or(Some(default), |ports| self.list(ports, "ports", Self::port));
        let nodes = table.get("nodes");
        let nodes = nodes.map_or(Some(Vec::new()), |nodes| self.list(nodes, "nodes", Self::name));
        let config = table.get("config").map_or(Some(None), |config| self.path(config).map(Some));
        if let Some(name) = &name
            && !self.names.insert(name.clone())
        {
            self.wrong(table["name"].span(), format!("there are two groups \"{name}\""));
        }
        if let Some(nodes) = &nodes {
            self.check_nodes(nodes);
        }
        let (addresses, ports) = (addresses?, ports?);
        self.check_sockets(value, name.as_ref(), &addresses, &ports);
        let (addresses, ports, nodes) = (values(addresses), values(ports), values(nodes?));
        Some(GroupConfig { name: name?, addresses, ports, nodes, config: config? })
    }

    fn missing<T>(&mut self, table: &Value<'_>, example: &str) -> Option<T> {
        self.wrong(table.span(), format!("a key is missing: write {example}"));
        None
    }

    /// Reads a list; none if anything in it is wrong.
    fn list<T>(
        &mut self,
        value: &Value<'_>,
        key: &str,
        read: impl Fn(&mut Self, &Value<'_>) -> Option<T>,
    ) -> Option<Vec<(Range<usize>, T)>> {
        let DeValue::Array(elements) = value.get_ref() else {
            self.wrong(value.span(), format!("{key} is a list: write it in brackets, as in {key} = [...]"));
            return None;
        };
        let found: Vec<_> =
            elements.iter().map(|element| read(self, element).map(|read| (element.span(), read))).collect();
        found.into_iter().collect()
    }

    fn text<'v>(&mut self, value: &'v Value<'_>, what: &str) -> Option<&'v str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.wrong(value.span(), format!("{what} is written in quotes"));
        }
        text
    }

    fn name(&mut self, value: &Value<'_>) -> Option<Name> {
        let text = self.text(value, "a name")?;
        Name::new(text).map_err(|error| self.wrong(value.span(), error.to_string())).ok()
    }

    fn address(&mut self, value: &Value<'_>) -> Option<IpNet> {
        let text = self.text(value, "an address")?;
        let Ok(address) = text.parse::<IpNet>() else {
            let sentence = format!(
                "{text:?} is not an address with the length of its network's prefix: write it as in \"10.0.0.50/24\""
            );
            self.wrong(value.span(), sentence);
            return None;
        };
        let ip = address.addr();
        if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() {
            self.wrong(value.span(), format!("clients on other machines cannot reach {ip}"));
            return None;
        }
        Some(address)
    }

    fn path(&mut self, value: &Value<'_>) -> Option<PathBuf> {
        let path = PathBuf::from(self.text(value, "a path")?);
        if !path.is_absolute() {
            self.wrong(
                value.span(),
                "a path is absolute, since nodes read the file: write \"/etc/holdfast/home.toml\"",
            );
            return None;
        }
        Some(path)
    }

    fn port(&mut self, value: &Value<'_>) -> Option<u16> {
        let number = value.get_ref().as_integer().and_then(|number| number.as_str().parse::<u16>().ok());
        if number.is_none_or(|port| port == 0) {
            self.wrong(value.span(), "a port is a number from 1 to 65535");
            return None;
        }
        number
    }

    fn check_nodes(&mut self, nodes: &[(Range<usize>, Name)]) {
        if let Some((span, _)) = nodes.get(NODES_MAX) {
            self.wrong(span.clone(), format!("a cluster has at most {NODES_MAX} nodes"));
        }
        for (place, (span, node)) in nodes.iter().enumerate() {
            if nodes[..place].iter().any(|(_, before)| before == node) {
                self.wrong(span.clone(), format!("{node} is there twice"));
            }
        }
    }

    /// Checks that no other group has an address and port of this one, and that there are neither none nor too many.
    fn check_sockets(
        &mut self,
        table: &Value<'_>,
        name: Option<&Name>,
        addresses: &[(Range<usize>, IpNet)],
        ports: &[(Range<usize>, u16)],
    ) {
        if !(1..=SOCKETS_MAX).contains(&(addresses.len() * ports.len())) {
            let sentence = format!("a group needs 1 to {SOCKETS_MAX} addresses, counted once for each port");
            return self.wrong(table.span(), sentence);
        }
        let owner = name.map_or("another group", Name::as_str);
        for (span, address) in addresses {
            let ip: IpAddr = address.addr();
            let taken = ports.iter().filter_map(|(_, port)| {
                let socket = SocketAddr::new(ip, *port);
                self.sockets.insert(socket, owner.to_owned()).map(|before| (socket, before))
            });
            if let Some((socket, before)) = taken.collect::<Vec<_>>().pop() {
                self.wrong(span.clone(), format!("{socket} is an address of {before} already"));
            }
        }
    }
}

/// Returns what was read without the places.
fn values<T>(list: Vec<(Range<usize>, T)>) -> Vec<T> {
    list.into_iter().map(|(_, value)| value).collect()
}

#[cfg(test)]
mod tests;
