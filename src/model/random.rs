//! Random bytes of the system, fetched for many ids at once: a call needs two, and each fetch is a
//! system call.

use std::cell::RefCell;

/// Bytes of one fetch.
const FETCH_BYTES: usize = 1024;

struct Pool {
    bytes: [u8; FETCH_BYTES],
    used: usize,
}

thread_local! {
    static RANDOM_POOL: RefCell<Pool> = const { RefCell::new(Pool { bytes: [0; FETCH_BYTES], used: FETCH_BYTES }) };
}

/// So many random bytes that nobody had before; none when the system has none to give.
pub(super) fn bytes<const N: usize>() -> Option<[u8; N]> {
    const { assert!(N <= FETCH_BYTES, "more than one fetch gives") };
    RANDOM_POOL.with_borrow_mut(|pool| {
        if FETCH_BYTES - pool.used < N {
            getrandom::fill(&mut pool.bytes).ok()?;
            pool.used = 0;
        }
        let mut given = [0; N];
        let taken = &mut pool.bytes[pool.used..pool.used + N];
        given.copy_from_slice(taken);
        // What was given is nowhere else.
        taken.fill(0);
        pool.used += N;
        Some(given)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_bytes_are_given_twice() {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    (0..FETCH_BYTES)
                        .filter_map(|_| bytes::<16>())
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let given: Vec<_> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        assert_eq!(given.len(), 4 * FETCH_BYTES);
        assert_eq!(given.iter().collect::<HashSet<_>>().len(), given.len());
    }
}
