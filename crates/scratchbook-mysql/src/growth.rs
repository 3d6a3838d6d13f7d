//! The limit on the number of keys. The keys are counted only if the procedure reports that a write may exceed the
//! limit.

use super::procedure::ProcedureRow;
use scratchbook_core::plan::growth::Growth;
use scratchbook_core::state::Scope;

/// Returns the numbers of keys that a lock has read, and which of the keys `reads` exist.
pub(super) fn growth<'a>(reads: &[(Scope, &'a str)], answers: &[ProcedureRow]) -> Growth<'a> {
    let mut growth = Growth::default();
    for answer in answers {
        match answer {
            ProcedureRow::Count { scope, keys } => growth.set_count(*scope, keys.unsigned_abs()),
            ProcedureRow::Key { scope, place, name: None, value: Some(_), .. } => {
                let mut names = reads.iter().filter(|(of, _)| of == scope).map(|(_, name)| *name);
                if let Some(name) = names.nth(*place) {
                    growth.set_present(*scope, name);
                }
            }
            _ => {}
        }
    }
    growth
}
