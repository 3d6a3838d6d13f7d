//! The demo's checks fail for a store that returns wrong values.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use scratchbook::error::KeyWriter;
use scratchbook::session::{
    CommitNotices, Committed, Expiry, FeedPage, FeedStart, ForkConfig, InitialState, ListSessionsConfig,
    ListSessionsResponse, ListStateConfig, PutStateOptions, SessionUpdate, StateChange, StateOwner, StatePage,
};
use scratchbook::{
    AppendOptions, CreateSessionConfig, Event, GetSessionConfig, InMemorySessionService, Result, Session, SessionKey,
    SessionService, StateDelta, StateMap,
};
use serde_json::{Map, Value, json};

use super::scenario_run::{RunRecord, ScenarioRun};
use super::{play, play_one};
use crate::args::Scenario;
use crate::failure::Failure;
use crate::output::Output;

/// Changes the state of a session as it is read.
type Wrong = fn(&SessionKey, &mut Map<String, Value>, &Map<String, Value>);

/// A store that returns wrong state of sessions, which it makes of the right state and of the shared keys of Alice's game.
#[derive(Debug)]
struct WrongStore {
    store: InMemorySessionService,
    wrong: Wrong,
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
    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        self.store.create_session(app_name, user_id, config).await
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        match self.store.get_session(key, config).await? {
            Some(session) => self.spoil(session).await.map(Some),
            None => Ok(None),
        }
    }

    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<InitialState>> {
        self.store.get_initial_state(key).await
    }

    async fn get_state_at(&self, key: &SessionKey, seq: u64) -> Result<StateMap> {
        self.store.get_state_at(key, seq).await
    }

    async fn blame(&self, key: &SessionKey) -> Result<BTreeMap<String, KeyWriter>> {
        self.store.blame(key).await
    }

    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session> {
        self.store.fork_session(key, config).await
    }

    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig) -> Result<StatePage> {
        self.store.list_state(owner, config).await
    }

    async fn list_key_changes(
        &self,
        owner: &StateOwner,
        name: &str,
        before: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>> {
        self.store.list_key_changes(owner, name, before, limit).await
    }

    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        self.store.list_feed(owner, start, limit).await
    }

    fn commits(&self) -> Result<CommitNotices> {
        self.store.commits()
    }

    async fn set_expiry(&self, key: &SessionKey, expiry: Option<Expiry>) -> Result<()> {
        self.store.set_expiry(key, expiry).await
    }

    async fn update_session(&self, key: &SessionKey, update: SessionUpdate) -> Result<()> {
        self.store.update_session(key, update).await
    }

    async fn delete_expired(&self, limit: usize) -> Result<u64> {
        self.store.delete_expired(limit).await
    }

    async fn prune_events(&self, key: &SessionKey, before: u64, limit: usize) -> Result<u64> {
        self.store.prune_events(key, before, limit).await
    }

    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Result<u64> {
        self.store.prune_state_log(owner, before, limit).await
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        self.store.list_sessions(app_name, config).await
    }

    async fn locate_session(&self, app_name: &str, session_id: &str) -> Result<Option<SessionKey>> {
        self.store.locate_session(app_name, session_id).await
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        self.store.delete_session(key).await
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        self.store.append(key, event, options).await
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        self.store.get_state(owner).await
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64> {
        self.store.put_state(owner, delta, options).await
    }

    async fn list_state_changes(&self, owner: &StateOwner, after: u64, limit: usize) -> Result<Vec<StateChange>> {
        self.store.list_state_changes(owner, after, limit).await
    }

    async fn list_owners(&self, after: Option<&StateOwner>, limit: usize) -> Result<Vec<StateOwner>> {
        self.store.list_owners(after, limit).await
    }

    async fn delete_user(&self, app_name: &str, user_id: &str) -> Result<()> {
        self.store.delete_user(app_name, user_id).await
    }

    async fn check_writable(&self) -> Result<()> {
        self.store.check_writable().await
    }

    async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}

fn store(wrong: Wrong) -> Arc<dyn SessionService> {
    Arc::new(WrongStore { store: InMemorySessionService::new(), wrong })
}

/// The failing checks of a scenario.
async fn failing(scenario: Scenario, wrong: Wrong) -> Vec<String> {
    let (sessions, mut out) = (store(wrong), Output::new(true));
    let mut run = ScenarioRun::new(&sessions, &mut out);
    play_one(scenario, &mut run).await.unwrap();
    let RunRecord { checks, .. } = run.finish();
    let failing = checks.iter().filter(|check| check["ok"] == false);
    failing.map(|check| check["what"].as_str().unwrap().to_owned()).collect()
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
    assert!(matches!(failure, Failure::WrongValues(n) if n > 0), "{failure:?}");
    assert_eq!(failure.exit_code(), 1);
}
