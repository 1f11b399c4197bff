//! Share reservations (RFC 7530 section 9.9): how a file is open, and what that denies others.

/// Bits of `share_access` and of `share_deny`.
const READ: u8 = 1;
const WRITE: u8 = 2;
const BOTH: u8 = 3;

/// The access that an OPEN asks for, and what it denies others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Mode {
    access: u8,
    deny: u8,
}

impl Mode {
    /// Returns the mode of these bits; none without access, or with other bits.
    pub(crate) fn new(access: u32, deny: u32) -> Option<Mode> {
        let bits = |value: u32| u8::try_from(value).ok().filter(|value| *value <= BOTH);
        let (access, deny) = (bits(access)?, bits(deny)?);
        (access != 0).then_some(Mode { access, deny })
    }

    /// Returns the mode of an NLM share, which may deny without having access.
    pub(crate) fn share(access: u32, deny: u32) -> Option<Mode> {
        Mode::new(access | 1, deny).map(|mode| Mode {
            access: if access & 1 == 0 { mode.access & WRITE } else { mode.access },
            ..mode
        })
    }

    /// Returns whether its owner may read.
    pub(crate) fn reads(self) -> bool {
        self.access & READ != 0
    }

    /// Returns whether its owner may write.
    pub(crate) fn writes(self) -> bool {
        self.access & WRITE != 0
    }

    /// Returns whether it denies others anything.
    pub(crate) fn denies(self) -> bool {
        self.deny != 0
    }

    /// Returns whether it denies others reading.
    pub(crate) fn denies_reading(self) -> bool {
        self.deny & READ != 0
    }

    /// Returns whether it denies others writing.
    pub(crate) fn denies_writing(self) -> bool {
        self.deny & WRITE != 0
    }

    /// Returns whether two owners cannot have the file open in these modes.
    pub(crate) fn conflicts(self, other: Mode) -> bool {
        self.access & other.deny != 0 || self.deny & other.access != 0
    }

    /// Returns whether this grants and denies all that `other` does.
    pub(crate) fn covers(self, other: Mode) -> bool {
        other.access & !self.access == 0 && other.deny & !self.deny == 0
    }

    fn join(self, other: Mode) -> Mode {
        Mode { access: self.access | other.access, deny: self.deny | other.deny }
    }
}

/// The modes in which an owner opened a file, one bit each. Its access is their union; OPEN_DOWNGRADE may reduce it to
/// the union of some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modes(pub(crate) u16);

impl Modes {
    fn bit(mode: Mode) -> u16 {
        1 << (mode.access | mode.deny << 2)
    }

    fn iter(self) -> impl Iterator<Item = Mode> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let index = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            let index = u8::try_from(index).unwrap_or_default();
            Some(Mode { access: index & BOTH, deny: index >> 2 })
        })
    }

    /// Returns these modes with one more.
    #[must_use]
    pub(crate) fn with(self, mode: Mode) -> Modes {
        Modes(self.0 | Modes::bit(mode))
    }

    /// Neither access nor denial: the open that NLM's locks depend on.
    pub(crate) const NOTHING: Modes = Modes(1);

    /// Returns the union of the modes, if there are any.
    pub(crate) fn union(self) -> Option<Mode> {
        self.iter().filter(|mode| mode.access | mode.deny != 0).reduce(Mode::join)
    }

    /// Returns the modes that remain after a downgrade to `to`; `None` if `to` is not a union of modes that were
    /// opened.
    pub(crate) fn downgraded(self, to: Mode) -> Option<Modes> {
        let left = self.iter().filter(|mode| to.covers(*mode)).fold(Modes::default(), Modes::with);
        (left.union() == Some(to)).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(access: u32, deny: u32) -> Mode {
        Mode::new(access, deny).unwrap()
    }

    #[test]
    fn modes_need_access_and_have_two_bits_each() {
        assert_eq!(Mode::new(0, 0), None);
        assert_eq!(Mode::new(4, 0), None);
        assert_eq!(Mode::new(1, 4), None);
        assert!(mode(3, 3).covers(mode(1, 2)) && !mode(1, 3).covers(mode(2, 0)));
    }

    #[test]
    fn modes_conflict_where_one_denies_what_the_other_accesses() {
        assert!(mode(1, 0).conflicts(mode(2, 1)));
        assert!(mode(1, 2).conflicts(mode(3, 0)));
        assert!(!mode(1, 2).conflicts(mode(1, 2)));
        assert!(!mode(3, 0).conflicts(mode(3, 0)));
    }

    #[test]
    fn downgrades_reach_only_unions_of_opened_modes() {
        let modes = Modes::default().with(mode(1, 0)).with(mode(2, 0));
        assert_eq!(modes.union(), Some(mode(3, 0)));
        assert_eq!(modes.downgraded(mode(3, 0)), Some(modes));
        let reading = modes.downgraded(mode(1, 0)).unwrap();
        assert_eq!(reading.union(), Some(mode(1, 0)));
        assert_eq!(reading.downgraded(mode(2, 0)), None);
        assert_eq!(reading.with(mode(2, 0)).downgraded(mode(2, 0)).unwrap().union(), Some(mode(2, 0)));
        assert_eq!(Modes::default().with(mode(3, 0)).downgraded(mode(1, 0)), None);
        let both = Modes::default().with(mode(3, 3)).with(mode(1, 1));
        assert_eq!(both.downgraded(mode(1, 1)).unwrap().union(), Some(mode(1, 1)));
        assert_eq!(Modes::default().union(), None);
    }
}
