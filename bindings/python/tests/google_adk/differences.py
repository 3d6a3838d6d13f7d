"""google-adk's tests that fail with our service in place of its `InMemorySessionService`, and why that is right."""

# The tests of `_OWN_OBJECTS` compare the calls in a run's events with a helper that clears the ids in those events. The
# in-memory service keeps the same objects, so the ids are gone from its history too. Then the test's next message, an
# answer without an id, finds "its" call. google-adk's SqliteSessionService fails here in the same way.
_OWN_OBJECTS = "counts on the store holding the very objects that a run gives out, and changes them there"
_OWN_ATTRIBUTE = "looks into `InMemorySessionService.sessions`"
_REPEATED_ID = "appends another event under an id that is there: refused, unless `keep_repeated_ids` is asked for"

DIFFERENCES = {
    f"tests/unittests/{name}": why
    for why, names in {
        _OWN_OBJECTS: [
            "flows/llm_flows/test_functions_long_running.py::test_async_function",
            "flows/llm_flows/test_functions_long_running.py::test_async_function_with_none_response",
        ],
        _OWN_ATTRIBUTE: [
            "cli/test_trigger_routes.py::TestTriggerEventarc::test_eventarc_source_user_id_is_path_safe",
            "cli/test_trigger_routes.py::TestTriggerPubSub::test_subscription_user_id_is_path_safe",
            "cli/test_trigger_routes.py::TestTriggerPubSub::test_unknown_app_fails_early",
            "sessions/test_session_service.py::test_append_event_when_session_is_same_ref_as_storage_session",
        ],
        _REPEATED_ID: ["sessions/test_session_service.py::test_append_different_events_not_deduplicated[in_memory]"],
    }.items()
    for name in names
}

KEEPING = {name for name, why in DIFFERENCES.items() if why == _REPEATED_ID}
"""The tests in `DIFFERENCES` that pass with `keep_repeated_ids`."""
