//! What virtual threads do: the workloads, each as the published reports define it.

use serde::{Deserialize, Serialize};
use wire::limits::DATA_BYTES_MAX;

use crate::client::{BlockingClient, Handle, TransferSizes};
use crate::error::LoadError;
use crate::text::size;
use actor::Actor;

pub(crate) mod actor;
mod create_remove;
mod open_close;
mod readdir;
mod simple;
mod transfer;
mod tree;

/// A workload and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Workload {
    /// NULL calls: the cost of protocol and sockets, and the limit of every other rate.
    Null,
    /// One small operation, repeated.
    Rate {
        /// The operation.
        procedure: RateProcedure,
    },
    /// Reads from the first byte to the last, repeated.
    SequentialRead {
        /// Bytes per operation.
        block_bytes: u64,
        /// Whether threads read their own parts of one file (N-1) instead of a file each (N-N).
        shared_file: bool,
    },
    /// Writes from the first byte to the last, repeated.
    SequentialWrite {
        /// Bytes per operation.
        block_bytes: u64,
        /// Whether threads write their own parts of one file (N-1) instead of a file each (N-N).
        shared_file: bool,
        /// Stability of writes.
        stability: Stability,
    },
    /// Reads and writes at random offsets. Each thread has its own file.
    Random {
        /// Bytes per operation.
        block_bytes: u64,
        /// The percentage of operations that read.
        read_percent: u8,
        /// Stability of writes.
        stability: Stability,
    },
    /// Like mdtest: creates, stats, reads and removes files, in phases with a barrier between them.
    Metadata {
        /// Files per directory.
        files_per_directory: u64,
        /// Directories per thread.
        directories_per_thread: u64,
        /// Bytes per file; 0 for empty files.
        file_bytes: u64,
    },
    /// Creates a tree of small files like `tar -x`, reads it, and removes it.
    SmallFiles {
        /// Files per directory.
        files_per_directory: u64,
        /// Directories per thread.
        directories_per_thread: u64,
        /// Bytes per file.
        file_bytes: u64,
    },
    /// Lists a directory from its first name to its last, repeated.
    Readdir {
        /// Names in the directory.
        names: u64,
        /// Whether to request attributes and handles (READDIRPLUS).
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
    /// Opening and closing an existing file: OPEN and CLOSE. In NFSv3, which has neither, LOOKUP and ACCESS.
    OpenClose,
    /// CREATE of an empty file, then REMOVE: two operations.
    CreateRemove,
    /// WRITE of 4 KiB at a random offset, FILE_SYNC.
    WriteFileSync,
    /// WRITE of 4 KiB at a random offset, UNSTABLE, then COMMIT: one operation.
    WriteCommit,
}

/// Stability of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stability {
    /// UNSTABLE writes with a COMMIT after each pass over the file, or at the end if offsets are random.
    Unstable,
    /// UNSTABLE writes, each followed by a COMMIT.
    Commit,
    /// DATA_SYNC writes.
    DataSync,
    /// FILE_SYNC writes.
    FileSync,
}

/// The size of the writes of [`RateProcedure`].
const RATE_BLOCK_BYTES: u64 = 4096;

/// The memory of a cached inode and its name, about what Linux needs for both.
const OBJECT_BYTES: u64 = 1 << 10;

/// Bytes per operation.
pub const BLOCK_BYTES_MAX: u64 = 64 << 20;

/// What a workload needs to prepare.
pub(crate) struct Setup<'s> {
    pub(crate) client: &'s mut BlockingClient,
    /// The directory of this measurement.
    pub(crate) directory: Handle,
    pub(crate) sizes: TransferSizes,
    pub(crate) threads: u32,
    pub(crate) depth: u32,
    /// Bytes of the files of all threads together.
    pub(crate) working_set_bytes: u64,
    pub(crate) seed: u64,
    pub(crate) verify: bool,
    /// Receives the share of the preparation that is done, from 0 to 1. An error ends the preparation.
    pub(crate) tell: &'s mut dyn FnMut(f64) -> Result<(), LoadError>,
}

impl Setup<'_> {
    /// Reports how many of the files that are prepared exist.
    ///
    /// # Errors
    /// If the measurement is interrupted.
    pub(crate) fn has_made(&mut self, files: u64, of: u64) -> Result<(), LoadError> {
        (self.tell)(files as f64 / of.max(1) as f64)
    }
}

/// A stage. All threads begin it together and wait for each other at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) kind: StageKind,
}

/// Whether a stage is measured, and when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StageKind {
    /// Not measured. Ends when its work is done, or at the first failure.
    Prepare,
    /// Measured. Ends when time is up.
    Timed,
    /// Measured. Ends when its work is done. All stages of this kind repeat until time is up.
    Counted,
    /// Not measured, and last. Ends when its work is done.
    Finish,
}

/// A prepared workload.
pub(crate) struct Plan {
    pub(crate) stages: Vec<Stage>,
    /// The names of the phases that operations count towards.
    pub(crate) phases: &'static [&'static str],
    /// One for each thread.
    pub(crate) actors: Vec<Box<dyn Actor>>,
    /// Calls in flight per operation.
    pub(crate) parts_max: u32,
    /// Bytes that all threads write while preparing.
    pub(crate) fill_bytes: u64,
    /// Operations of all threads in each counted stage.
    pub(crate) phase_operations: u64,
}

