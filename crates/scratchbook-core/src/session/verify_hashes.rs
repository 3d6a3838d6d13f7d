//! Verification of a session's running hash: whether its events are those that were stored.

use super::verify::moved;
use super::{Capability, EventHash, EventHashes, RunningHash, SessionKey, SessionService};
use crate::error::{Error, ErrorKind, Result};

/// How many events are read at a time.
const PAGE: usize = 1_000;

/// The result of verifying the running hash of a session.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HashedEvents {
    /// The running hash up to the last event that has one.
    pub(super) running: Option<RunningHash>,
    /// How many events have no running hash.
    pub(super) unhashed: u64,
    /// The number of the event up to which the running hash equals the noted one.
    pub(super) noted: Option<u64>,
}

/// Verifies the events up to a number and, if a hash was noted, that one of the running hashes equals it. A store
/// without running hashes has nothing to verify.
pub(super) async fn verify<S: SessionService + ?Sized>(
    service: &S,
    key: &SessionKey,
    last: u64,
    noted: Option<&RunningHash>,
) -> Result<HashedEvents> {
    if !service.capabilities().has(Capability::RunningHash) && noted.is_none() {
        return Ok(HashedEvents::default());
    }
    let first = service.list_event_hashes(key, 0, PAGE).await?.ok_or_else(|| moved(key))?;
    let mut chain = Chain::begin(key, noted, &first);
    let mut page = first;
    loop {
        chain.take_page(&page, last)?;
        if page.events.is_empty() || chain.seq >= last {
            break;
        }
        page = service.list_event_hashes(key, chain.seq, PAGE).await?.ok_or_else(|| moved(key))?;
    }
    chain.end(&page, last)
}

/// The running hash, computed again up to an event.
struct Chain<'a> {
    key: &'a SessionKey,
    sought: Option<&'a RunningHash>,
    /// The number of the last pruned event, and of the last event that had a running hash when the verification began.
    base: u64,
    hashed: u64,
    /// The last event, and the running hash up to the last event that has one, with that event's number.
    seq: u64,
    running: Option<RunningHash>,
    running_at: u64,
    unhashed: u64,
    noted: Option<u64>,
}

impl<'a> Chain<'a> {
    fn begin(key: &'a SessionKey, sought: Option<&'a RunningHash>, page: &EventHashes) -> Self {
        let (base, hashed) = (page.base, page.hashed);
        let noted = page.start.filter(|start| Some(start) == sought).map(|_| base);
        Self { key, sought, base, hashed, seq: base, running: page.start, running_at: base, unhashed: 0, noted }
    }

    fn take_page(&mut self, page: &EventHashes, last: u64) -> Result<()> {
        let was_pruned = page.base != self.base || page.hashed < self.hashed;
        // The events that had no running hash may have one by now.
        let was_filled = self.seq > self.hashed && page.hashed != self.hashed;
        if was_pruned || was_filled {
            return Err(moved(self.key));
        }
        for event in page.events.iter().take_while(|event| event.seq <= last) {
            if event.seq != self.seq + 1 {
                return Err(wrong(self.key, self.seq + 1, "is missing"));
            }
            self.seq += 1;
            self.take(event, page.hashed)?;
        }
        Ok(())
    }

    fn take(&mut self, event: &EventHash, hashed: u64) -> Result<()> {
        let (key, seq) = (self.key, self.seq);
        match (event.running, self.running) {
            (None, _) if seq <= hashed => Err(wrong(key, seq, "has lost its running hash, or was inserted")),
            (None, _) => {
                self.unhashed += 1;
                Ok(())
            }
            (Some(_), _) if seq > hashed => Err(wrong(
                key,
                seq,
                &format!("has a running hash, and the session says that only {hashed} events have one"),
            )),
            (Some(found), Some(before)) if before.next(seq, &event.sent, &event.text) != found => {
                let what = "is not the one that was stored: its running hash does not fit. It was changed, or it was \
                            inserted, or events before it were removed";
                Err(wrong(key, seq, what))
            }
            (Some(found), before) => {
                // Without the running hash before it, this event itself cannot be verified.
                self.unhashed += u64::from(before.is_none());
                (self.running, self.running_at) = (Some(found), seq);
                if Some(&found) == self.sought {
                    self.noted = Some(seq);
                }
                Ok(())
            }
        }
    }

    fn end(self, page: &EventHashes, last: u64) -> Result<HashedEvents> {
        let key = self.key;
        if self.seq < last {
            return Err(wrong(key, self.seq + 1, "is missing"));
        }
        // If events were appended in the meantime, the row has a later hash.
        if page.last == last
            && page.hashed == self.running_at
            && let (Some(head), Some(running)) = (page.head, self.running)
            && head != running
        {
            let message = format!("the running hash in the row of {key} is not that of its event {}", page.hashed);
            return Err(Error::corrupted(message));
        }
        if let (Some(sought), None) = (self.sought, self.noted) {
            return Err(self.is_other_log(sought));
        }
        Ok(HashedEvents { running: self.running, unhashed: self.unhashed, noted: self.noted })
    }

    fn is_other_log(&self, sought: &RunningHash) -> Error {
        let Self { key, base, unhashed, .. } = self;
        let message =
            format!("the log of {key} does not begin with the noted one: no event has the running hash {sought}");
        if *base == 0 && *unhashed == 0 {
            return Error::corrupted(message);
        }
        let why = match base {
            0 => format!("{unhashed} events have no running hash yet; run 'scratchbook migrate', then verify again"),
            _ => format!("the events up to {base} were pruned, so it may be that of one of them"),
        };
        Error::new(ErrorKind::FailedPrecondition, format!("{message}. However, {why}"))
    }
}

fn wrong(key: &SessionKey, seq: u64, what: &str) -> Error {
    Error::corrupted(format!("the event {seq} of {key} {what}"))
}
