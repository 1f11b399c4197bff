//! `dump --files`: volumes made by the engine, copied by the binary.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use store::Directory;
use volume::attributes::{Device, SetAttributes, SetTime};
use volume::ids::Ino;
use volume::media::Media;
use volume::request::{Access, Answer, Credentials, Journaled, Request};
use volume::results::{CreateHow, NodeKind, SetXattr, Stability};
use volume::time::Time;
use volume::{Options, Volume};

use crate::running::{Scratch, fail, run, succeed, text};

/// A volume that a test fills.
pub(crate) struct Filled {
    pub(crate) volume: Volume,
    pub(crate) data: PathBuf,
    now: i64,
}

fn nothing<T>(_: &T) -> Journaled {
    Journaled::default()
}

impl Filled {
    pub(crate) fn new(scratch: &Scratch) -> Filled {
        let data = scratch.path("data");
        succeed(&["volume", "create", text(&data), "main", "--journal-size", "32 MiB"]);
        let directory = Directory::open(&data).unwrap();
        let media: Arc<dyn Media> = Arc::new(directory.open_pool("default", None).unwrap());
        let options = Options { memory: 16 << 20, segment_bytes: 1 << 20, cache_seed: Some(0) };
        let now = 1_000_000_000_000;
        let volume = Volume::open(media, &options, Time::from_nanos(now)).unwrap();
        Filled { volume, data, now }
    }

    fn run<T>(&mut self, work: impl Fn(&Volume, &Request<'_>) -> Answer<T>) -> T {
        self.now += 1_000_000_007;
        let (who, now) = (Credentials::root(), Time::from_nanos(self.now));
        let request = Request { credentials: &who, now, access: Access::Blocking, key: None };
        let done = work(&self.volume, &request).map_err(|failure| failure.error).unwrap().value;
        while self.volume.step_commit(now) == volume::Progress::Worked {}
        done
    }

    pub(crate) fn mkdir(&mut self, directory: Ino, name: &[u8]) -> Ino {
        let set = SetAttributes { mode: Some(0o750), ..SetAttributes::default() };
        self.run(|v, r| v.make_directory(r, directory, name, &set, &mut nothing)).attributes.ino
    }

    pub(crate) fn file(&mut self, directory: Ino, name: &[u8], data: &[(u64, Vec<u8>)]) -> Ino {
        let how = CreateHow::Guarded(SetAttributes { mode: Some(0o640), ..SetAttributes::default() });
        let ino = self.run(|v, r| v.create_file(r, directory, name, &how, &mut nothing)).attributes.ino;
        for (offset, bytes) in data {
            self.run(|v, r| v.write(r, ino, *offset, bytes, Stability::Unstable));
        }
        ino
    }

    fn set(&mut self, ino: Ino, set: &SetAttributes) {
        self.run(|v, r| v.set_attributes(r, ino, set, None, &mut nothing));
    }

    fn symlink(&mut self, directory: Ino, name: &[u8], target: &[u8]) {
        let set = SetAttributes::default();
        self.run(|v, r| v.make_symlink(r, directory, name, target, &set, &mut nothing));
    }

    fn node(&mut self, directory: Ino, name: &[u8], kind: NodeKind) {
        let set = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        self.run(|v, r| v.make_node(r, directory, name, kind, &set, &mut nothing));
    }

    fn link(&mut self, ino: Ino, directory: Ino, name: &[u8]) {
        self.run(|v, r| v.link(r, ino, directory, name, &mut nothing));
    }

    fn set_xattr(&mut self, ino: Ino, name: &[u8], value: &[u8]) {
        self.run(|v, r| v.set_xattr(r, ino, name, value, SetXattr::Either, &mut nothing));
    }

    pub(crate) fn checkpoint(&mut self) {
        let now = Time::from_nanos(self.now);
        while self.volume.step_write_back(now, true, true) == volume::Progress::Worked {}
        while self.volume.step_commit(now) == volume::Progress::Worked {}
        self.volume.step_checkpoint(now, true);
    }

    pub(crate) fn close(self) -> PathBuf {
        self.volume.close(Time::from_nanos(self.now)).unwrap();
        self.data
    }
}

/// Returns the content of a file of [`with_lost_names`].
pub(crate) fn content(number: u32) -> Vec<u8> {
    number.to_be_bytes().repeat(700)
}

/// Returns a data directory whose volume has 300 files in `/directory`, some of whose names are lost.
pub(crate) fn with_lost_names(scratch: &Scratch) -> PathBuf {
    let mut filled = Filled::new(scratch);
    let directory = filled.mkdir(Ino::ROOT, b"directory");
    for number in 0..300 {
        let name = format!("a file with a longer name {number}");
        filled.file(directory, name.as_bytes(), &[(0, content(number))]);
        if number % 20 == 0 {
            filled.checkpoint();
        }
    }
    let data = filled.close();
    let path = data.join("pools/default/index");
    let mut index = fs::read(&path).unwrap();
    let name = b"a file with a longer name 123";
    for block in index.chunks_mut(4096).filter(|block| block.windows(name.len()).any(|window| window == name))
    {
        block[2048] ^= 1;
    }
    fs::write(&path, index).unwrap();
    data
}

/// Attributes of an object that a copy keeps: type, mode, links, size, modification time, content.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    mode: u32,
    links: u64,
    mtime: (i64, i64),
    owner: (u32, u32),
    content: Vec<u8>,
}

