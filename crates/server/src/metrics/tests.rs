//! The metrics of a server that runs, their text, and their documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nfs::summary::OperationId;
use wire::limits::RECORD_BYTES_MAX;
use wire::nfs4::ArgOp4;
use wire::portmap::{self, Mapping, PROTOCOL_UDP};
use wire::record::{Peek, peek, write_record};
use wire::rquota::{self, GetQuotaArgs2, QuotaRes};
use wire::xdr::{Encode, Encoder, decode_all};
use wire::{mount3, nfs3, nfs4, nlm4};

use super::registry::{IO_SIZE, OPERATION_DURATION, OPERATION_ERRORS, OPERATIONS, SERIES_OMITTED, VOLUME_UP};
use super::series::{Buckets, Label, Value};
use super::*;
use crate::config::Export;
use crate::limits::SERIES_MAX;
use crate::net::event_loop::tests::volume;
use crate::server::{Server, Settings};

mod monitoring;

/// A sample of the text format: name, labels, value.
type Sample = (String, BTreeMap<String, String>, f64);

/// Parses the text format as strictly as it is written.
fn parse(text: &str) -> Vec<Sample> {
    let (mut samples, mut typed) = (Vec::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            match (words.next().unwrap(), words.next().unwrap(), words.next().unwrap()) {
                ("HELP", name, help) => assert!(!help.is_empty(), "{name}"),
                ("TYPE", name, _) => assert!(typed.insert(name.to_owned()), "{name} is declared twice"),
                other => panic!("{other:?}"),
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series
            .split_once('{')
            .map_or((series, ""), |(name, rest)| (name, rest.strip_suffix('}').unwrap()));
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        assert!(typed.contains(name) || base.is_some_and(|base| typed.contains(base)), "{name} has no type");
        samples.push((name.to_owned(), parse_labels(labels), value.parse().unwrap()));
    }
    samples
}

fn parse_labels(text: &str) -> BTreeMap<String, String> {
    let (mut labels, mut rest) = (BTreeMap::new(), text);
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").unwrap();
        let (mut value, mut characters) = (String::new(), after.chars());
        loop {
            match characters.next().unwrap() {
                '"' => break,
                '\\' => value.push(match characters.next().unwrap() {
                    'n' => '\n',
                    other => other,
                }),
                other => value.push(other),
            }
        }
        assert!(labels.insert(name.to_owned(), value).is_none());
        rest = characters.as_str().strip_prefix(',').unwrap_or(characters.as_str());
    }
    labels
}

/// Returns the sum of the samples of a name that have these labels.
fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> f64 {
    let has_labels = |sample: &&Sample| {
        labels.iter().all(|(label, value)| sample.1.get(*label).is_some_and(|found| found == value))
    };
    samples.iter().filter(|sample| sample.0 == name).filter(has_labels).map(|sample| sample.2).sum()
}

#[test]
fn the_text_can_be_parsed_whatever_volumes_are_called() {
    let mut scrape = Scrape::default();
    let name: Arc<str> = "a\\b\"c\nd,e}".into();
    scrape.number(&OPERATIONS, [(&name).into(), "nfs3".into(), "NULL".into()], u64::MAX);
    let buckets = Buckets::doubling(&[1, 0, 2, 4], 1024.0, 20_000.5);
    scrape.push(&IO_SIZE, [(&name).into(), "read".into()], Value::Histogram(buckets));
    let text = scrape.limited().text();
    let samples = parse(&text);
    let of = |metric: &str, labels: &[(&str, &str)]| value(&samples, metric, labels);
    assert_eq!(of("holdfast_operations_total", &[("volume", &name), ("op", "NULL")]), u64::MAX as f64);
    assert!(text.contains(&format!("}} {}\n", u64::MAX)), "whole numbers are exact");
    let buckets: Vec<f64> = ["1024", "2048", "4096", "+Inf"]
        .iter()
        .map(|bound| of("holdfast_io_size_bytes_bucket", &[("le", bound), ("volume", &name)]))
        .collect();
    assert_eq!(buckets, [1.0, 1.0, 3.0, 7.0], "{text}");
    assert_eq!(of("holdfast_io_size_bytes_count", &[]), 7.0);
    assert_eq!(of("holdfast_io_size_bytes_sum", &[]), 20_000.5);
    assert_eq!(of("holdfast_series_omitted", &[]), 0.0);
}

