//! Finds many words in one pass (Aho and Corasick), a byte at a time, and says how much of a word
//! may have begun: that is what a stream has to hold back, and no more.

use std::collections::VecDeque;

/// Words as a trie with links from each state to the longest other one that the text may be in.
/// Letters of ASCII are equal in both cases: hexadecimal has two, and a secret in the other case is
/// still one.
#[derive(Default)]
pub(super) struct Automaton {
    nodes: Vec<AutomatonNode>,
    longest: usize,
}

#[derive(Default)]
struct AutomatonNode {
    next: Vec<(u8, usize)>,
    fail: usize,
    depth: usize,
    /// How many of the last bytes may be the beginning of a longer word.
    begun: usize,
    /// The longest word that ends here: its length, and whose it is.
    hit: Option<(usize, usize)>,
}

impl Automaton {
    /// Takes a word in, of the secret of that number.
    pub(super) fn add(&mut self, word: &[u8], secret: usize) {
        if self.nodes.is_empty() {
            self.nodes.push(AutomatonNode::default());
        }
        let mut at = 0;
        for byte in word.iter().map(u8::to_ascii_lowercase) {
            at = self.child(at, byte).unwrap_or_else(|| {
                let (next, depth) = (self.nodes.len(), self.nodes[at].depth + 1);
                self.nodes.push(AutomatonNode {
                    depth,
                    ..AutomatonNode::default()
                });
                self.nodes[at].next.push((byte, next));
                next
            });
        }
        self.longest = self.longest.max(word.len());
        self.nodes[at].hit.get_or_insert((word.len(), secret));
    }

    /// Makes the links, once all words are in.
    pub(super) fn link(&mut self) {
        let mut queue: VecDeque<usize> = self.nodes.first().into_iter().map(|_| 0).collect();
        while let Some(at) = queue.pop_front() {
            for (byte, next) in self.nodes[at].next.clone() {
                let fail = if at == 0 {
                    0
                } else {
                    self.step(self.nodes[at].fail, byte)
                };
                let AutomatonNode { hit, begun, .. } = self.nodes[fail];
                let node = &mut self.nodes[next];
                node.fail = fail;
                node.hit = node.hit.or(hit);
                node.begun = if node.next.is_empty() {
                    begun
                } else {
                    node.depth
                };
                queue.push_back(next);
            }
        }
    }

    /// The state after one more byte.
    pub(super) fn step(&self, mut state: usize, byte: u8) -> usize {
        let byte = byte.to_ascii_lowercase();
        loop {
            match self.child(state, byte) {
                Some(next) => return next,
                None if state == 0 => return 0,
                None => state = self.nodes[state].fail,
            }
        }
    }

    fn child(&self, state: usize, byte: u8) -> Option<usize> {
        self.nodes
            .get(state)?
            .next
            .iter()
            .find(|(known, _)| *known == byte)
            .map(|(_, next)| *next)
    }

    /// The longest word that ends in this state: its length, and whose it is.
    pub(super) fn hit(&self, state: usize) -> Option<(usize, usize)> {
        self.nodes.get(state)?.hit
    }

    /// How many of the last bytes may be the beginning of a word, or of a longer one than has ended
    /// with them.
    pub(super) fn begun(&self, state: usize) -> usize {
        self.nodes.get(state).map_or(0, |node| node.begun)
    }

    /// The length of the longest word.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }
}
