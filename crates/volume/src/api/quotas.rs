//! Quotas: limits on what the files of a volume, a tree, a user or a group use.

use std::time::Duration;

use crate::api::time::Time;

/// Whose usage is counted and limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaKind {
    /// The volume; its id is 0.
    Volume,
    /// A quota tree.
    Tree,
    /// A user.
    User,
    /// A group.
    Group,
}

impl QuotaKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [QuotaKind; 4] = [QuotaKind::Volume, QuotaKind::Tree, QuotaKind::User, QuotaKind::Group];

    /// Returns the name that users see.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            QuotaKind::Volume => "volume",
            QuotaKind::Tree => "tree",
            QuotaKind::User => "user",
            QuotaKind::Group => "group",
        }
    }

    /// Returns the number of the kind, which is part of the format.
    pub fn byte(self) -> u8 {
        match self {
            QuotaKind::Volume => 0,
            QuotaKind::Tree => 1,
            QuotaKind::User => 2,
            QuotaKind::Group => 3,
        }
    }

    /// Returns the kind of a number.
    pub fn from_byte(byte: u8) -> Option<QuotaKind> {
        QuotaKind::ALL.get(usize::from(byte)).copied()
    }

    /// Returns its bit in a set of kinds.
    pub(crate) fn bit(self) -> u8 {
        1 << self.byte()
    }
}

/// One volume, tree, user or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// What it is.
    pub kind: QuotaKind,
    /// Which one; 0 for the volume.
    pub id: u64,
}

impl Owner {
    /// The id that stands for all of a kind that have no limits of their own. No user, group or tree has it.
    const OTHERS: u64 = u64::MAX;

    /// Names one of a kind.
    pub fn new(kind: QuotaKind, id: u64) -> Owner {
        Owner { kind, id }
    }

    /// The volume itself.
    pub const VOLUME: Owner = Owner { kind: QuotaKind::Volume, id: 0 };

    /// Names all of a kind that have no limits of their own.
    pub fn others(kind: QuotaKind) -> Owner {
        Owner { kind, id: Owner::OTHERS }
    }

    /// Whether it stands for all of its kind that have no limits of their own.
    pub fn is_others(self) -> bool {
        self.id == Owner::OTHERS
    }

    /// Whether it may have limits: the superuser, his group, and files in no tree have none.
    pub fn may_be_limited(self) -> bool {
        self.kind == QuotaKind::Volume || self.id != 0
    }
}

/// Two limits on one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// May be exceeded for the grace period.
    pub soft: Option<u64>,
    /// Is never exceeded.
    pub hard: Option<u64>,
}

/// The limits of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// On bytes of file data, without holes, and of extended attributes.
    pub bytes: Limit,
    /// On objects.
    pub inodes: Limit,
}

impl Limits {
    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        *self == Limits::default()
    }

    /// Whether one of them may be exceeded for a time.
    pub(crate) fn has_soft(&self) -> bool {
        self.bytes.soft.is_some() || self.inodes.soft.is_some()
    }
}

/// How long soft limits may be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// That on bytes.
    pub bytes: Duration,
    /// That on objects.
    pub inodes: Duration,
}

/// A week for each, as quota tools have it.
impl Default for Grace {
    fn default() -> Grace {
        let week = Duration::from_secs(7 * 24 * 60 * 60);
        Grace { bytes: week, inodes: week }
    }
}

/// What an administrator has set for one owner: nothing, if it is kept for exceeding a soft limit of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaSetting {
    /// The owner.
    pub owner: Owner,
    /// Its own limits.
    pub limits: Option<Limits>,
    /// How long all owners of its kind may exceed soft limits.
    pub grace: Option<Grace>,
}

/// Since when soft limits are exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exceeded {
    /// That on bytes.
    pub bytes: Option<Time>,
    /// That on objects.
    pub inodes: Option<Time>,
}

/// The quota of one owner, and what it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Whose.
    pub owner: Owner,
    /// The limits in force.
    pub limits: Limits,
    /// Whether these are those of all others of the kind.
    pub is_default: bool,
    /// How long soft limits may be exceeded.
    pub grace: Grace,
    /// Since when they are.
    pub exceeded: Exceeded,
    /// Bytes in use, without unstable data.
    pub bytes_used: u64,
    /// Objects in use.
    pub inodes_used: u64,
}

/// What happened to the quota of an owner, and an operator may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaNotice {
    /// A soft limit begins to be exceeded.
    SoftExceeded,
    /// A caller was refused.
    Refused,
}

/// Which of the limits of a quota refuses growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The soft one, which was exceeded for longer than the grace period.
    Soft,
    /// The hard one.
    Hard,
}

/// What quotas of a kind have done in a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaCounts {
    /// Owners that exceed a soft limit now.
    pub exceeding: u64,
    /// Callers that a soft limit has refused since the pool was opened.
    pub refused_by_soft: u64,
    /// Callers that a hard limit has refused since then.
    pub refused_by_hard: u64,
}

/// What limits leave to the owners of an object, bytes (RFC 8881 section 5.8.2.28 to 5.8.2.30).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaRoom {
    /// Until a hard limit, that of the size of the volume included; `None` without any.
    pub hard: Option<u64>,
    /// Until a soft limit; `None` without any.
    pub soft: Option<u64>,
    /// Used of the hard limit that leaves least.
    pub used: u64,
}
