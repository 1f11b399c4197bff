//! Limits are exact, over the wire: 64 writers, each with a connection of NFSv3 and one of NFSv4.2, write stable and unstable data,
//! clone, copy, truncate, make holes, set extended attributes, rename, remove, and have files given to others, all of them against the
//! limits of four users, two groups, a quota tree and a volume. No limit may be exceeded at any time, nobody may be refused for whom
//! there was room, and what is used must be what the writers know. Then each limit is reached to the byte.
//!
//! With `--server ganesha`, the same writers meet nfs-ganesha on a btrfs subvolume with a limit, for comparison: what it exceeds
//! and refuses is printed, and not judged.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::Options;
use super::client::nfs3;
use super::client::nfs4;
use super::client::places;
use super::client::rpc::{self, Caller, Failure, Link, PATIENCE};
use super::lab::{Lab, Peer};
use crate::nfs::Procedure;
use crate::process;
use calls::{Calls, Handle};
use edges::Edges;
use ledger::{Account, Amount, Ledger, Owner};
use writer::{GROUPS, Tally, USERS, Writer};

mod calls;
mod edges;
mod ledger;
mod writer;

const WRITERS: usize = 64;
/// Random calls of each writer, and of a sample.
const CALLS: usize = 300;
const SAMPLE_OF_CALLS: usize = 80;
/// Hosts that the writers call from.
const HOSTS: usize = 8;
/// How often usage is read meanwhile.
const WATCH: Duration = Duration::from_millis(200);
/// The size of the comparison's file system, MiB.
const BTRFS: u64 = 1024;

/// The limits: about half of what the writers would use.
const VOLUME: Amount = Amount { bytes: (7 << 20) + 777, inodes: 190 };
const TREE: Amount = Amount { bytes: (3 << 20) + 555, inodes: 100 };
const USER: Amount = Amount { bytes: (2 << 20) + 333, inodes: 52 };
const GROUP: Amount = Amount { bytes: (4 << 20) + 111, inodes: 106 };

/// What is known of usage at a moment.
type Used = BTreeMap<Owner, Amount>;

pub(super) fn run(lab: &mut Lab, options: &Options) -> Result<String, String> {
    places::make(lab)?;
    if lab.peer == Peer::Ganesha {
        lab.mount_btrfs(BTRFS)?;
    }
    lab.start()?;
    let (mut root, folder) = superuser(lab)?;
    let tree = make_folder(&mut root, &folder, "tree", GROUPS[0])?;
    let plain = make_folder(&mut root, &folder, "plain", GROUPS[1])?;
    let limits = limits(lab)?;
    let used = used(lab)?;
    let account = |owner: &Owner| Account {
        limit: limits.get(owner).copied().unwrap_or(Amount::UNLIMITED),
        most: used.get(owner).copied().unwrap_or_default(),
    };
    let ledger = Arc::new(Ledger::new(owners().map(|owner| (owner, account(&owner))).collect()));
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        let (handle, group) = if number % 2 == 0 { (&tree, GROUPS[0]) } else { (&plain, GROUPS[1]) };
        let calls = caller(number, USERS[number / 2 % USERS.len()]).map_err(String::from)?;
        let seed = options.seed.wrapping_add(u64::try_from(number).unwrap_or(0));
        writers.push(Writer::new(number, seed, calls, &ledger, (handle.clone(), group, number % 2 == 0)));
    }
    let calls = if options.sample { SAMPLE_OF_CALLS } else { CALLS };
    let mut over = at_once(lab, &limits, &mut writers, |writer| writer.work(calls))?;
    compare(lab, &ledger)?;
    over = over.max(at_once(lab, &limits, &mut writers, Writer::rewrite_all)?);
    compare(lab, &ledger)?;
    let mut tally = Tally::default();
    writers.iter().for_each(|writer| tally.add(&writer.tally));
    let said = describe(&tally, over);
    println!("{said}");
    if lab.peer == Peer::Ganesha {
        return Ok(said);
    }
    let is_wrong =
        over > 0 || tally.refused_with_room > 0 || tally.refused_rewrites > 0 || tally.refused_frees > 0;
    if is_wrong || !tally.unsupported.is_empty() || tally.refused == 0 {
        return Err(said);
    }
    drop(writers);
    let calls = caller(0, USERS[0]).map_err(String::from)?;
    let reached = Edges::new(lab, calls, tree, options.seed).run()?;
    Ok(format!("{said}; {reached}"))
}

