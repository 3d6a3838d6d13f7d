//! Prunes overwritten changes in the state log of a user or an app.

use std::collections::HashSet;

use scratchbook::session::{ChangeQuery, Prune, StateOwner};

use super::{PruneMode, STEP};
use crate::args::PointInTime;
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;

/// Prunes a log in steps, and returns how many changes were pruned, or would be in a dry run.
pub(super) async fn prune(
    database: &OpenDatabase,
    owner: &StateOwner,
    before: PointInTime,
    mode: PruneMode,
) -> Result<u64, CommandFailure> {
    let (mut after, mut changes, mut names) = (0, 0, HashSet::new());
    // The position of the first change that stays.
    let mut end = None;
    while end.is_none() {
        let page = database.sessions.list_state_changes(owner, &ChangeQuery::After(after), STEP).await?;
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
    // A prune ends access to earlier states even if it deletes nothing, so it is skipped.
    if overwritten == 0 || mode == PruneMode::Dry {
        return Ok(overwritten);
    }
    let (end, mut gone) = (end.unwrap_or(after + 1), 0);
    loop {
        let pruned = database.sessions.prune(Prune::state_log(owner, end), STEP).await?;
        gone += pruned;
        if pruned < STEP as u64 {
            return Ok(gone);
        }
    }
}
