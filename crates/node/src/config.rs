//! The agent's configuration, `/etc/holdfast/node.toml`.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::{fs, io};

use cluster::GroupConfig;
use ipnet::IpNet;
use rados::Location;
use serde::Deserialize;

use crate::limits::SOCKETS_MAX;

/// Where it is looked for.
pub const PATH_DEFAULT: &str = "/etc/holdfast/node.toml";

/// An example, with every key.
pub const EXAMPLE: &str = include_str!("config/example.toml");

/// The longest name of a node, an interface or a group, bytes.
const NAME_BYTES_MAX: usize = 64;

/// The port of NFS.
const PORT_DEFAULT: u16 = 2049;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The name of this machine in the cluster.
    pub node: String,
    /// The network interface that has the addresses of groups.
    pub interface: String,
    /// The pool of a Ceph cluster, `rados:POOL`, that has the groups of a cluster of nodes; none for groups on shared disks.
    #[serde(default)]
    pub store: Option<PathBuf>,
    /// The socket on which the agent takes commands.
    #[serde(default = "socket_default")]
    pub socket: PathBuf,
    /// A loopback address where the agent answers Prometheus.
    #[serde(default)]
    pub metrics: Option<SocketAddr>,
    /// The command that stops the machine `{node}` from writing.
    #[serde(default)]
    pub fence_command: Vec<String>,
    /// The command that mounts the device of the group `{group}` once the other machine is fenced; none if it needs no mounting.
    #[serde(default)]
    pub mount_command: Vec<String>,
    /// The command that has the cluster manager move the group `{group}` to the machine `{node}`.
    #[serde(default)]
    pub move_command: Vec<String>,
    /// The groups that this machine can serve.
    #[serde(default)]
    pub group: Vec<Group>,
}

/// A group: volumes and addresses that move between machines together.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its addresses, with the lengths of their networks' prefixes.
    pub addresses: Vec<IpNet>,
    /// The ports at which it is served.
    #[serde(default = "ports_default")]
    pub ports: Vec<u16>,
    /// The data directory, on a device that the other machine can reach too; in a store, the namespace.
    pub data: PathBuf,
    /// The configuration file of the server.
    #[serde(default)]
    pub config: Option<PathBuf>,
}

fn socket_default() -> PathBuf {
    PathBuf::from("/run/holdfast/node.sock")
}

fn ports_default() -> Vec<u16> {
    vec![PORT_DEFAULT]
}

impl Config {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// A sentence that says where the mistake is and what to write instead, or why the file cannot be read.
    pub fn read(path: &Path) -> Result<Config, String> {
        let shown = path.display();
        let text = fs::read_to_string(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!(
                "there is no configuration file {shown}: check the path, or write one with `holdfast node --example > {shown}`"
            ),
            _ => format!("cannot read {shown}: {error}; run this as root"),
        })?;
        Config::parse(&text).map_err(|error| format!("{shown}: {error}"))
    }

    /// Reads `text`.
    fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        check_name("node", &self.node)?;
        check_name("interface", &self.interface)?;
        self.check_store()?;
        if let Some(address) = self.metrics.filter(|address| !address.ip().is_loopback()) {
            return Err(format!(
                "the address of metrics cannot be {address}: use one that only this machine reaches, such as 127.0.0.1:{}",
                address.port()
            ));
        }
        let (mut names, mut sockets, mut data) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for group in &self.group {
            check_name("name of a group", &group.name)?;
            if !(1..=SOCKETS_MAX).contains(&group.sockets().count()) {
                let name = &group.name;
                return Err(format!(
                    "the group {name:?} needs 1 to {SOCKETS_MAX} addresses, counted once for each port"
                ));
            }
            if !names.insert(&group.name) {
                return Err(format!("there are two groups {:?}", group.name));
            }
            if !data.insert(&group.data) {
                return Err(format!("two groups have the data directory {}", group.data.display()));
            }
            if let Some(address) = group.sockets().find(|address| !sockets.insert(*address)) {
                return Err(format!("two groups have the address {address}"));
            }
        }
        Ok(())
    }

    /// Returns where the groups of the cluster are; none for groups on shared disks.
    ///
    /// # Errors
    /// The store is no pool of a Ceph cluster.
    pub fn location(&self) -> Result<Option<Location>, String> {
        let Some(store) = &self.store else { return Ok(None) };
        let location = Location::parse(store).map_err(|error| error.to_string())?;
        match location {
            Some(location) if location.namespace.is_empty() => Ok(Some(location)),
            Some(_) => {
                Err("the store cannot have a namespace: each group has one of its own, with its name"
                    .to_owned())
            }
            None => Err(format!(
                "the store cannot be {}: write rados:POOL. Groups on a shared disk have a data directory each, in [[group]]",
                store.display()
            )),
        }
    }

    /// Checks that all that decides about groups is in the store, if there is one.
    fn check_store(&self) -> Result<(), String> {
        if self.location()?.is_none() {
            return Ok(());
        }
        if !self.group.is_empty() {
            return Err("the groups of a store are not in this file: see `holdfast cluster apply`".to_owned());
        }
        if [&self.fence_command, &self.mount_command, &self.move_command]
            .iter()
            .any(|words| !words.is_empty())
        {
            return Err(
                "fence_command, mount_command and move_command are for shared disks: the nodes of a store need none".to_owned()
            );
        }
        Ok(())
    }

    /// Returns the group of this name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.group.iter().find(|group| group.name == name)
    }
}

