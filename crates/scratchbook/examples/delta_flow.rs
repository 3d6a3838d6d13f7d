//! The life of a delta: writes lie over the committed values until the event that carries them is committed.

use scratchbook::state::State;
use scratchbook::{Event, InMemorySessionService, SessionService, SessionServiceExt, StateDelta};
use serde_json::{Map, Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> scratchbook::Result<()> {
    let committed: Map<String, Value> = scratchbook::json::from_str(r#"{"count": 10, "name": "Alice"}"#)?;

    // Committed values below, no changes above.
    let mut state = State::new(committed, StateDelta::new());
    assert_eq!(state.get("count"), Some(&json!(10)));
    assert!(!state.has_delta());

    // Writing goes to the delta; reading sees the delta first.
    state.set("count", 15)?;
    state.set("name", "Bob")?;
    assert_eq!(state.get("count"), Some(&json!(15)));
    assert_eq!(state.value().get("count"), Some(&json!(10)));
    assert_eq!(json!(state.delta()), json!({"count": 15, "name": "Bob"}));
    println!("pending: {}", json!(state.delta()));

    // An event carries the delta, and the store commits both at once.
    let service = InMemorySessionService::new();
    let mut session = service.create_session("app", "user", Default::default()).await?;
    service.append_event(&mut session, Event::new("agent").with_state_delta(state.delta().clone())).await?;
    assert_eq!(session.state().get("count"), Some(&json!(15)));

    // Then the value holds it and the next delta begins empty.
    state.commit();
    assert!(!state.has_delta());
    assert_eq!(state.value().get("name"), Some(&json!("Bob")));
    state.set("count", 20)?;
    assert_eq!(state.get("count"), Some(&json!(20)));

    // What is not wanted after all is rolled back.
    state.discard();
    assert_eq!(state.get("count"), Some(&json!(15)));
    println!("committed: {}", json!(state.to_map()));
    Ok(())
}
