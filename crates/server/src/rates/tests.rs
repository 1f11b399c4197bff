use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;

use nfs::charge::{CopyId, CopyLimits, CopyPart, CopyTerms, Place, Work};
use nfs::summary::{OperationId, Status, Transferred};
use qos::LoopId;

use super::*;

const MIB: u64 = 1 << 20;

/// Makes the limits of a server with one target, `target`, one pool, `default`, and volumes of 1 TiB with these ids, named
/// `volume N`.
pub(crate) fn rates_in(root: &Path, volumes: &[u64]) -> Arc<Rates> {
    let files = Files::Directory(root.to_owned());
    let settings =
        Settings { catalogue: Catalogue::default(), tiers: Tiers::default(), files, volumes: Vec::new() };
    let rates = Rates::new(settings, vec!["target".to_owned()], vec!["default".to_owned()]);
    rates.serve(volumes.iter().map(|id| served(*id, 1 << 40)).collect());
    Arc::new(rates)
}

fn served(id: u64, size: u64) -> VolumeSize {
    VolumeSize { id: VolumeId(id), name: format!("volume {id}").into(), pool: "default".into(), size }
}

/// A directory that is removed at the end of its test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("holdfast-rates-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        Scratch(root)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn total_bytes(rate: u64) -> SettingChange {
    SettingChange { limits: [(setting::Rate::TotalBytes, Some(rate))].into(), ..SettingChange::default() }
}

fn tier(name: &str) -> SettingChange {
    SettingChange { tier: Some(Some(name.to_owned())), ..SettingChange::default() }
}

fn rate(limited: &Limited) -> Option<u64> {
    limited.in_force.limits.rate(qos::Dimension::TotalBytes)
}

#[test]
fn settings_survive_a_restart_and_follow_sizes_and_names() {
    let scratch = Scratch::new();
    let root = &scratch.0;
    let rates = rates_in(root, &[1, 2]);
    assert!(!rates.is_limiting());
    rates.change(Kind::Volume, "volume 1", &tier("premium")).unwrap();
    rates.change(Kind::Target, "target", &total_bytes(100 * MIB)).unwrap();
    rates.change(Kind::Client, "2001:db8::7", &total_bytes(10 * MIB)).unwrap();
    rates.change(Kind::Client, "*", &total_bytes(20 * MIB)).unwrap();
    assert!(rates.is_limiting());

    let targets = vec!["target".to_owned()];
    let again =
        Rates::open(Files::Directory(root.clone()), Tiers::default(), targets, vec!["default".to_owned()])
            .unwrap();
    let renamed = VolumeSize { name: "home".into(), ..served(1, 2 << 40) };
    again.serve(vec![renamed, served(2, 1 << 40)]);
    let list = again.list();
    let shown: Vec<_> =
        list.iter().map(|one| (one.kind, one.name.as_str(), rate(one).unwrap() / MIB)).collect();
    assert_eq!(
        shown,
        [
            (Kind::Target, "target", 100),
            (Kind::Volume, "home", 128),
            (Kind::Client, "*", 20),
            (Kind::Client, "2001:db8::", 10),
        ]
    );
    let reset = SettingChange { reset: true, ..SettingChange::default() };
    for one in &list {
        again.change(one.kind, &one.name, &reset).unwrap();
    }
    assert!(!again.is_limiting() && again.list().is_empty());
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let scratch = Scratch::new();
    let root = &scratch.0;
    let rates = rates_in(root, &[1, 2]);
    let refused = |kind, name: &str, change: &SettingChange, sentence: &str| {
        let error = rates.change(kind, name, change).unwrap_err().to_string();
        assert!(error.contains(sentence), "{error}");
    };
    refused(Kind::Volume, "volume 3", &tier("ultra"), "there is no volume \"volume 3\"");
    refused(Kind::Target, "fast", &tier("oci-1"), "there is no target \"fast\", only target");
    refused(Kind::Client, "somebody", &tier("oci-1"), "is not a client: give its IP address");
    refused(Kind::Target, "target", &tier("ultra"), "can limit only volumes");
    refused(Kind::Volume, "volume 1", &tier("gold"), "there is no tier \"gold\", only oci-1, oci-20");
    refused(Kind::Volume, "volume 1", &total_bytes(MIB - 1), "the least limit is 1048576");
    refused(Kind::Volume, "volume 1", &SettingChange::default(), "nothing to change");
    rates.change(Kind::Pool, "default", &total_bytes(30 * MIB)).unwrap();
    rates.change(Kind::Volume, "volume 1", &total_bytes(20 * MIB)).unwrap();
    refused(Kind::Volume, "volume 2", &total_bytes(11 * MIB), "do not suffice");
    refused(Kind::Pool, "default", &total_bytes(19 * MIB), "do not suffice");
    rates.change(Kind::Volume, "volume 2", &total_bytes(10 * MIB)).unwrap();
    let mut own = Tiers::default();
    own.define("bronze", qos::tiers::Tier::PerTib(MIB)).unwrap();
    rates.set_tiers(own).unwrap();
    rates.change(Kind::Volume, "volume 2", &SettingChange { reset: true, ..tier("bronze") }).unwrap();
    assert!(rates.set_tiers(Tiers::default()).unwrap_err().to_string().contains("\"bronze\" is in use"));
}

