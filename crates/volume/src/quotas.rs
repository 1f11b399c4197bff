//! Limits on what files use: the size of a volume, and quotas of volumes, trees, users and groups.

pub(crate) mod account;
mod budget;
pub(crate) mod ledger;
mod notices;
mod open;
mod recent;
mod records;

/// Returns a size as it is stored: zero is none, and so is the largest number.
pub(crate) fn size_limit(size: Option<u64>) -> Option<u64> {
    size.filter(|size| !matches!(*size, 0 | u64::MAX))
}

pub(crate) use budget::Budget;
pub(crate) use ledger::{Accounts, Claim, Kinds, Ledger, Owners, Refusal, Reservation};
pub(crate) use open::Place;
