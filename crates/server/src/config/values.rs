//! Values of settings, from the configuration file and the command line alike. Each error is a sentence that says what to
//! write.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use rados::Location;

use crate::config::memory::{MEMORY_BYTES_MIN, machine_bytes};
use crate::config::size::Size;

/// The size of the smallest journal: one file of its ring.
const JOURNAL_BYTES_MIN: u64 = store::LOG_FILE_BYTES;

/// Parses an address to listen on: an IP address and a port. Host names are not resolved, so that no name server
/// decides where a server listens.
pub fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let advice = listen_advice(text);
        format!("{text:?} is not an address and a port: {advice}")
    })
}

fn listen_advice(text: &str) -> String {
    let usual =
        "write an IP address and a port, such as \"127.0.0.1:2049\", \"0.0.0.0:2049\" or \"[::]:2049\"";
    if text.parse::<u16>().is_ok() {
        return format!("write \"127.0.0.1:{text}\" for this machine only, or \"0.0.0.0:{text}\" for all");
    }
    if text.parse::<Ipv4Addr>().is_ok() {
        return format!("it has no port; write \"{text}:2049\"");
    }
    if text.trim_matches(['[', ']']).parse::<Ipv6Addr>().is_ok() {
        let bare = text.trim_matches(['[', ']']);
        let address =
            bare.strip_suffix(":2049").filter(|rest| rest.parse::<Ipv6Addr>().is_ok()).unwrap_or(bare);
        return format!("write \"[{address}]:2049\"");
    }
    let Some((host, port)) = text.rsplit_once(':') else { return usual.to_owned() };
    if port.parse::<u16>().is_err() {
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        return if is_number { format!("ports are 0 to 65535, not {port}") } else { usual.to_owned() };
    }
    match host {
        "" | "*" => format!(
            "write \"0.0.0.0:{port}\" for every IPv4 address, or \"[::]:{port}\" for every IPv6 address"
        ),
        "localhost" => format!("write \"127.0.0.1:{port}\"; host names are not resolved"),
        _ if host.bytes().any(|byte| byte.is_ascii_alphabetic()) && !host.contains(':') => {
            format!("write the IP address of {host:?}; host names are not resolved")
        }
        _ => usual.to_owned(),
    }
}

/// Parses a network or a single address of clients.
pub(crate) fn network(text: &str) -> Result<IpNet, String> {
    let network = text.parse::<IpAddr>().map(IpNet::from).or_else(|_| text.parse());
    let Ok(network) = network else {
        return Err(format!("{text:?} is not a network: {}", network_advice(text)));
    };
    if names_link_local_hosts(network) {
        return Err(format!(
            "{text:?} names a different host on each link: write \"fe80::/64\" for all hosts on the links of this machine, \
             or another address of the host"
        ));
    }
    if network.trunc() == network {
        return Ok(network);
    }
    Err(format!(
        "{text:?} has host bits: write \"{}\" for the network, or \"{}\" for the one address",
        network.trunc(),
        IpNet::from(network.addr())
    ))
}

/// Whether a network has only some of the hosts on a link by their link-local addresses, which other links have too (RFC 4291
/// section 2.5.6).
fn names_link_local_hosts(network: IpNet) -> bool {
    let IpNet::V6(network) = network else { return false };
    let address = network.addr();
    address.is_unicast_link_local() && (network.prefix_len() > 64 || address.segments()[1] != 0)
}

fn network_advice(text: &str) -> String {
    let masked = text.split_once('/').and_then(|(address, mask)| {
        let (address, mask) = (address.parse().ok()?, mask.parse().ok()?);
        IpNet::with_netmask(address, mask).ok()
    });
    let address = text.split_once('/').and_then(|(address, length)| {
        length.parse::<u32>().ok()?;
        address.parse::<IpAddr>().ok()
    });
    match (masked, address) {
        (Some(network), _) => format!("write \"{}\"", network.trunc()),
        (None, Some(IpAddr::V4(_))) => "the number after \"/\" is 0 to 32".to_owned(),
        (None, Some(IpAddr::V6(_))) => "the number after \"/\" is 0 to 128".to_owned(),
        (None, None) if text == "*" => "to admit everybody, remove `clients`".to_owned(),
        (None, None) => {
            "write an address such as \"10.0.0.7\" or a network such as \"10.0.0.0/8\"; host names are not \
                         resolved"
                .to_owned()
        }
    }
}