#[test]
fn bounds_are_short_decimal_numbers() {
    let buckets = Buckets::doubling(&[0; 24], 16e-6, 0.0);
    let bounds: Vec<String> = buckets.cumulative.iter().map(|(bound, _)| bound.to_string()).collect();
    assert_eq!((bounds[0].as_str(), bounds[1].as_str()), ("0.000016", "0.000032"));
    assert_eq!(bounds.last().unwrap(), "67.108864");
    let sizes = Buckets::doubling(&[0; 14], 1024.0, 0.0);
    let sizes: Vec<String> = sizes.cumulative.iter().map(|(bound, _)| bound.to_string()).collect();
    assert!(
        ["8192", "65536", "1048576"].iter().all(|bound| sizes.iter().any(|size| size == bound)),
        "{sizes:?}"
    );
}

#[test]
fn every_gauge_of_the_engine_is_a_metric() {
    let shown: BTreeSet<&str> = pools::GAUGES.iter().map(|(name, _)| *name).collect();
    // These are shown as volume_used_bytes, volume_inodes and segment_live_ratio.
    let others = ["usage_bytes", "usage_inodes", pools::LIVE, pools::WRITTEN];
    let gauges = volume(1).gauges();
    for (name, _) in &gauges {
        assert!(shown.contains(name) || others.contains(name), "{name} is not in metrics/pools.rs");
    }
    assert_eq!(gauges.len(), shown.len() + others.len(), "the engine has lost a gauge");
}

#[test]
fn the_registry_follows_the_rules_for_names() {
    let mut names = BTreeSet::new();
    for family in ALL {
        assert!(names.insert(family.name), "{} is there twice", family.name);
        assert_eq!(family.kind == Kind::Counter, family.name.ends_with("_total"), "{}", family.name);
        let stem = family.name.strip_suffix("_total").unwrap_or(family.name);
        if let Some(unit) = family.unit.filter(|unit| !stem.contains(unit)) {
            panic!("{} does not name its unit {unit}", family.name);
        }
        assert!(family.help.ends_with('.') && !family.help.contains('\n'), "{}", family.name);
    }
}

/// Returns the table of metrics for the documents.
fn table() -> String {
    let mut out = String::from("| metric | type | labels | meaning |\n|---|---|---|---|\n");
    for Family { name, kind, help, labels, .. } in ALL {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
        out.push_str(&format!("| `{name}` | {} | {labels} | {help} |\n", kind.name()));
    }
    out
}

#[test]
fn the_documents_list_the_metrics_of_the_registry() {
    const BEGIN: &str = "<!-- The table is made from crates/server/src/metrics/registry.rs. -->\n\n";
    let path = PathBuf::from("../../docs/metrics.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the table has a mark before it");
    let (_, after) = rest.split_once("\n\n").expect("an empty line follows the table");
    let expected = format!("{before}{BEGIN}{}\n{after}", table());
    if std::env::var_os("HOLDFAST_WRITE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(text == expected, "docs/metrics.md is old: run this test with HOLDFAST_WRITE_DOCS=1");
    }
}

#[test]
fn the_largest_scrape_has_as_many_series_as_are_allowed() {
    let mut scrape = Scrape::default();
    let names: Vec<Arc<str>> = (0..1000).map(|number| format!("volume-{number}").into()).collect();
    for name in &names {
        scrape.number(&VOLUME_UP, [name.into()], 1);
        for operation in OperationId::all().take(15) {
            let labels = [name.into(), operation.protocol().name().into(), operation.name().into()];
            scrape.number(&OPERATIONS, labels, 1);
        }
        let buckets = Buckets::doubling(&[7; 24], 16e-6, 0.0);
        scrape.push(&OPERATION_DURATION, [name.into(), "read".into()], Value::Histogram(buckets));
    }
    let start = Instant::now();
    let scrape = scrape.limited();
    let samples = parse(&scrape.text());
    println!("written and parsed in {:?}", start.elapsed());
    assert!((SERIES_MAX - 30..=SERIES_MAX).contains(&samples.len()), "{}", samples.len());
    let omitted = value(&samples, SERIES_OMITTED.name, &[]);
    assert_eq!(omitted + samples.len() as f64, 1000.0 * 16.0 + 1000.0 * 26.0 + 1.0);
    let families = scrape.json();
    let series = families[0]["series"].as_array().unwrap();
    assert_eq!(series[0]["labels"], serde_json::json!({}), "{families:#}");
    assert!(Label::from("a").as_str() == "a");
}

