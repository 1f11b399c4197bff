//! What virtual threads do: the workloads, each with the meaning that the published reports give it.

use serde::{Deserialize, Serialize};

/// A workload and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Workload {
    /// NULL calls: what protocol and sockets cost, and the limit of every other rate.
    Null,
    /// One small operation over and over.
    Rate {
        /// Which one.
        procedure: RateProcedure,
    },
    /// Reads from the first byte to the last, again and again.
    SequentialRead {
        /// Bytes of an operation.
        block_bytes: u64,
        /// All threads read their own part of one file (N-1) instead of a file each (N-N).
        shared_file: bool,
    },
    /// Writes from the first byte to the last, again and again.
    SequentialWrite {
        /// Bytes of an operation.
        block_bytes: u64,
        /// All threads write their own part of one file (N-1) instead of a file each (N-N).
        shared_file: bool,
        /// When what is written has to be stable.
        stability: Stability,
    },
    /// Reads and writes at random places of a file for each thread.
    Random {
        /// Bytes of an operation.
        block_bytes: u64,
        /// How many of 100 operations are reads.
        read_percent: u8,
        /// When what is written has to be stable.
        stability: Stability,
    },
    /// mdtest's shape: create, stat, read and remove files, each in a phase of its own, with a barrier in between.
    Metadata {
        /// Files in each directory.
        files_per_directory: u64,
        /// Directories of each thread.
        directories_per_thread: u64,
        /// Bytes of each file; 0 for empty ones.
        file_bytes: u64,
    },
    /// A tree of small files as `tar -x` makes it, then read back, then removed.
    SmallFiles {
        /// Files in each directory.
        files_per_directory: u64,
        /// Directories of each thread.
        directories_per_thread: u64,
        /// Bytes of each file.
        file_bytes: u64,
    },
    /// Listings of a directory, from its first name to its last.
    Readdir {
        /// Names in the directory.
        names: u64,
        /// With attributes and handles (READDIRPLUS).
        plus: bool,
    },
}

/// The operation of [`Workload::Rate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateProcedure {
    /// GETATTR of a directory.
    Getattr,
    /// ACCESS of a directory.
    Access,
    /// LOOKUP of a name that exists.
    Lookup,
    /// LOOKUP of a name that does not exist.
    LookupMissing,
    /// CREATE of an empty file, then REMOVE of it: two operations.
    CreateRemove,
    /// WRITE of 4 KiB at a random place, FILE_SYNC.
    WriteFileSync,
    /// WRITE of 4 KiB at a random place, UNSTABLE, then COMMIT of it: one operation.
    WriteCommit,
}

/// When what is written has to be stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stability {
    /// UNSTABLE writes, and a COMMIT of all of them after each pass over the file (of random ones: at the end).
    Unstable,
    /// UNSTABLE writes, each operation with a COMMIT behind it.
    Commit,
    /// DATA_SYNC writes.
    DataSync,
    /// FILE_SYNC writes.
    FileSync,
}
