//! Converts attributes and times between the engine and NFSv3 (RFC 1813 sections 2.5 and 2.6).

use volume::attributes::{Attributes, Before, FileType, SetAttributes, SetTime, Wcc};
use volume::ids::VolumeId;
use volume::request::Error;
use volume::time::Time;
use wire::nfs3::{self, Fattr3, FileType3, NfsTime3, Sattr3, SpecData3, WccAttr, WccData};

/// Nanoseconds in a second. A time with that many nanoseconds is invalid.
const NANOSECONDS: u32 = 1_000_000_000;

/// Converts the attributes of an object in `volume`, which clients see as a file system.
pub(crate) fn fattr3(volume: VolumeId, attributes: &Attributes) -> Fattr3 {
    Fattr3 {
        file_type: file_type(attributes.file_type),
        mode: u32::from(attributes.mode),
        nlink: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        size: attributes.size,
        used: attributes.used,
        rdev: SpecData3 { major: attributes.device.major, minor: attributes.device.minor },
        fsid: volume.0,
        fileid: attributes.ino.0,
        atime: time3(attributes.atime),
        mtime: time3(attributes.mtime),
        ctime: time3(attributes.ctime),
    }
}

/// Converts the attributes before and after a change.
pub(crate) fn wcc(volume: VolumeId, wcc: &Wcc) -> WccData {
    WccData { before: Some(before(&wcc.before)), after: Some(fattr3(volume, &wcc.after)) }
}

/// Returns the attributes before and after an operation that failed and changed nothing.
pub(crate) fn unchanged(attributes: Option<Fattr3>) -> WccData {
    WccData { before: attributes.map(WccAttr::from), after: attributes }
}

fn before(before: &Before) -> WccAttr {
    WccAttr { size: before.size, mtime: time3(before.mtime), ctime: time3(before.ctime) }
}

fn file_type(file_type: FileType) -> FileType3 {
    match file_type {
        FileType::Regular => FileType3::Reg,
        FileType::Directory => FileType3::Dir,
        FileType::Block => FileType3::Blk,
        FileType::Character => FileType3::Chr,
        FileType::Symlink => FileType3::Lnk,
        FileType::Socket => FileType3::Sock,
        FileType::Fifo => FileType3::Fifo,
    }
}

/// Converts a time to NFSv3's unsigned seconds since 1970. A time out of range becomes the nearest one in range.
fn time3(time: Time) -> NfsTime3 {
    match u32::try_from(time.seconds()) {
        Ok(seconds) => NfsTime3 { seconds, nanoseconds: time.subsecond_nanos() },
        Err(_) if time < Time::EPOCH => NfsTime3 { seconds: 0, nanoseconds: 0 },
        Err(_) => NfsTime3 { seconds: u32::MAX, nanoseconds: NANOSECONDS - 1 },
    }
}

/// Converts a time that a client sets.
///
/// # Errors
/// [`Error::Invalid`] if the nanoseconds make a second or more.
pub(crate) fn time(time: NfsTime3) -> Result<Time, Error> {
    if time.nanoseconds >= NANOSECONDS {
        return Err(Error::Invalid);
    }
    Ok(Time::from_parts(i64::from(time.seconds), time.nanoseconds))
}

/// Converts attributes that a client sets.
///
/// # Errors
/// [`Error::Invalid`] for an invalid time.
pub(crate) fn set_attributes(set: &Sattr3) -> Result<SetAttributes, Error> {
    Ok(SetAttributes {
        mode: set.mode,
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        atime: set_time(set.atime)?,
        mtime: set_time(set.mtime)?,
    })
}

fn set_time(set: nfs3::SetTime) -> Result<SetTime, Error> {
    Ok(match set {
        nfs3::SetTime::DontChange => SetTime::Keep,
        nfs3::SetTime::SetToServerTime => SetTime::Now,
        nfs3::SetTime::SetToClientTime(to) => SetTime::To(time(to)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_beyond_nfs_are_clamped() {
        let show = |seconds, nanos| {
            let shown = time3(Time::from_parts(seconds, nanos));
            (shown.seconds, shown.nanoseconds)
        };
        assert_eq!(show(0, 1), (0, 1));
        assert_eq!(show(1_700_000_000, 999_999_999), (1_700_000_000, 999_999_999));
        assert_eq!(show(i64::from(u32::MAX), 5), (u32::MAX, 5));
        assert_eq!(show(i64::from(u32::MAX) + 1, 5), (u32::MAX, 999_999_999));
        assert_eq!(show(-1, 5), (0, 0));
    }

    #[test]
    fn shown_times_convert_back_unchanged() {
        for (seconds, nanoseconds) in [(0, 0), (5, 999_999_999), (u32::MAX, 1)] {
            let shown = NfsTime3 { seconds, nanoseconds };
            assert_eq!(time3(time(shown).unwrap()), shown);
        }
        assert_eq!(time(NfsTime3 { seconds: 1, nanoseconds: NANOSECONDS }), Err(Error::Invalid));
    }

    #[test]
    fn a_damaged_time_is_not_set() {
        let damaged = nfs3::SetTime::SetToClientTime(NfsTime3 { seconds: 1, nanoseconds: u32::MAX });
        let set = Sattr3 { mode: Some(0o644), atime: damaged, ..Sattr3::default() };
        assert_eq!(set_attributes(&set), Err(Error::Invalid));
        let set = Sattr3 { atime: nfs3::SetTime::SetToServerTime, size: Some(9), ..Sattr3::default() };
        let expected = SetAttributes { atime: SetTime::Now, size: Some(9), ..SetAttributes::default() };
        assert_eq!(set_attributes(&set), Ok(expected));
    }
}
