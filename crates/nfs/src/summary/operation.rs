//! Operations of all protocols, numbered for tables.

use wire::nfs3;
use wire::nfs4::OpNum4;
use wire::{mount3, nlm4, rquota};

/// A protocol that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// NFSv3.
    Nfs3,
    /// NFSv4, all minor versions.
    Nfs4,
    /// The Network Lock Manager, version 4.
    Nlm,
    /// MOUNT, version 3.
    Mount,
    /// The status monitor.
    Nsm,
    /// RQUOTA, both versions.
    Rquota,
    /// The portmapper and rpcbind.
    Portmap,
    /// Calls of programs, versions and procedures that do not exist.
    Rpc,
}

impl Protocol {
    /// All protocols, in the order of their numbers.
    pub const ALL: [Protocol; 8] = [
        Protocol::Nfs3,
        Protocol::Nfs4,
        Protocol::Nlm,
        Protocol::Mount,
        Protocol::Nsm,
        Protocol::Rquota,
        Protocol::Portmap,
        Protocol::Rpc,
    ];

    /// Returns the name, as labels have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Nfs3 => "nfs3",
            Protocol::Nfs4 => "nfs4",
            Protocol::Nlm => "nlm",
            Protocol::Mount => "mount",
            Protocol::Nsm => "nsm",
            Protocol::Rquota => "rquota",
            Protocol::Portmap => "portmap",
            Protocol::Rpc => "rpc",
        }
    }
}

/// What operations of all protocols have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// READ, READ_PLUS.
    Read,
    /// WRITE.
    Write,
    /// COMMIT.
    Commit,
    /// LOOKUP, LOOKUPP.
    Lookup,
    /// GETATTR, ACCESS.
    Getattr,
    /// OPEN and CLOSE of NFSv4; an OPEN may create a file.
    Open,
    /// CREATE, MKDIR, SYMLINK, MKNOD, LINK.
    Create,
    /// REMOVE, RMDIR.
    Remove,
    /// RENAME.
    Rename,
    /// READDIR, READDIRPLUS.
    Readdir,
    /// Locks of NFSv4 and NLM.
    Lock,
    /// All others.
    Other,
}

impl Class {
    /// All classes, in the order of their numbers.
    pub const ALL: [Class; 12] = [
        Class::Read,
        Class::Write,
        Class::Commit,
        Class::Lookup,
        Class::Getattr,
        Class::Open,
        Class::Create,
        Class::Remove,
        Class::Rename,
        Class::Readdir,
        Class::Lock,
        Class::Other,
    ];

    /// Returns the number, for tables.
    #[must_use]
    pub const fn number(self) -> usize {
        self as usize
    }

    /// Returns the name, as labels have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Class::Read => "read",
            Class::Write => "write",
            Class::Commit => "commit",
            Class::Lookup => "lookup",
            Class::Getattr => "getattr",
            Class::Open => "open",
            Class::Create => "create",
            Class::Remove => "remove",
            Class::Rename => "rename",
            Class::Readdir => "readdir",
            Class::Lock => "lock",
            Class::Other => "other",
        }
    }
}

/// An operation: a procedure of a protocol, or an operation of NFSv4. A small number, for tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(u8);

/// The numbers of the protocols' first procedures.
pub(crate) const NFS3: u8 = 0;
pub(crate) const NFS4: u8 = 22;
pub(crate) const NLM: u8 = NFS4 + NFS4_OPERATIONS;
pub(crate) const MOUNT: u8 = NLM + 24;
pub(crate) const NSM: u8 = MOUNT + 6;
pub(crate) const RQUOTA: u8 = NSM + 7;
pub(crate) const PORTMAP: u8 = RQUOTA + 5;
const UNKNOWN: u8 = PORTMAP + 5;

/// One more than the largest number of an operation of NFSv4. The numbers 0 and 1 are the procedures NULL and COMPOUND, 2 is
/// ILLEGAL; no operation has them.
const NFS4_OPERATIONS: u8 = 76;
const NFS4_ILLEGAL: u8 = NFS4 + 2;

impl OperationId {
    /// The number of operations.
    pub const COUNT: usize = UNKNOWN as usize + 1;

    /// A procedure that does not exist.
    pub(crate) const UNKNOWN: OperationId = OperationId(UNKNOWN);