#[test]
fn a_call_passes_the_limits_of_its_target_pool_volume_and_client() {
    let scratch = Scratch::new();
    let root = &scratch.0;
    let rates = rates_in(root, &[1, 2]);
    let origin: IpAddr = "192.0.2.7".parse().unwrap();
    let mut of_client = OfClient::default();
    assert!(rates.limiter_of(origin, &mut of_client).is_none());
    for (kind, name) in
        [(Kind::Target, "target"), (Kind::Pool, "default"), (Kind::Volume, "volume 1"), (Kind::Client, "*")]
    {
        rates.change(kind, name, &total_bytes(10 * MIB)).unwrap();
    }
    let limiter = rates.limiter_of(origin, &mut of_client);
    let charge = |volume: Option<u64>| Charge::of_one(volume.map(VolumeId), Work::read(4096));
    let asker = Asker { target: 0, origin: origin.into(), limiter: limiter.as_ref() };
    let passed = |charge: Charge, asker: Asker<'_>| {
        rates.charged(&charge, &asker).map_or(0, |found| found.limiters().count())
    };
    assert_eq!(passed(charge(Some(1)), asker), 4);
    assert_eq!(passed(charge(Some(2)), asker), 3, "that volume has no limit");
    assert_eq!(passed(charge(None), asker), 2);
    assert_eq!(passed(charge(Some(1)), Asker { target: 1, limiter: None, ..asker }), 2);
}

fn work_in(places: &[(u64, Work)]) -> Vec<Place> {
    places.iter().map(|(volume, work)| Place { volume: VolumeId(*volume), work: *work }).collect()
}

/// Volumes 1 and 2 have limits of 10 and 1 MiB a second, and nothing else has.
fn two_limited_volumes(root: &Path) -> Arc<Rates> {
    let rates = rates_in(root, &[1, 2]);
    rates.change(Kind::Volume, "volume 1", &total_bytes(10 * MIB)).unwrap();
    rates.change(Kind::Volume, "volume 2", &total_bytes(MIB)).unwrap();
    rates
}

#[test]
fn a_call_waits_for_each_volume_in_which_it_moves_data() {
    let scratch = Scratch::new();
    let rates = two_limited_volumes(&scratch.0);
    let asker = Asker { target: 0, origin: "192.0.2.7".parse::<IpAddr>().unwrap().into(), limiter: None };
    let token = |call| Token { event_loop: LoopId(0), call };
    let moves = |first, second| {
        let places = work_in(&[(1, Work::read(first)), (2, Work::read(second))]);
        rates.charged(&Charge::of_several(Work::read(first + second), places), &asker).unwrap()
    };
    let most = 1 << 20;
    assert_eq!(rates.admit(&mut moves(1, most), token(1)), Verdict::Admitted, "the bursts");
    assert_eq!(rates.admit(&mut moves(1, most), token(2)), Verdict::Held, "volume 2 has let a second pass");
    assert_eq!(rates.admit(&mut moves(most, 0), token(3)), Verdict::Admitted, "volume 1 is free");
    let mut both = moves(most, 1);
    assert_eq!(rates.admit(&mut both, token(4)), Verdict::Held, "volume 1 has let a tenth pass");
    let mut released = Vec::new();
    while !released.iter().any(|one| matches!(one, Released::Call { token, .. } if token.call == 4)) {
        std::thread::sleep(std::time::Duration::from_millis(1));
        rates.release(&mut released);
    }
    assert_eq!(rates.go_on(&mut both, token(4)), Verdict::Held, "now it waits for volume 2");
}

