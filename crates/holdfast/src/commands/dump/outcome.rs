//! What `holdfast dump --files` prints: each damaged file when it is reached, then counts.

use serde_json::json;
use server::config::size::Size;

use crate::report::{count, print, table};

/// Most ranges of one file that are printed for one cause.
const RANGES_MAX: usize = 100;

/// What was copied.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) directories: u64,
    pub(super) files: u64,
    /// Symbolic links, devices, sockets and pipes.
    pub(super) others: u64,
    /// Further names of objects.
    pub(super) links: u64,
    /// Bytes of file data.
    pub(super) bytes: u64,
}

/// What was copied, and what could not be.
#[derive(Debug)]
pub(super) struct Copied {
    json: bool,
    pub(super) counts: Counts,
    /// Objects with damage; those of one object are reported in a row.
    damaged: u64,
    last: String,
    lost_bytes: u64,
}

impl Copied {
    pub(super) fn new(json: bool) -> Copied {
        Copied { json, counts: Counts::default(), damaged: 0, last: String::new(), lost_bytes: 0 }
    }

    /// Reports that an object is not copied as it was.
    pub(super) fn damage(&mut self, path: &str, what: &str) {
        self.count(path);
        if self.json {
            print(&format!("{}\n", json!({ "line": "damage", "path": path, "what": what })));
        } else {
            print(&format!("{path}: {what}\n"));
        }
    }

    /// Reports ranges of a file that cannot be read and are holes in the copy.
    pub(super) fn lost_ranges(&mut self, path: &str, ranges: &[(u64, u64)], why: &str) {
        self.count(path);
        let bytes: u64 = ranges.iter().map(|(from, to)| to - from).sum();
        self.lost_bytes += bytes;
        let (first, more) = ranges.split_at(ranges.len().min(RANGES_MAX));
        if self.json {
            let line = json!({
                "line": "lost", "path": path, "ranges": first, "more_ranges": more.len(), "bytes": bytes, "what": why,
            });
            return print(&format!("{line}\n"));
        }
        for (from, to) in first {
            print(&format!("{path}: bytes {from} to {} cannot be read: {why}\n", to - 1));
        }
        if !more.is_empty() {
            print(&format!("{path}: {} cannot be read: {why}\n", count(more.len() as u64, "more range")));
        }
    }

    fn count(&mut self, path: &str) {
        if self.damaged == 0 || self.last != path {
            self.damaged += 1;
            path.clone_into(&mut self.last);
        }
    }

    /// Prints the counts; returns whether everything was copied.
    pub(super) fn finish(&self, without_owners: bool) -> bool {
        let Counts { directories, files, others, links, bytes } = self.counts;
        if without_owners {
            eprintln!("holdfast: owners were not copied, because only root can change a file's owner");
        }
        if self.json {
            let line = json!({
                "line": "copied", "directories": directories, "files": files, "others": others, "links": links,
                "bytes": bytes, "damaged": self.damaged, "lost_bytes": self.lost_bytes, "owners": !without_owners,
            });
            print(&format!("{line}\n"));
        } else {
            let damaged = if self.damaged == 0 {
                "none".to_owned()
            } else {
                format!(
                    "{}, listed above; {} of their data cannot be read",
                    self.damaged,
                    Size(self.lost_bytes)
                )
            };
            print(&table(&[
                ("directories", directories.to_string()),
                ("files", files.to_string()),
                ("other objects", others.to_string()),
                ("further names", links.to_string()),
                ("file data", Size(bytes).to_string()),
                ("damaged", damaged),
            ]));
        }
        self.damaged == 0
    }
}
