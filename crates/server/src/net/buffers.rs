//! A pool of output buffers, so that idle connections hold none.

/// Empty buffers.
pub(crate) struct Buffers {
    free: Vec<Vec<u8>>,
    bytes: usize,
    bytes_max: usize,
}

impl Buffers {
    /// Keeps at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Buffers {
        Buffers { free: Vec::new(), bytes: 0, bytes_max }
    }

    /// Returns the bytes that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Frees all that is kept.
    pub(crate) fn release(&mut self) {
        self.free = Vec::new();
        self.bytes = 0;
    }

    /// Gives `buffer` memory if it has none.
    pub(crate) fn fill(&mut self, buffer: &mut Vec<u8>) {
        if buffer.capacity() == 0
            && let Some(free) = self.free.pop()
        {
            self.bytes -= free.capacity();
            *buffer = free;
        }
    }

    /// Keeps the memory of an empty buffer.
    pub(crate) fn take_back(&mut self, buffer: &mut Vec<u8>) {
        assert!(buffer.is_empty(), "the buffer has unsent bytes");
        let buffer = std::mem::take(buffer);
        if buffer.capacity() > 0 && self.bytes + buffer.capacity() <= self.bytes_max {
            self.bytes += buffer.capacity();
            self.free.push(buffer);
        }
    }
}
