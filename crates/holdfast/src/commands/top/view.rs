//! What the user wants to see, and how keys change it.

use std::time::Duration;

use clap::ValueEnum;

use super::keys::Key;

/// The longest interval in seconds; the server counts for a little longer after each request.
const INTERVAL_MAX: u64 = 25;

/// The longest filter, in characters.
const FILTER_MAX: usize = 60;

/// What each line stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Group {
    /// Each operation of a client on a volume
    All,
    /// Each client
    Client,
    /// Each volume
    Volume,
    /// Each operation
    Operation,
    /// Each file and directory, of those to which most is done
    File,
}

/// Order of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    /// Most calls
    Calls,
    /// Most data read
    Read,
    /// Most data written
    Written,
    /// Slowest calls
    Time,
}

impl Group {
    /// Returns the headings of what identifies a line.
    pub(super) fn headings(self) -> &'static [&'static str] {
        match self {
            Group::All => &["CLIENT", "VOLUME", "OPERATION"],
            Group::Client => &["CLIENT"],
            Group::Volume => &["VOLUME"],
            Group::Operation => &["OPERATION"],
            Group::File => &["VOLUME", "PATH"],
        }
    }

    /// Returns what lines are about.
    pub(super) fn name(self) -> &'static str {
        match self {
            Group::All => "client, volume and operation",
            Group::Client => "client",
            Group::Volume => "volume",
            Group::Operation => "operation",
            Group::File => "file and directory",
        }
    }
}

impl Sort {
    /// Returns what comes first.
    pub(super) fn name(self) -> &'static str {
        match self {
            Sort::Calls => "most calls",
            Sort::Read => "most data read",
            Sort::Written => "most data written",
            Sort::Time => "slowest calls",
        }
    }

    fn next(self) -> Sort {
        match self {
            Sort::Calls => Sort::Read,
            Sort::Read => Sort::Written,
            Sort::Written => Sort::Time,
            Sort::Time => Sort::Calls,
        }
    }
}

/// What the user wants to see.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) group: Group,
    pub(super) sort: Sort,
    /// Text that lines must have.
    pub(super) filter: String,
    /// Whether keys extend the filter.
    pub(super) is_typing: bool,
    pub(super) shows_help: bool,
    /// Lines to skip.
    pub(super) skipped: usize,
    /// Seconds between two screens.
    seconds: u64,
}

impl View {
    pub(super) fn new(group: Group, sort: Sort, filter: &str, seconds: u64) -> View {
        let filter = filter.to_owned();
        View { group, sort, filter, is_typing: false, shows_help: false, skipped: 0, seconds }
    }

    /// Returns the time between two screens.
    pub(super) fn interval(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Changes the view as a key says. Returns whether it ends the program.
    pub(super) fn press(&mut self, key: Key) -> bool {
        if key == Key::Interrupt {
            return true;
        }
        if self.is_typing {
            self.edit(key);
            return false;
        }
        if self.shows_help {
            self.shows_help = false;
            return key == Key::Char('q');
        }
        match key {
            Key::Char('q') => return true,
            Key::Char('?' | 'h') => self.shows_help = true,
            Key::Char('a') => self.show(Group::All),
            Key::Char('c') => self.show(Group::Client),
            Key::Char('v') => self.show(Group::Volume),
            Key::Char('o') => self.show(Group::Operation),
            Key::Char('f') => self.show(Group::File),
            Key::Char('s') => (self.sort, self.skipped) = (self.sort.next(), 0),
            Key::Char('/') => self.is_typing = true,
            Key::Char('+') => self.seconds = (self.seconds + 1).min(INTERVAL_MAX),
            Key::Char('-') => self.seconds = self.seconds.saturating_sub(1).max(1),
            Key::Up | Key::Char('k') => self.skipped = self.skipped.saturating_sub(1),
            Key::Down | Key::Char('j') => self.skipped += 1,
            Key::Escape => self.filter.clear(),
            _ => {}
        }
        false
    }

    fn show(&mut self, group: Group) {
        (self.group, self.skipped) = (group, 0);
    }

    fn edit(&mut self, key: Key) {
        match key {
            Key::Char(char) if self.filter.chars().count() < FILTER_MAX => self.filter.push(char),
            Key::Backspace => drop(self.filter.pop()),
            Key::Enter => self.is_typing = false,
            Key::Escape => (self.is_typing, self.filter) = (false, String::new()),
            _ => {}
        }
        self.skipped = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        View::new(Group::All, Sort::Calls, "", 2)
    }

    fn press(view: &mut View, keys: &str) -> bool {
        keys.chars().any(|char| {
            view.press(match char {
                '\r' => Key::Enter,
                '\x1b' => Key::Escape,
                '<' => Key::Backspace,
                char => Key::Char(char),
            })
        })
    }

    #[test]
    fn keys_choose_lines_order_and_interval() {
        let mut view = view();
        assert!(!press(&mut view, "jjjc"));
        assert_eq!((view.group, view.skipped), (Group::Client, 0));
        assert!(!press(&mut view, "sss+-+"));
        assert_eq!((view.sort, view.interval()), (Sort::Time, Duration::from_secs(3)));
        press(&mut view, "s------v");
        assert_eq!(
            (view.group, view.sort, view.interval()),
            (Group::Volume, Sort::Calls, Duration::from_secs(1))
        );
        assert!(press(&mut view, "q") && view.press(Key::Interrupt));
    }

    #[test]
    fn keys_of_a_filter_do_nothing_else() {
        let mut view = view();
        assert!(!press(&mut view, "/qs?c<x\r"));
        assert_eq!((view.filter.as_str(), view.is_typing, view.group), ("qs?x", false, Group::All));
        assert!(!press(&mut view, "\x1b"));
        assert_eq!(view.filter, "");
        press(&mut view, "/abc\x1b");
        assert_eq!((view.filter.as_str(), view.is_typing), ("", false));
        press(&mut view, "/abc");
        assert!(view.press(Key::Interrupt));
    }

    #[test]
    fn any_key_ends_the_help() {
        let mut view = view();
        assert!(!press(&mut view, "?c") && !view.shows_help && view.group == Group::All);
        assert!(press(&mut view, "?q"));
    }
}