fn see(root: &Path) -> BTreeMap<Vec<u8>, Seen> {
    let (mut seen, mut waiting) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(path) = waiting.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else if metadata.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_vec()
        } else if metadata.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
        let links = if metadata.is_dir() { 0 } else { metadata.nlink() };
        let (mode, mtime) = (metadata.mode(), (metadata.mtime(), metadata.mtime_nsec()));
        let owner = (metadata.uid(), metadata.gid());
        seen.insert(name, Seen { mode, links, mtime, owner, content });
    }
    seen
}

fn copy(data: &Path, to: &Path) -> (i32, String) {
    let output = run(&["dump", text(data), "--files", text(to)]);
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), said)
}

#[test]
fn a_copy_has_names_attributes_links_holes_and_data() {
    let scratch = Scratch::new();
    let mut filled = Filled::new(&scratch);
    let is_root = rustix::process::geteuid().is_root();
    let directory = filled.mkdir(Ino::ROOT, b"directory");
    let deep = filled.mkdir(directory, b"\xff not UTF-8\n");
    let sparse = filled.file(deep, b"sparse", &[(10, vec![1; 50_000]), (40 << 20, vec![2; 300_000])]);
    let linked = filled.file(directory, b"linked", &[(0, b"several names".to_vec())]);
    filled.link(linked, Ino::ROOT, b"first");
    filled.link(linked, deep, b"second");
    filled.set(linked, &SetAttributes { mode: Some(0o4711), ..SetAttributes::default() });
    filled.symlink(Ino::ROOT, b"symlink", b"/etc/passwd");
    filled.node(Ino::ROOT, b"pipe", NodeKind::Fifo);
    filled.node(Ino::ROOT, b"socket", NodeKind::Socket);
    if is_root {
        filled.node(directory, b"device", NodeKind::Character(Device { major: 1, minor: 3 }));
    }
    let old = Time::from_nanos(123_456_789);
    let (owner, mode) = (if is_root { 4321 } else { rustix::process::geteuid().as_raw() }, Some(0o500));
    let set = SetAttributes { uid: Some(owner), mode, mtime: SetTime::To(old), ..SetAttributes::default() };
    filled.set(deep, &set);
    filled.set_xattr(sparse, b"color", b"blue\0green");
    filled.checkpoint();
    // These are in the journal only: an overwritten part, a truncation, and a new file.
    filled.run(|v, r| v.write(r, sparse, 20_000, &[3; 5_000], Stability::FileSync));
    let short = filled.file(Ino::ROOT, b"short", &[(0, vec![4; 9_000])]);
    filled.checkpoint();
    filled.set(short, &SetAttributes { size: Some(4_000), ..SetAttributes::default() });
    filled.set(short, &SetAttributes { size: Some(6_000), ..SetAttributes::default() });
    filled.file(Ino::ROOT, b"empty", &[]);
    let data = filled.data.clone();
    drop(filled);

    let to = scratch.path("copy");
    let (code, said) = copy(&data, &to);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("damaged        none"), "{said}");
    let seen = see(&to);
    let names: Vec<String> = seen.keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    assert!(!names.iter().any(|name| name.contains(".holdfast")), "{names:?}");
    assert_eq!(seen.len(), if is_root { 13 } else { 12 }, "{names:?}");
    let deep = b"directory/\xff not UTF-8\n".to_vec();
    let of = |name: &str| &seen[&[&deep[..], b"/", name.as_bytes()].concat()];
    assert!(of("sparse").content == expected_sparse());
    let path = to.join(OsStr::from_bytes(&deep));
    let blocks = fs::metadata(path.join("sparse")).unwrap().blocks();
    assert!(blocks * 512 < 1 << 20, "holes are kept: {blocks} blocks");
    assert_eq!((seen[&deep].mode & 0o7777, seen[&deep].mtime), (0o500, (0, 123_456_789)));
    assert_eq!(seen[&deep].owner.0, owner);
    assert_eq!((of("second").links, of("second").mode & 0o7777), (3, 0o4711));
    let inode = |path: PathBuf| fs::metadata(path).unwrap().ino();
    assert_eq!(inode(to.join("first")), inode(path.join("second")));
    assert_eq!(inode(to.join("first")), inode(to.join("directory/linked")));
    assert_eq!(seen[&b"symlink"[..]].content, b"/etc/passwd");
    let kind = |name: &str| fs::symlink_metadata(to.join(name)).unwrap().file_type();
    assert!(kind("pipe").is_fifo() && kind("socket").is_socket());
    if is_root {
        assert_eq!(fs::symlink_metadata(to.join("directory/device")).unwrap().rdev(), 0x103);
    }
    let mut short = vec![4; 4_000];
    short.resize(6_000, 0);
    assert!(seen[&b"short"[..]].content == short);
    assert_eq!(seen[&b"empty"[..]].content, b"");
    has_xattr(&path.join("sparse"), "user.color", b"blue\0green");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let sentence = fail(&["dump", text(&data), "--files", text(&to)], 2);
    assert!(sentence.contains("is not empty"), "{sentence}");
    // The copy changed nothing.
    assert!(succeed(&["check", text(&data)]).contains("no faults"));
}

