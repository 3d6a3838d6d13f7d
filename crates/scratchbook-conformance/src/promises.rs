//! The list of promises, and the macros that turn it into tests.

use super::needs::needed;
use scratchbook_core::session::Capability;
use scratchbook_core::store::Store;

/// Passes every promise of the suite, by theme, to a macro of your own.
///
/// The macro is called once, as `your_macro! { {ARGS} theme { promise ... } ... }`. To get one test for each promise,
/// use [`conformance_tests!`](crate::conformance_tests).
#[macro_export]
macro_rules! for_each_promise {
    ($callback:path, $($args:tt)*) => {
        $callback! {
            {$($args)*}
            scopes {
                a_prefix_is_a_scope
                no_key_crosses_an_app
                other_prefixes_are_session_keys
                one_prefix_is_stripped
                an_empty_name_is_a_name
                keys_are_compared_byte_by_byte
                keys_have_at_most_1024_bytes
                keys_hold_no_nul
                temp_keys_leave_no_trace
            }
            ids {
                a_session_is_addressed_by_app_user_and_id
                session_ids_are_compared_byte_by_byte
                apps_and_users_are_compared_byte_by_byte
                an_app_name_may_be_empty
                ids_have_at_most_512_bytes
                ids_hold_no_control_characters
                ids_that_no_url_can_name_are_not_created
                session_ids_are_trimmed
                an_empty_session_id_means_make_one
            }
            values {
                every_json_value_comes_back
                integers_come_back_exactly
                floats_come_back_bit_for_bit
                floats_stay_floats
                strings_are_kept_exactly
                large_strings_are_kept_exactly
                objects_keep_the_order_of_their_keys
                keys_of_a_state_come_by_name_and_those_of_a_delta_as_they_were_set
                values_are_nested_at_most_100_levels_deep
                a_delta_may_have_thousands_of_keys
                null_is_a_value
                a_removed_key_is_gone
                a_removal_is_a_string_on_the_wire
                the_removal_string_cannot_be_set
                a_map_replaces_the_old_one_whole
                put_values_come_back
            }
            create {
                a_created_session_is_given_back_as_it_is_read
                sessions_created_together_are_given_back_as_they_are_read
                creation_splits_its_state_by_prefix
                state_at_creation_may_be_absent
                state_at_creation_is_an_object
                a_taken_id_is_refused_and_nothing_changes
                events_at_creation_are_committed_with_it
                events_at_creation_are_completed
                the_state_at_creation_stays_readable
                a_session_may_have_been_made_earlier
                one_bad_event_and_nothing_is_created
                events_from_elsewhere_leave_the_keys_of_user_and_app
            }
            read {
                a_missing_session_is_none
                merged_state_is_live
                a_read_session_is_a_snapshot
                all_events_are_read_by_default
                recent_events_are_the_last_by_number
                after_timestamp_is_inclusive
                negative_zero_is_a_time_like_zero
                after_timestamp_comes_before_the_last_n
                the_last_n_since_a_time_are_exact_on_any_clock
                a_cursor_reads_forwards
                a_cursor_reads_backwards
                the_state_can_be_read_alone
                some_keys_can_be_read_alone
                every_part_knows_where_the_session_stands
                options_that_mean_nothing_are_refused
            }
            list {
                sessions_are_listed_by_app_and_by_user
                the_oldest_update_comes_first
                equal_times_have_an_order
                pages_hold_every_session_once
                a_page_token_outlives_its_session
                a_page_has_1_to_1000_sessions
                a_bad_page_token_is_refused
                listed_sessions_hold_state_and_no_events
                owners_are_listed_in_byte_order
                pages_hold_every_owner_once
            }
            pages {
                a_list_of_sessions_ends_by_its_bytes
                the_state_that_sessions_share_takes_no_room_of_a_list
                events_end_by_their_bytes
                shared_state_ends_by_its_bytes
                a_log_ends_by_its_bytes
            }
            locate {
                a_session_is_found_by_its_id
                a_session_that_is_written_to_is_found
                an_id_of_another_app_is_not_found
                an_id_of_several_users_is_refused
                an_expired_session_is_not_found_by_its_id
                a_deleted_session_is_not_found_by_its_id
                an_id_is_looked_for_as_it_was_made
                an_id_unique_in_its_app_is_made_once
                racing_creates_of_an_id_unique_in_its_app_have_one_winner
                creates_of_several_unique_ids_all_succeed
            }
            titles {
                titles_and_labels_come_back_as_they_were_given
                a_session_is_made_with_all_of_it_or_not_at_all
                an_update_changes_what_it_names
                an_update_is_no_event
                updates_side_by_side_are_all_done
                an_update_of_a_missing_session_is_not_found
                a_fork_takes_title_and_labels_over
                pruning_leaves_title_and_labels
                titles_and_labels_have_limits
                sessions_are_found_by_a_part_of_their_title
                sessions_are_found_by_their_labels
                what_is_found_is_live_and_ones_own
                pages_hold_every_wanted_session_once
                a_page_looks_at_a_thousand_sessions
                the_newest_may_come_first
                a_refresh_shows_the_title
            }
            updates {
                one_update_changes_title_labels_and_expiry
                an_append_commits_its_update_with_its_event
                an_append_commits_its_update_with_its_event_or_neither
                a_retried_append_updates_its_session_once
                an_append_may_end_its_session
                a_partial_event_updates_nothing
                appends_with_updates_side_by_side_are_all_done
            }
            append {
                an_append_commits_event_state_time_and_number
                numbers_have_no_gaps
                no_clock_orders_events
                an_event_gets_an_id_and_a_time
                timestamps_are_kept_bit_for_bit
                bad_timestamps_are_refused
                the_update_time_is_the_last_events
                other_sessions_do_not_move_the_update_time
                partial_events_are_not_stored
                appending_to_a_missing_session_is_not_found
            }
            session {
                a_copy_moves_by_its_own_events
                refresh_reads_what_is_new
                refresh_shows_a_session_made_anew
                temp_keys_are_seen_in_the_copy_alone
                what_others_committed_shows_as_a_gap
                stale_copies_merge_key_by_key
                an_error_leaves_the_copy_unchanged
                a_partial_event_moves_no_copy
                a_retry_moves_the_copy_once
                a_retry_moves_no_copy_that_has_seen_it
                a_late_retry_takes_nothing_back
                a_part_moves_like_the_whole
            }
            retry {
                the_same_event_is_stored_once
                a_retry_without_a_time_is_known
                temp_keys_make_no_difference
                another_event_of_the_same_id_is_refused
                event_ids_are_a_sessions_own
                event_ids_are_compared_byte_by_byte
                a_deleted_sessions_event_ids_are_free
            }
            events {
                events_come_back_whole
                an_optional_null_is_absent
                unknown_fields_are_kept
                small_events_come_back
                large_events_come_back
                numbers_without_json_are_refused
                events_too_deep_are_refused
            }
            delete {
                a_deleted_session_is_gone_and_shared_state_stays
                deleting_a_missing_session_is_silent
                a_session_made_again_begins_empty
                an_erased_user_is_gone_wholly
                erasing_a_user_touches_no_other
                an_erased_users_app_writes_stay_without_the_name
                an_erased_user_is_no_author_in_the_apps_log
            }
            state {
                shared_state_is_read_without_prefixes
                put_state_reaches_every_session
                put_state_takes_names_without_prefix
                a_bad_put_writes_nothing
                events_and_puts_write_the_same_keys
            }
            log {
                state_is_the_fold_of_its_log
                versions_count_up
                the_log_says_who_wrote
                a_put_may_have_been_made_earlier
                positions_rise
                pages_of_the_log_hold_every_change_once
                logs_are_apart
            }
            operations {
                increments_of_integers_are_exact
                a_float_makes_a_float
                a_sum_that_does_not_fit_is_refused
                appends_end_a_list
                merges_follow_rfc_7386
                set_if_absent_leaves_what_is_there
                guards_refuse_the_whole_commit
                every_failed_guard_is_named
                operations_follow_one_another
                stored_events_hold_values_alone
                operations_see_what_others_committed
                operations_on_other_kinds_are_refused
                operations_count_once_on_a_retry
                put_state_carries_operations_out
                operations_at_creation_are_carried_out_in_order
                temp_operations_live_in_the_copy_alone
                bad_operands_are_refused
                operations_of_many_writers_all_count
            }
            conflicts {
                a_key_written_since_is_refused
                other_keys_do_not_matter
                own_writes_are_no_conflict
                a_merging_append_hides_nothing
                by_session_any_event_refuses
                a_conflict_tells_who_was_faster
                a_failed_guard_tells_who_wrote
                a_conflict_changes_nothing
                a_retry_is_no_conflict
                what_was_seen_can_be_said_without_a_copy
                a_session_made_anew_is_a_conflict
                a_session_made_anew_is_another_whatever_it_holds
                racing_appends_have_one_winner
                retrying_by_key_loses_nothing
            }
            time {
                the_state_at_an_event_is_what_was_shown_then
                the_state_at_an_event_of_a_long_session
                the_state_at_an_event_that_is_not_there_is_not_found
                the_state_at_the_last_event_is_the_state
                a_session_made_again_has_no_earlier_states
                blame_names_the_writer_of_each_key
                the_changes_of_one_key_are_listed
                shared_state_is_listed_in_pages
            }
            fork {
                a_fork_begins_with_events_and_state_up_to_one
                a_fork_goes_its_own_way
                retries_of_events_that_a_fork_has_taken_over_are_known
                a_fork_has_a_past
                artifacts_come_along_with_a_fork
                a_fork_that_cannot_be_is_refused
                a_fork_that_goes_takes_nothing_with_it
            }
            feed {
                a_page_that_ends_within_a_commit_goes_on_there
                a_feed_has_every_commit_once
                creations_at_once_are_each_in_the_feed_once
                a_feed_goes_on_after_any_entry
                a_feed_can_begin_now
                a_fork_is_told_once
                a_foreign_cursor_is_refused
                a_feed_read_while_many_write_has_no_gap
                commits_are_heard_of
            }
            removals {
                what_is_removed_is_in_the_feed
                a_session_made_again_comes_after_the_removal_of_the_first
                an_erased_user_leaves_one_entry
                what_was_not_removed_is_no_entry
                a_user_who_is_erased_twice_at_once_is_counted_once
                a_feed_is_followed_to_an_exact_copy
                a_feed_of_many_writers_is_followed_to_an_exact_copy
            }
            hashes {
                every_event_is_listed_with_the_hash_of_its_stored_text
                a_retry_leaves_the_hashes
                a_fork_keeps_the_hashes_of_its_events
                pruning_leaves_the_hashes_of_the_rest
            }
            proof {
                what_is_shown_verifies
                what_moves_verifies
                a_diff_has_what_changed
                a_history_has_each_write
                a_history_at_an_event_ends_there
                what_was_let_go_verifies
            }
            rewind {
                a_rewind_brings_the_sessions_keys_back
                a_rewind_brings_artifacts_back
                a_rewind_that_cannot_be_is_refused
                a_rewind_beside_writers_is_whole
                a_rewind_goes_by_the_events_that_are_left
            }
            watch {
                a_session_is_followed
                a_key_prefix_is_followed
                what_is_watched_is_listed_by_pages
                a_watcher_that_comes_back_misses_nothing
                a_watcher_of_a_session_that_comes_back_misses_nothing
                a_cursor_that_leads_nowhere_is_refused
                a_watch_that_gave_nothing_has_lost_nothing
            }
            watches {
                who_reads_together_misses_nothing
                each_of_those_who_read_together_has_its_own_prefix
                a_watch_that_lags_behind_a_prune_ends_no_other
            }
            retention {
                a_session_knows_when_it_expires
                an_expired_session_is_not_there
                an_expired_sessions_id_is_free
                expired_sessions_are_deleted_in_steps
                pruning_keeps_the_state_and_the_rest
                a_session_without_its_events_goes_on
                pruning_a_log_keeps_its_fold
                a_feed_goes_on_over_what_was_pruned
                what_comes_after_a_pruned_log_is_known
                artifacts_expire_with_their_session
            }
            limits {
                a_value_may_have_4_mib
                a_delta_may_have_8_mib
                an_event_may_have_16_mib
                an_artifact_may_have_16_mib
                an_artifacts_metadata_may_have_64_kib
                state_is_read_whole_up_to_32_mib
                a_session_may_have_10000_keys
                a_user_and_an_app_may_have_10000_keys
                outcomes_of_operations_are_limited
                a_refusal_harms_no_other_append
                racing_writers_stop_at_the_limit
            }
            sizes {
                what_is_stored_of_a_session_is_told
                a_fork_stores_what_it_has_taken_over
                what_is_pruned_is_not_stored_any_more
            }
            checks {
                outcomes_of_operations_are_checked
                a_scope_is_shown_whole
                other_scopes_are_not_checked
                a_retry_is_not_checked_again
                creations_are_checked
                put_state_is_checked
                a_conflict_comes_before_a_check
                racing_writes_are_checked_one_after_the_other
            }
            concurrency {
                many_writers_on_one_session_lose_nothing
                many_writers_on_one_users_keys_lose_nothing
                many_writers_on_one_apps_keys_lose_nothing
                readers_never_see_half_a_commit
                writers_apart_stay_apart
            }
            races {
                racing_creates_have_one_winner
                creations_at_once_are_each_whole
                racing_retries_are_stored_once
                racing_events_of_one_id_have_one_winner
                appends_racing_a_delete_leave_no_orphan
                lives_of_one_id_do_not_mix
                a_dropped_append_is_whole_or_nothing
            }
            artifacts {
                versions_count_from_0_and_stay
                artifacts_are_not_nested_too_deep
                unknown_fields_of_artifacts_are_kept
                artifacts_come_back_as_they_were
                names_are_listed_in_byte_order
                user_names_are_shared_by_the_users_sessions
                versions_are_described
                a_deleted_artifact_is_gone
                artifacts_go_with_their_session
                bad_names_are_refused
                a_part_without_data_is_refused
                racing_saves_get_a_version_each
            }
            errors {
                check_whether_writes_work_changes_nothing_that_is_read
                a_taken_session_is_named
                a_missing_session_is_named
                a_taken_event_is_named
                a_bad_timestamp_is_shown
                a_bad_key_is_shown
                a_bad_id_is_shown
                a_bad_values_key_is_named
                a_bad_page_size_is_shown
                no_message_shows_a_value
            }
            handles {
                a_deadline_that_is_met_changes_nothing
                a_deadline_that_is_missed_is_unavailable
                handles_share_the_store
            }
            capabilities {
                what_a_store_lacks_is_refused
            }
            closing {
                closing_finishes_what_was_accepted
                a_closed_service_refuses_every_call
            }
        }
    };
}