/// A server in a directory of its own, and a connection to it.
struct Running {
    root: PathBuf,
    server: Server,
    client: TcpStream,
    xid: u32,
}

impl Running {
    fn start(name: &str) -> Running {
        Running::with(name, Vec::new())
    }

    fn with(name: &str, exports: Vec<Export>) -> Running {
        let root = std::env::temp_dir().join(format!("holdfast-metrics-{name}-{}", std::process::id()));
        let settings = Settings {
            udp: true,
            config: Default::default(),
            data: root.clone(),
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            journal: None,
            journal_bytes: 16 << 20,
            memory: 256 << 20,
            threads: 2,
            workers: 2,
            rpcbind: false,
            lease: Duration::from_secs(60),
            exports,
            sync_delay: Duration::ZERO,
            counted_clients: 1,
            slow_operation: Duration::from_secs(60),
            events: Arc::default(),
            group: None,
        };
        let server = Server::start(&settings).unwrap();
        let client = TcpStream::connect(server.addresses()[0]).unwrap();
        Running { root, server, client, xid: 0 }
    }

    /// Makes a call without a credential. Returns its results.
    fn call(
        &mut self,
        (program, version, procedure): (u32, u32, u32),
        arguments: impl FnOnce(&mut Encoder<'_>),
    ) -> Vec<u8> {
        self.xid += 1;
        let mut record = Vec::new();
        write_record(&mut record, |out| {
            for word in [self.xid, 0, 2, program, version, procedure, 0, 0, 0, 0] {
                out.u32(word);
            }
            arguments(out);
        });
        self.client.write_all(&record).unwrap();
        let mut reply = Vec::new();
        loop {
            if let Peek::Complete { .. } = peek(&reply, RECORD_BYTES_MAX).unwrap() {
                return reply.split_off(4 + 24);
            }
            let mut part = [0; 4096];
            let count = self.client.read(&mut part).unwrap();
            assert!(count > 0, "the server closed the connection");
            reply.extend_from_slice(&part[..count]);
        }
    }

    fn nfs3(&mut self, procedure: nfs3::Procedure, arguments: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
        self.call((nfs3::PROGRAM, nfs3::VERSION, procedure.code()), arguments)
    }

    /// Makes twelve operations: MNT, four GETATTRs (one fails), CREATE, WRITE, three in a COMPOUND, NULL of NLM, and one of a
    /// version that does not exist.
    fn work(&mut self) {
        let mounted = self.call((mount3::PROGRAM, mount3::VERSION, 1), |out| {
            mount3::DirPath(b"/main").encode(out);
        });
        assert_eq!(mounted[..4], [0; 4], "it is mounted");
        let handle = mounted[8..8 + usize::from(mounted[7])].to_vec();
        for _ in 0..3 {
            self.nfs3(nfs3::Procedure::Getattr, |out| out.opaque(&handle));
        }
        self.nfs3(nfs3::Procedure::Getattr, |out| out.opaque(b"no handle"));
        let named = |out: &mut Encoder<'_>| {
            out.opaque(&handle);
            out.opaque(b"file");
            // UNCHECKED, without attributes: six times "do not set".
            (0..7).for_each(|_| out.u32(0));
        };
        let created = self.nfs3(nfs3::Procedure::Create, named);
        assert_eq!(created[..4], [0; 4], "the root of a first volume lets everybody create files");
        let file = created[12..12 + usize::from(created[11])].to_vec();
        let written = self.nfs3(nfs3::Procedure::Write, |out| {
            out.opaque(&file);
            [0, 0, 5000, 2].iter().for_each(|word| out.u32(*word));
            out.opaque(&[7; 5000]);
        });
        assert_eq!(written[..4], [0; 4]);
        self.call((nfs4::PROGRAM, nfs4::VERSION, 1), |out| {
            out.opaque(b"");
            out.u32(0);
            out.u32(3);
            for operation in [ArgOp4::Putrootfh, ArgOp4::Getfh, ArgOp4::Restorefh] {
                operation.encode(out);
            }
        });
        self.call((nlm4::PROGRAM, nlm4::VERSION, 0), |_| {});
        self.call((nfs3::PROGRAM, 2, 0), |_| {});
    }