fn describe(tally: &Tally, over: u64) -> String {
    let Tally { calls, refused, refused_with_room, room_max, refused_rewrites, refused_frees, unsupported } =
        tally;
    let unsupported: Vec<&str> = unsupported.iter().copied().collect();
    format!(
        "{calls} calls, {refused} refused, {refused_with_room} of them with room (at most {room_max} bytes more would have \
         fitted); refused too: {refused_rewrites} that rewrote or committed, {refused_frees} that freed; at most {over} above a \
         limit; not offered: {unsupported:?}"
    )
}

/// All owners that are known.
fn owners() -> impl Iterator<Item = Owner> {
    let persons = USERS.map(Owner::User).into_iter().chain(GROUPS.map(Owner::Group));
    [Owner::Volume, Owner::Tree].into_iter().chain(persons)
}

/// Mounts as the superuser. Returns also the exported directory.
fn superuser(lab: &Lab) -> Result<(Calls, Handle), String> {
    let mut calls = caller(0, 0).map_err(String::from)?;
    let stream = rpc::connect(Caller::host(places::client(1)), lab.peer.mount_port(), PATIENCE)
        .map_err(|error| format!("MOUNT: {error}"))?;
    let mut mount = Link { stream, user: 0, next_xid: fastrand::u32(..) };
    let v3 = nfs3::mount(&mut mount, b"/main")?;
    let v4 = calls.session.folder()?;
    Ok((calls, Handle { v3, v4 }))
}

/// Connects writer `number`, who calls as this user.
fn caller(number: usize, user: u32) -> Result<Calls, Failure> {
    let host = u8::try_from(1 + number % HOSTS).expect("a few hosts");
    let from = Caller { user, ..Caller::host(places::client(host)) };
    let name = format!("writer {number} of {user}");
    Ok(Calls { link: Link::open(from)?, session: nfs4::session(from, name.as_bytes())?, is_v4: false })
}

/// Makes a directory in which everybody makes files, which are of its group.
fn make_folder(root: &mut Calls, parent: &Handle, name: &str, group: u32) -> Result<Handle, String> {
    let mkdir = ("MKDIR", Procedure::Mkdir);
    let v3 = nfs3::make(&mut root.link, mkdir, &parent.v3, name.as_bytes(), 0o777)?;
    let folder = Handle { v3, v4: root.find(parent, name)? };
    root.give(&folder, (None, Some(group)), None)?;
    root.give(&folder, (None, None), Some(0o2777))?;
    Ok(folder)
}

/// Sets the limits, and returns them.
fn limits(lab: &Lab) -> Result<BTreeMap<Owner, Amount>, String> {
    if lab.peer == Peer::Ganesha {
        let subvolume = lab.export_folder();
        let mut limit = Command::new("btrfs");
        limit.args(["qgroup", "limit", &VOLUME.bytes.to_string()]).arg(subvolume);
        process::output(&mut limit)?;
        return Ok(BTreeMap::from([(Owner::Volume, Amount { bytes: VOLUME.bytes, inodes: u64::MAX })]));
    }
    lab.holdfast(&["tree", "create"], &["main", "/tree"])?;
    let of = |owner| match owner {
        Owner::Volume => VOLUME,
        Owner::Tree => TREE,
        Owner::User(_) => USER,
        Owner::Group(_) => GROUP,
    };
    owners().map(|owner| limit(lab, owner, of(owner)).map(|()| (owner, of(owner)))).collect()
}

