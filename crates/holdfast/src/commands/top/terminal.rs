//! The terminal: its size, its keys one by one, and the alternate screen, which keeps the previous one.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::flag;

use super::keys::{self, Key};
use super::screen::Screen;

/// Control sequences of ECMA-48 and of xterm, which every terminal of today has.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REVERSE: &str = "\x1b[7m";
const NORMAL: &str = "\x1b[m";

/// The size assumed for a terminal that does not report one.
const SIZE: (usize, usize) = (80, 24);

/// A terminal that shows screens. Dropping it restores what it was before.
pub(super) struct Terminal {
    input: File,
    before: Termios,
    /// A signal has asked for the end, or the terminal is gone.
    is_over: Arc<AtomicBool>,
}

impl Terminal {
    /// Takes over the terminal of standard input and output.
    pub(super) fn open() -> io::Result<Terminal> {
        let is_over = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGHUP, SIGINT] {
            flag::register(signal, Arc::clone(&is_over))?;
        }
        // Only interrupts the wait for keys, so that the screen is drawn anew.
        flag::register(SIGWINCH, Arc::new(AtomicBool::new(false)))?;
        let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let before = tcgetattr(&input)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&input, OptionalActions::Now, &raw)?;
        let terminal = Terminal { input, before, is_over };
        write(ENTER)?;
        Ok(terminal)
    }

    /// Whether a signal has asked for the end.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Returns its columns and lines.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => SIZE,
        }
    }

    /// Shows a screen of its size.
    pub(super) fn draw(&self, screen: &Screen) -> io::Result<()> {
        let mut out = HOME.to_owned();
        for (number, line) in screen.lines.iter().enumerate() {
            if number > 0 {
                out.push_str("\r\n");
            }
            if screen.heading == Some(number) {
                out.push_str(&format!("{REVERSE}{line}{NORMAL}{REST_OF_LINE}"));
            } else {
                out.push_str(line);
                out.push_str(REST_OF_LINE);
            }
        }
        write(&out)
    }

    /// Waits for keys and returns them; none if the time is over or a signal came.
    pub(super) fn keys(&mut self, patience: Duration) -> io::Result<Vec<Key>> {
        let patience = Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let mut input = [PollFd::new(&self.input, PollFlags::IN)];
        match poll(&mut input, Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 64];
        let count = self.input.read(&mut bytes)?;
        if count == 0 {
            self.is_over.store(true, Ordering::Relaxed);
        }
        Ok(keys::decode(&bytes[..count]))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore.
        let _ = write(LEAVE);
        let _ = tcsetattr(&self.input, OptionalActions::Now, &self.before);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
