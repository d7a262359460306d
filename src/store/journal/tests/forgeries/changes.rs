//! What a forger changes of a journal that was taken apart.

use super::*;

/// One change of what was taken apart.
pub(super) struct Forgery {
    pub(super) name: String,
    /// The first batch that it touches.
    pub(super) first: usize,
    /// What becomes of the whole.
    pub(super) pieces: Vec<ForgedSegment>,
}

fn replaced(payload: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = payload
        .windows(from.len())
        .position(|part| part == from)
        .unwrap();
    let mut bytes = [&payload[..at], to, &payload[at + from.len()..]].concat();
    let grown = u32::try_from(to.len())
        .unwrap()
        .wrapping_sub(u32::try_from(from.len()).unwrap());
    // The record that it stands in is the first of its batch.
    let length = u32::from_le_bytes(bytes[1..5].try_into().unwrap()).wrapping_add(grown);
    bytes[1..5].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// The batch that is changed: the `at`th of the `index`th segment, the `nth` of all.
#[derive(Clone, Copy)]
struct BatchPlace<'a> {
    pieces: &'a [ForgedSegment],
    index: usize,
    at: usize,
    nth: usize,
}

impl BatchPlace<'_> {
    fn forge(self, name: &str, act: impl FnOnce(&mut Vec<ForgedBatch>)) -> Forgery {
        let mut pieces = self.pieces.to_vec();
        act(&mut pieces[self.index].parts);
        Forgery {
            name: format!("{name} {}", self.nth),
            first: self.nth,
            pieces,
        }
    }

    fn parts(self) -> usize {
        self.pieces[self.index].parts.len()
    }

    /// Changes of an entry; none, where the batch has none that names the agent.
    fn of_entries(self) -> Vec<Forgery> {
        let at = self.at;
        let payload = &self.pieces[self.index].parts[at].payload;
        if !payload.windows(13).any(|text| text == b"billing-agent") {
            return Vec::new();
        }
        vec![
            self.forge("rewrite", |parts| {
                parts[at].payload =
                    replaced(&parts[at].payload, b"billing-agent", b"somebody-else");
            }),
            self.forge("rewrite longer", |parts| {
                parts[at].payload = replaced(
                    &parts[at].payload,
                    b"billing-agent",
                    b"the agent of somebody else",
                );
            }),
            self.forge("delete a record", |parts| {
                let first = frame::record_size(&parts[at].payload).unwrap();
                parts[at].payload.drain(..first);
                parts[at].count -= 1;
            }),
        ]
    }

    /// Changes of the batch, and of where it stands.
    fn of_batches(self) -> Vec<Forgery> {
        let at = self.at;
        let mut all = vec![
            self.forge("another kind", |parts| parts[at].payload[0] = 9),
            self.forge("another epoch", |parts| parts[at].epoch += 1),
            self.forge("insert before", |parts| {
                parts.insert(at, parts[parts.len() - 1].clone());
            }),
            self.forge("double", |parts| parts.insert(at, parts[at].clone())),
        ];
        if self.parts() > 1 {
            all.push(self.forge("delete a batch", |parts| drop(parts.remove(at))));
        }
        if at + 1 < self.parts() {
            all.push(self.forge("exchange", |parts| parts.swap(at, at + 1)));
            all.push(self.forge("exchange seals", |parts| {
                let seal = parts[at].trailer.clone();
                parts[at].trailer = parts[at + 1].trailer.clone();
                parts[at + 1].trailer = seal;
            }));
        }
        all
    }
}

fn of_segments(pieces: &[ForgedSegment]) -> Vec<Forgery> {
    let mut all = Vec::new();
    for at in 0..pieces.len() - 1 {
        let first = pieces[..at].iter().map(|piece| piece.parts.len()).sum();
        let mut swapped = pieces.to_vec();
        swapped.swap(at, at + 1);
        swapped[0].chain = pieces[0].chain;
        all.push(Forgery {
            name: format!("exchange segments {at}"),
            first,
            pieces: swapped,
        });
        let mut without = pieces.to_vec();
        without.remove(at);
        all.push(Forgery {
            name: format!("delete segment {at}"),
            first,
            pieces: without,
        });
    }
    all
}

pub(super) fn forgeries(pieces: &[ForgedSegment]) -> Vec<Forgery> {
    let mut all = Vec::new();
    let mut nth = 0;
    for (index, piece) in pieces.iter().enumerate() {
        for at in 0..piece.parts.len() {
            let place = BatchPlace {
                pieces,
                index,
                at,
                nth,
            };
            all.extend(place.of_entries());
            all.extend(place.of_batches());
            nth += 1;
        }
    }
    all.extend(of_segments(pieces));
    all
}

/// The same with its end cut off, at every batch.
pub(super) fn cut(pieces: &[ForgedSegment]) -> Vec<Forgery> {
    let mut all = Vec::new();
    let mut nth = 0;
    for (index, piece) in pieces.iter().enumerate() {
        for at in 0..piece.parts.len() {
            if nth > 0 {
                let mut rest = pieces[..=index].to_vec();
                rest[index].parts.truncate(at);
                all.push(Forgery {
                    name: format!("cut at {nth}"),
                    first: nth,
                    pieces: rest,
                });
            }
            nth += 1;
        }
    }
    all
}

/// Whether everything stands where it stood, and more after it.
pub(super) fn only_grows(pieces: &[ForgedSegment], forged: &[ForgedSegment]) -> bool {
    let last = pieces.len() - 1;
    let same = |(one, other): (&ForgedSegment, &ForgedSegment)| one.parts == other.parts;
    forged.len() == pieces.len()
        && pieces[..last].iter().zip(forged).all(same)
        && forged[last].parts.starts_with(&pieces[last].parts)
}
