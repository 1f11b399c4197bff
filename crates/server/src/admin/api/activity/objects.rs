//! Hot files and directories, by their paths.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use volume::Volume;
use volume::attributes::FileType;
use volume::ids::{Ino, VolumeId};
use volume::time::Time;

use crate::admin::api::types::{CallKinds, HotObject, ObjectCounts};
use crate::counters::activity::Watch;
use crate::counters::objects::{Object, ObjectCounters};
use crate::counters::phases::nanos_between;
use crate::limits::{NAMES_READ_EVERY, NAMES_READ_MAX, PATHS_KEPT, PATHS_SEARCHED_EVERY};

/// Returns the hottest objects of all loops. Those of volumes that are not served are left out.
pub(super) fn hottest<'w>(
    watches: impl Iterator<Item = &'w Watch>,
    volumes: &[Arc<Volume>],
    most: usize,
    now: Time,
) -> Vec<(Object, ObjectCounters)> {
    let is_served = |object: &Object| volumes.iter().any(|volume| volume.id() == object.volume);
    let mut merged: HashMap<Object, (u64, ObjectCounters)> = HashMap::new();
    for (object, weight, counters) in watches.flat_map(|watch| watch.objects.entries(now)) {
        merged
            .entry(object)
            .and_modify(|(sum, all)| {
                *sum = sum.saturating_add(weight);
                all.add(&counters);
            })
            .or_insert((weight, counters));
    }
    let mut merged: Vec<_> = merged.into_iter().filter(|(object, _)| is_served(object)).collect();
    merged.sort_by_key(|(object, (weight, _))| (std::cmp::Reverse(*weight), *object));
    merged.truncate(most);
    merged.into_iter().map(|(object, (_, counters))| (object, counters)).collect()
}

/// Shows an object.
pub(super) fn shown(
    volume: &str,
    object: Object,
    place: &Place,
    counters: &ObjectCounters,
    now: Time,
) -> HotObject {
    let [read, write, name, other] = counters.calls;
    HotObject {
        volume: volume.to_owned(),
        inode: object.ino.0,
        kind: place.kind.to_owned(),
        path: place.path.as_deref().map(escaped),
        counted_milliseconds: nanos_between(counters.since, now) / 1_000_000,
        counts: ObjectCounts {
            calls: counters.calls.iter().sum(),
            read_bytes: counters.read,
            written_bytes: counters.written,
            kinds: CallKinds { read, write, name, other },
        },
    }
}

/// Writes a path as text. Bytes that are not UTF-8, backslashes, and characters that a terminal would not show as they are, such
/// as line feeds, are written as `\x` and two hexadecimal digits for each byte.
fn escaped(path: &[u8]) -> String {
    let mut out = String::new();
    let escape = |out: &mut String, bytes: &[u8]| {
        bytes.iter().for_each(|byte| write!(out, "\\x{byte:02x}").expect("a string takes all"));
    };
    for chunk in path.utf8_chunks() {
        for char in chunk.valid().chars() {
            if char == '\\' || !is_shown(char) {
                escape(&mut out, char.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                out.push(char);
            }
        }
        escape(&mut out, chunk.invalid());
    }
    out
}

/// Whether a terminal shows a character, and in its place: neither a control character nor one that formats the text around it.
fn is_shown(char: char) -> bool {
    let is_format = matches!(char, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !char.is_control() && !is_format
}

/// Where an object is.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    kind: &'static str,
    /// Of a removed object, where it was, if that was known.
    path: Option<Arc<[u8]>>,
}

/// The places of objects that were shown lately. Searching for them takes long, so it is done rarely, and by one request at a
/// time.
#[derive(Debug, Default)]
pub(in crate::admin::api) struct Places(Mutex<Searched>);

#[derive(Debug, Default)]
struct Searched {
    places: HashMap<Object, Remembered>,
    last: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Remembered {
    place: Place,
    /// When it was searched for, and when names were read for it.
    searched: Instant,
    names_read: Instant,
}

impl Places {
    /// Returns the places of objects, in their order: the latest that are known.
    pub(super) fn of(&self, objects: &[Object], volumes: &[Arc<Volume>]) -> Vec<Place> {
        let mut searched = self.0.lock();
        let now = Instant::now();
        if searched.last.is_none_or(|last| now.saturating_duration_since(last) >= PATHS_SEARCHED_EVERY) {
            searched.search(objects, volumes, now);
        }
        let unknown = || Place { kind: "unknown", path: None };
        let place = |object| searched.places.get(object).map_or_else(unknown, |found| found.place.clone());
        objects.iter().map(place).collect()
    }
}

impl Searched {
    /// Searches for the objects whose places are unknown or out of date.
    fn search(&mut self, objects: &[Object], volumes: &[Arc<Volume>], now: Instant) {
        let mut wanted: BTreeMap<VolumeId, BTreeSet<Ino>> = BTreeMap::new();
        for object in objects {
            let known = self.places.get(object);
            if known.is_none_or(|known| now.saturating_duration_since(known.searched) >= PATHS_KEPT) {
                wanted.entry(object.volume).or_default().insert(object.ino);
            }
        }
        if wanted.is_empty() {
            return;
        }
        for (id, inos) in wanted {
            if let Some(volume) = volumes.iter().find(|volume| volume.id() == id) {
                self.search_volume(volume, &inos, now);
            }
        }
        // The search itself may have taken long.
        self.last = Some(Instant::now());
        self.places.retain(|_, known| now.saturating_duration_since(known.searched) < NAMES_READ_EVERY);
    }

    fn search_volume(&mut self, volume: &Volume, inos: &BTreeSet<Ino>, now: Instant) {
        let object = |ino: Ino| Object { volume: volume.id(), ino };
        let is_due = |known: &Remembered| now.saturating_duration_since(known.names_read) >= NAMES_READ_EVERY;
        // A name that was not found need not be searched for again and again.
        let reads_names = inos.iter().any(|ino| {
            let known = self.places.get(&object(*ino));
            known.is_none_or(|known| known.place.path.is_some() || is_due(known))
        });
        let mut found = volume.whereabouts(inos, if reads_names { NAMES_READ_MAX } else { 0 });
        for ino in inos {
            let before = self.places.get(&object(*ino));
            let names_read = if reads_names { now } else { before.map_or(now, |before| before.names_read) };
            let place = match found.remove(ino) {
                Some(found) => Place { kind: found.file_type.map_or("unknown", name), path: found.path },
                None => Place { kind: "removed", path: before.and_then(|before| before.place.path.clone()) },
            };
            self.places.insert(object(*ino), Remembered { place, searched: now, names_read });
        }
    }
}

/// Returns the name of a type, as JSON has it.
fn name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::Block | FileType::Character | FileType::Socket | FileType::Fifo => "special",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_text_that_a_terminal_shows() {
        let shown = |path: &[u8]| escaped(path);
        assert_eq!(shown("/a b/\u{fc}\u{4e2d}".as_bytes()), "/a b/\u{fc}\u{4e2d}");
        assert_eq!(shown(b"/line\nfeed\x1b[2J\x7f"), "/line\\x0afeed\\x1b[2J\\x7f");
        assert_eq!(shown(b"/not \xff\xc3 UTF-8"), "/not \\xff\\xc3 UTF-8");
        assert_eq!(shown(b"/back\\slash"), "/back\\x5cslash");
        assert_eq!(shown("/\u{202e}txt".as_bytes()), "/\\xe2\\x80\\xaetxt");
        assert_eq!(shown("/\u{9b}31m".as_bytes()), "/\\xc2\\x9b31m");
    }
}