/// Refuses a list in which one address includes another, because a server cannot listen on both. The error has the number of
/// the address to remove.
pub(crate) fn check_addresses(addresses: &[SocketAddr]) -> Result<(), (usize, String)> {
    for (later, address) in addresses.iter().enumerate() {
        for (earlier, other) in addresses[..later].iter().enumerate() {
            if address.port() == 0 || address.port() != other.port() || address.is_ipv4() != other.is_ipv4() {
                continue;
            }
            if address == other {
                return Err((later, format!("{address} is listed twice: remove one")));
            }
            for (number, wide, narrow) in [(later, other, address), (earlier, address, other)] {
                if wide.ip().is_unspecified() {
                    return Err((number, format!("{wide} includes {narrow}: remove {narrow}")));
                }
            }
        }
    }
    Ok(())
}

/// Checks the bound of the server's memory on a machine with `machine` bytes.
pub(crate) fn check_memory(machine: Option<u64>, size: Size) -> Result<Size, String> {
    if size.0 < MEMORY_BYTES_MIN {
        let least = Size(MEMORY_BYTES_MIN);
        return Err(format!("memory is {size}, which is too little: write at least \"{least}\""));
    }
    match machine {
        Some(bytes) if size.0 > bytes => {
            Err(format!("memory is {size}, but this machine, or its control group, has only {}", Size(bytes)))
        }
        _ => Ok(size),
    }
}

/// Checks the size of the journal of new pools.
pub(crate) fn check_journal_size(size: Size) -> Result<Size, String> {
    if (JOURNAL_BYTES_MIN..=store::JOURNAL_BYTES_MAX).contains(&size.0) {
        return Ok(size);
    }
    Err(format!(
        "a journal cannot be {size}: write a multiple of \"{}\", the size of its files, up to \"{}\"",
        Size(JOURNAL_BYTES_MIN),
        Size(store::JOURNAL_BYTES_MAX)
    ))
}

/// Parses `text` as the bound of the memory of a server on this machine.
pub fn memory(text: &str) -> Result<Size, String> {
    check_memory(machine_bytes(), text.parse()?)
}

/// Parses `text` as the size of a journal.
pub fn journal_size(text: &str) -> Result<Size, String> {
    check_journal_size(text.parse()?)
}

/// Parses the path of the directory of journals.
pub(crate) fn journal(text: &str) -> Result<PathBuf, String> {
    let path = directory(text)?;
    check_journal(&path)?;
    Ok(path)
}

/// Checks the directory of the journals of new pools. Only the last part of its path may be missing: it is created then.
pub(crate) fn check_journal(path: &Path) -> Result<(), String> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if parent.is_dir() {
        return Ok(());
    }
    Err(format!("there is no directory {}: create it, or check the path", parent.display()))
}

/// Parses the path of a directory that may be missing.
pub(crate) fn directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if text.is_empty() {
        return Err("the path is empty: name a directory".to_owned());
    }
    if path.exists() && !path.is_dir() {
        return Err(format!("{text} is not a directory: name a directory"));
    }
    Ok(path)
}