/// Returns the owner, the change time and the size of everything in a tree.
fn states(root: &Path) -> BTreeMap<PathBuf, (u32, i64, i64, u64)> {
    let (mut states, mut waiting) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(path) = waiting.pop() {
        let found = fs::symlink_metadata(&path).unwrap();
        if found.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        states.insert(path, (found.uid(), found.ctime(), found.ctime_nsec(), found.size()));
    }
    states
}

#[test]
fn root_reads_the_volumes_of_another_user_and_changes_nothing() {
    // Only root can give a directory away.
    if !rustix::process::geteuid().is_root() {
        println!("not run as root: nothing was tested");
        return;
    }
    let scratch = Scratch::new();
    let mut filled = Filled::new(&scratch);
    filled.file(Ino::ROOT, b"file", &[(0, vec![7; 5000])]);
    let data = filled.close();
    for path in states(&data).keys() {
        std::os::unix::fs::chown(path, Some(4711), Some(4711)).unwrap();
    }
    let before = states(&data);
    assert!(succeed(&["check", text(&data)]).contains("default: no faults"));
    let to = scratch.path("copy");
    assert_eq!(copy(&data, &to).0, 0);
    assert!(fs::read(to.join("file")).unwrap() == [7; 5000]);
    assert!(succeed(&["dump", "records", text(&data)]).contains("file"));
    assert_eq!(states(&data), before);
    // What changes something is still for the owner.
    assert!(fail(&["volume", "set", text(&data), "main", "--mode", "0755"], 2).contains("sudo -u '#4711'"));
    assert_eq!(states(&data), before);

    // The owner cannot make root write elsewhere.
    let victim = scratch.path("victim");
    fs::write(&victim, b"precious").unwrap();
    fs::remove_file(data.join("lock")).unwrap();
    std::os::unix::fs::symlink(&victim, data.join("lock")).unwrap();
    assert!(fail(&["check", text(&data)], 1).contains("lock"));
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

fn expected_sparse() -> Vec<u8> {
    let mut expected = vec![0; (40 << 20) + 300_000];
    expected[10..50_010].fill(1);
    expected[20_000..25_000].fill(3);
    expected[40 << 20..].fill(2);
    expected
}

fn has_xattr(path: &Path, name: &str, expected: &[u8]) {
    let mut value = [0; 100];
    match rustix::fs::getxattr(path, name, &mut value[..]) {
        Ok(length) => assert_eq!(&value[..length], expected),
        Err(error) => assert_eq!(error, rustix::io::Errno::NOTSUP, "the file system has no attributes"),
    }
}

#[test]
fn a_check_goes_on_around_lost_names_and_a_copy_saves_the_files() {
    let scratch = Scratch::new();
    let data = with_lost_names(&scratch);
    let path = data.join("pools/default/index");
    let index = fs::read(&path).unwrap();
    let output = run(&["check", text(&data)]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let directory_line = said.lines().find(|line| line.starts_with("default: /directory: "));
    assert!(directory_line.is_some_and(|line| line.contains("of its 300 names")), "{said}");
    assert!(said.contains("what is not named above is intact: 302 objects"), "{said}");
    assert!(said.contains("holdfast dump --files"), "{said}");
    let report: Value = serde_json::from_slice(&run(&["check", text(&data), "--json"]).stdout).unwrap();
    let lost = report["pools"][0]["summary"]["lost_names"].as_u64().unwrap();
    assert!(report["pools"][0]["faults"].as_array().unwrap().iter().any(|fault| fault["kind"] == "index"));

    let to = scratch.path("copy");
    let (code, said) = copy(&data, &to);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains(&format!("/directory: this directory has lost {lost} name")), "{said}");
    let listed = |name: &str| fs::read_dir(to.join(name)).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(listed("lost+found").count() as u64, lost);
    assert_eq!(listed("directory").count() as u64 + lost, 300);
    let mut contents: Vec<Vec<u8>> =
        listed("directory").chain(listed("lost+found")).map(|path| fs::read(path).unwrap()).collect();
    contents.sort();
    assert!(contents == (0..300).map(content).collect::<Vec<_>>());
    assert!(fs::read(&path).unwrap() == index, "neither command changes the volume");
}

#[test]
fn ranges_that_cannot_be_read_are_holes_and_are_named() {
    let scratch = Scratch::new();
    let mut filled = Filled::new(&scratch);
    let bytes: Vec<u8> = (0..400_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    // Whoever named the file would clear the screen of the administrator.
    let name = "hurt\n\u{1b}[2J\u{202e}";
    filled.file(Ino::ROOT, name.as_bytes(), &[(0, bytes.clone())]);
    filled.file(Ino::ROOT, b"sound", &[(0, vec![7; 100_000])]);
    let data = filled.close();
    let segments = data.join("pools/default/segments");
    let wanted = &bytes[200_000..200_500];
    for entry in fs::read_dir(segments).unwrap() {
        let path = entry.unwrap().path();
        let mut stored = fs::read(&path).unwrap();
        if let Some(at) = stored.windows(500).position(|window| window == wanted) {
            // The pattern repeats every 251 bytes, so this is near the beginning of the file.
            stored[at + 60_000] ^= 1;
            fs::write(&path, stored).unwrap();
        }
    }
    let to = scratch.path("copy");
    let (code, said) = copy(&data, &to);
    assert_eq!(code, 1, "{said}");
    let shown = r"/hurt\n\u{1b}[2J\u{202e}: ";
    assert!(
        said.contains(&format!("{shown}bytes ")) && said.contains("do not match their checksums"),
        "{said}"
    );
    let checked = String::from_utf8(run(&["check", text(&data)]).stdout).unwrap();
    assert!(checked.contains(&format!("default: {shown}")), "{checked}");
    for printed in [said.as_str(), &checked] {
        assert!(printed.chars().all(|c| c == '\n' || c == ' ' || c.is_ascii_graphic()), "{printed:?}");
    }
    assert!(!said.contains("/sound"), "{said}");
    assert!(fs::read(to.join("sound")).unwrap() == vec![7; 100_000]);
    let copied = fs::read(to.join(name)).unwrap();
    assert_eq!(copied.len(), bytes.len());
    let output = run(&["dump", text(&data), "--files", text(&scratch.path("again")), "--json"]);
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&lines[0]["line"], &lines[0]["path"]),
        (&Value::from("lost"), &Value::from(shown.trim_end_matches(": ")))
    );
    let range = |at: usize| usize::try_from(lines[0]["ranges"][0][at].as_u64().unwrap()).unwrap();
    let (from, to) = (range(0), range(1));
    assert!(to - from <= 4096 && lines[0]["bytes"].as_u64() == Some((to - from) as u64));
    assert!(copied[..from] == bytes[..from] && copied[to..] == bytes[to..]);
    assert!(copied[from..to].iter().all(|byte| *byte == 0));
    assert_eq!(lines[1]["damaged"], 1);
}

#[test]
fn of_several_volumes_the_named_one_is_copied() {
    let scratch = Scratch::new();
    let mut filled = Filled::new(&scratch);
    filled.file(Ino::ROOT, b"of main", &[(0, b"kept".to_vec())]);
    let data = filled.close();
    succeed(&["volume", "create", text(&data), "other"]);
    let to = scratch.path("copy");
    let copy = |options: &[&'static str]| {
        let dump: Vec<&str> = ["dump", text(&data), "--files", text(&to)].to_vec();
        [dump, options.to_vec()].concat()
    };
    let sentence = fail(&copy(&[]), 2);
    assert!(sentence.contains("several volumes") && sentence.contains("main, other"), "{sentence}");
    let sentence = fail(&copy(&["--volume", "third"]), 1);
    assert!(sentence.contains("no volume \"third\", only main, other; --pool"), "{sentence}");
    let sentence = fail(&copy(&["--volume", "main", "--pool", "none"]), 1);
    assert!(sentence.contains("there is no pool \"none\""), "{sentence}");
    succeed(&copy(&["--volume", "other"]));
    assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
    succeed(&copy(&["--volume", "main"]));
    assert_eq!(fs::read(to.join("of main")).unwrap(), b"kept");
}
