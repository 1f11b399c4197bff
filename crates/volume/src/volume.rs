//! A volume, open: the operations that protocols call and the steps that threads drive.

use std::sync::Arc;

use crate::attributes::{Attributes, SetAttributes, Wcc};
use crate::handle::Handle;
use crate::ids::{Cookie, Ino, VolumeId};
use crate::media::Media;
use crate::request::{Answer, Durability, Durable, Encode, Request, RequestKey};
use crate::results::*;
use crate::time::Time;

/// How a volume is created.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Its identity, random.
    pub id: VolumeId,
    /// Key of its file handles, random.
    pub handle_secret: [u8; 16],
    /// Mode of the root directory.
    pub root_mode: u16,
    /// Owner and group of the root directory.
    pub root_owner: (u32, u32),
    /// Wall clock.
    pub now: Time,
}

/// How a volume is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bound of the memory that this volume uses, in bytes.
    pub memory: u64,
    /// Bytes of one segment.
    pub segment_bytes: u64,
}

/// Why a volume could not be created or opened: one sentence that says what to do.
#[derive(Debug)]
pub struct OpenError(pub String);

/// What a step of background work did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It did something; call it again at once.
    Worked,
    /// Nothing to do for now.
    Idle,
}

/// A volume, open.
#[derive(Debug)]
pub struct Volume;

#[expect(unused_variables, missing_docs, reason = "signatures only")]
impl Volume {
    // --- life ---
    pub fn create(media: &dyn Media, options: &CreateOptions) -> Result<(), OpenError> { todo!() }
    pub fn open(media: Arc<dyn Media>, options: &Options, now: Time) -> Result<Volume, OpenError> { todo!() }
    /// Flushes, checkpoints; the next open replays nothing.
    pub fn close(&self, now: Time) -> Result<(), OpenError> { todo!() }
    pub fn id(&self) -> VolumeId { todo!() }
    /// Some(reason) once the volume refuses changes.
    pub fn refuses_changes(&self) -> Option<String> { todo!() }
    pub fn handle(&self, ino: Ino) -> Handle { todo!() }
    /// Verifies the checksum; BadHandle if forged or of another volume (whether the object is still there shows in the operation: Stale).
    pub fn resolve(&self, handle: &Handle) -> Result<Ino, crate::request::Error> { todo!() }
    pub fn durability(&self, wanted: Durability) -> Durable { todo!() }
    pub fn recall(&self, key: &RequestKey) -> Recall { todo!() }
    /// Remembers the answer of a non-idempotent request that failed, so changed nothing (in memory only).
    pub fn remember_failure(&self, key: &RequestKey, answer: Arc<[u8]>, after: Durability) { todo!() }

    // --- operations ---
    pub fn attributes(&self, request: &Request<'_>, ino: Ino) -> Answer<Attributes> { todo!() }
    pub fn set_attributes(&self, request: &Request<'_>, ino: Ino, set: &SetAttributes, guard: Option<Time>, encode: Encode<'_, Wcc>) -> Answer<Wcc> { todo!() }
    pub fn lookup(&self, request: &Request<'_>, directory: Ino, name: &[u8]) -> Answer<Found> { todo!() }
    pub fn access(&self, request: &Request<'_>, ino: Ino, wanted: AccessMask) -> Answer<Accessible> { todo!() }
    pub fn read_link(&self, request: &Request<'_>, ino: Ino) -> Answer<LinkTarget> { todo!() }
    pub fn read(&self, request: &Request<'_>, ino: Ino, offset: u64, count: u32) -> Answer<ReadData> { todo!() }
    pub fn write(&self, request: &Request<'_>, ino: Ino, offset: u64, data: &[u8], stability: Stability) -> Answer<Written> { todo!() }
    pub fn commit(&self, request: &Request<'_>, ino: Ino, offset: u64, count: u32) -> Answer<Committed> { todo!() }
    pub fn create_file(&self, request: &Request<'_>, directory: Ino, name: &[u8], how: &CreateHow, encode: Encode<'_, Created>) -> Answer<Created> { todo!() }
    pub fn make_directory(&self, request: &Request<'_>, directory: Ino, name: &[u8], set: &SetAttributes, encode: Encode<'_, Created>) -> Answer<Created> { todo!() }
    pub fn make_symlink(&self, request: &Request<'_>, directory: Ino, name: &[u8], target: &[u8], set: &SetAttributes, encode: Encode<'_, Created>) -> Answer<Created> { todo!() }
    pub fn make_node(&self, request: &Request<'_>, directory: Ino, name: &[u8], kind: NodeKind, set: &SetAttributes, encode: Encode<'_, Created>) -> Answer<Created> { todo!() }
    pub fn remove(&self, request: &Request<'_>, directory: Ino, name: &[u8], encode: Encode<'_, Removed>) -> Answer<Removed> { todo!() }
    pub fn remove_directory(&self, request: &Request<'_>, directory: Ino, name: &[u8], encode: Encode<'_, Removed>) -> Answer<Removed> { todo!() }
    pub fn rename(&self, request: &Request<'_>, from: (Ino, &[u8]), to: (Ino, &[u8]), encode: Encode<'_, Renamed>) -> Answer<Renamed> { todo!() }
    pub fn link(&self, request: &Request<'_>, ino: Ino, directory: Ino, name: &[u8], encode: Encode<'_, Linked>) -> Answer<Linked> { todo!() }
    /// Names after `cookie` (0: from the start), at most `most`; `plus`: with attributes. BadCookie only for cookies never handed out.
    pub fn read_directory(&self, request: &Request<'_>, directory: Ino, cookie: Cookie, most: usize, plus: bool) -> Answer<Listing> { todo!() }
    pub fn status(&self, request: &Request<'_>) -> Answer<VolumeStatus> { todo!() }

    // --- background steps (threads in `server`, one caller per kind; the simulator calls them from one thread) ---
    /// Writes and syncs one batch of queued journal entries. Publishes durability.
    pub fn step_commit(&self, now: Time) -> Progress { todo!() }
    /// One round: writes dirty file data to segments, syncs them, journals the map, waits for that to be durable by
    /// running `step_commit` itself if `drive_commit`, else by blocking until the committer thread has done it.
    pub fn step_write_back(&self, now: Time, everything: bool, drive_commit: bool) -> Progress { todo!() }
    /// One checkpoint, if `force` or one is due.
    pub fn step_checkpoint(&self, now: Time, force: bool) -> Progress { todo!() }
    /// One bounded piece of segment cleaning; `drive_commit` as above.
    pub fn step_clean(&self, now: Time, drive_commit: bool) -> Progress { todo!() }
    /// Blocks until there is work for that step or the time is over.
    pub fn wait_commit(&self, most: std::time::Duration) { todo!() }
    pub fn wait_write_back(&self, most: std::time::Duration) { todo!() }
    pub fn wait_checkpoint(&self, most: std::time::Duration) { todo!() }
    /// `notify` is called after durability advanced or failed, and when Busy conditions eased; it must not block.
    pub fn on_progress(&self, notify: Box<dyn Fn() + Send + Sync>) { todo!() }
    /// How long the reply of a change should be held back so that the journal does not fill faster than checkpoints
    /// empty it; zero normally.
    pub fn throttle(&self) -> std::time::Duration { todo!() }
    /// Gauges and counters for operators, name and value.
    pub fn gauges(&self) -> Vec<(&'static str, u64)> { todo!() }
}
