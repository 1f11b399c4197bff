//! What virtual threads do: the workloads, each with the meaning that the published reports give it.

use serde::{Deserialize, Serialize};

use crate::client::{BlockingClient, Handle, TransferSizes};
use crate::error::LoadError;
use actor::Actor;

pub(crate) mod actor;
mod create_remove;
mod readdir;
mod simple;
mod transfer;
mod tree;

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

/// Bytes of the writes of [`RateProcedure`].
const RATE_BLOCK_BYTES: u64 = 4096;

/// Bytes of an operation, at most.
pub const BLOCK_BYTES_MAX: u64 = 64 << 20;

/// What a workload is prepared with.
pub(crate) struct Setup<'s> {
    pub(crate) client: &'s mut BlockingClient,
    /// The directory of this measurement.
    pub(crate) directory: Handle,
    pub(crate) sizes: TransferSizes,
    pub(crate) threads: u32,
    pub(crate) depth: u32,
    /// Of all threads together.
    pub(crate) working_set_bytes: u64,
    pub(crate) seed: u64,
    pub(crate) verify: bool,
}

/// A stage: all threads begin it together and wait for each other at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) kind: StageKind,
}

/// Whether a stage is measured, and when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StageKind {
    /// Not measured; ends when all is done, or at the first failure.
    Prepare,
    /// Measured; ends when time is up.
    Timed,
    /// Measured; ends when all is done. All stages of this kind are repeated until time is up.
    Counted,
    /// Not measured, after all else; ends when all is done.
    Finish,
}

/// What is to run.
pub(crate) struct Plan {
    pub(crate) stages: Vec<Stage>,
    /// Names of what operations count as.
    pub(crate) phases: &'static [&'static str],
    /// One for each thread.
    pub(crate) actors: Vec<Box<dyn Actor>>,
    /// Calls that one operation has in flight, at most.
    pub(crate) parts_max: u32,
}

impl Plan {
    /// NULL calls, which need no export.
    pub(crate) fn without_export(threads: u32) -> Self {
        simple::plan_null(threads)
    }

    /// One timed stage and nothing else.
    fn timed(actors: Vec<Box<dyn Actor>>) -> Self {
        let stages = vec![Stage { name: "measure", kind: StageKind::Timed }];
        Self { stages, phases: &[], actors, parts_max: 1 }
    }
}

impl Workload {
    /// In a few words, such as `random 4 KiB 70:30`.
    #[must_use]
    pub fn name(&self) -> String {
        let shape = |shared| if shared { "N-1" } else { "N-N" };
        match *self {
            Self::Null => "NULL".to_owned(),
            Self::Rate { procedure } => procedure.name().to_owned(),
            Self::SequentialRead { block_bytes, shared_file } => {
                format!("sequential read {} {}", size(block_bytes), shape(shared_file))
            }
            Self::SequentialWrite { block_bytes, shared_file, stability } => {
                format!("sequential write {} {}{}", size(block_bytes), shape(shared_file), stability.suffix())
            }
            Self::Random { block_bytes, read_percent, stability } => {
                let suffix = if read_percent == 100 { "" } else { stability.suffix() };
                format!("random {} {read_percent}:{}{suffix}", size(block_bytes), 100 - read_percent.min(100))
            }
            Self::Metadata { files_per_directory, directories_per_thread, file_bytes } => format!(
                "metadata {directories_per_thread} x {files_per_directory} {}",
                if file_bytes == 0 {
                    "empty files".to_owned()
                } else {
                    format!("files of {}", size(file_bytes))
                }
            ),
            Self::SmallFiles { files_per_directory, directories_per_thread, file_bytes } => {
                format!(
                    "small files {directories_per_thread} x {files_per_directory} of {}",
                    size(file_bytes)
                )
            }
            Self::Readdir { names, plus } => {
                format!("{} of {names} names", if plus { "READDIRPLUS" } else { "READDIR" })
            }
        }
    }

    /// Whether it runs until it is told to stop, rather than until its work is done.
    #[must_use]
    pub const fn is_timed(&self) -> bool {
        !matches!(self, Self::Metadata { .. } | Self::SmallFiles { .. })
    }

    /// Whether it needs a place to write at.
    #[must_use]
    pub const fn needs_export(&self) -> bool {
        !matches!(self, Self::Null)
    }