impl Group {
    /// Returns a group of a cluster of nodes, whose pools are in a namespace of its own of the store.
    pub(crate) fn in_store(config: &GroupConfig, store: &Location) -> Group {
        let location = Location { namespace: config.name.to_string(), ..store.clone() };
        Group {
            name: config.name.to_string(),
            addresses: config.addresses.clone(),
            ports: config.ports.clone(),
            data: location.to_string().into(),
            config: config.config.clone(),
        }
    }

    /// Returns where clients find the group.
    pub fn sockets(&self) -> impl Iterator<Item = SocketAddr> {
        self.ips().flat_map(|ip| self.ports.iter().map(move |port| SocketAddr::new(ip, *port)))
    }

    /// Returns its addresses, without their networks.
    pub(crate) fn ips(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().map(IpNet::addr)
    }
}

/// Refuses names that could be taken for something else in a command or a file.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_good = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.chars().all(is_plain)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if is_good {
        return Ok(());
    }
    Err(format!(
        "the {what} cannot be {name:?}: use 1 to {NAME_BYTES_MAX} letters, digits, '.', '_' or '-', and begin with a letter \
         or a digit"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_group(group: &str) -> Result<Config, String> {
        Config::parse(&format!("node = \"a\"\ninterface = \"eth0\"\n[[group]]\n{group}"))
    }

    #[test]
    fn the_example_is_read() {
        let config = Config::parse(EXAMPLE).unwrap();
        assert_eq!((&*config.node, &*config.interface), ("a", "eth0"));
        let home = config.group("home").unwrap();
        let sockets: Vec<String> = home.sockets().map(|address| address.to_string()).collect();
        assert_eq!(sockets, ["10.0.0.50:2049", "[2001:db8::50]:2049"]);
        assert_eq!(home.data, Path::new("/srv/home/data"));
        assert!(config.group("other").is_none());
        // Keys that are commented out show their defaults, or can be used as they are.
        let all: String = EXAMPLE
            .lines()
            .map(|line| {
                format!("{}\n", line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line))
            })
            .collect();
        let config = Config::parse(&all).unwrap();
        assert_eq!(config.socket, socket_default());
        assert_eq!(config.group[0].ports, [PORT_DEFAULT, 111]);
        let commands = [&config.fence_command, &config.mount_command, &config.move_command];
        assert!(commands.iter().all(|command| !command.is_empty()));
        assert!(config.metrics.is_some());
    }

    #[test]
    fn a_store_is_a_pool_and_decides_about_groups() {
        let with = |store: &str, more: &str| {
            Config::parse(&format!("node = \"a\"\ninterface = \"eth0\"\nstore = \"{store}\"\n{more}"))
        };
        let config = with("rados:hf@nfs+ec", "").unwrap();
        let location = config.location().unwrap().unwrap();
        let group =
            cluster::ClusterConfig::parse("[[group]]\nname = \"home\"\naddresses = [\"10.0.0.5/24\"]")
                .unwrap();
        let group = Group::in_store(&group.groups[0], &location);
        assert_eq!((group.data.as_path(), &*group.ports), (Path::new("rados:hf@nfs+ec/home"), &[2049][..]));
        let refused = |store: &str, more: &str, part: &str| {
            let error = with(store, more).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        refused("/srv/data", "", "write rados:POOL");
        refused("rados:nfs/home", "", "a namespace");
        refused("rados:", "", "rados:POOL");
        refused("rados:nfs", "fence_command = [\"off\"]\n", "shared disks");
        refused(
            "rados:nfs",
            "[[group]]\nname = \"x\"\naddresses = [\"10.0.0.5/24\"]\ndata = \"/srv\"\n",
            "not in this file",
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_refused_with_what_to_do() {
        let missing = Config::read(Path::new("/nonexistent/node.toml")).unwrap_err();
        assert!(
            missing.contains("no configuration file")
                && missing.contains("--example > /nonexistent/node.toml")
        );
        assert!(Config::read(Path::new("/")).unwrap_err().starts_with("cannot read /: "));
    }

    #[test]
    fn mistakes_are_refused_with_what_to_write() {
        let refused = |group: &str, part: &str| {
            let error = with_group(group).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        let home = "name = \"home\"\naddresses = [\"10.0.0.5/24\"]\ndata = \"/srv/home\"\n";
        assert!(with_group(home).is_ok());
        refused(&home.replace("[\"10.0.0.5/24\"]", "[]"), "1 to 32 addresses");
        refused(&format!("{home}ports = []\n"), "1 to 32 addresses");
        refused(&home.replace("home\"\nadd", "-home\"\nadd"), "begin with a letter");
        refused(&home.replace("10.0.0.5/24", "10.0.0.5"), "addresses");
        refused(&format!("{home}colour = 1\n"), "colour");
        let exposed =
            Config::parse("node = \"a\"\ninterface = \"eth0\"\nmetrics = \"10.0.0.3:9050\"\n").unwrap_err();
        assert!(exposed.contains("such as 127.0.0.1:9050"), "{exposed}");
        let other = home.replace("\"home\"", "\"other\"");
        refused(&format!("{home}[[group]]\n{home}"), "two groups \"home\"");
        refused(&format!("{home}[[group]]\n{other}"), "data directory /srv/home");
        let elsewhere = other.replace("/srv/home", "/srv/other");
        refused(&format!("{home}[[group]]\n{elsewhere}"), "address 10.0.0.5:2049");
    }
}