    /// The procedure of this number of the protocol whose first procedure is `first`.
    #[inline]
    pub(crate) const fn of_procedure(first: u8, procedure: u8) -> OperationId {
        OperationId(first + procedure)
    }

    /// The operation of NFSv4.
    #[inline]
    pub(crate) fn of_nfs4(operation: OpNum4) -> OperationId {
        match u8::try_from(operation.code()) {
            Ok(code) if code < NFS4_OPERATIONS => OperationId(NFS4 + code),
            _ => OperationId(NFS4_ILLEGAL),
        }
    }

    /// Returns all operations.
    pub fn all() -> impl Iterator<Item = OperationId> {
        (0..=UNKNOWN).map(OperationId)
    }

    /// Returns the number, below [`OperationId::COUNT`].
    #[inline]
    #[must_use]
    pub const fn number(self) -> usize {
        self.0 as usize
    }

    /// Returns the protocol.
    #[must_use]
    pub const fn protocol(self) -> Protocol {
        match self.0 {
            NFS3..NFS4 => Protocol::Nfs3,
            NFS4..NLM => Protocol::Nfs4,
            NLM..MOUNT => Protocol::Nlm,
            MOUNT..NSM => Protocol::Mount,
            NSM..RQUOTA => Protocol::Nsm,
            RQUOTA..PORTMAP => Protocol::Rquota,
            PORTMAP..UNKNOWN => Protocol::Portmap,
            _ => Protocol::Rpc,
        }
    }

    /// Returns the name in its RFC; those of NLM, NSM and the portmapper without the prefix that all have.
    #[must_use]
    pub fn name(self) -> &'static str {
        let code = u32::from;
        let name = match self.protocol() {
            Protocol::Nfs3 => nfs3::Procedure::from_code(code(self.0)).map(nfs3::Procedure::name),
            Protocol::Nfs4 => Some(nfs4_name(self.0 - NFS4)),
            Protocol::Nlm => nlm4::Procedure::from_code(code(self.0 - NLM)).map(nlm_name),
            Protocol::Mount => {
                mount3::Procedure::from_code(code(self.0 - MOUNT)).map(mount3::Procedure::name)
            }
            Protocol::Nsm => {
                const NAMES: [&str; 7] =
                    ["NULL", "STAT", "MON", "UNMON", "UNMON_ALL", "SIMU_CRASH", "NOTIFY"];
                NAMES.get(usize::from(self.0 - NSM)).copied()
            }
            Protocol::Rquota => {
                rquota::Procedure::from_code(code(self.0 - RQUOTA)).map(rquota::Procedure::name)
            }
            Protocol::Portmap => {
                const NAMES: [&str; 5] = ["NULL", "SET", "UNSET", "GETPORT", "DUMP"];
                NAMES.get(usize::from(self.0 - PORTMAP)).copied()
            }
            Protocol::Rpc => None,
        };
        name.unwrap_or("UNKNOWN")
    }

    /// Returns the class that latencies are kept by.
    #[inline]
    #[must_use]
    pub fn class(self) -> Class {
        // One for each number that an identifier can have, so that finding it needs no check.
        static CLASSES: [Class; 1 << u8::BITS] = classes();
        CLASSES.get(self.number()).copied().unwrap_or(Class::Other)
    }
}

fn nfs4_name(number: u8) -> &'static str {
    match number {
        0 => "NULL",
        1 => "COMPOUND",
        2 => OpNum4::Illegal.name(),
        _ => OpNum4::from_code(u32::from(number)).map_or("UNKNOWN", OpNum4::name),
    }
}

fn nlm_name(procedure: nlm4::Procedure) -> &'static str {
    use nlm4::Procedure;
    match procedure {
        Procedure::Null => "NULL",
        Procedure::Test => "TEST",
        Procedure::Lock => "LOCK",
        Procedure::Cancel => "CANCEL",
        Procedure::Unlock => "UNLOCK",
        Procedure::Granted => "GRANTED",
        Procedure::TestMsg => "TEST_MSG",
        Procedure::LockMsg => "LOCK_MSG",
        Procedure::CancelMsg => "CANCEL_MSG",
        Procedure::UnlockMsg => "UNLOCK_MSG",
        Procedure::GrantedMsg => "GRANTED_MSG",
        Procedure::TestRes => "TEST_RES",
        Procedure::LockRes => "LOCK_RES",
        Procedure::CancelRes => "CANCEL_RES",
        Procedure::UnlockRes => "UNLOCK_RES",
        Procedure::GrantedRes => "GRANTED_RES",
        Procedure::SmNotify => "SM_NOTIFY",
        Procedure::Share => "SHARE",
        Procedure::Unshare => "UNSHARE",
        Procedure::NmLock => "NM_LOCK",
        Procedure::FreeAll => "FREE_ALL",
    }
}

