//! What a call did, for metrics: operations with their statuses, the volume, and the data that was moved.

use std::fmt;

use volume::ids::{Ino, VolumeId};
use wire::limits::COMPOUND_OPS_MAX;
use wire::nfs4::{NfsStat4, OpNum4};

mod moved;
mod operation;
mod status;

pub(crate) use moved::Moved;
pub use moved::{MovedIn, Transferred};
pub use operation::{Class, OperationId, Protocol};
pub(crate) use operation::{MOUNT, NFS3, NFS4, NLM, NSM, PORTMAP, RQUOTA};
pub use status::Status;

/// What a call did. It is made for each reply, so it is small, and allocates nothing unless a COMPOUND has very many operations.
#[derive(Clone, Debug)]
pub struct CallSummary {
    /// The volume that the call was about; none if it was about none, or failed before that was known. For a COMPOUND, that of
    /// the current filehandle at its end, or else of the saved one.
    pub volume: Option<VolumeId>,
    /// The object of that volume that the call was about; zero if it was about none. Of a call about a name, it is the directory.
    pub ino: Ino,
    /// The procedure; of a COMPOUND, the operation that it was made for.
    pub main: OperationId,
    /// The status of the whole reply, which is that of the last operation.
    pub status: Status,
    /// File data that READs and WRITEs moved.
    pub transferred: Transferred,
    operations: OperationList,
}

impl CallSummary {
    /// Sums up a call of one operation.
    #[must_use]
    pub fn of_one(main: OperationId, status: Status) -> CallSummary {
        CallSummary {
            volume: None,
            ino: Ino(0),
            main,
            status,
            transferred: Transferred::default(),
            operations: OperationList::default(),
        }
    }

    /// Sums up a COMPOUND of these operations that was made for `main`.
    #[must_use]
    pub fn of_many(operations: &[OperationId], main: OperationId, status: Status) -> CallSummary {
        let mut summary = CallSummary::of_one(main, status);
        operations.iter().for_each(|operation| summary.operations.push(*operation));
        summary
    }

    /// Sums up a call of a procedure.
    #[inline]
    pub(crate) fn new(
        procedure: OperationId,
        status: Status,
        (volume, ino): (Option<VolumeId>, Ino),
        transferred: Transferred,
        evaluated: Evaluated,
    ) -> CallSummary {
        let main = evaluated.main().unwrap_or(procedure);
        let volume = evaluated.volume.or(volume);
        CallSummary { volume, ino, main, status, transferred, operations: evaluated.operations }
    }

    /// Returns what it moved where, as rate limits count it: file data, and what else [`crate::charge::Charge`] counts.
    pub fn moved(&self) -> impl Iterator<Item = MovedIn> + Clone {
        let apart = self.operations.moved();
        let alone = self.volume.filter(|_| apart.is_empty());
        let alone = alone.map(|volume| MovedIn { volume, bytes: self.transferred });
        alone.into_iter().chain(apart.iter().copied())
    }

    /// Whether both calls count the same: they differ at most in their objects. Returns false for a COMPOUND of more than `FIRST`
    /// operations.
    #[inline]
    #[must_use]
    pub fn is_alike(&self, other: &CallSummary) -> bool {
        self.main == other.main
            && self.volume == other.volume
            && self.status == other.status
            && self.transferred == other.transferred
            && self.operations.is_alike(&other.operations)
    }

    /// Copies what [`CallSummary::is_alike`] compares. A COMPOUND of more than `FIRST` operations is alike to nothing, so the copy
    /// need not be complete.
    #[inline]
    pub fn become_alike(&mut self, other: &CallSummary) {
        (self.main, self.volume, self.status) = (other.main, other.volume, other.status);
        self.transferred = other.transferred;
        (self.operations.count, self.operations.first) = (other.operations.count, other.operations.first);
    }

    /// Passes each operation and its status to `count`: those of a COMPOUND in their order, or else the procedure. All operations
    /// of a COMPOUND but the last succeeded.
    #[inline(always)]
    pub fn for_each_operation(&self, mut count: impl FnMut(OperationId, Status)) {
        if self.operations.count == 0 {
            return count(self.main, self.status);
        }
        let last = usize::from(self.operations.count) - 1;
        for (index, operation) in self.operations.iter().enumerate() {
            count(operation, if index == last { self.status } else { Status::OK });
        }
    }
}

/// What is known of a COMPOUND so far. Of other calls, nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evaluated {
    /// The volume of its filehandles.
    pub(crate) volume: Option<VolumeId>,
    operations: OperationList,
    main: OperationId,
    /// The object of the current filehandle when `main` began.
    object: Option<(VolumeId, Ino)>,
    /// How likely `main` is what the COMPOUND was made for; zero without operations.
    weight: u8,
}

impl Evaluated {
    /// Notes an operation that begins; `object` returns that of the current filehandle.
    #[inline]
    pub(crate) fn begin(&mut self, operation: OpNum4, object: impl FnOnce() -> Option<(VolumeId, Ino)>) {
        let weight = weight(operation);
        if weight > self.weight {
            (self.main, self.weight, self.object) = (OperationId::of_nfs4(operation), weight, object());
        }
    }

