//! Keys and records of the index, and file handles.

use volume::handle::Handle;
use volume::record::{
    CookieRecord, ExtentRecord, InodeRecord, MapRecord, MetaRecord, NameRecord, ReplyRecord, SegmentRecord,
    UsageRecord, decode_symlink,
};
use volume::{entry::Entry, key};

use super::{Kind, stored_again};

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
const FORMS: u8 = 13;

/// The first byte selects how the rest is decoded.
pub(super) fn run(bytes: &[u8]) -> Kind {
    let Some((form, body)) = bytes.split_first() else { return Kind::of(0) };
    let form = form % FORMS;
    let seen = match form {
        0 => stored_again(body, InodeRecord::decode, InodeRecord::encode),
        1 => stored_again(body, NameRecord::decode, NameRecord::encode),
        2 => stored_again(body, CookieRecord::decode, CookieRecord::encode),
        3 => stored_again(body, MapRecord::decode, MapRecord::encode),
        4 => stored_again(body, ExtentRecord::decode, ExtentRecord::encode),
        5 => stored_again(body, SegmentRecord::decode, SegmentRecord::encode),
        6 => stored_again(body, MetaRecord::decode, MetaRecord::encode),
        7 => stored_again(body, UsageRecord::decode, UsageRecord::encode),
        8 => stored_again(body, ReplyRecord::decode, ReplyRecord::encode),
        9 => decode_symlink(body).is_ok(),
        10 => stored_again(body, |bytes| Handle::parse(bytes).ok_or(()), |handle| handle.to_bytes().to_vec()),
        11 => {
            let fields = key::parse(body).map(|(_, _, fields)| fields);
            fields.is_some_and(|fields| key::number(fields).is_some() || key::second_number(fields).is_some())
        }
        _ => stored_again(body, Entry::decode, Entry::encode),
    };
    Kind::of((form, seen, body.len().min(256)))
}