/// Makes the table of classes.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const fn classes() -> [Class; 1 << u8::BITS] {
    let mut classes = [Class::Other; 1 << u8::BITS];
    let mut number = 0;
    while number < nfs3::Procedure::ALL.len() {
        let procedure = nfs3::Procedure::ALL[number];
        classes[NFS3 as usize + procedure as usize] = class_nfs3(procedure);
        number += 1;
    }
    number = 0;
    while number < OpNum4::ALL.len() {
        let operation = OpNum4::ALL[number];
        if (operation as usize) < NFS4_OPERATIONS as usize {
            classes[NFS4 as usize + operation as usize] = class_nfs4(operation);
        }
        number += 1;
    }
    number = NLM as usize + 1;
    while number < MOUNT as usize {
        classes[number] = Class::Lock;
        number += 1;
    }
    classes
}

const fn class_nfs3(procedure: nfs3::Procedure) -> Class {
    use nfs3::Procedure;
    match procedure {
        Procedure::Read => Class::Read,
        Procedure::Write => Class::Write,
        Procedure::Commit => Class::Commit,
        Procedure::Lookup => Class::Lookup,
        Procedure::Getattr | Procedure::Access => Class::Getattr,
        Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod | Procedure::Link => {
            Class::Create
        }
        Procedure::Remove | Procedure::Rmdir => Class::Remove,
        Procedure::Rename => Class::Rename,
        Procedure::Readdir | Procedure::Readdirplus => Class::Readdir,
        _ => Class::Other,
    }
}

const fn class_nfs4(operation: OpNum4) -> Class {
    match operation {
        OpNum4::Read | OpNum4::ReadPlus => Class::Read,
        OpNum4::Write => Class::Write,
        OpNum4::Commit => Class::Commit,
        OpNum4::Lookup | OpNum4::Lookupp => Class::Lookup,
        OpNum4::Getattr | OpNum4::Access => Class::Getattr,
        OpNum4::Open | OpNum4::OpenConfirm | OpNum4::OpenDowngrade | OpNum4::Close => Class::Open,
        OpNum4::Create | OpNum4::Link => Class::Create,
        OpNum4::Remove => Class::Remove,
        OpNum4::Rename => Class::Rename,
        OpNum4::Readdir => Class::Readdir,
        OpNum4::Lock | OpNum4::Lockt | OpNum4::Locku | OpNum4::ReleaseLockowner => Class::Lock,
        _ => Class::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_operation_has_a_number_and_a_name_of_its_own() {
        let mut names = BTreeSet::new();
        for operation in OperationId::all() {
            let name = (operation.protocol(), operation.name());
            assert!(names.insert(name) || name.1 == "UNKNOWN", "{name:?}");
        }
        assert_eq!(OperationId::all().count(), OperationId::COUNT);
        for operation in OpNum4::ALL {
            assert_eq!(OperationId::of_nfs4(*operation).name(), operation.name());
        }
        assert_eq!(usize::from(NFS4), nfs3::Procedure::ALL.len());
    }

    #[test]
    fn classes_follow_the_operations() {
        let class = |protocol, name| {
            let mut all = OperationId::all();
            all.find(|id| id.protocol() == protocol && id.name() == name).unwrap().class()
        };
        assert_eq!(class(Protocol::Nfs3, "WRITE"), Class::Write);
        assert_eq!(class(Protocol::Nfs4, "WRITE"), Class::Write);
        assert_eq!(class(Protocol::Nfs4, "OPEN"), Class::Open);
        assert_eq!(class(Protocol::Nlm, "LOCK"), Class::Lock);
        assert_eq!(class(Protocol::Nlm, "NULL"), Class::Other);
        assert_eq!(class(Protocol::Mount, "MNT"), Class::Other);
        for (number, class) in Class::ALL.iter().enumerate() {
            assert_eq!(class.number(), number);
        }
    }
}