impl Plan {
    /// Returns the plan of NULL calls, which need no export.
    pub(crate) fn without_export(threads: u32) -> Self {
        simple::plan_null(threads)
    }

    /// Returns a plan of one timed stage.
    fn timed(actors: Vec<Box<dyn Actor>>) -> Self {
        let stages = vec![Stage { name: "measure", kind: StageKind::Timed }];
        Self { stages, phases: &[], actors, parts_max: 1, fill_bytes: 0, phase_operations: 0 }
    }
}

impl Workload {
    /// Returns the workload in a few words, such as `random 4 KiB 70:30`.
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

    /// Whether it runs until it is stopped, rather than until its work is done.
    #[must_use]
    pub const fn is_timed(&self) -> bool {
        !matches!(self, Self::Metadata { .. } | Self::SmallFiles { .. })
    }

    /// Whether it needs a directory to write to.
    #[must_use]
    pub const fn needs_export(&self) -> bool {
        !matches!(self, Self::Null)
    }

    /// Whether all its data goes to the server.
    pub(crate) const fn only_writes(&self) -> bool {
        matches!(self, Self::SequentialWrite { .. } | Self::Random { read_percent: 0, .. })
    }

    /// Returns the bytes of files it reads and writes if `asked` bytes are requested.
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

    /// Returns the calls of an operation that are in flight together, if each moves as much as a call can.
    pub(crate) const fn calls_per_operation(&self) -> u64 {
        match self {
            Self::SequentialRead { block_bytes, .. }
            | Self::SequentialWrite { block_bytes, .. }
            | Self::Random { block_bytes, .. } => block_bytes.div_ceil(DATA_BYTES_MAX as u64),
            _ => 1,
        }
    }

    /// Returns the bytes of data and metadata that it uses, as a server would cache them: its working set, or else an
    /// estimate of 1 KiB for each file, directory and name, with the data of small files.
    pub(crate) fn footprint_bytes(&self, working_set_bytes: u64, threads: u32) -> u64 {
        match *self {
            Self::Null => 0,
            Self::Metadata { files_per_directory, directories_per_thread, file_bytes }
            | Self::SmallFiles { files_per_directory, directories_per_thread, file_bytes } => {
                let file = file_bytes.saturating_add(OBJECT_BYTES);
                let directory = files_per_directory.saturating_mul(file).saturating_add(OBJECT_BYTES);
                directory.saturating_mul(directories_per_thread).saturating_mul(u64::from(threads))
            }
            Self::Readdir { names, .. } => names.saturating_mul(OBJECT_BYTES),
            // Directories and the few names in them.
            _ => working_set_bytes.max(u64::from(threads) * OBJECT_BYTES),
        }
    }

    /// Returns the most bytes that its files take at any time if `asked` bytes are requested: an estimate, except for file
    /// data. 0 if it creates only a few directories and empty files.
    pub(crate) fn stored_bytes(&self, asked: u64, threads: u32) -> u64 {
        match self {
            Self::Metadata { .. } | Self::SmallFiles { .. } | Self::Readdir { .. } => {
                self.footprint_bytes(0, threads)
            }
            _ => self.working_set_bytes(asked),
        }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn check(&self, verify: bool) -> Result<(), LoadError> {
        let wrong = |sentence: String| Err(LoadError::new(sentence));
        match *self {
            Self::SequentialRead { block_bytes, .. }
            | Self::SequentialWrite { block_bytes, .. }
            | Self::Random { block_bytes, .. } => {
                let unit = if verify { 4096 } else { 512 };
                if block_bytes == 0 || block_bytes > BLOCK_BYTES_MAX || !block_bytes.is_multiple_of(unit) {
                    return wrong(format!("blocks must be multiples of {unit} bytes, at most 64 MiB"));
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
                    return wrong("at least one file and one directory are required".to_owned());
                }
                if file_bytes > 64 << 10 {
                    return wrong(
                        "small files must be at most 64 KiB, so that one WRITE suffices".to_owned(),
                    );
                }
                Ok(())
            }
            Self::Readdir { names: 0, .. } => wrong("at least one name is required".to_owned()),
            Self::Null | Self::Rate { .. } | Self::Readdir { .. } => Ok(()),
        }
    }

    /// Prepares files and directories, and makes a state machine for each thread.
    pub(crate) fn plan(&self, setup: &mut Setup<'_>) -> Result<Plan, LoadError> {
        match *self {
            Self::Null => Ok(Plan::without_export(setup.threads)),
            Self::Rate { procedure } => match procedure {
                RateProcedure::CreateRemove => create_remove::plan(setup),
                RateProcedure::OpenClose => open_close::plan(setup),
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
    /// Returns the operation in a few words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Getattr => "GETATTR",
            Self::Access => "ACCESS",
            Self::Lookup => "LOOKUP",
            Self::LookupMissing => "LOOKUP of a missing name",
            Self::OpenClose => "OPEN + CLOSE",
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
