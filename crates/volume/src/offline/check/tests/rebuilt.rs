//! Volumes whose index was damaged while they were served, and was replaced by a copy of what could be read.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::lost::{Model, damage, filled};
use super::world::{World, report};
use crate::api::ids::Ino;
use crate::api::results::Stability;
use crate::media::Media;
use crate::media::memory::{MemoryMedia, Random};
use crate::offline::check::FaultKind;
use crate::offline::files::{Files, Part};

/// Bytes of cache: too few for reads to avoid the file.
const MEMORY: u64 = 64 << 10;

/// Contents of files.
type Contents = BTreeMap<Ino, Vec<u8>>;

/// Returns the contents of a sound volume by inode, as `model` has them by path, and its directories.
fn by_inode(media: &Arc<MemoryMedia>, model: &Model) -> (Contents, Vec<Ino>) {
    let files = Files::open(Arc::clone(media) as Arc<dyn Media>).unwrap();
    let (mut contents, mut directories) = (Contents::new(), vec![Ino::ROOT]);
    let mut waiting = vec![(Ino::ROOT, String::new())];
    while let Some((directory, path)) = waiting.pop() {
        for entry in files.list(directory).unwrap().entries {
            let path = format!("{path}/{}", String::from_utf8(entry.name).unwrap());
            if let Some(content) = &model[&path] {
                contents.insert(entry.ino, content.clone());
            } else {
                directories.push(entry.ino);
                waiting.push((entry.ino, path));
            }
        }
    }
    (contents, directories)
}

/// Reads everything, so that bad blocks are found, and makes checkpoints, which replace the index.
fn serve(world: &mut World, contents: &Contents, directories: &[Ino]) {
    for _ in 0..3 {
        for ino in contents.keys() {
            // It may be lost.
            drop(world.read(*ino));
        }
        for directory in directories {
            let _ = world.create(*directory, "0 and so on");
        }
        world.commit();
        world.checkpoint();
    }
}

/// Changes files, including those with lost parts. Forgets a file if a change fails.
fn change(world: &mut World, contents: &mut Contents, directories: &[Ino], random: &mut Random) {
    contents.retain(|ino, content| {
        let (at, length) = (random.index(60_000), 1 + random.index(20_000));
        match random.index(6) {
            0 => {
                let bytes = random.bytes(length);
                content.resize(content.len().max(at + length), 0);
                content[at..at + length].copy_from_slice(&bytes);
                world.write(*ino, at as u64, &bytes, Stability::FileSync).is_ok()
            }
            1 => {
                let end = content.len().min(at + length);
                content[at.min(end)..end].fill(0);
                world.punch(*ino, at as u64, length as u64).is_ok()
            }
            _ => true,
        }
    });
    for (number, directory) in directories.iter().enumerate() {
        if let Ok(ino) = world.create(*directory, &format!("new {number}")) {
            let bytes = random.bytes(9_000);
            world.write(ino, 0, &bytes, Stability::FileSync).unwrap();
            contents.insert(ino, bytes);
        }
    }
    world.write_back();
    world.checkpoint();
}

/// The files that a dump copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Copied {
    whole: usize,
    partial: usize,
}

/// Reads all files. They must be unchanged except where they are reported lost.
fn compare(media: &Arc<MemoryMedia>, contents: &Contents, context: &str) -> Copied {
    let files = Files::open(Arc::clone(media) as Arc<dyn Media>).unwrap();
    let mut copied = Copied::default();
    for (ino, content) in contents {
        let attributes = files.attributes(*ino).unwrap();
        // What is in no part is a hole, as far as the file's size is known.
        let mut read = if attributes.is_some() { vec![0; content.len()] } else { content.clone() };
        let mut whole = attributes.as_ref().is_some_and(|found| found.size == content.len() as u64);
        assert!(whole || attributes.is_none(), "{context}: {ino}: {attributes:?}");
        files
            .read(*ino, &mut |part| {
                let at = |offset: u64| usize::try_from(offset).unwrap();
                match part {
                    Part::Data(offset, data) => read[at(offset)..][..data.len()].copy_from_slice(data),
                    Part::Lost(from, to, _) => {
                        whole = false;
                        let range = at(from)..at(to).min(content.len());
                        read[range.clone()].copy_from_slice(&content[range]);
                    }
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        assert!(read == *content, "{context}: {ino} is not what it was");
        *if whole { &mut copied.whole } else { &mut copied.partial } += 1;
    }
    copied
}

/// Damages the index of an open volume. Returns what can still be copied, or `None` if the root could not be read either, so
/// that the index was not replaced.
fn damaged_while_open(random: &mut Random, context: &str) -> Option<Copied> {
    let (media, model) = filled(random);
    let (mut contents, directories) = by_inode(&media, &model);
    let mut world = World::open_with(media, MEMORY);
    let blocks = 2 + random.below(12);
    let damaged = damage(&world.media, random, blocks);
    let context = format!("{context}, blocks {damaged:?}");
    serve(&mut world, &contents, &directories);
    change(&mut world, &mut contents, &directories, random);
    if world.volume.refuses_changes().is_some() {
        return None;
    }
    let is_lacking = !world.volume.view().index.lost().is_empty();
    let media = world.close();
    let said = report(&media);
    for fault in &said.faults {
        assert!(
            matches!(fault.kind, FaultKind::Index | FaultKind::Lost | FaultKind::Name),
            "{context}: a contradiction: {fault:?}"
        );
    }
    let says = |kind| said.faults.iter().any(|fault| fault.kind == kind);
    assert_eq!(says(FaultKind::Index), is_lacking, "{context}: {said:?}");
    assert_eq!(said.notes.iter().any(|note| note.contains("index.damaged")), is_lacking, "{context}");
    let copied = compare(&media, &contents, &context);
    assert!(copied.partial == 0 || is_lacking, "{context}: {copied:?}");
    Some(copied)
}

#[test]
fn what_an_open_volume_lost_is_reported_as_lost_and_the_rest_is_copied() {
    const TURNS: usize = 40;
    let seed =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |age| age.as_secs());
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let outcomes: Vec<Option<Copied>> = (0..TURNS)
        .map(|turn| damaged_while_open(&mut random, &format!("seed {seed}, turn {turn}")))
        .collect();
    println!("{outcomes:?}");
    let served = outcomes.iter().flatten();
    assert!(served.clone().any(|copied| copied.partial > 0), "{outcomes:?}");
    assert!(served.clone().all(|copied| copied.whole > 0), "{outcomes:?}");
}
