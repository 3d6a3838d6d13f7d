//! Two players of one app share its `app:` keys and nothing else; another app, the tournament, shares nothing at
//! all. A tool keeps the leaderboard.

use futures_util::TryStreamExt;
use schemars::JsonSchema;
use scratchbook::agent::{FunctionTool, ToolContext};
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::session::{PutStateOptions, StateOwner};
use scratchbook::{CreateSessionConfig, LlmAgent, RunRequest, Runner, SessionServiceExt, StateDelta};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize, JsonSchema)]
struct Score {
    /// The points of the game that was won.
    score: u64,
}

/// Writes to the player's and to the app's state; both are committed with the event of the tool's answer.
async fn record_score(args: Score, context: ToolContext) -> scratchbook::Result<Value> {
    let state = context.state();
    let best = state.get_as::<u64>("user:high_score")?.unwrap_or(0).max(args.score);
    state.set("user:high_score", best)?;
    let mut board: Map<String, Value> = state.get_as("app:leaderboard")?.unwrap_or_default();
    board.insert(context.session_key().user_id().to_owned(), json!(best));
    state.set("app:leaderboard", &board)?;
    Ok(json!({"leaderboard": board}))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> scratchbook::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let sessions = scratchbook::connect(&uri).await?.sessions;
    let (app, alice) = (StateOwner::app("game_app")?, StateOwner::user("game_app", "player_alice")?);
    if !sessions.get_state(&app).await?.contains_key("max_level") {
        sessions.put_state(&app, StateDelta::new().with("max_level", 100)?, PutStateOptions::by("game")).await?;
    }
    if !sessions.get_state(&alice).await?.contains_key("total_wins") {
        sessions.put_state(&alice, StateDelta::new().with("total_wins", 10)?, PutStateOptions::by("game")).await?;
    }

    let start = json!({"current_level": 1, "score": 0, "lives": 3});
    let won = json!({"current_level": 4, "score": 5000, "lives": 2, "user:total_wins": 11});
    for (player, score, delta) in [("player_alice", 5000, won), ("player_bob", 3200, json!({"score": 3200}))] {
        let agent = LlmAgent::builder("game_assistant")
            .model(ScriptedLlm::new([
                LlmResponse::call("record_score", json!({"score": score})),
                "Well played!".into(),
            ]))
            .instruction("You are a game assistant. Level {current_level} of {app:max_level}.")
            .tool(FunctionTool::new("record_score", "Puts a score on the leaderboard.", record_score))
            .build()?;
        let runner = Runner::builder("game_app", agent, sessions.clone()).build()?;
        let config = CreateSessionConfig::default().with_state(start.clone());
        let mut game = sessions.create_session("game_app", player, config).await?;
        let request = RunRequest::message("The game is over").with_state_delta(delta.try_into()?);
        let _: Vec<_> = runner.run(player, game.id(), request).try_collect().await?;
        sessions.refresh(&mut game).await?;
        println!("{player}: {}", json!(game.state()));
        assert_eq!(game.state().get("user:high_score"), Some(&json!(score)));
        assert_eq!(game.state().get("app:max_level"), Some(&json!(100)));
    }

    let board = sessions.get_app_state("game_app").await?["leaderboard"].clone();
    assert_eq!(board, json!({"player_alice": 5000, "player_bob": 3200}));

    let next = sessions.create_session("game_app", "player_alice", CreateSessionConfig::default()).await?;
    assert_eq!(next.state().get_as::<u64>("current_level")?.unwrap_or(1), 1);
    assert_eq!(next.state().get("user:total_wins"), Some(&json!(11)));

    let tournament = sessions.create_session("tournament_app", "player_alice", CreateSessionConfig::default()).await?;
    assert_eq!(tournament.state().get("user:total_wins"), None);
    assert_eq!(tournament.state().get("app:max_level"), None);
    sessions.close().await
}