/// Reads where pools are: a directory, or a namespace of a Ceph cluster.
///
/// # Errors
/// A sentence, if they cannot be there.
pub fn data(text: &str) -> Result<PathBuf, String> {
    match Location::parse(Path::new(text)) {
        Ok(Some(_)) => Ok(PathBuf::from(text)),
        Ok(None) => directory(text),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_cannot_be_listened_on_are_answered_with_ones_that_can() {
        let cases = [
            ("localhost:2049", "\"127.0.0.1:2049\"; host names"),
            ("nas.example:2049", "the IP address of \"nas.example\""),
            ("2049", "\"127.0.0.1:2049\""),
            (":2049", "\"0.0.0.0:2049\""),
            ("*:111", "\"[::]:111\""),
            ("10.0.0.1", "\"10.0.0.1:2049\""),
            ("::1", "\"[::1]:2049\""),
            ("::1:2049", "\"[::1]:2049\""),
            ("10.0.0.1:99999", "0 to 65535, not 99999"),
            ("", "such as \"127.0.0.1:2049\""),
        ];
        for (text, expected) in cases {
            let said = listen(text).unwrap_err();
            assert!(said.contains(expected), "{text}: {said}");
        }
        assert!(listen("127.0.0.1:0").is_ok() && listen("[::]:2049").is_ok());
    }

    #[test]
    fn addresses_that_include_one_another_are_refused() {
        let check = |texts: &[&str]| {
            let addresses: Vec<_> = texts.iter().map(|text| listen(text).unwrap()).collect();
            check_addresses(&addresses).map_err(|(number, sentence)| format!("{number}: {sentence}"))
        };
        let cases: [(&[&str], &str); 3] = [
            (&["[::1]:2049", "10.0.0.1:2049", "10.0.0.1:2049"], "2: 10.0.0.1:2049 is listed twice"),
            (&["0.0.0.0:2049", "127.0.0.1:2049"], "1: 0.0.0.0:2049 includes 127.0.0.1:2049: remove 127"),
            (&["[::1]:2049", "[::]:2049"], "0: [::]:2049 includes [::1]:2049: remove [::1]"),
        ];
        for (texts, expected) in cases {
            let said = check(texts).unwrap_err();
            assert!(said.starts_with(expected), "{said}");
        }
        for fine in [&["0.0.0.0:2049", "[::]:2049"], &["0.0.0.0:2049", "127.0.0.1:2050"], &["127.0.0.1:0"; 2]]
        {
            check(fine).unwrap();
        }
    }

    #[test]
    fn networks_that_cannot_be_used_are_answered_with_ones_that_can() {
        let cases = [
            ("192.168.1.7/24", "write \"192.168.1.0/24\" for the network, or \"192.168.1.7/32\""),
            ("fd00::1/8", "write \"fd00::/8\" for the network, or \"fd00::1/128\""),
            ("10.1.0.0/255.255.0.0", "write \"10.1.0.0/16\""),
            ("10.0.0.0/99", "0 to 32"),
            ("fe80::aa", "write \"fe80::/64\""),
            ("fe80:3::/32", "write \"fe80::/64\""),
            ("fe80::/65", "a different host on each link"),
            ("*", "remove `clients`"),
            ("*.example.org", "host names are not resolved"),
        ];
        for (text, expected) in cases {
            let said = network(text).unwrap_err();
            assert!(said.contains(expected), "{text}: {said}");
        }
        assert_eq!(network("192.0.2.7").unwrap().prefix_len(), 32);
        assert!(network("0.0.0.0/0").is_ok() && network("10.0.0.0/8").is_ok());
        assert!(network("fe80::/10").is_ok() && network("fe80::/64").is_ok());
    }

    #[test]
    fn sizes_are_bounded() {
        let machine = Some(8 << 30);
        assert!(check_memory(machine, Size(8 << 30)).is_ok() && check_memory(None, Size(1 << 50)).is_ok());
        let said = check_memory(machine, Size((8 << 30) + 1)).unwrap_err();
        assert!(said.contains("has only 8 GiB"), "{said}");
        let said = check_memory(machine, Size(16 << 20)).unwrap_err();
        assert!(said.contains("at least \"64 MiB\""), "{said}");
        for size in ["0", "15 MiB", "2 TiB"] {
            assert!(journal_size(size).unwrap_err().contains("\"16 MiB\""), "{size}");
        }
        assert!(journal_size("16 MiB").is_ok() && journal_size("1 TiB").is_ok());
    }

    #[test]
    fn directories_that_cannot_be_used_are_refused() {
        assert!(journal("/missing/at/all").unwrap_err().contains("no directory /missing/at"));
        assert!(directory("/proc/self/status").unwrap_err().contains("is not a directory"));
        assert!(directory("").is_err() && journal("fast").is_ok() && directory("/missing/at/all").is_ok());
    }
}
