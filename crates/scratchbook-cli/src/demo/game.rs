//! Alice wins a game and Bob plays his first one; a tool keeps the leaderboard. A tournament is another app, which shares
//! neither the game's settings nor the players' wins.

use schemars::JsonSchema;
use scratchbook::LlmAgent;
use scratchbook::agent::{FunctionTool, ToolContext};
use scratchbook::model::{LlmResponse, ScriptedLlm};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::scenario_run::{DemoSession, ScenarioRun};
use super::state_before::StateBefore;
use crate::failure::Failure;

const GAME: &str = "game_app";
const TOURNAMENT: &str = "tournament_app";
const ALICE: &str = "player_alice";
const BOB: &str = "player_bob";

pub(super) async fn play(run: &mut ScenarioRun<'_>) -> Result<(), Failure> {
    // All state is read before the first write, so that a leak between owners is found.
    let alice_before = run.before(GAME, ALICE).await?;
    let bob_before = run.before(GAME, BOB).await?;
    let tournament_before = run.before(TOURNAMENT, ALICE).await?;
    let max_level = alice_before.or("app:max_level", 100);

    let alice = alice_wins(run, &alice_before).await?;
    bob_plays(run, &bob_before, &max_level).await?;
    tournament(run, &alice, &tournament_before).await?;

    let after = run.stored(&alice).await?;
    let board = after.state().get("app:leaderboard");
    run.check("Alice on the leaderboard", board.and_then(|board| board.get(ALICE)), 5000)?;
    run.check("Bob on the leaderboard", board.and_then(|board| board.get(BOB)), best(&bob_before, 3200))?;
    run.check("the game's own max level", after.state().get("app:max_level"), max_level)
}

async fn alice_wins(run: &mut ScenarioRun<'_>, before: &StateBefore) -> Result<DemoSession, Failure> {
    let won = LlmResponse::call("record_score", json!({"score": 5000}));
    let runner = run.runner(GAME, game_agent(["Level 2!".into(), "Level 3!".into(), won, "You have won!".into()])?)?;
    let given = json!({
        "current_level": 1, "score": 0, "lives": 3,
        "user:total_wins": 10, "user:high_score": 5000, "user:preferred_difficulty": "medium",
        "app:max_level": 100, "app:leaderboard_enabled": true,
    });
    let mut session = run.begin(GAME, ALICE, given).await?;
    let start = run.stored(&session).await?;
    run.check("wins so far", start.state().get("user:total_wins"), before.or("user:total_wins", 10))?;

    let delta = json!({"current_level": 2, "score": 1000, "temp:level_completion_time": 120});
    run.say(&mut session, &runner, "Complete level 1", delta).await?;
    run.say(&mut session, &runner, "Complete level 2", json!({"current_level": 3, "score": 2500, "lives": 2})).await?;
    let delta = json!({"current_level": 4, "score": 5000, "user:total_wins": 11, "user:high_score": 5000});
    run.say(&mut session, &runner, "Win the game", delta).await?;

    let done = run.stored(&session).await?;
    run.check("final level", done.state().get("current_level"), 4)?;
    run.check("final score", done.state().get("score"), 5000)?;
    run.check("lives", done.state().get("lives"), 2)?;
    run.check("wins", done.state().get("user:total_wins"), 11)?;
    run.check("high score", done.state().get("user:high_score"), 5000)?;

    let next = run.begin(GAME, ALICE, json!({})).await?;
    let next = run.stored(&next).await?;
    let level = next.state().get("current_level").cloned().unwrap_or_else(|| json!(1));
    let score = next.state().get("score").cloned().unwrap_or_else(|| json!(0));
    run.check("level in a new game", Some(&level), 1)?;
    run.check("score in a new game", Some(&score), 0)?;
    run.check("the wins stay", next.state().get("user:total_wins"), 11)?;
    run.check("the high score stays", next.state().get("user:high_score"), 5000)?;
    run.check("max level", next.state().get("app:max_level"), before.or("app:max_level", 100))?;
    Ok(session)
}

async fn bob_plays(run: &mut ScenarioRun<'_>, before: &StateBefore, max_level: &Value) -> Result<(), Failure> {
    let scored = LlmResponse::call("record_score", json!({"score": 3200}));
    let runner = run.runner(GAME, game_agent([scored, "3200 points, well played!".into()])?)?;
    let mut session = run.begin(GAME, BOB, json!({"current_level": 1, "score": 0, "lives": 3})).await?;
    let start = run.stored(&session).await?;
    let wins = start.state().get("user:total_wins").cloned().unwrap_or_else(|| json!(0));
    run.check("Bob's wins are not Alice's", Some(&wins), before.count("user:total_wins"))?;
    let preference = (start.state().get("user:preferred_difficulty"), before.get("user:preferred_difficulty"));
    run.compare("Bob's preference is not Alice's", preference.0, preference.1)?;
    run.check("Bob has the app's max level", start.state().get("app:max_level"), max_level.clone())?;
    run.say(&mut session, &runner, "Game over", json!({"score": 3200, "lives": 0})).await?;
    let done = run.stored(&session).await?;
    run.check("Bob's high score", done.state().get("user:high_score"), best(before, 3200))
}

async fn tournament(run: &mut ScenarioRun<'_>, alice: &DemoSession, before: &StateBefore) -> Result<(), Failure> {
    let session = run.begin(TOURNAMENT, ALICE, json!({"current_level": 1, "app:max_level": 20})).await?;
    let stored = run.stored(&session).await?;
    run.check_none("no wins in the tournament", stored.state().get("user:total_wins"))?;
    run.check("the tournament's max level", stored.state().get("app:max_level"), before.or("app:max_level", 20))?;
    run.check_none("no leaderboard in the tournament", stored.state().get("app:leaderboard"))?;
    let game = run.stored(alice).await?;
    run.check("Alice's wins in the game", game.state().get("user:total_wins"), 11)
}

/// Bob's high score: this one or a higher one from before.
fn best(before: &StateBefore, score: u64) -> u64 {
    before.count("user:high_score").max(score)
}

fn game_agent<const N: usize>(turns: [LlmResponse; N]) -> scratchbook::Result<LlmAgent> {
    #[derive(Deserialize, JsonSchema)]
    struct Score {
        score: u64,
    }
    let record = |args: Score, context: ToolContext| async move {
        let state = context.state();
        let high_score = state.get_as::<u64>("user:high_score")?.unwrap_or(0).max(args.score);
        state.set("user:high_score", high_score)?;
        let mut board: Map<String, Value> = state.get_as("app:leaderboard")?.unwrap_or_default();
        board.insert(context.session_key().user_id().to_owned(), json!(high_score));
        state.set("app:leaderboard", &board)?;
        Ok(json!({"leaderboard": board}))
    };
    LlmAgent::builder("game_assistant")
        .model(ScriptedLlm::new(turns))
        .instruction("You are a game assistant. The player is at level {current_level} of {app:max_level?}.")
        .tool(FunctionTool::new("record_score", "Puts the player's score on the leaderboard.", record))
        .build()
}
