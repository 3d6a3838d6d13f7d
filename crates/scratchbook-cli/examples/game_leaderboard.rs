//! Two players of one app share its `app:` keys and nothing else. Another app, the tournament, shares nothing with it.
//! A tool keeps the leaderboard.
//!
//! `scratchbook demo game` plays it too, and shows every event.

use std::sync::Arc;

use futures_util::TryStreamExt;
use schemars::JsonSchema;
use scratchbook::agent::{FunctionTool, ToolContext};
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::session::{PutStateOptions, StateOwner};
use scratchbook::{
    CreateSessionConfig, Event, LlmAgent, Result, RunRequest, Runner, Session, SessionService, SessionServiceExt,
    StateDelta,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const GAME: &str = "game_app";
const TOURNAMENT: &str = "tournament_app";
const ALICE: &str = "player_alice";
const BOB: &str = "player_bob";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let sessions = scratchbook::connect(&uri).await?.sessions;
    let games = play(&sessions, &mut |what, found, expected| assert_eq!(found, expected, "{what}")).await?;
    for game in games {
        println!("{}: {}", game.user_id(), json!(game.state()));
    }
    sessions.close().await
}

pub(crate) async fn play(
    sessions: &Arc<dyn SessionService>,
    check: &mut impl FnMut(&str, Option<&Value>, Option<&Value>),
) -> Result<[Session; 2]> {
    // State of an earlier run is kept. Everything is read before the first write, so that a leak between players is
    // found.
    let bob = sessions.get_user_state(GAME, BOB).await?;
    let (alice, game) = (StateOwner::user(GAME, ALICE)?, StateOwner::app(GAME)?);
    let firsts = [("total_wins", json!(10)), ("high_score", json!(5000)), ("preferred_difficulty", json!("medium"))];
    let alice = given_once(sessions, &alice, firsts).await?;
    let game = given_once(sessions, &game, [("max_level", json!(100)), ("leaderboard_enabled", json!(true))]).await?;
    let tournament = given_once(sessions, &StateOwner::app(TOURNAMENT)?, [("max_level", json!(20))]).await?;
    let (max_level, level) = (game["max_level"].clone(), tournament["max_level"].clone());
    let wins = alice.get("total_wins").and_then(Value::as_u64).unwrap_or(0);

    let alices_game = alice_wins(sessions, wins, &max_level, check).await?;
    let bobs_game = bob_plays(sessions, &bob, &max_level, check).await?;
    let session = begin(sessions, TOURNAMENT, ALICE, json!({"current_level": 1})).await?;
    check("no wins in the tournament", session.state().get("user:total_wins"), None);
    check("the tournament's max level", session.state().get("app:max_level"), Some(&level));
    check("no leaderboard in the tournament", session.state().get("app:leaderboard"), None);

    let mut game = alices_game.clone();
    sessions.refresh(&mut game).await?;
    check("Alice's wins in the game", game.state().get("user:total_wins"), Some(&json!(wins + 1)));
    let board = game.state().get("app:leaderboard");
    check("Alice on the leaderboard", board.and_then(|board| board.get(ALICE)), Some(&json!(5000)));
    check("Bob on the leaderboard", board.and_then(|board| board.get(BOB)), Some(&json!(best(&bob, 3200))));
    check("the game's own max level", game.state().get("app:max_level"), Some(&max_level));
    Ok([alices_game, bobs_game])
}

/// Sets the keys that a user's or an app's state does not have yet, and returns the state.
async fn given_once<const N: usize>(
    sessions: &Arc<dyn SessionService>,
    owner: &StateOwner,
    values: [(&str, Value); N],
) -> Result<Map<String, Value>> {
    let mut delta = StateDelta::new();
    for (key, value) in values {
        delta.set_if_absent(key, value)?;
    }
    sessions.put_state(owner, delta, PutStateOptions::by("game")).await?;
    sessions.get_state(owner).await
}

