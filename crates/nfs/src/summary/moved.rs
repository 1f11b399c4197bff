//! What a call moved, in all and by volume.

use volume::ids::VolumeId;

use super::Evaluated;

/// Data that the operations of a call moved, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Bytes that READ and READ_PLUS returned.
    pub read: u32,
    /// Bytes that WRITE wrote.
    pub written: u32,
}

impl Transferred {
    /// Returns bytes that were read.
    pub(crate) fn read(bytes: usize) -> Transferred {
        Transferred { read: u32::try_from(bytes).unwrap_or(u32::MAX), written: 0 }
    }

    /// Returns bytes that were written.
    pub(crate) fn written(bytes: u32) -> Transferred {
        Transferred { read: 0, written: bytes }
    }

    /// Returns the sum.
    #[must_use]
    pub fn and(self, other: Transferred) -> Transferred {
        Transferred {
            read: self.read.saturating_add(other.read),
            written: self.written.saturating_add(other.written),
        }
    }
}

/// What a call moved in one volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedIn {
    /// The volume.
    pub volume: VolumeId,
    /// What was moved there.
    pub bytes: Transferred,
}

/// What a COMPOUND has moved so far. Nearly all move data in one volume, which costs them no more than a comparison.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    /// By READs and WRITEs.
    transferred: Transferred,
    /// The volume where the first of them moved some.
    volume: Option<VolumeId>,
    /// Whether it is noted by volume, as there is a second one, or something else than file data.
    is_apart: bool,
}

impl Moved {
    /// Notes file data that was moved in a volume.
    #[inline]
    pub(crate) fn note(&mut self, evaluated: &mut Evaluated, volume: VolumeId, bytes: Transferred) {
        if self.is_apart || self.volume.is_some_and(|known| known != volume) {
            self.note_apart(evaluated, MovedIn { volume, bytes });
        }
        self.volume = self.volume.or(Some(volume));
        self.transferred = self.transferred.and(bytes);
    }

    /// Notes what rate limits count, though it is no file data of a READ or WRITE.
    #[cold]
    pub(crate) fn note_apart(&mut self, evaluated: &mut Evaluated, moved: MovedIn) {
        self.begin_apart(evaluated);
        evaluated.note_moved(moved);
    }

    fn begin_apart(&mut self, evaluated: &mut Evaluated) {
        if let Some(volume) = self.volume.filter(|_| !self.is_apart) {
            evaluated.note_moved(MovedIn { volume, bytes: self.transferred });
        }
        self.is_apart = true;
    }

    /// Returns what READs and WRITEs moved. What was moved by volume is noted if that is not the same in the volume of the call.
    #[inline]
    pub(crate) fn sum_up(&mut self, evaluated: &mut Evaluated) -> Transferred {
        if self.volume.is_some() && self.volume != evaluated.volume {
            self.begin_apart(evaluated);
        }
        self.transferred
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{CallSummary, NFS4, OperationId, Status};

    const HERE: VolumeId = VolumeId(7);
    const THERE: VolumeId = VolumeId(8);

    fn written(volume: VolumeId, bytes: u32) -> MovedIn {
        MovedIn { volume, bytes: Transferred::written(bytes) }
    }

    /// Returns what the summary of a COMPOUND that ended in a volume says.
    fn summed(mut moved: Moved, mut evaluated: Evaluated, volume: VolumeId) -> (Transferred, Vec<MovedIn>) {
        evaluated.volume = Some(volume);
        let transferred = moved.sum_up(&mut evaluated);
        let main = OperationId::of_procedure(NFS4, 1);
        let summary = CallSummary::new(main, Status::OK, (None, volume::ids::Ino(0)), transferred, evaluated);
        (summary.transferred, summary.moved().collect())
    }

    #[test]
    fn what_is_moved_in_the_volume_of_the_call_needs_no_list() {
        let (mut moved, mut evaluated) = (Moved::default(), Evaluated::default());
        moved.note(&mut evaluated, HERE, Transferred::read(5));
        moved.note(&mut evaluated, HERE, Transferred::written(6));
        let both = Transferred { read: 5, written: 6 };
        let here = MovedIn { volume: HERE, bytes: both };
        assert!(!moved.is_apart);
        for end in [HERE, THERE] {
            assert_eq!(summed(moved, evaluated.clone(), end), (both, vec![here]), "it ended in {end:?}");
        }
    }

    #[test]
    fn what_is_moved_in_several_volumes_is_kept_by_volume() {
        let (mut moved, mut evaluated) = (Moved::default(), Evaluated::default());
        for (volume, bytes) in [(HERE, 1), (THERE, 10), (HERE, 100)] {
            moved.note(&mut evaluated, volume, Transferred::written(bytes));
        }
        let list = vec![written(HERE, 101), written(THERE, 10)];
        assert_eq!(summed(moved, evaluated, HERE), (Transferred::written(111), list));
    }

    #[test]
    fn what_is_no_file_data_is_counted_apart() {
        let (mut moved, mut evaluated) = (Moved::default(), Evaluated::default());
        moved.note(&mut evaluated, HERE, Transferred::written(1));
        moved.note_apart(&mut evaluated, written(HERE, 10));
        moved.note(&mut evaluated, HERE, Transferred::written(100));
        assert_eq!(summed(moved, evaluated, HERE), (Transferred::written(101), vec![written(HERE, 111)]));
    }
}
