//! Builds the conversation that one agent's model sees. The rules for the events, their wording and their order are
//! ADK's.
//!
//! Events are shared until the last step, which builds each content once. Every step visits each event a fixed number
//! of times.

mod calls;
mod compaction;
mod current_turn;
mod entry;
mod late_responses;
mod pairs;
mod quote;
mod rewinds;
mod summaries;
mod transcripts;
mod visible;

use std::sync::Arc;

use super::InvocationContext;
use super::llm_agent::IncludeContents;
use scratchbook_core::content::Content;
use scratchbook_core::event::Event;

pub(super) use compaction::{compacted, covered};
pub(super) use pairs::CallKey;
pub(crate) use rewinds::live_backward;
pub(super) use summaries::{CoveringSummary, is_original, summaries, time_key};
pub(crate) use summaries::{covered_from_the_beginning, ends_at_time_of};

use calls::{author_of_calls, call_ids};
use visible::Viewer;

/// The prefix of ids that this crate has generated. Models that do not match responses by id do not receive these ids.
pub(super) const CLIENT_ID_PREFIX: &str = "adk-";

/// How a conversation is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct HistoryOptions {
    pub(super) include: IncludeContents,
    /// Whether ids that this crate has generated are sent as well.
    pub(super) client_ids: bool,
}

/// Returns the contents of an agent's next request.
pub(super) fn contents(context: &InvocationContext, options: HistoryOptions) -> Vec<Content> {
    let session = context.session();
    let mut live: Vec<&Arc<Event>> = live_backward(session.events()).collect();
    live.reverse();
    let calls = call_ids(&live);
    let viewer =
        Viewer { agent: context.agent_name(), branch: context.branch(), node: context.node_path(), calls: &calls };
    let from = match options.include {
        IncludeContents::Default => 0,
        IncludeContents::None => current_turn::begins_at(&live, &viewer),
    };
    let calls = call_ids(&live[from..]);
    let viewer = Viewer { calls: &calls, ..viewer };
    let events = compacted(&live, from, viewer.agent, |event| viewer.sees(event));
    let events = transcripts::as_contents(events);
    let authors = author_of_calls(&events);
    let entries = events.iter().filter_map(|event| quote::entry(event, &viewer, &authors)).collect();
    let entries = pairs::without_orphaned_responses(entries);
    let entries = late_responses::beside_their_calls(entries);
    let entries = pairs::responses_after_calls(entries);
    let entries = pairs::without_orphaned_calls(entries);
    entries.into_iter().map(|entry| entry.into_content(options.client_ids)).collect()
}
