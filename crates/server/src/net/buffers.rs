//! Output buffers of a loop's connections, reused so that an idle connection holds none.

/// Empty buffers.
pub(crate) struct Buffers {
    free: Vec<Vec<u8>>,
    bytes: usize,
    bytes_max: usize,
}

impl Buffers {
    /// Keeps at most so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Buffers {
        Buffers { free: Vec::new(), bytes: 0, bytes_max }
    }

    /// What is kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
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

    /// Takes the memory of an empty buffer.
    pub(crate) fn take_back(&mut self, buffer: &mut Vec<u8>) {
        assert!(buffer.is_empty(), "bytes in it have not left");
        let buffer = std::mem::take(buffer);
        if buffer.capacity() > 0 && self.bytes + buffer.capacity() <= self.bytes_max {
            self.bytes += buffer.capacity();
            self.free.push(buffer);
        }
    }
}
