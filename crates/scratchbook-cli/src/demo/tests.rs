//! The demo's checks fail for a store that returns wrong values.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use async_trait::async_trait;
use scratchbook::session::{StateOwner, forward_sessions};
use scratchbook::{GetSessionConfig, InMemorySessionService, Result, Session, SessionKey, SessionService};
use serde_json::{Map, Value, json};

use super::record::{ScenarioRecorder, ScenarioStep};
use super::{play, play_one};
use crate::args::Scenario;
use crate::failure::CommandFailure;
use crate::output::Output;

/// Changes the state of a session as it is read.
type StateRewrite = fn(&SessionKey, &mut Map<String, Value>, &Map<String, Value>);

/// A store that returns wrong state of sessions. It derives this from the right state and the shared keys of Alice's
/// game.
#[derive(Debug)]
struct WrongStore {
    store: InMemorySessionService,
    wrong: StateRewrite,
}

impl WrongStore {
    async fn spoil(&self, session: Session) -> Result<Session> {
        let mut of_alice = Map::new();
        for (prefix, owner) in
            [("user:", StateOwner::user("game_app", "player_alice")?), ("app:", StateOwner::app("game_app")?)]
        {
            let keys = self.store.get_state(&owner).await?;
            of_alice.extend(keys.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value)));
        }
        let mut state = session.state().to_map();
        (self.wrong)(session.key(), &mut state, &of_alice);
        let (key, events) = (session.key().clone(), session.events().clone());
        Ok(Session::new(key, state.into())
            .with_events(events)
            .with_last_update_time(session.last_update_time())
            .with_seq(session.seq()))
    }
}

#[async_trait]
impl SessionService for WrongStore {
    forward_sessions!(self.store =>
        capabilities, create_session, get_initial_state, get_state_at, blame, fork_session, list_state, list_feed,
        commits, update_session, prune, list_sessions, locate_session, delete_session, append, get_state, state_bytes,
        put_state, list_state_changes, list_event_hashes, list_owners, delete_user, check_writable, close);

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        match self.store.get_session(key, config).await? {
            Some(session) => self.spoil(session).await.map(Some),
            None => Ok(None),
        }
    }
}

fn store(wrong: StateRewrite) -> Arc<dyn SessionService> {
    Arc::new(WrongStore { store: InMemorySessionService::new(), wrong })
}

/// Plays a scenario on a wrong store, and returns the failing checks.
async fn failing(scenario: Scenario, wrong: StateRewrite) -> Vec<String> {
    let recorder = Arc::new(ScenarioRecorder::new(&store(wrong)));
    play_one(scenario, &recorder).await.unwrap();
    let what = |step: ScenarioStep| match step {
        ScenarioStep::Check { ref what, .. } if step.is_different() => Some(what.clone()),
        _ => None,
    };
    recorder.take_steps().into_iter().filter_map(what).collect()
}

fn leak_between_users(key: &SessionKey, state: &mut Map<String, Value>, of_alice: &Map<String, Value>) {
    if key.user_id() == "player_bob" {
        let leaked = of_alice.iter().filter(|(key, _)| key.starts_with("user:"));
        state.extend(leaked.map(|(key, value)| (key.clone(), value.clone())));
    }
}

fn leak_between_apps(key: &SessionKey, state: &mut Map<String, Value>, of_alice: &Map<String, Value>) {
    if key.app_name() == "tournament_app" {
        state.extend(of_alice.clone());
    }
}

#[tokio::test]
async fn a_right_store_passes() {
    for scenario in Scenario::ALL {
        assert_eq!(failing(scenario, |_, _, _| ()).await, [""; 0]);
    }
}

#[tokio::test]
async fn what_leaks_between_users_and_apps_is_found() {
    let failing_users = failing(Scenario::Game, leak_between_users).await;
    for what in ["Bob's wins are not Alice's", "Bob's preference is not Alice's", "Bob's high score"] {
        assert!(failing_users.iter().any(|failed| failed == what), "{what} in {failing_users:?}");
    }
    let failing_apps = failing(Scenario::Game, leak_between_apps).await;
    for what in ["no wins in the tournament", "the tournament's max level", "no leaderboard in the tournament"] {
        assert!(failing_apps.iter().any(|failed| failed == what), "{what} in {failing_apps:?}");
    }
}

#[tokio::test]
async fn a_wrong_value_at_the_start_is_found() {
    let cart = |_: &SessionKey, state: &mut Map<String, Value>, _: &Map<String, Value>| {
        state.insert("user:loyalty_points".to_owned(), json!(1));
        state.insert("app:tax_rate".to_owned(), json!(1));
    };
    let failed = failing(Scenario::ShoppingCart, cart).await;
    assert_eq!(failed, ["loyalty points", "tax rate", "the loyalty points stay", "the tax rate stays"]);
    let chat = |_: &SessionKey, state: &mut Map<String, Value>, _: &Map<String, Value>| {
        state.insert("user:total_tickets".to_owned(), json!(9));
        state.insert("app:business_hours".to_owned(), json!("never"));
        state.insert("message_count".to_owned(), json!(3));
    };
    let failed = failing(Scenario::SupportChat, chat).await;
    let expected =
        ["tickets so far", "tickets", "messages in a new chat", "the tickets stay", "the business hours stay"];
    assert_eq!(failed, expected);
}

#[tokio::test]
async fn a_wrong_value_ends_with_exit_code_1() {
    let (sessions, mut out) = (store(leak_between_users), Output::new(true));
    let failure = play(&sessions, "memory:", &[Scenario::Game], &mut out).await.unwrap_err();
    assert!(matches!(failure, CommandFailure::WrongValues(n) if n > 0), "{failure:?}");
    assert_eq!(failure.exit_code(), 1);
}