    /// Notes an operation that began and was evaluated.
    pub(crate) fn note(&mut self, operation: OpNum4) {
        self.operations.push(OperationId::of_nfs4(operation));
    }

    /// Notes what was moved in a volume, if it does not follow from the volume of the call and what READs and WRITEs moved.
    fn note_moved(&mut self, moved: MovedIn) {
        let list = &mut self.operations.more().moved;
        match list.iter_mut().find(|known| known.volume == moved.volume) {
            Some(known) => known.bytes = known.bytes.and(moved.bytes),
            None => list.push(moved),
        }
    }

    /// Returns the object that the COMPOUND was about, if it is in the volume of its filehandles.
    pub(crate) fn ino(&self) -> Option<Ino> {
        self.object.filter(|(volume, _)| Some(*volume) == self.volume).map(|(_, ino)| ino)
    }

    fn main(&self) -> Option<OperationId> {
        (self.weight > 0).then_some(self.main)
    }
}

/// Returns how likely a COMPOUND with this operation was made for it. Of several that are equally likely, it is the first.
#[inline]
fn weight(operation: OpNum4) -> u8 {
    usize::try_from(operation.code()).ok().and_then(|code| WEIGHTS.get(code)).copied().unwrap_or(WEIGHT_MAX)
}

/// The weights by the numbers of the operations.
static WEIGHTS: [u8; OpNum4::NUMBERS] = weights();

#[expect(clippy::indexing_slicing, reason = "the compiler executes it")]
const fn weights() -> [u8; OpNum4::NUMBERS] {
    let mut all = [WEIGHT_MAX; OpNum4::NUMBERS];
    let mut rest = OpNum4::ALL;
    while let [operation, more @ ..] = rest {
        if !matches!(operation, OpNum4::Illegal) {
            all[operation.code() as usize] = weight_of(*operation);
        }
        rest = more;
    }
    all
}

/// The weight of all operations that are not more usual.
const WEIGHT_MAX: u8 = 7;

const fn weight_of(operation: OpNum4) -> u8 {
    match operation {
        OpNum4::Sequence => 1,
        OpNum4::Putfh | OpNum4::Putrootfh | OpNum4::Putpubfh | OpNum4::Savefh | OpNum4::Restorefh => 2,
        OpNum4::Getfh => 3,
        OpNum4::Getattr | OpNum4::Verify | OpNum4::Nverify => 4,
        OpNum4::Access => 5,
        OpNum4::Lookup | OpNum4::Lookupp => 6,
        _ => WEIGHT_MAX,
    }
}

/// Operations of a COMPOUND that need no allocation. The Linux client has a dozen at most.
const FIRST: usize = 15;

/// The others that a COMPOUND may have.
const MORE: usize = COMPOUND_OPS_MAX as usize - FIRST;

const _: () = assert!(COMPOUND_OPS_MAX <= u8::MAX as u32);

/// What few COMPOUNDs have.
#[derive(Clone)]
struct More {
    /// Operations after the first ones.
    operations: [OperationId; MORE],
    /// What was moved by volume, if it was not all moved by READs and WRITEs in the volume of the call.
    moved: Vec<MovedIn>,
}

/// Operations in their order.
#[derive(Clone, Default)]
struct OperationList {
    count: u8,
    first: [OperationId; FIRST],
    more: Option<Box<More>>,
}

impl OperationList {
    fn push(&mut self, operation: OperationId) {
        let index = usize::from(self.count);
        let place = match self.first.get_mut(index) {
            Some(place) => place,
            None => match self.place_among_more(index) {
                Some(place) => place,
                None => return,
            },
        };
        *place = operation;
        self.count += 1;
    }

    #[cold]
    fn place_among_more(&mut self, index: usize) -> Option<&mut OperationId> {
        self.more().operations.get_mut(index - FIRST)
    }

    fn more(&mut self) -> &mut More {
        self.more.get_or_insert_with(|| {
            Box::new(More { operations: [OperationId::default(); MORE], moved: Vec::new() })
        })
    }

    /// Whether both are the same few operations. What was moved by volume does not matter.
    #[inline]
    fn is_alike(&self, other: &OperationList) -> bool {
        self.count == other.count && (self.count == 0 || self.begins_alike(other))
    }

    fn begins_alike(&self, other: &OperationList) -> bool {
        usize::from(self.count) <= FIRST
            && self.first.map(OperationId::number) == other.first.map(OperationId::number)
    }

    fn moved(&self) -> &[MovedIn] {
        self.more.as_ref().map_or(&[], |more| &more.moved)
    }

    fn iter(&self) -> impl Iterator<Item = OperationId> {
        let more = self.more.iter().flat_map(|more| more.operations.iter());
        self.first.iter().chain(more).copied().take(usize::from(self.count))
    }
}

impl fmt::Debug for OperationList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(OperationId::name)).finish()
    }
}

