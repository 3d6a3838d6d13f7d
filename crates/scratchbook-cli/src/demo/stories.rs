//! The scenarios that the demo plays. Each scenario is an example of this package, which
//! `cargo run --locked --example NAME` also runs.

#[path = "../../examples/callback_and_tool.rs"]
pub(super) mod callback_and_tool;
#[path = "../../examples/delta_flow.rs"]
pub(super) mod delta_flow;
#[path = "../../examples/game_leaderboard.rs"]
pub(super) mod game_leaderboard;
#[path = "../../examples/greeting_output_key.rs"]
pub(super) mod greeting_output_key;
#[path = "../../examples/manual_state_delta.rs"]
pub(super) mod manual_state_delta;
#[path = "../../examples/shopping_cart.rs"]
pub(super) mod shopping_cart;
#[path = "../../examples/support_chat.rs"]
pub(super) mod support_chat;