#[test]
fn what_a_call_moves_is_charged_where_it_was_moved() {
    let scratch = Scratch::new();
    let rates = two_limited_volumes(&scratch.0);
    let asker = Asker { target: 0, origin: "192.0.2.7".parse::<IpAddr>().unwrap().into(), limiter: None };
    let token = |call| Token { event_loop: LoopId(0), call };
    let read = |volume, bytes| Charge::of_one(Some(VolumeId(volume)), Work::read(bytes));
    let charged = |charge: &Charge| rates.charged(charge, &asker).unwrap();
    let mut short = charged(&read(2, 1 << 20));
    assert_eq!(rates.admit(&mut short, token(1)), Verdict::Admitted);
    let mut summary = CallSummary::of_one(OperationId::default(), Status::OK);
    // It came to volume 1, against what its arguments had shown, and moved more.
    summary.volume = Some(VolumeId(1));
    summary.transferred = Transferred { read: 20 << 20, written: 0 };
    let mut before = charged(&read(2, 1));
    assert_eq!(rates.admit(&mut before, token(2)), Verdict::Held, "volume 2 was charged");
    rates.forget(token(2));
    rates.settle(&short, &summary);
    assert_eq!(rates.admit(&mut charged(&read(1, 1)), token(3)), Verdict::Held, "volume 1 is owed 2 s");
}

#[test]
fn a_copy_pays_before_it_copies_where_written_bytes_are_limited() {
    let scratch = Scratch::new();
    let rates = rates_in(&scratch.0, &[1, 2]);
    let asker = Asker { target: 0, origin: "192.0.2.7".parse::<IpAddr>().unwrap().into(), limiter: None };
    let terms = |volume, work| {
        rates.charged(&Charge::of_one(Some(VolumeId(volume)), work), &asker).unwrap().copy_terms()
    };
    let limit = |kind, name, dimension| {
        let limits = [(dimension, Some(1000 * MIB))].into();
        let change = SettingChange { limits, reset: true, ..SettingChange::default() };
        rates.change(kind, name, &change).unwrap();
    };
    for dimension in [setting::Rate::TotalBytes, setting::Rate::WriteBytes] {
        limit(Kind::Volume, "volume 1", dimension);
        assert_eq!(terms(1, Work::write(1)), CopyTerms::Charged);
    }
    for dimension in [setting::Rate::ReadBytes, setting::Rate::WriteOps] {
        limit(Kind::Volume, "volume 2", dimension);
        assert_eq!(terms(2, Work::write(1)), CopyTerms::Free, "its bytes are not limited");
    }
    limit(Kind::Target, "target", setting::Rate::WriteBytes);
    assert_eq!(terms(1, Work::write(1)), CopyTerms::ChargedByTarget);
    assert_eq!(terms(1, Work::read(1)), CopyTerms::Free);
}

