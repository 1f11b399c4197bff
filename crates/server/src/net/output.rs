//! Output of a connection: bytes, and between them file data that is sent from the engine's buffers.

use std::collections::VecDeque;
use std::io::IoSlice;

use nfs::service::ReplyBuffer;
use volume::bytes::Slice;

use crate::limits::{SEND_EARLY_BYTES, SENT_BYTES_KEPT_MAX};
use crate::net::buffers::Buffers;

/// Parts that are sent in one system call. The kernel's limit is 1024.
const PARTS_MAX: usize = 64;

/// Returns the memory that a reply holds, bytes.
pub(crate) fn held_bytes(reply: &ReplyBuffer) -> usize {
    reply.bytes.capacity() + reply.tail.iter().map(Slice::kept_bytes).sum::<usize>()
}

/// Replies to be sent.
#[derive(Default)]
pub(crate) struct Output {
    /// All output but the tails.
    pub(crate) bytes: Vec<u8>,
    /// Bytes of `bytes` that were sent.
    written: usize,
    /// Tails, each with its position: the bytes of `bytes` that are sent before it.
    tails: VecDeque<(usize, Slice)>,
    /// Bytes of the first tail that were sent.
    tail_written: usize,
    /// Bytes of all tails that were not sent.
    tail_bytes: usize,
    /// Bytes of the buffers that `tails` keep in memory.
    tail_kept: usize,
}

impl Output {
    /// Returns the bytes that the socket has not taken.
    pub(crate) fn unsent(&self) -> usize {
        self.bytes.len() - self.written + self.tail_bytes
    }