/// Creates a module with one test for every promise, each on a store of its own.
///
/// The first argument is the name of the module. The second is an `async fn()` that opens a fresh store and returns it
/// with a guard that is dropped after the test: `()`, or the temporary folder of the store. The tests run on `tokio`,
/// which has to be a dev-dependency with the features `macros` and `rt-multi-thread`.
///
/// ```
/// use scratchbook::{InMemorySessionService, Store};
/// use std::sync::Arc;
///
/// async fn memory() -> (Store, ()) {
///     (Store::new(Arc::new(InMemorySessionService::new())), ())
/// }
///
/// scratchbook::conformance::conformance_tests!(memory_keeps_every_promise, crate::memory);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! conformance_tests {
    ($module:ident, $open:path) => {
        mod $module {
            $crate::for_each_promise!($crate::__conformance_tests, $open);
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ({$open:path} $($theme:ident { $($promise:ident)* })*) => {
        $(mod $theme {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $promise() {
                let (store, _guard) = $open().await;
                $crate::Promise::check(stringify!($theme), stringify!($promise), &store).await;
            })*
        })*
    };
}

/// One promise of the suite.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Promise {
    /// The theme, which is the module of the promise's function.
    pub theme: &'static str,
    /// The name of the promise's function.
    pub name: &'static str,
    /// Runs the function, which panics if the promise is broken.
    pub run: fn(Store) -> futures_util::future::BoxFuture<'static, ()>,
}