#[test]
fn copies_after_their_reply_wait_for_limits() {
    let scratch = Scratch::new();
    let rates = rates_in(&scratch.0, &[1, 2]);
    let part = |copy, volume| CopyPart {
        copy: CopyId([copy; 12]),
        volume: VolumeId(volume),
        peer: "192.0.2.7:900".parse().unwrap(),
        bytes: 10 * MIB,
    };
    assert_eq!(rates.allow(&part(1, 2)), Some(u64::MAX), "nothing is limited");
    rates.copied(&part(1, 2), 10 * MIB);
    rates.change(Kind::Volume, "volume 2", &total_bytes(MIB)).unwrap();
    let (told, woken) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let count = |times: &Arc<AtomicUsize>| {
        let times = Arc::clone(times);
        Box::new(move || {
            times.fetch_add(1, Ordering::Relaxed);
        })
    };
    rates.on_copies_released(count(&told));
    rates.on_change(count(&woken));
    assert_eq!(rates.allow(&part(1, 1)), Some(u64::MAX), "another volume is limited");
    assert_eq!(rates.allow(&part(2, 2)), Some(MIB), "the burst");
    assert_eq!(rates.allow(&part(2, 2)), Some(MIB), "it was allowed already");
    rates.copied(&part(2, 2), MIB / 2);
    assert_eq!(rates.allow(&part(2, 2)), None);
    assert_eq!((woken.load(Ordering::Relaxed), rates.allow(&part(2, 2))), (1, None), "a loop wakes in time");
    let held = || rates.show(Kind::Volume, "volume 2").unwrap().in_force.counters.held;
    let total = qos::Dimension::TotalBytes as usize;
    assert_eq!(held()[total], 1);
    let mut released = Vec::new();
    while told.load(Ordering::Relaxed) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
        rates.release(&mut released);
    }
    assert!(released.is_empty(), "no loop has that call: {released:?}");
    assert_eq!(rates.allow(&part(2, 2)), Some(MIB));
    // A copy that ends gives back what it was allowed, and one that waits goes.
    assert_eq!(rates.allow(&part(3, 2)), None);
    rates.retain(&|copy| copy == CopyId([3; 12]));
    assert_eq!(held()[total], 1);
    rates.retain(&|_| false);
    assert_eq!(held()[total], 0);
}

#[test]
fn what_is_set_for_a_target_that_is_gone_is_not_in_force_and_can_be_removed() {
    let scratch = Scratch::new();
    let root = &scratch.0;
    let mut tiers = Tiers::default();
    tiers.define("bronze", qos::tiers::Tier::Fixed(Limits::NONE)).unwrap();
    let rates = rates_in(root, &[1]);
    rates.set_tiers(tiers).unwrap();
    rates.change(Kind::Target, "target", &tier("bronze")).unwrap();
    rates.change(Kind::Pool, "default", &total_bytes(10 * MIB)).unwrap();
    drop(rates);

    let (targets, pools) = (vec!["renamed".to_owned()], vec!["other".to_owned()]);
    let files = Files::Directory(root.clone());
    let warnings = unused(&files, &targets, &pools).unwrap();
    assert!(warnings[0].contains("of target \"target\" are not in force"), "{warnings:?}");
    assert!(warnings[1].contains("of pool \"default\" are not in force"), "{warnings:?}");
    let again = Rates::open(files, Tiers::default(), targets, pools).unwrap();
    let list = again.list();
    assert!(list.len() == 2 && list.iter().all(|one| one.is_unused && rate(one).is_none()), "{list:?}");
    let error = again.change(Kind::Target, "target", &tier("oci-1")).unwrap_err().to_string();
    assert!(error.contains("can only be reset"), "{error}");
    let reset = SettingChange { reset: true, ..SettingChange::default() };
    for one in &list {
        again.change(one.kind, &one.name, &reset).unwrap();
    }
    assert!(again.list().is_empty() && !again.is_limiting());
    let error = again.change(Kind::Target, "target", &reset).unwrap_err().to_string();
    assert!(error.contains("there is no target \"target\", only renamed"), "{error}");
}

