//! What was overwritten in the log of a user's or an app's state.

use std::collections::HashSet;

use scratchbook::StateOwner;

use super::{Run, STEP};
use crate::args::Moment;
use crate::database::Database;
use crate::failure::Failure;

/// Prunes a log, step by step; says how many changes went, or would go.
pub(super) async fn prune(database: &Database, owner: &StateOwner, before: Moment, run: Run) -> Result<u64, Failure> {
    let (mut after, mut changes, mut names) = (0, 0, HashSet::new());
    // Where the changes that stay begin.
    let mut end = None;
    while end.is_none() {
        let page = database.sessions.list_state_changes(owner, after, STEP).await?;
        let Some(last) = page.last() else { break };
        after = last.position;
        for change in page {
            if change.time >= before.seconds() {
                end = Some(change.position);
                break;
            }
            changes += 1;
            names.insert(change.name);
        }
    }
    let overwritten = changes - names.len() as u64;
    // Even a pruning that finds nothing ends the view of earlier states.
    if overwritten == 0 || run == Run::Dry {
        return Ok(overwritten);
    }
    let (end, mut gone) = (end.unwrap_or(after + 1), 0);
    loop {
        let pruned = database.sessions.prune_state_log(owner, end, STEP).await?;
        gone += pruned;
        if pruned < STEP as u64 {
            return Ok(gone);
        }
    }
}