/// Returns the status of a COMPOUND as one to count.
impl From<NfsStat4> for Status {
    fn from(status: NfsStat4) -> Status {
        Status::of_code(status.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(operations: &[OpNum4], status: NfsStat4) -> CallSummary {
        let mut evaluated = Evaluated::default();
        for operation in operations {
            evaluated.begin(*operation, || None);
            evaluated.note(*operation);
        }
        CallSummary::new(
            OperationId::of_procedure(NFS4, 1),
            status.into(),
            (None, Ino(0)),
            Transferred::default(),
            evaluated,
        )
    }

    fn counted(summary: &CallSummary) -> Vec<(&'static str, &'static str)> {
        let mut counted = Vec::new();
        summary.for_each_operation(|operation, status| {
            counted.push((operation.name(), status.name(operation.protocol())));
        });
        counted
    }

    #[test]
    fn a_compound_is_made_for_its_weightiest_operation() {
        let write = [OpNum4::Sequence, OpNum4::Putfh, OpNum4::Write, OpNum4::Getattr];
        let whole = summary(&write, NfsStat4::Ok);
        assert_eq!((whole.main.name(), whole.main.class()), ("WRITE", Class::Write));
        let names = counted(&whole);
        assert_eq!(names, [("SEQUENCE", "OK"), ("PUTFH", "OK"), ("WRITE", "OK"), ("GETATTR", "OK")]);
        let main = |operations: &[OpNum4]| summary(operations, NfsStat4::Ok).main.name();
        assert_eq!(main(&[OpNum4::Sequence]), "SEQUENCE");
        assert_eq!(main(&[OpNum4::Sequence, OpNum4::Putfh, OpNum4::Getattr]), "GETATTR");
        assert_eq!(
            main(&[OpNum4::Sequence, OpNum4::Putfh, OpNum4::Lookup, OpNum4::Getfh, OpNum4::Getattr]),
            "LOOKUP"
        );
        assert_eq!(main(&[OpNum4::Putfh, OpNum4::Open, OpNum4::Getfh, OpNum4::Setattr]), "OPEN");
        assert_eq!(main(&[]), "COMPOUND");
    }

    #[test]
    fn only_the_last_operation_of_a_compound_fails() {
        let failed = summary(&[OpNum4::Sequence, OpNum4::Putfh], NfsStat4::Stale);
        assert_eq!(counted(&failed), [("SEQUENCE", "OK"), ("PUTFH", "STALE")]);
        assert_eq!(
            counted(&summary(&[], NfsStat4::MinorVersMismatch)),
            [("COMPOUND", "MINOR_VERS_MISMATCH")]
        );
    }

    #[test]
    fn all_operations_of_the_longest_compound_are_counted() {
        let most = vec![OpNum4::Getfh; COMPOUND_OPS_MAX as usize];
        assert_eq!(counted(&summary(&most, NfsStat4::Ok)).len(), most.len());
        let too_many = vec![OpNum4::Getfh; most.len() + 1];
        assert_eq!(counted(&summary(&too_many, NfsStat4::Ok)).len(), most.len());
    }

    #[test]
    fn calls_are_alike_that_count_alike() {
        let read = |count| vec![OpNum4::Read; count];
        let mut known = summary(&read(3), NfsStat4::Ok);
        known.ino = Ino(7);
        let mut other = summary(&read(3), NfsStat4::Ok);
        assert!(other.is_alike(&known), "objects do not matter");
        other.transferred.read = 1;
        assert!(!other.is_alike(&known));
        let write = [OpNum4::Read, OpNum4::Write, OpNum4::Read];
        for other in
            [summary(&read(2), NfsStat4::Ok), summary(&read(3), NfsStat4::Io), summary(&write, NfsStat4::Ok)]
        {
            assert!(!other.is_alike(&known), "{other:?}");
            known.become_alike(&other);
            assert!(other.is_alike(&known) && counted(&other) == counted(&known));
        }
        let longest = summary(&read(FIRST), NfsStat4::Ok);
        known.become_alike(&longest);
        assert!(longest.is_alike(&known));
        let longer = summary(&read(FIRST + 1), NfsStat4::Ok);
        known.become_alike(&longer);
        assert!(!longer.is_alike(&longer) && !longer.is_alike(&known), "some of them are kept apart");
    }

    #[test]
    fn a_compound_is_about_the_object_of_its_main_operation() {
        let object = |ino| Some((VolumeId(3), Ino(ino)));
        let mut evaluated = Evaluated::default();
        evaluated.begin(OpNum4::Putfh, || None);
        evaluated.begin(OpNum4::Lookup, || object(5));
        evaluated.begin(OpNum4::Getattr, || object(6));
        evaluated.volume = Some(VolumeId(3));
        assert_eq!(evaluated.ino(), Some(Ino(5)));
        evaluated.volume = Some(VolumeId(4));
        assert_eq!(evaluated.ino(), None, "it ended in another volume");
    }

    #[test]
    fn a_summary_is_small() {
        assert!(size_of::<CallSummary>() <= 64, "{}", size_of::<CallSummary>());
    }
}
