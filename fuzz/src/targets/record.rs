//! Keys and records of the index, and file handles.

use volume::handle::Handle;
use volume::record::{
    CookieRecord, ExtentRecord, InodeRecord, ExtentMapping, MetaRecord, NameRecord, ReplyRecord, SegmentRecord,
    UsageRecord,
};
use volume::{entry::Entry, key};

use super::{Kind, survives_storage};

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for form in 0..FORMS {
        // The lengths of fixed records, and of records that end in lists.
        for length in [0, 8, 16, 20, 21, 29, 30, 60, 100, 140, 200] {
            seeds.push([&[form], vec![0; length].as_slice()].concat());
            seeds.push([&[form], vec![1; length].as_slice()].concat());
        }
    }
    seeds
}

/// The number of forms below.
const FORMS: u8 = 12;

/// The first byte selects how the rest is decoded.
pub(super) fn run(bytes: &[u8]) -> Kind {
    let Some((form, body)) = bytes.split_first() else { return Kind::of(0) };
    let form = form % FORMS;
    let seen = match form {
        0 => survives_storage(body, InodeRecord::decode, InodeRecord::encode),
        1 => survives_storage(body, NameRecord::decode, NameRecord::encode),
        2 => survives_storage(body, CookieRecord::decode, CookieRecord::encode),
        3 => survives_storage(body, ExtentMapping::decode, ExtentMapping::encode),
        4 => survives_storage(body, ExtentRecord::decode, ExtentRecord::encode),
        5 => survives_storage(body, SegmentRecord::decode, SegmentRecord::encode),
        6 => survives_storage(body, MetaRecord::decode, MetaRecord::encode),
        7 => survives_storage(body, UsageRecord::decode, UsageRecord::encode),
        8 => survives_storage(body, ReplyRecord::decode, ReplyRecord::encode),
        9 => survives_storage(
            body,
            |bytes| Handle::parse(bytes).ok_or(()),
            |handle| handle.to_bytes().to_vec(),
        ),
        10 => {
            let fields = key::parse(body).map(|(_, _, fields)| fields);
            fields.is_some_and(|fields| key::number(fields).is_some() || key::second_number(fields).is_some())
        }
        _ => survives_storage(body, Entry::decode, Entry::encode),
    };
    Kind::of((form, seen, body.len().min(256)))
}