#[test]
fn throttled_clients_without_limits_of_their_own_are_counted_together() {
    let scratch = Scratch::new();
    let rates = rates_in(&scratch.0, &[1]);
    rates.change(Kind::Client, "*", &total_bytes(MIB)).unwrap();
    let charge = Charge::of_one(None, Work::read(1 << 20));
    let mut tokens = 0..;
    // One passes with the burst, and one is held, of each client.
    let hold = |address: &str, tokens: &mut std::ops::RangeFrom<u64>| {
        let origin = address.parse().unwrap();
        let limiter = rates.limiter_of(origin, &mut OfClient::default());
        let asker = Asker { target: 0, origin: origin.into(), limiter: limiter.as_ref() };
        for call in tokens.take(2) {
            let token = Token { event_loop: LoopId(0), call };
            let _ = rates.admit(&mut rates.charged(&charge, &asker).unwrap(), token);
        }
    };
    hold("192.0.2.7", &mut tokens);
    hold("192.0.2.8", &mut tokens);
    std::thread::sleep(std::time::Duration::from_millis(20));
    let others = || rates.show(Kind::Client, "*").unwrap().in_force.counters;
    let total = qos::Dimension::TotalBytes as usize;
    let before = others();
    assert_eq!(before.held[total], 2);
    assert!(before.throttled[total] >= std::time::Duration::from_millis(40), "{before:?}");
    // What was counted stays when one of them gets limits of its own, and when it has none any more.
    rates.change(Kind::Client, "192.0.2.7", &total_bytes(2 * MIB)).unwrap();
    let between = others();
    assert!(between.held[total] == 1 && between.throttled >= before.throttled, "{between:?}");
    let reset = SettingChange { reset: true, ..SettingChange::default() };
    rates.change(Kind::Client, "192.0.2.7", &reset).unwrap();
    let after = others();
    assert!(after.held[total] == 2 && after.throttled >= between.throttled, "{after:?}");
}

/// The limit is the host's, and its users have a part of it.
#[test]
fn users_of_a_host_take_no_more_than_half_of_its_limit() {
    let scratch = Scratch::new();
    let rates = rates_in(&scratch.0, &[1]);
    rates.change(Kind::Client, "192.0.2.7", &total_bytes(10 * MIB)).unwrap();
    let limiter = rates.limiter_of("192.0.2.7".parse().unwrap(), &mut OfClient::default());
    let held = |port: u16, call: u64| {
        let origin = ConnectionOrigin::of(SocketAddr::from(([192, 0, 2, 7], port)));
        let asker = Asker { target: 0, origin, limiter: limiter.as_ref() };
        let charge = Charge::of_one(None, Work::read(64 << 10));
        let token = Token { event_loop: LoopId(0), call };
        rates.admit(&mut rates.charged(&charge, &asker).unwrap(), token) == Verdict::Held
    };
    let first = (0..).find(|call| held(40_000, *call)).unwrap();
    assert!((1..20).all(|more| held(40_000, first + more)) && held(900, 1000));
    let mut released = Vec::new();
    let is_of_kernel = |one: &Released| matches!(one, Released::Call { token, .. } if token.call == 1000);
    while !released.iter().any(is_of_kernel) {
        std::thread::sleep(std::time::Duration::from_millis(1));
        rates.release(&mut released);
    }
    assert!(released.iter().position(is_of_kernel).unwrap() <= 2, "{released:?}");
}

#[test]
fn volumes_that_grow_get_no_more_than_their_pool_has() {
    let scratch = Scratch::new();
    let rates = rates_in(&scratch.0, &[1, 2]);
    rates.change(Kind::Volume, "volume 1", &tier("standard")).unwrap();
    rates.change(Kind::Volume, "volume 2", &tier("standard")).unwrap();
    rates.change(Kind::Pool, "default", &total_bytes(32 * MIB)).unwrap();
    let error = rates.check_size(VolumeId(1), 2 << 40).unwrap_err().to_string();
    assert!(error.contains("do not suffice") && rates.check_size(VolumeId(1), 1 << 40).is_ok(), "{error}");
    let mut doubled = Tiers::default();
    doubled.define("standard", qos::tiers::Tier::PerTib(32 * MIB)).unwrap();
    assert!(rates.set_tiers(doubled).is_err());
    // A volume without a size grows with its pool. Then its share can still be lowered.
    rates.serve(vec![served(1, 4 << 40), served(2, 1 << 40)]);
    rates.change(Kind::Volume, "volume 1", &total_bytes(48 * MIB)).unwrap();
    rates.change(Kind::Pool, "default", &total_bytes(40 * MIB)).unwrap();
    assert!(rates.change(Kind::Volume, "volume 1", &total_bytes(49 * MIB)).is_err());
    rates.change(Kind::Volume, "volume 1", &total_bytes(24 * MIB)).unwrap();
}
