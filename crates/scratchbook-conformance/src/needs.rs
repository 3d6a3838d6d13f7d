//! The capabilities that promises need.

use scratchbook_core::session::Capability::{self, *};

/// The promises of a theme; an empty list means all of them.
type Promises = (&'static str, &'static [&'static str]);

const NEEDS: &[(Capability, &[Promises])] = &[
    (
        Numbers,
        &[
            ("read", &["the_last_n_since_a_time_are_exact_on_any_clock", "every_part_knows_where_the_session_stands"]),
            ("list", &["listed_sessions_hold_state_and_no_events"]),
            ("append", &["an_append_commits_event_state_time_and_number"]),
            (
                "session",
                &[
                    "a_copy_moves_by_its_own_events",
                    "refresh_reads_what_is_new",
                    "what_others_committed_shows_as_a_gap",
                    "a_retry_moves_the_copy_once",
                    "a_retry_moves_no_copy_that_has_seen_it",
                    "a_late_retry_takes_nothing_back",
                    "a_part_moves_like_the_whole",
                ],
            ),
            ("races", &["appends_racing_a_delete_leave_no_orphan", "a_dropped_append_is_whole_or_nothing"]),
        ],
    ),
    (
        Replays,
        &[
            (
                "retry",
                &["the_same_event_is_stored_once", "a_retry_without_a_time_is_known", "temp_keys_make_no_difference"],
            ),
            ("races", &["racing_retries_are_stored_once"]),
            ("handles", &["a_deadline_that_is_missed_is_unavailable"]),
        ],
    ),
    (Operations, &[("operations", &[])]),
    (Conflicts, &[("conflicts", &[])]),
    (Checks, &[("checks", &[])]),
    (
        SharedState,
        &[
            ("scopes", &["keys_have_at_most_1024_bytes", "temp_keys_leave_no_trace"]),
            ("delete", &["a_deleted_session_is_gone_and_shared_state_stays"]),
            ("values", &["put_values_come_back"]),
            ("limits", &["state_is_read_whole_up_to_32_mib"]),
            ("state", &[]),
            ("log", &[]),
            (
                "concurrency",
                &["many_writers_on_one_users_keys_lose_nothing", "many_writers_on_one_apps_keys_lose_nothing"],
            ),
            ("handles", &["a_deadline_that_is_met_changes_nothing"]),
        ],
    ),
    (
        History,
        &[
            ("create", &["the_state_at_creation_stays_readable"]),
            ("titles", &["a_fork_takes_title_and_labels_over"]),
            ("time", &[]),
            ("fork", &[]),
            ("hashes", &[]),
            ("proof", &[]),
            ("rewind", &[]),
            ("sizes", &["a_fork_stores_what_it_has_taken_over"]),
        ],
    ),
    (
        Feed,
        &[
            ("titles", &["an_update_is_no_event"]),
            ("fork", &["a_fork_that_goes_takes_nothing_with_it"]),
            ("retention", &["a_feed_goes_on_over_what_was_pruned"]),
            ("feed", &[]),
            ("watch", &[]),
            ("watches", &[]),
        ],
    ),
    (EventHashes, &[("hashes", &[])]),
    (Removals, &[("removals", &[])]),
    (
        Retention,
        &[
            ("removals", &[]),
            ("locate", &["a_session_that_is_written_to_is_found", "an_expired_session_is_not_found_by_its_id"]),
            ("titles", &["an_update_of_a_missing_session_is_not_found", "pruning_leaves_title_and_labels"]),
            (
                "retention",
                &[
                    "an_expired_session_is_not_there",
                    "an_expired_sessions_id_is_free",
                    "expired_sessions_are_deleted_in_steps",
                    "pruning_keeps_the_state_and_the_rest",
                    "a_session_without_its_events_goes_on",
                    "pruning_a_log_keeps_its_fold",
                    "a_feed_goes_on_over_what_was_pruned",
                    "what_comes_after_a_pruned_log_is_known",
                    "artifacts_expire_with_their_session",
                ],
            ),
            ("sizes", &["what_is_pruned_is_not_stored_any_more"]),
            ("hashes", &["pruning_leaves_the_hashes_of_the_rest"]),
            ("watches", &["a_watch_that_lags_behind_a_prune_ends_no_other"]),
        ],
    ),
    (
        Owners,
        &[
            ("list", &["owners_are_listed_in_byte_order", "pages_hold_every_owner_once"]),
            ("locate", &["a_deleted_session_is_not_found_by_its_id"]),
            (
                "delete",
                &[
                    "an_erased_user_is_gone_wholly",
                    "erasing_a_user_touches_no_other",
                    "an_erased_users_app_writes_stay_without_the_name",
                    "an_erased_user_is_no_author_in_the_apps_log",
                ],
            ),
        ],
    ),
    (Artifacts, &[("artifacts", &[])]),
    (Limits, &[("limits", &[])]),
    (
        WholeCreation,
        &[
            ("hashes", &["every_event_is_listed_with_the_hash_of_its_stored_text"]),
            ("scopes", &["temp_keys_leave_no_trace"]),
            (
                "create",
                &[
                    "a_taken_id_is_refused_and_nothing_changes",
                    "events_at_creation_are_committed_with_it",
                    "events_at_creation_are_completed",
                    "a_session_may_have_been_made_earlier",
                    "one_bad_event_and_nothing_is_created",
                    "events_from_elsewhere_leave_the_keys_of_user_and_app",
                ],
            ),
            (
                "locate",
                &["an_id_unique_in_its_app_is_made_once", "racing_creates_of_an_id_unique_in_its_app_have_one_winner"],
            ),
            (
                "titles",
                &[
                    "a_session_is_made_with_all_of_it_or_not_at_all",
                    "sessions_are_found_by_their_labels",
                    "pages_hold_every_wanted_session_once",
                    "a_page_looks_at_a_thousand_sessions",
                    "the_newest_may_come_first",
                ],
            ),
        ],
    ),
    (
        TitleSearch,
        &[("titles", &["sessions_are_found_by_a_part_of_their_title", "what_is_found_is_live_and_ones_own"])],
    ),
    (
        AnyIds,
        &[
            (
                "ids",
                &[
                    "a_session_is_addressed_by_app_user_and_id",
                    "session_ids_are_compared_byte_by_byte",
                    "apps_and_users_are_compared_byte_by_byte",
                    "an_app_name_may_be_empty",
                    "ids_have_at_most_512_bytes",
                ],
            ),
            (
                "locate",
                &[
                    "a_session_is_found_by_its_id",
                    "an_id_of_another_app_is_not_found",
                    "an_id_of_several_users_is_refused",
                    "an_id_is_looked_for_as_it_was_made",
                ],
            ),
            ("errors", &["a_taken_session_is_named", "a_missing_session_is_named"]),
        ],
    ),
    (
        Snapshots,
        &[
            ("titles", &["updates_side_by_side_are_all_done"]),
            ("updates", &[]),
            ("concurrency", &["readers_never_see_half_a_commit"]),
            ("races", &["lives_of_one_id_do_not_mix"]),
        ],
    ),
    (PageBytes, &[("pages", &[])]),
    (ExactIntegers, &[("values", &["integers_come_back_exactly"]), ("events", &["events_come_back_whole"])]),
    (AnyEvents, &[("append", &["timestamps_are_kept_bit_for_bit"]), ("events", &["small_events_come_back"])]),
];

/// Returns the capabilities that a promise of a theme needs.
pub(super) fn needed(theme: &str, promise: &str) -> Vec<Capability> {
    let is_it = |(of, promises): &Promises| *of == theme && (promises.is_empty() || promises.contains(&promise));
    NEEDS.iter().filter(|(_, promises)| promises.iter().any(is_it)).map(|(capability, _)| *capability).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PROMISES;

    #[test]
    fn what_needs_a_capability_is_a_promise() {
        for (capability, promises) in NEEDS {
            assert!(!promises.is_empty());
            for (theme, names) in *promises {
                assert!(PROMISES.iter().any(|promise| promise.theme == *theme), "{capability:?}: no theme '{theme}'");
                for name in *names {
                    let is_there = PROMISES.iter().any(|promise| promise.theme == *theme && promise.name == *name);
                    assert!(is_there, "{capability:?}: no promise '{theme}::{name}'");
                }
            }
        }
    }

    #[test]
    fn every_capability_is_needed_by_promises() {
        assert!(Capability::ALL.iter().all(|capability| NEEDS.iter().any(|(needed, _)| needed == capability)));
    }

    #[test]
    fn most_of_what_a_store_is_for_needs_none() {
        let kept = PROMISES.iter().filter(|promise| promise.needs().is_empty()).count();
        assert!(kept >= 60, "{kept} of {}", PROMISES.len());
    }
}