    /// Whether its data goes to the server, and none comes from there.
    pub(crate) const fn only_writes(&self) -> bool {
        matches!(self, Self::SequentialWrite { .. } | Self::Random { read_percent: 0, .. })
    }

    /// Bytes of files that are read and written, if so many are asked for.
    #[must_use]
    pub const fn working_set_bytes(&self, asked: u64) -> u64 {
        match self {
            Self::SequentialRead { .. }
            | Self::SequentialWrite { .. }
            | Self::Random { .. }
            | Self::Rate { procedure: RateProcedure::WriteFileSync | RateProcedure::WriteCommit } => asked,
            _ => 0,
        }
    }

    /// Whether its parameters make sense.
    ///
    /// # Errors
    /// In words, if not.
    pub fn check(&self, verify: bool) -> Result<(), LoadError> {
        let wrong = |words: String| Err(LoadError::new(words));
        match *self {
            Self::SequentialRead { block_bytes, .. }
            | Self::SequentialWrite { block_bytes, .. }
            | Self::Random { block_bytes, .. } => {
                let unit = if verify { 4096 } else { 512 };
                if block_bytes == 0 || block_bytes > BLOCK_BYTES_MAX || !block_bytes.is_multiple_of(unit) {
                    return wrong(format!("blocks are multiples of {unit} bytes, at most 64 MiB"));
                }
                if let Self::Random { read_percent, .. } = *self
                    && read_percent > 100
                {
                    return wrong("a mix is a percentage of reads, 0 to 100".to_owned());
                }
                Ok(())
            }
            Self::Metadata { files_per_directory, directories_per_thread, file_bytes }
            | Self::SmallFiles { files_per_directory, directories_per_thread, file_bytes } => {
                if files_per_directory == 0 || directories_per_thread == 0 {
                    return wrong("there is nothing to do without files or directories".to_owned());
                }
                if file_bytes > 64 << 10 {
                    return wrong("small files have at most 64 KiB, so that one WRITE makes them".to_owned());
                }
                Ok(())
            }
            Self::Readdir { names: 0, .. } => wrong("there is nothing to list without names".to_owned()),
            Self::Null | Self::Rate { .. } | Self::Readdir { .. } => Ok(()),
        }
    }

    /// Prepares it: makes files and directories, and a state machine for each thread.
    pub(crate) fn plan(&self, setup: &mut Setup<'_>) -> Result<Plan, LoadError> {
        match *self {
            Self::Null => Ok(Plan::without_export(setup.threads)),
            Self::Rate { procedure } => match procedure {
                RateProcedure::CreateRemove => create_remove::plan(setup),
                RateProcedure::WriteFileSync => transfer::plan(setup, &rate_writes(Stability::FileSync)),
                RateProcedure::WriteCommit => transfer::plan(setup, &rate_writes(Stability::Commit)),
                RateProcedure::Getattr
                | RateProcedure::Access
                | RateProcedure::Lookup
                | RateProcedure::LookupMissing => simple::plan(setup, procedure),
            },
            Self::SequentialRead { .. } | Self::SequentialWrite { .. } | Self::Random { .. } => {
                transfer::plan(setup, self)
            }
            Self::Metadata { .. } | Self::SmallFiles { .. } => tree::plan(setup, self),
            Self::Readdir { names, plus } => readdir::plan(setup, names, plus),
        }
    }
}

const fn rate_writes(stability: Stability) -> Workload {
    Workload::Random { block_bytes: RATE_BLOCK_BYTES, read_percent: 0, stability }
}

impl RateProcedure {
    /// In a few words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Getattr => "GETATTR",
            Self::Access => "ACCESS",
            Self::Lookup => "LOOKUP",
            Self::LookupMissing => "LOOKUP of a missing name",
            Self::CreateRemove => "CREATE + REMOVE",
            Self::WriteFileSync => "WRITE 4 KiB FILE_SYNC",
            Self::WriteCommit => "WRITE 4 KiB + COMMIT",
        }
    }
}

impl Stability {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Unstable => "",
            Self::Commit => " + COMMIT",
            Self::DataSync => " DATA_SYNC",
            Self::FileSync => " FILE_SYNC",
        }
    }
}

/// A number of bytes, for people.
#[must_use]
pub fn size(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} B")
}