    /// Scrapes until a value is what it should be: the last turn of a loop may not have ended.
    fn samples_with(&self, name: &str, labels: &[(&str, &str)], expected: f64) -> Vec<Sample> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let samples = parse(&self.server.scrape().text());
            if value(&samples, name, labels) == expected || Instant::now() > deadline {
                return samples;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn stop(self) {
        self.server.stop().unwrap();
        std::fs::remove_dir_all(self.root).unwrap();
    }
}

#[test]
fn a_running_server_counts_what_it_does() {
    let mut running = Running::start("counts");
    running.work();
    let rpc = [("proto", "rpc")];
    let samples = running.samples_with("holdfast_operations_total", &rpc, 1.0);
    let operations = |labels: &[(&str, &str)]| value(&samples, "holdfast_operations_total", labels);
    assert_eq!(operations(&[("volume", "main"), ("proto", "nfs3"), ("op", "GETATTR")]), 3.0);
    assert_eq!(operations(&[("volume", ""), ("proto", "nfs3"), ("op", "GETATTR")]), 1.0);
    assert_eq!(operations(&[("volume", "main"), ("proto", "mount"), ("op", "MNT")]), 1.0);
    assert_eq!(operations(&[("proto", "nlm"), ("op", "NULL")]), 1.0);
    for (operation, errors) in [("PUTROOTFH", 0.0), ("GETFH", 0.0), ("RESTOREFH", 1.0)] {
        assert_eq!(operations(&[("proto", "nfs4"), ("op", operation)]), 1.0);
        assert_eq!(value(&samples, OPERATION_ERRORS.name, &[("op", operation)]), errors, "{operation}");
    }
    let bad_handle = [("op", "GETATTR"), ("status", "BADHANDLE")];
    assert_eq!(value(&samples, "holdfast_operation_errors_total", &bad_handle), 1.0);
    let latencies = |class| value(&samples, "holdfast_operation_duration_seconds_count", &[("class", class)]);
    assert_eq!((latencies("write"), latencies("create")), (1.0, 1.0));
    let written = [("volume", "main"), ("direction", "write")];
    assert_eq!(value(&samples, "holdfast_transferred_bytes_total", &written), 5000.0);
    let in_bucket = |bound| value(&samples, "holdfast_io_size_bytes_bucket", &[("le", bound)]);
    assert_eq!((in_bucket("4096"), in_bucket("8192")), (0.0, 1.0));
    let durability = [("volume", "main"), ("phase", "durability")];
    assert!(value(&samples, "holdfast_operation_phase_seconds_total", &durability) > 0.0);
    assert!(value(&samples, "holdfast_journal_sync_seconds_count", &[("pool", "default")]) > 0.0);
    let target: SocketAddr = running.server.addresses()[0];
    let target = [("target", &*target.to_string())].map(|(name, value)| (name, value.to_owned()));
    let target: Vec<(&str, &str)> = target.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(value(&samples, "holdfast_target_operations_total", &target), 12.0);
    assert_eq!(value(&samples, "holdfast_target_connections", &target), 1.0);
    assert!(value(&samples, "holdfast_target_bytes_total", &target) > 5000.0);
    assert_eq!(value(&samples, "holdfast_client_operations_total", &[("client", "127.0.0.1")]), 12.0);
    let info = [("client", "127.0.0.1"), ("protocols", "nfs3,nfs4,nlm,mount,rpc")];
    assert_eq!(value(&samples, "holdfast_client_info", &info), 1.0);
    assert_eq!(
        (value(&samples, "holdfast_up_volumes", &[]), value(&samples, VOLUME_UP.name, &[])),
        (1.0, 1.0)
    );
    assert!(value(&samples, "process_resident_memory_bytes", &[]) > 1e6);
    assert!(value(&samples, "holdfast_volume_size_bytes", &[("volume", "main")]) > 0.0);
    running.stop();
}

/// Sends a datagram with a call of user 7, and returns the results in the reply.
fn ask(
    socket: &UdpSocket,
    (program, version, procedure): (u32, u32, u32),
    arguments: impl Encode,
) -> Option<Vec<u8>> {
    let mut call = Vec::new();
    let mut out = Encoder::new(&mut call);
    // AUTH_SYS of 20 bytes: a stamp, no name, user and group, no groups; then no verifier.
    for word in [9, 0, 2, program, version, procedure, 1, 20, 0, 0, 7, 7, 0, 0, 0] {
        out.u32(word);
    }
    arguments.encode(&mut out);
    socket.send(&call).unwrap();
    let mut reply = [0; 1000];
    let length = socket.recv(&mut reply).ok()?;
    assert!(length <= call.len());
    // The xid, a reply that is accepted, no verifier, success.
    assert_eq!(reply[..24], [9, 1, 0, 0, 0, 0].map(u32::to_be_bytes).concat());
    Some(reply[24..length].to_vec())
}

fn datagrams_to(running: &Running) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(running.server.addresses()[0]).unwrap();
    socket
}