async fn alice_wins(
    sessions: &Arc<dyn SessionService>,
    wins: u64,
    max_level: &Value,
    check: &mut impl FnMut(&str, Option<&Value>, Option<&Value>),
) -> Result<Session> {
    let won = LlmResponse::call("record_score", json!({"score": 5000}));
    let agent = game_agent(["Level 2!".into(), "Level 3!".into(), won, "You have won!".into()])?;
    let runner = Runner::builder(GAME, agent, Arc::clone(sessions)).build()?;
    let mut game = begin(sessions, GAME, ALICE, json!({"current_level": 1, "score": 0, "lives": 3})).await?;
    check("wins so far", game.state().get("user:total_wins"), Some(&json!(wins)));

    // For a counter, the delta contains the increment and not the result, because others may count at the same time.
    let won = |points: u64| StateDelta::new().with_increment("current_level", 1)?.with_increment("score", points);
    say(&runner, &game, "Complete level 1", won(1000)?.with("temp:level_completion_time", 120)?).await?;
    say(&runner, &game, "Complete level 2", won(1500)?.with_increment("lives", -1)?).await?;
    say(&runner, &game, "Win the game", won(2500)?.with_increment("user:total_wins", 1)?).await?;
    sessions.refresh(&mut game).await?;
    check("final level", game.state().get("current_level"), Some(&json!(4)));
    check("final score", game.state().get("score"), Some(&json!(5000)));
    check("lives", game.state().get("lives"), Some(&json!(2)));
    check("wins", game.state().get("user:total_wins"), Some(&json!(wins + 1)));
    check("high score", game.state().get("user:high_score"), Some(&json!(5000)));

    let next = begin(sessions, GAME, ALICE, json!({})).await?;
    let level = next.state().get_as::<u64>("current_level")?.unwrap_or(1);
    check("level in a new game", Some(&json!(level)), Some(&json!(1)));
    let score = next.state().get_as::<u64>("score")?.unwrap_or(0);
    check("score in a new game", Some(&json!(score)), Some(&json!(0)));
    check("the wins stay", next.state().get("user:total_wins"), Some(&json!(wins + 1)));
    check("the high score stays", next.state().get("user:high_score"), Some(&json!(5000)));
    check("max level", next.state().get("app:max_level"), Some(max_level));
    Ok(game)
}

async fn bob_plays(
    sessions: &Arc<dyn SessionService>,
    before: &Map<String, Value>,
    max_level: &Value,
    check: &mut impl FnMut(&str, Option<&Value>, Option<&Value>),
) -> Result<Session> {
    let scored = LlmResponse::call("record_score", json!({"score": 3200}));
    let agent = game_agent([scored, "3200 points, well played!".into()])?;
    let runner = Runner::builder(GAME, agent, Arc::clone(sessions)).build()?;
    let mut game = begin(sessions, GAME, BOB, json!({"current_level": 1, "score": 0, "lives": 3})).await?;
    let wins = game.state().get("user:total_wins").cloned().unwrap_or(json!(0));
    check("Bob's wins are not Alice's", Some(&wins), Some(before.get("total_wins").unwrap_or(&json!(0))));
    let preference = game.state().get("user:preferred_difficulty");
    check("Bob's preference is not Alice's", preference, before.get("preferred_difficulty"));
    check("Bob has the app's max level", game.state().get("app:max_level"), Some(max_level));

    say(&runner, &game, "Game over", StateDelta::new().with("score", 3200)?.with("lives", 0)?).await?;
    sessions.refresh(&mut game).await?;
    check("Bob's high score", game.state().get("user:high_score"), Some(&json!(best(before, 3200))));
    Ok(game)
}

/// Returns a player's high score: this score, or a higher one from before.
fn best(before: &Map<String, Value>, score: u64) -> u64 {
    before.get("high_score").and_then(Value::as_u64).unwrap_or(0).max(score)
}

async fn begin(sessions: &Arc<dyn SessionService>, app: &str, player: &str, state: Value) -> Result<Session> {
    let mut session = sessions.create_session(app, player, CreateSessionConfig::default().with_state(state)).await?;
    sessions.refresh(&mut session).await?;
    Ok(session)
}

async fn say(runner: &Runner, game: &Session, message: &str, delta: StateDelta) -> Result<Vec<Event>> {
    let request = RunRequest::message(message).with_state_delta(delta);
    runner.run(game.user_id(), game.id(), request).try_collect().await
}

fn game_agent<const N: usize>(turns: [LlmResponse; N]) -> Result<LlmAgent> {
    LlmAgent::builder("game_assistant")
        .model(ScriptedLlm::new(turns))
        .instruction("You are a game assistant. The player is at level {current_level} of {app:max_level?}.")
        .tool(FunctionTool::new("record_score", "Puts a score on the leaderboard.", record_score))
        .build()
}

#[derive(Deserialize, JsonSchema)]
struct Score {
    /// The points of the game that was won.
    score: u64,
}

/// Writes to the player's and to the app's state. Both writes are committed with the event of the tool's answer.
async fn record_score(args: Score, context: ToolContext) -> Result<Value> {
    let state = context.state();
    // There is no operation for the larger of two numbers. So a guard refuses the commit if another game was faster.
    let before = state.get_as::<u64>("user:high_score")?;
    let best = before.unwrap_or(0).max(args.score);
    if before != Some(best) {
        match before {
            Some(before) => state.expect("user:high_score", before)?,
            None => state.expect_absent("user:high_score")?,
        }
        state.set("user:high_score", best)?;
    }
    // Only one member of the map is changed, so players who finish at the same time do not overwrite each other's
    // scores.
    state.merge_patch("app:leaderboard", json!({ context.session_key().user_id(): best }))?;
    Ok(json!({"leaderboard": state.get("app:leaderboard")}))
}