    /// Returns the bytes of memory it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.tail_kept
    }

    /// Appends data behind the current end of `bytes`. Returns its length.
    pub(crate) fn push_tail(&mut self, tail: &mut Vec<Slice>) -> usize {
        let length = tail.iter().map(|slice| slice.len()).sum();
        self.tail_bytes += length;
        let place = self.bytes.len();
        for slice in tail.drain(..).filter(|slice| !slice.is_empty()) {
            self.tail_kept += slice.kept_bytes();
            self.tails.push_back((place, slice));
        }
        length
    }

    /// Appends a reply.
    pub(crate) fn push(&mut self, mut reply: ReplyBuffer, buffers: &mut Buffers) {
        if self.unsent() == 0 && reply.bytes.len() >= SEND_EARLY_BYTES {
            self.clear(buffers);
            self.bytes = reply.bytes;
        } else {
            buffers.fill(&mut self.bytes);
            self.bytes.extend_from_slice(&reply.bytes);
        }
        self.push_tail(&mut reply.tail);
    }

    /// Passes the unsent parts to `send`, in order, up to the limit of one system call.
    pub(crate) fn with_parts<T>(&self, send: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        let mut parts = [IoSlice::new(&[]); PARTS_MAX];
        let (mut count, mut from, mut skip) = (0, self.written, self.tail_written);
        // Each step adds the rest of `bytes`, or a tail with the bytes before it: two parts at most.
        let rest = std::iter::once((self.bytes.len(), None));
        for (place, tail) in self.tails.iter().map(|(place, tail)| (*place, Some(tail))).chain(rest) {
            if count + 2 > PARTS_MAX {
                break;
            }
            if from < place {
                parts[count] = IoSlice::new(&self.bytes[from..place]);
                (from, count) = (place, count + 1);
            }
            if let Some(tail) = tail {
                parts[count] = IoSlice::new(&tail[skip..]);
                (skip, count) = (0, count + 1);
            }
        }
        send(&parts[..count])
    }

    /// Removes the first `count` bytes, which were sent.
    pub(crate) fn advance(&mut self, mut count: usize) {
        while let Some((place, tail)) = self.tails.front() {
            let before = (place - self.written).min(count);
            self.written += before;
            count -= before;
            let part = (tail.len() - self.tail_written).min(count);
            self.tail_written += part;
            self.tail_bytes -= part;
            count -= part;
            if self.written < *place || self.tail_written < tail.len() {
                return;
            }
            self.tail_kept -= tail.kept_bytes();
            self.tails.pop_front();
            self.tail_written = 0;
        }
        self.written += count;
    }

    /// Moves unsent bytes to the front, if enough were sent.
    pub(crate) fn compact(&mut self) {
        if self.written > SENT_BYTES_KEPT_MAX {
            self.bytes.drain(..self.written);
            self.tails.iter_mut().for_each(|(place, _)| *place -= self.written);
            self.written = 0;
        }
    }

    /// Returns the memory of output that was sent entirely.
    pub(crate) fn clear(&mut self, buffers: &mut Buffers) {
        self.bytes.clear();
        self.written = 0;
        buffers.take_back(&mut self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use volume::bytes::Bytes;

    use super::*;

    fn slice(bytes: &[u8]) -> Slice {
        Slice::new(Bytes::from(bytes), 1..bytes.len())
    }

    fn sent(output: &Output, most: usize) -> Vec<u8> {
        let mut out =
            output.with_parts(|parts| parts.iter().flat_map(|part| part.to_vec()).collect::<Vec<u8>>());
        out.truncate(most);
        out
    }

    #[test]
    fn output_is_sent_in_order_in_parts_of_any_size() {
        for step in 1..12 {
            let mut buffers = Buffers::new(1 << 20);
            let mut output = Output::default();
            output.push(
                ReplyBuffer {
                    bytes: b"one".to_vec(),
                    tail: vec![slice(b"-ab"), slice(b"-"), slice(b"-cde")],
                },
                &mut buffers,
            );
            output.push(ReplyBuffer { bytes: b"two".to_vec(), tail: Vec::new() }, &mut buffers);
            output.push(ReplyBuffer { bytes: Vec::new(), tail: vec![slice(b"-f")] }, &mut buffers);
            output.push(ReplyBuffer { bytes: b"three".to_vec(), tail: Vec::new() }, &mut buffers);
            let mut all = Vec::new();
            while output.unsent() > 0 {
                let some = sent(&output, step);
                assert!(!some.is_empty());
                output.advance(some.len());
                all.extend(some);
            }
            assert_eq!(all, b"oneabcdetwofthree");
            output.clear(&mut buffers);
            assert_eq!(output.held_bytes(), 0);
        }
    }

    #[test]
    fn a_tail_counts_with_the_whole_buffer_that_it_keeps_until_it_was_sent() {
        let mut output = Output::default();
        let half = || Slice::new(Bytes::from(&[7_u8; 100][..]), 50..100);
        let reply = ReplyBuffer { bytes: Vec::new(), tail: vec![half(), half()] };
        assert_eq!(held_bytes(&reply), 200);
        output.push(reply, &mut Buffers::new(0));
        assert_eq!((output.unsent(), output.held_bytes()), (100, 200));
        output.advance(49);
        assert_eq!((output.unsent(), output.held_bytes()), (51, 200));
        output.advance(1);
        assert_eq!((output.unsent(), output.held_bytes()), (50, 100));
        output.advance(50);
        assert_eq!((output.unsent(), output.held_bytes()), (0, 0));
    }

    #[test]
    fn many_parts_take_several_system_calls() {
        let mut output = Output::default();
        output.bytes.extend(b"head");
        output.push_tail(&mut (0..200).map(|_| slice(b"-x")).collect());
        let (mut calls, mut bytes) = (0, 0);
        while output.unsent() > 0 {
            let some = sent(&output, usize::MAX);
            output.advance(some.len());
            (calls, bytes) = (calls + 1, bytes + some.len());
        }
        assert!(calls > 3 && bytes == 204);
    }

    #[test]
    fn compacting_keeps_the_positions_of_tails() {
        let mut output = Output::default();
        output.bytes.extend(vec![1; SENT_BYTES_KEPT_MAX + 8]);
        output.push_tail(&mut vec![slice(b"-\x02\x02")]);
        output.bytes.push(3);
        output.advance(SENT_BYTES_KEPT_MAX + 5);
        output.compact();
        assert_eq!(sent(&output, usize::MAX), [1, 1, 1, 2, 2, 3]);
    }
}
