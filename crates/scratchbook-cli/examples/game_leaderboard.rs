//! Two players of one app share its `app:` keys and nothing else; another app, the tournament, shares nothing at
//! all. A tool keeps the leaderboard.
//!
//! `scratchbook demo game` plays it too, and shows every event.

use std::sync::Arc;

use futures_util::TryStreamExt;
use schemars::JsonSchema;
use scratchbook::agent::{FunctionTool, ToolContext};
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{
    CreateSessionConfig, Event, LlmAgent, Result, RunRequest, Runner, Session, SessionService, SessionServiceExt,
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
    // What an earlier run has left carries on. All is read before the first write, so that a leak is found.
    let (alice, bob) = (sessions.get_user_state(GAME, ALICE).await?, sessions.get_user_state(GAME, BOB).await?);
    let tournament = sessions.get_app_state(TOURNAMENT).await?;
    let max_level = sessions.get_app_state(GAME).await?.get("max_level").cloned().unwrap_or(json!(100));

    let alices_game = alice_wins(sessions, &alice, &max_level, check).await?;
    let bobs_game = bob_plays(sessions, &bob, &max_level, check).await?;
    let level = tournament.get("max_level").cloned().unwrap_or(json!(20));
    let state = json!({"current_level": 1, "app:max_level": level});
    let session = begin(sessions, TOURNAMENT, ALICE, state).await?;
    check("no wins in the tournament", session.state().get("user:total_wins"), None);
    check("the tournament's max level", session.state().get("app:max_level"), Some(&level));
    check("no leaderboard in the tournament", session.state().get("app:leaderboard"), None);

    let mut game = alices_game.clone();
    sessions.refresh(&mut game).await?;
    check("Alice's wins in the game", game.state().get("user:total_wins"), Some(&json!(11)));
    let board = game.state().get("app:leaderboard");
    check("Alice on the leaderboard", board.and_then(|board| board.get(ALICE)), Some(&json!(5000)));
    check("Bob on the leaderboard", board.and_then(|board| board.get(BOB)), Some(&json!(best(&bob, 3200))));
    check("the game's own max level", game.state().get("app:max_level"), Some(&max_level));
    Ok([alices_game, bobs_game])
}

async fn alice_wins(
    sessions: &Arc<dyn SessionService>,
    before: &Map<String, Value>,
    max_level: &Value,
    check: &mut impl FnMut(&str, Option<&Value>, Option<&Value>),
) -> Result<Session> {
    let won = LlmResponse::call("record_score", json!({"score": 5000}));
    let agent = game_agent(["Level 2!".into(), "Level 3!".into(), won, "You have won!".into()])?;
    let runner = Runner::builder(GAME, agent, Arc::clone(sessions)).build()?;
    let or = |name: &str, given: Value| before.get(name).cloned().unwrap_or(given);
    let wins = or("total_wins", json!(10));
    let state = json!({
        "current_level": 1, "score": 0, "lives": 3,
        "user:total_wins": wins, "user:high_score": or("high_score", json!(5000)),
        "user:preferred_difficulty": or("preferred_difficulty", json!("medium")),
        "app:max_level": max_level, "app:leaderboard_enabled": true,
    });
    let mut game = begin(sessions, GAME, ALICE, state).await?;
    check("wins so far", game.state().get("user:total_wins"), Some(&wins));

    let delta = json!({"current_level": 2, "score": 1000, "temp:level_completion_time": 120});
    say(&runner, &game, "Complete level 1", delta).await?;
    say(&runner, &game, "Complete level 2", json!({"current_level": 3, "score": 2500, "lives": 2})).await?;
    let delta = json!({"current_level": 4, "score": 5000, "user:total_wins": 11, "user:high_score": 5000});
    say(&runner, &game, "Win the game", delta).await?;
    sessions.refresh(&mut game).await?;
    check("final level", game.state().get("current_level"), Some(&json!(4)));
    check("final score", game.state().get("score"), Some(&json!(5000)));
    check("lives", game.state().get("lives"), Some(&json!(2)));
    check("wins", game.state().get("user:total_wins"), Some(&json!(11)));
    check("high score", game.state().get("user:high_score"), Some(&json!(5000)));

    let next = begin(sessions, GAME, ALICE, json!({})).await?;
    let level = next.state().get_as::<u64>("current_level")?.unwrap_or(1);
    check("level in a new game", Some(&json!(level)), Some(&json!(1)));
    let score = next.state().get_as::<u64>("score")?.unwrap_or(0);
    check("score in a new game", Some(&json!(score)), Some(&json!(0)));
    check("the wins stay", next.state().get("user:total_wins"), Some(&json!(11)));
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

    say(&runner, &game, "Game over", json!({"score": 3200, "lives": 0})).await?;
    sessions.refresh(&mut game).await?;
    check("Bob's high score", game.state().get("user:high_score"), Some(&json!(best(before, 3200))));
    Ok(game)
}

/// A player's high score: this one or a higher one from before.
fn best(before: &Map<String, Value>, score: u64) -> u64 {
    before.get("high_score").and_then(Value::as_u64).unwrap_or(0).max(score)
}

async fn begin(sessions: &Arc<dyn SessionService>, app: &str, player: &str, state: Value) -> Result<Session> {
    let mut session = sessions.create_session(app, player, CreateSessionConfig::default().with_state(state)).await?;
    sessions.refresh(&mut session).await?;
    Ok(session)
}

async fn say(runner: &Runner, game: &Session, message: &str, delta: Value) -> Result<Vec<Event>> {
    let request = RunRequest::message(message).with_state_delta(delta.try_into()?);
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

/// Writes to the player's and to the app's state; both are committed with the event of the tool's answer.
async fn record_score(args: Score, context: ToolContext) -> Result<Value> {
    let state = context.state();
    let best = state.get_as::<u64>("user:high_score")?.unwrap_or(0).max(args.score);
    state.set("user:high_score", best)?;
    let mut board: Map<String, Value> = state.get_as("app:leaderboard")?.unwrap_or_default();
    board.insert(context.session_key().user_id().to_owned(), json!(best));
    state.set("app:leaderboard", &board)?;
    Ok(json!({"leaderboard": board}))
}
