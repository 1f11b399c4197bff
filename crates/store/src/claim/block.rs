//! The block that a claim consists of: lines of text, within a sector, so that no crash tears it.

/// The beginning of the first line.
const TITLE: &str = "holdfast claim 1";

/// What the block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The machine that wrote it.
    pub(super) node: String,
    pub(super) state: State,
    /// How often the claim was renewed, by all holders.
    pub(super) renewals: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Held,
    Released,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Held => "held",
            State::Released => "released",
        }
    }
}

impl Block {
    pub(super) fn encode(&self) -> String {
        let Block { node, state, renewals } = self;
        format!("{TITLE}\nnode {node}\nstate {}\nrenewals {renewals}\n", state.name())
    }

    /// Reads a block; none if it is empty or damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<Block> {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let mut lines = std::str::from_utf8(&bytes[..end]).ok()?.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let node = field("node")?.to_owned();
        let state = field("state")?;
        let state = [State::Held, State::Released].into_iter().find(|known| known.name() == state)?;
        Some(Block { node, state, renewals: field("renewals")?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_blocks_are_read_back_and_damaged_ones_are_not() {
        for state in [State::Held, State::Released] {
            let block = Block { node: "a".to_owned(), state, renewals: u64::MAX };
            let mut bytes = block.encode().into_bytes();
            bytes.resize(4096, 0);
            assert_eq!(Block::decode(&bytes), Some(block));
            bytes[20] = 0xff;
            assert_eq!(Block::decode(&bytes), None);
        }
        assert_eq!(Block::decode(&[0; 4096]), None);
        assert_eq!(Block::decode(b"holdfast claim 1\nnode a\nstate lent\nrenewals 1\n"), None);
    }
}