#[test]
fn quotas_are_shown_to_whoever_asks_the_portmapper_by_datagrams() {
    let running = Running::start("datagrams");
    let socket = datagrams_to(&running);
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let wanted = Mapping { program: rquota::PROGRAM, version: 2, protocol: PROTOCOL_UDP, port: 0 };
    let port = ask(&socket, (portmap::PROGRAM, 2, 3), wanted).unwrap();
    assert_eq!(port, u32::from(running.server.addresses()[0].port()).to_be_bytes());
    let args = GetQuotaArgs2 { path: rquota::Path(b"/main"), kind: rquota::KIND_USER, id: 7 };
    let quota = ask(&socket, (rquota::PROGRAM, 2, 1), args).unwrap();
    assert!(matches!(decode_all(&quota), Ok(QuotaRes::Quota(rquota::Quota { blocks: 0, .. }))));
    let others = ask(&socket, (rquota::PROGRAM, 2, 1), GetQuotaArgs2 { id: 8, ..args }).unwrap();
    assert_eq!(decode_all(&others), Ok(QuotaRes::Perm));
    socket.send(b"no call").unwrap();
    socket.send(&[0; 5000]).unwrap();
    let malformed = [("reason", "malformed")];
    let samples = running.samples_with("holdfast_datagrams_dropped_total", &malformed, 2.0);
    assert_eq!(value(&samples, "holdfast_datagrams_dropped_total", &malformed), 2.0);
    let operations = |labels: &[(&str, &str)]| value(&samples, "holdfast_operations_total", labels);
    assert_eq!(operations(&[("volume", "main"), ("proto", "rquota"), ("op", "GETQUOTA")]), 2.0);
    assert_eq!(operations(&[("proto", "portmap"), ("op", "GETPORT")]), 1.0);
    let refused = [("proto", "rquota"), ("status", "EPERM")];
    assert_eq!(value(&samples, OPERATION_ERRORS.name, &refused), 1.0);
    // A list of all programs is longer than the call that asks for it.
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert_eq!(ask(&socket, (portmap::PROGRAM, 2, 4), ()), None);
    running.stop();
}

#[test]
fn strangers_get_no_datagrams() {
    let export = Export {
        path: "/main".to_owned(),
        volume: "main".to_owned(),
        read_only: false,
        squash: Default::default(),
        anonymous_uid: 65534,
        anonymous_gid: 65534,
        clients: vec!["192.0.2.0/24".parse().unwrap()],
        require_privileged_port: false,
        delegations: true,
    };
    let running = Running::with("strangers", vec![export]);
    let socket = datagrams_to(&running);
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert_eq!(ask(&socket, (portmap::PROGRAM, 2, 0), ()), None);
    let strangers = [("reason", "stranger")];
    let samples = running.samples_with("holdfast_datagrams_dropped_total", &strangers, 1.0);
    assert_eq!(value(&samples, "holdfast_datagrams_dropped_total", &strangers), 1.0);
    running.stop();
}
