//! How long a writer who was too late waits before it tries again.

use std::time::Duration;

use uuid::Uuid;

/// How often it is tried again.
const TRIES: u32 = 20;
const FIRST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(200);

/// Growing pauses, each with a part of chance, so that writers who met once do not meet again.
#[doc(hidden)]
pub fn pauses() -> impl Iterator<Item = Duration> {
    (0..TRIES).map(|tried| {
        let longest = FIRST.saturating_mul(1 << tried.min(16)).min(LONGEST);
        longest.mul_f64(chance())
    })
}

/// From 0 to 1. The ids of UUIDs' version 4 are random, and at hand.
fn chance() -> f64 {
    let random = Uuid::new_v4().as_u64_pair().1 as u32;
    f64::from(random) / f64::from(u32::MAX)
}