/// Limits an owner.
fn limit(lab: &Lab, owner: Owner, limit: Amount) -> Result<(), String> {
    let whose = match owner {
        Owner::Volume => vec!["--whole-volume".to_owned()],
        Owner::Tree => vec!["--tree".to_owned(), "/tree".to_owned()],
        Owner::User(user) => vec!["--user".to_owned(), user.to_string()],
        Owner::Group(group) => vec!["--group".to_owned(), group.to_string()],
    };
    let shown = |most: u64| if most == u64::MAX { "none".to_owned() } else { most.to_string() };
    let (bytes, inodes) = (shown(limit.bytes), shown(limit.inodes));
    let mut words: Vec<&str> = vec!["main"];
    words.extend(whose.iter().map(String::as_str));
    words.extend(["--bytes", &bytes, "--inodes", &inodes]);
    lab.holdfast(&["quota", "set"], &words).map(drop)
}

/// Returns what the server says is used.
fn used(lab: &Lab) -> Result<Used, String> {
    if lab.peer == Peer::Ganesha {
        return qgroup(lab);
    }
    let mut used = Used::new();
    for kind in ["--whole-volume", "--trees", "--users", "--groups"] {
        let text = match kind {
            "--whole-volume" => format!("[{}]", lab.holdfast(&["quota", "show"], &["main", kind, "--json"])?),
            kind => lab.holdfast(&["quota", "report"], &["main", kind, "--json"])?,
        };
        let report: Vec<Value> =
            serde_json::from_str(&text).map_err(|error| format!("quota report: {error}"))?;
        for quota in report {
            let number = |name: &str| quota.get(name).and_then(Value::as_u64);
            let id = number("id").and_then(|id| u32::try_from(id).ok());
            let owner = match (kind, id) {
                ("--whole-volume", _) => Owner::Volume,
                ("--trees", Some(_)) => Owner::Tree,
                ("--users", Some(id)) => Owner::User(id),
                ("--groups", Some(id)) => Owner::Group(id),
                _ => continue,
            };
            let (Some(bytes), Some(inodes)) = (number("used_bytes"), number("used_inodes")) else {
                return Err(format!("quota report says {quota}"));
            };
            used.insert(owner, Amount { bytes, inodes });
        }
    }
    Ok(used)
}

/// Returns what btrfs counts for the exported subvolume.
fn qgroup(lab: &Lab) -> Result<Used, String> {
    let mut show = Command::new("btrfs");
    let text = process::output(show.args(["qgroup", "show", "--raw", "-f"]).arg(lab.export_folder()))?;
    let line = text.lines().find(|line| line.starts_with("0/"));
    let bytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    let bytes = bytes.ok_or_else(|| format!("btrfs qgroup show says {text}"))?;
    Ok(Used::from([(Owner::Volume, Amount { bytes, inodes: 0 })]))
}

/// Has all writers do something at once. Returns the most that a limit was exceeded by meanwhile and afterwards.
fn at_once(
    lab: &Lab,
    limits: &BTreeMap<Owner, Amount>,
    writers: &mut [Writer],
    work: impl Fn(&mut Writer) -> Result<(), String> + Sync,
) -> Result<u64, String> {
    let mut over = 0;
    let mut watch = || -> Result<(), String> {
        for (owner, Amount { bytes, inodes }) in used(lab)? {
            let limit = limits.get(&owner).copied().unwrap_or(Amount::UNLIMITED);
            over = over.max(bytes.saturating_sub(limit.bytes)).max(inodes.saturating_sub(limit.inodes));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = writers.iter_mut().map(|writer| scope.spawn(|| work(writer))).collect();
        while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
            watch()?;
            thread::sleep(WATCH);
        }
        let outcomes = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a writer panicked".to_owned())));
        outcomes.collect::<Result<Vec<()>, String>>()
    })?;
    watch()?;
    Ok(over)
}

/// Compares what the server says is used with what the writers know. File systems that count blocks and metadata are not judged.
fn compare(lab: &Lab, ledger: &Ledger) -> Result<(), String> {
    let used = used(lab)?;
    for (owner, Account { limit, most }) in ledger.accounts() {
        let used = used.get(&owner).copied().unwrap_or_default();
        if limit != Amount::UNLIMITED {
            println!("{owner:?} uses {used:?} of {limit:?}");
        }
        if lab.peer == Peer::Holdfast && used != most {
            return Err(format!("{owner:?} uses {used:?}, but the writers know of {most:?}"));
        }
    }
    Ok(())
}
