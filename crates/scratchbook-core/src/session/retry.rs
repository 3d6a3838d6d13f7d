//! Delays between the attempts of a writer that was refused because of a concurrent write.

use std::time::Duration;

use uuid::Uuid;

/// The maximum number of retries.
const TRIES: u32 = 20;
const FIRST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(200);

/// Returns growing delays with a random part, so that writers that collided once do not collide again.
#[doc(hidden)]
pub fn pauses() -> impl Iterator<Item = Duration> {
    (0..TRIES).map(|tried| {
        let longest = FIRST.saturating_mul(1 << tried.min(16)).min(LONGEST);
        longest.mul_f64(chance())
    })
}

/// Returns a random number from 0 to 1, taken from a version 4 UUID, which is random.
fn chance() -> f64 {
    let random = Uuid::new_v4().as_u64_pair().1 as u32;
    f64::from(random) / f64::from(u32::MAX)
}
