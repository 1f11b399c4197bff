//! One call under judgement: the errors that apply, and whether its result fits them.

use volume::attributes::FileType;
use volume::request::{Credentials, Error};

use super::Observed;
use super::inode::Inode;
use crate::call::{CallResult, OperationId, Success};

/// A call and its result.
#[derive(Clone, Copy)]
pub(super) struct Judged<'a> {
    pub(super) id: OperationId,
    pub(super) who: &'a Credentials,
    pub(super) now: i64,
    pub(super) result: &'a CallResult,
}

/// Why judging ends before the success of a call is judged.
#[derive(Debug)]
pub(super) enum End {
    /// The call failed as it may, and the failure shows this.
    Failed(Observed),
    /// The result is wrong.
    Wrong(String),
}

impl From<String> for End {
    fn from(wrong: String) -> End {
        End::Wrong(wrong)
    }
}

impl Judged<'_> {
    /// Rejects a result of another kind than the call.
    pub(super) fn unexpected<T>(&self) -> Result<T, End> {
        Err(End::Wrong(format!("unexpected result {:?}", self.result)))
    }
}

/// The errors that a call may fail with.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// These apply: the call must fail with one of them, or with one of `may`.
    must: Vec<Error>,
    /// These are allowed although the call could succeed.
    may: Vec<Error>,
    /// Whether the call needs space: it may fail for want of it.
    pub(super) needs_space: bool,
    /// What a failure shows.
    pub(super) observed: Observed,
}

impl Expected {
    /// Returns the errors of a call that needs space on the device.
    pub(super) fn of_growth() -> Expected {
        Expected { needs_space: true, ..Expected::default() }
    }

    pub(super) fn must(&mut self, when: bool, error: Error) {
        if when {
            self.must.push(error);
        }
    }

    pub(super) fn may(&mut self, when: bool, error: Error) {
        if when {
            self.may.push(error);
        }
    }

    /// Requires a regular file that the caller may read.
    pub(super) fn require_readable(&mut self, inode: &Inode, who: &Credentials) {
        let allowed = inode.owned_by(who) || inode.grants(who, 4) || inode.grants(who, 1);
        self.require_file(inode, allowed);
    }

    /// Requires a regular file that the caller may write.
    pub(super) fn require_writable(&mut self, inode: &Inode, who: &Credentials) {
        self.require_file(inode, inode.owned_by(who) || inode.grants(who, 2));
    }

    fn require_file(&mut self, inode: &Inode, allowed: bool) {
        self.must(!allowed, Error::AccessDenied);
        self.must(inode.is_directory(), Error::IsDirectory);
        self.must(inode.kind != FileType::Regular, Error::Invalid);
    }

    /// Compares the result with these errors. Returns the success to be judged.
    ///
    /// `is_full` allows calls that need space to fail for want of it; `refused` counts those.
    pub(super) fn compare<'a>(
        self,
        call: &Judged<'a>,
        is_full: bool,
        refused: &mut u64,
    ) -> Result<&'a Success, End> {
        match call.result {
            Ok(success) if self.must.is_empty() => Ok(success),
            Ok(_) => Err(End::Wrong(format!("succeeded, expected one of {:?}", self.must))),
            Err(error) if self.must.contains(error) || self.may.contains(error) => {
                Err(End::Failed(self.observed))
            }
            Err(Error::NoSpace) if self.needs_space && is_full => {
                *refused += 1;
                Err(End::Failed(self.observed))
            }
            Err(error) => Err(End::Wrong(format!(
                "failed with {error:?}, expected {:?}, allowed {:?}",
                self.must, self.may
            ))),
        }
    }
}
