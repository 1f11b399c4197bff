//! Copies between directories, ended at every step.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::*;
use crate::admin::api::types::NewVolume;
use crate::pools::create;
use crate::rates::tests::Scratch;
use crate::volumes;

/// Makes a pool with one volume.
fn make(root: &Path, pool: &str, volume: &str) {
    let data = Data::open_or_create(root).unwrap();
    let first = volumes::options(&NewVolume { name: volume.to_owned(), ..NewVolume::default() }).unwrap();
    create(&data, pool, (None, None), 16 << 20, first).unwrap();
}

/// Returns all files below a directory, without those that hold locks.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.file_name().is_some_and(|name| name != "lock") {
            found.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap());
        }
    }
    found
}

/// Returns a target whose parts are all below its root.
fn target<'a>(root: &'a Path, name: &'a str) -> Target<'a> {
    Target { root, name, path: None, journal: None }
}

fn go_on(_: volume::copy::Stage, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn a_copy_is_no_pool_before_it_is_complete_and_leaves_nothing_if_it_ends_early() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.0.join("from"), scratch.0.join("to"));
    make(&from, "default", "main");
    let before = files(&from);
    let mut steps = 0;
    loop {
        let ready = ready(&from, "default", target(&to, "moved")).unwrap();
        let mut seen = 0;
        let ended = ready.run(&mut |_, _| {
            assert_eq!(data::list(&to).unwrap(), Vec::<String>::new(), "it is not visible");
            seen += 1;
            if seen > steps { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(files(&from) == before, "the source is only read");
        let Err(error) = ended else { break };
        assert!(error.sentence.contains("it was interrupted"), "{error}");
        let entries = fs::read_dir(to.join("pools")).unwrap().count();
        assert_eq!((entries, data::list(&to).unwrap().len()), (0, 0), "after {steps} steps");
        steps += 1;
    }
    assert!(steps >= 8, "{steps}");
    let pool = |root: &Path, name: &str| {
        let mut found = files(&root.join("pools").join(name));
        found.retain(|path, _| !path.starts_with("segments"));
        found
    };
    let (mut copy, mut original) = (pool(&to, "moved"), pool(&from, "default"));
    for tells_them_apart in ["format", "journal/owner"] {
        let path = Path::new(tells_them_apart);
        assert_ne!(copy.remove(path).unwrap(), original.remove(path).unwrap());
    }
    assert!(copy == original && !copy.is_empty());
    let data = Data::open(&to).unwrap();
    assert_eq!(volume_names(&data, "moved").unwrap(), ["main"]);
}

#[test]
fn what_a_killed_process_left_is_removed_and_the_copy_repeated() {
    let scratch = Scratch::new();
    let (from, to, left) = (scratch.0.join("from"), scratch.0.join("to"), scratch.0.join("left"));
    make(&from, "default", "main");
    let again = target(&to, "default");
    let mut seen = 0;
    let ended = ready(&from, "default", again).unwrap().run(&mut |_, _| {
        seen += 1;
        if seen < 4 {
            return ControlFlow::Continue(());
        }
        // As a process that is killed now leaves it.
        fs::create_dir_all(left.join("pools")).unwrap();
        for (path, bytes) in files(&to) {
            fs::create_dir_all(left.join(&path).parent().unwrap()).unwrap();
            fs::write(left.join(path), bytes).unwrap();
        }
        ControlFlow::Break(())
    });
    ended.unwrap_err();
    let remains = || fs::read_dir(left.join("pools")).unwrap().count();
    assert_eq!((remains(), data::list(&left).unwrap().len()), (1, 0));
    ready(&from, "default", target(&left, "default")).unwrap().run(&mut go_on).unwrap();
    assert_eq!((remains(), data::list(&left).unwrap().len()), (2, 1), "the pool, and the file that names it");
}

#[test]
fn a_copy_to_where_it_cannot_be_is_refused() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.0.join("from"), scratch.0.join("to"));
    make(&from, "default", "main");
    let copy = |root: &Path, name: &str| {
        let ready = ready(&from, "default", target(root, name))?;
        ready.run(&mut go_on)
    };
    let refused = |root: &Path, name: &str, kind: ErrorKind, why: &str| {
        let error = copy(root, name).unwrap_err();
        assert!(error.kind == kind && error.sentence.contains(why), "{error}");
    };
    refused(&from, "other", ErrorKind::Usage, "cannot have both");
    refused(&scratch.0.join("from/../from"), "other", ErrorKind::Usage, "cannot have both");
    refused(&to, "a/b", ErrorKind::Usage, "cannot be named");
    copy(&to, "default").unwrap();
    refused(&to, "default", ErrorKind::Conflict, "there is a pool \"default\" already");
    refused(&to, "other", ErrorKind::Conflict, "a copy of this pool already, under the name \"default\"");
    let third = scratch.0.join("third");
    make(&third, "others", "main");
    refused(&third, "default", ErrorKind::Conflict, "a volume \"main\" already, in the pool \"others\"");
    let held = Data::open(&third).unwrap();
    refused(&third, "default", ErrorKind::InUse, "in use by process");
    drop(held);
    let held = Data::open(&from).unwrap();
    refused(&scratch.0.join("fourth"), "default", ErrorKind::InUse, "in use by process");
    drop(held);
    assert!(!scratch.0.join("fourth").exists());
    assert_eq!(ready(&from, "none", target(&to, "x")).err().unwrap().kind, ErrorKind::NotFound);
}

#[test]
fn a_damaged_pool_is_not_copied() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.0.join("from"), scratch.0.join("to"));
    make(&from, "default", "main");
    let log = from.join("pools/default/journal/0000");
    let mut bytes = fs::read(&log).unwrap();
    bytes[0] ^= 1;
    fs::write(&log, bytes).unwrap();
    let error = ready(&from, "default", target(&to, "default")).err().unwrap();
    assert!(
        error.sentence.contains("it has faults: ") && error.sentence.contains("holdfast check"),
        "{error}"
    );
    assert!(!to.exists());
}
