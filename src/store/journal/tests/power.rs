//! guarantees §8, threat-model §12: the machine loses power at any moment. What was not synced is
//! there, not there, or there in part, sector by sector; what `durable` resolved for is there, in
//! order, and nothing is there that was never appended.

use super::*;
use crate::store::journal::medium::Medium;
use parking_lot::Mutex;
use proptest::prelude::*;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// What a disk writes as a whole.
const SECTOR_BYTES: usize = 512;

/// A few random numbers, the same for the same seed.
struct PowerRng(u64);

impl PowerRng {
    fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// Files, each with what it held when it was last synced.
type SyncedFiles = Vec<(File, Vec<u8>)>;

/// The files of a disk; none once the power is gone.
#[derive(Clone)]
struct PowerDisk(Arc<Mutex<Option<SyncedFiles>>>);

fn whole(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

impl PowerDisk {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Some(Vec::new()))))
    }

    /// A file that was made, and synced, just now.
    fn medium(&self, file: File) -> Box<dyn Medium> {
        let mut files = self.0.lock();
        let number = files.as_ref().map_or(0, Vec::len);
        if let Some(files) = files.as_mut() {
            files.push((file.try_clone().unwrap(), whole(&file)));
        }
        Box::new(OnDisk {
            file,
            number,
            disk: self.clone(),
        })
    }

    /// The power goes: every sector that was written since the last sync is as it was or as it
    /// became.
    fn lose_power(&self, dice: &mut PowerRng) {
        let files = self.0.lock().take().unwrap();
        // All, none, or each sector by itself.
        let how = dice.roll(3);
        for (file, synced) in files {
            let written = whole(&file);
            let mut left = if dice.roll(2) == 0 {
                synced.clone()
            } else {
                written.clone()
            };
            let length = left.len();
            left.resize(synced.len().max(written.len()), 0);
            for at in (0..left.len()).step_by(SECTOR_BYTES) {
                let keep = if how == 2 { dice.roll(2) } else { how };
                let of = if keep == 0 { &synced } else { &written };
                for byte in at..(at + SECTOR_BYTES).min(left.len()) {
                    left[byte] = of.get(byte).copied().unwrap_or_default();
                }
            }
            left.truncate(
                length.max(
                    synced
                        .iter()
                        .rposition(|byte| *byte != 0)
                        .map_or(0, |last| last + 1),
                ),
            );
            file.set_len(0).unwrap();
            file.write_all_at(&left, 0).unwrap();
        }
    }
}

struct OnDisk {
    file: File,
    number: usize,
    disk: PowerDisk,
}

impl OnDisk {
    /// Does it while there is power.
    fn powered(&self, act: impl FnOnce(&mut SyncedFiles) -> io::Result<()>) -> io::Result<()> {
        self.disk
            .0
            .lock()
            .as_mut()
            .map_or_else(|| Err(io::Error::other("no power")), act)
    }
}

impl Medium for OnDisk {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.powered(|_| self.file.write_all_at(bytes, at))
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        self.powered(|_| self.file.set_len(length))
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.powered(|_| self.file.set_len(length))
    }

    fn sync(&self) -> io::Result<()> {
        self.powered(|files| {
            files[self.number].1 = whole(&self.file);
            Ok(())
        })
    }
}

/// The bytes of record `seq` in round `round`: of any length, and no other's.
fn words(seed: u64, seq: u64) -> Vec<u8> {
    let mut words = format!("{seed} {seq} ").into_bytes();
    words.resize(
        words.len() + usize::try_from(PowerRng(seed ^ seq).roll(1500)).unwrap(),
        b'.',
    );
    words
}

/// Appends at random until the power goes; gives the last record that was acknowledged, and the
/// last that was appended.
async fn until_power_loss(data: &Path, seed: u64, dice: &mut PowerRng) -> (u64, u64) {
    let disk = PowerDisk::new();
    let on = disk.clone();
    let options = JournalOptions {
        segment_bytes: 8192,
        reserve_bytes: 4096,
        gather: Duration::ZERO,
        ..JournalOptions::default()
    };
    let journal = Journal::open_on(
        data,
        options,
        SealingKeys::default(),
        Box::new(move |file| on.medium(file)),
    )
    .unwrap();
    let mut last = journal.health().head.seq;
    let mut durable = last;
    let mut tickets = Vec::new();
    for _ in 0..dice.roll(40) {
        let group: Vec<_> = (1..=1 + dice.roll(4))
            .map(|n| Item::Event(words(seed, last + n)))
            .collect();
        let ticket = journal.append(group).unwrap();
        last = ticket.seq();
        tickets.push(ticket);
        if dice.roll(3) == 0 {
            for ticket in tickets.drain(..) {
                let seq = ticket.seq();
                assert!(ticket.durable().await.unwrap().seq >= seq);
                durable = seq;
            }
        }
    }
    // While the writer is at it, or after it.
    for _ in 0..dice.roll(2000) {
        std::hint::spin_loop();
    }
    disk.lose_power(dice);
    (durable.max(journal.durable_seq()), last)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn what_is_durable_survives_and_nothing_else_appears(seed in any::<u64>()) {
        let temp = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut dice = PowerRng(seed);
        for _ in 0..4 {
            let (durable, last) = runtime.block_on(until_power_loss(temp.path(), seed, &mut dice));
            // The next start cuts off what is torn, and what is left is sound.
            let journal = Journal::open(temp.path(), small()).unwrap();
            let head = runtime.block_on(journal.close()).unwrap();
            prop_assert!((durable..=last).contains(&head.seq), "{durable} durable, {} there, {last} appended", head.seq);
            let records = read(temp.path()).unwrap();
            prop_assert_eq!(records.len() as u64, head.seq);
            for (record, seq) in records.iter().zip(1..) {
                prop_assert_eq!(record.seq, seq);
                prop_assert_eq!(record.event().unwrap(), &words(seed, seq));
            }
            prop_assert_eq!(verify(temp.path(), Some(head)).unwrap().problem, None);
        }
    }
}
