//! What a repair says that it did.

use crate::offline::repair::Tally;

#[test]
fn one_of_anything_is_singular() {
    let of = |count: u64| Tally {
        names_restored: count,
        names_removed: count,
        objects_recreated: count,
        objects_found: count,
        objects_corrected: count,
        objects_freed: count,
        lost_bytes: count,
        extents_freed: count,
        counts_corrected: count,
        records_dropped: count,
        is_state_lost: false,
    };
    assert_eq!(
        of(1).to_string(),
        "1 name restored, 1 name removed, 1 object record recreated, 1 object moved to lost+found, 1 object corrected, \
         1 removed object to be freed, 1 byte of data lost, 1 unused extent freed, 1 count corrected, 1 invalid record \
         dropped"
    );
    assert_eq!(
        of(2).to_string(),
        "2 names restored, 2 names removed, 2 object records recreated, 2 objects moved to lost+found, 2 objects \
         corrected, 2 removed objects to be freed, 2 bytes of data lost, 2 unused extents freed, 2 counts corrected, 2 \
         invalid records dropped"
    );
    assert_eq!(of(0).to_string(), "nothing changed");
}