impl Promise {
    /// Returns the capabilities that a store has to have for this promise, beyond keeping sessions, events and the
    /// state in them.
    #[must_use]
    pub fn needs(&self) -> Vec<Capability> {
        needed(self.theme, self.name)
    }

    /// Returns whether a store has the capabilities that this promise needs.
    #[must_use]
    pub fn is_expected_of(&self, store: &Store) -> bool {
        let capabilities = store.sessions.capabilities();
        self.needs().into_iter().all(|needed| capabilities.has(needed))
    }

    /// Checks the promise of this name, if it is expected of a store.
    #[doc(hidden)]
    pub async fn check(theme: &str, name: &str, store: &Store) {
        let mut named = PROMISES.iter().filter(|promise| promise.theme == theme && promise.name == name);
        if let Some(promise) = named.find(|promise| promise.is_expected_of(store)) {
            (promise.run)(store.clone()).await;
        }
    }
}

macro_rules! table {
    ({} $($theme:ident { $($promise:ident)* })*) => {
        /// Every promise; those that close the store come last.
        pub const PROMISES: &[Promise] = &[$($(Promise {
            theme: stringify!($theme),
            name: stringify!($promise),
            run: |store| Box::pin(async move { super::$theme::$promise(&store).await }),
        },)*)*];
    };
}

crate::for_each_promise!(table,);
