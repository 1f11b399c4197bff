//! What `holdfast serve` prints when it is ready: addresses, data directory, and commands to type.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use server::server::Server;

use crate::report::count;

/// The port at which clients look for NFS by default (RFC 8881 section 2.9.3).
const NFS_PORT: u16 = 2049;

/// Exports whose mount commands are printed. Those of more would fill a terminal, and differ in their paths only.
const MOUNTS_SHOWN_MAX: usize = 3;

/// Returns the text, which ends with a line that says how to stop the server.
pub(super) fn greeting(server: &Server) -> String {
    let mut lines: Vec<String> =
        server.addresses().iter().map(|address| format!("Listening on {address}")).collect();
    let (reachable, port) = (server.reachable_addresses(), server.addresses().first().map(SocketAddr::port));
    lines.extend(reach(&reachable, port.unwrap_or(NFS_PORT)));
    lines.push(format!("Data is in {}", server.root().display()));
    // Without a network, a server on 0.0.0.0 is reached through loopback.
    let local = || server.addresses().iter().copied().map(on_this_machine).collect();
    let shown = if reachable.is_empty() { local() } else { reachable };
    let points = server.mount_points().iter();
    let mounts: Vec<_> = points.filter_map(|point| Some((point.address(&shown)?, &*point.path))).collect();
    lines.extend(mount_lines(&mounts, server.root()));
    lines.extend([String::new(), format!("Stop with Ctrl-C, or: kill {}", std::process::id())]);
    lines.iter().fold(String::new(), |mut text, line| {
        writeln!(text, "{line}").expect("a String takes any text");
        text
    })
}

/// Says by which addresses clients can connect.
fn reach(reachable: &[SocketAddr], port: u16) -> Vec<String> {
    if reachable.is_empty() {
        return vec![format!(
            "Only this machine can connect. For other machines, start the server with --listen 0.0.0.0:{port}"
        )];
    }
    reachable.iter().map(|address| format!("Clients can connect to {address}")).collect()
}

/// Returns the address by which this machine reaches a server that listens on `address`.
fn on_this_machine(address: SocketAddr) -> SocketAddr {
    let loopback =
        if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
    if address.ip().is_unspecified() { SocketAddr::new(loopback, address.port()) } else { address }
}

/// Returns the lines that say how to mount what the data directory at `root` exports: these paths, from these addresses.
fn mount_lines(mounts: &[(SocketAddr, &str)], root: &Path) -> Vec<String> {
    let shown = mounts.iter().take(MOUNTS_SHOWN_MAX);
    let mut lines: Vec<String> = shown.flat_map(|(address, path)| mount_commands(*address, path)).collect();
    if let Some(more) = mounts.len().checked_sub(MOUNTS_SHOWN_MAX).filter(|more| *more > 0) {
        lines.extend([
            String::new(),
            format!(
                "and {} likewise: holdfast volume list {}",
                count(more as u64, "more export"),
                root.display()
            ),
        ]);
    }
    lines
}

/// Returns the lines that say how to mount `path` from `address`.
fn mount_commands(address: SocketAddr, path: &str) -> Vec<String> {
    let port = address.port();
    let host = if address.is_ipv6() { format!("[{}]", address.ip()) } else { address.ip().to_string() };
    let elsewhere = if port == NFS_PORT { String::new() } else { format!(" -o port={port}") };
    let transport = if address.is_ipv6() { "proto=tcp6" } else { "tcp" };
    vec![
        String::new(),
        format!("Mount {path} on Linux:"),
        format!("  sudo mount -t nfs{elsewhere} {host}:{path} /mnt"),
        "Over NFSv3, with locks local to the client:".to_owned(),
        format!(
            "  sudo mount -t nfs -o vers=3,{transport},nolock,port={port},mountport={port} {host}:{path} /mnt"
        ),
        "On macOS:".to_owned(),
        format!(
            "  sudo mount_nfs -o vers=3,tcp,nolocks,port={port},mountport={port} {host}:{path} /private/mnt"
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_loopback_says_how_others_can_connect() {
        let said = reach(&[], 2049).join("\n");
        assert!(said.contains("Only this machine") && said.contains("--listen 0.0.0.0:2049"), "{said}");
    }

    #[test]
    fn mount_commands_name_an_address_that_clients_can_use() {
        let said = mount_commands("192.0.2.7:2049".parse().unwrap(), "/main").join("\n");
        assert!(said.contains("sudo mount -t nfs 192.0.2.7:/main /mnt"), "{said}");
        assert!(said.contains("vers=3,tcp,nolock,port=2049,mountport=2049 192.0.2.7:/main"), "{said}");
        let said = mount_commands("[2001:db8::7]:2050".parse().unwrap(), "/main").join("\n");
        assert!(said.contains("sudo mount -t nfs -o port=2050 [2001:db8::7]:/main /mnt"), "{said}");
        assert!(said.contains("proto=tcp6"), "{said}");
    }

    #[test]
    fn mount_commands_of_many_exports_are_printed_in_part() {
        let paths: Vec<String> = (0..500).map(|number| format!("/v{number}")).collect();
        let address = "192.0.2.7:2049".parse().unwrap();
        let said = |count: usize| {
            let mounts: Vec<_> = paths[..count].iter().map(|path| (address, &**path)).collect();
            mount_lines(&mounts, Path::new("/srv/data")).join("\n")
        };
        assert!(!said(MOUNTS_SHOWN_MAX).contains("likewise"), "{}", said(MOUNTS_SHOWN_MAX));
        assert!(
            said(MOUNTS_SHOWN_MAX + 1)
                .ends_with("and 1 more export likewise: holdfast volume list /srv/data")
        );
        let many = said(500);
        assert_eq!(many.matches(" on Linux:").count(), MOUNTS_SHOWN_MAX);
        assert!(many.ends_with("and 497 more exports likewise: holdfast volume list /srv/data"), "{many}");
    }

    #[test]
    fn an_unspecified_address_becomes_loopback_where_there_is_no_other() {
        let here = |text: &str| on_this_machine(text.parse().unwrap()).to_string();
        assert_eq!(here("0.0.0.0:2049"), "127.0.0.1:2049");
        assert_eq!(here("[::]:2049"), "[::1]:2049");
        assert_eq!(here("10.0.0.7:2049"), "10.0.0.7:2049");
    }
}
