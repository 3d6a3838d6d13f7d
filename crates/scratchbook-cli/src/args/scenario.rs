//! The scenarios that `scratchbook demo` plays.

use clap::ValueEnum;
use clap::builder::PossibleValue;

/// A scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    ShoppingCart,
    SupportChat,
    Game,
    DeltaFlow,
    Greeting,
    ManualDelta,
    CallbackAndTool,
}

impl Scenario {
    pub(crate) const ALL: [Self; 7] = [
        Self::ShoppingCart,
        Self::SupportChat,
        Self::Game,
        Self::DeltaFlow,
        Self::Greeting,
        Self::ManualDelta,
        Self::CallbackAndTool,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ShoppingCart => "shopping-cart",
            Self::SupportChat => "support-chat",
            Self::Game => "game",
            Self::DeltaFlow => "delta-flow",
            Self::Greeting => "greeting",
            Self::ManualDelta => "manual-delta",
            Self::CallbackAndTool => "callback-and-tool",
        }
    }

    pub(crate) fn teaches(self) -> &'static str {
        match self {
            Self::ShoppingCart => "a cart for each session, points for each user, one tax rate for the app",
            Self::SupportChat => "a chat starts anew, the customer's tickets and score stay",
            Self::Game => "two players, their leaderboard, and a tournament that is another app",
            Self::DeltaFlow => "writes gather in a delta and are committed with its event",
            Self::Greeting => "an agent's answer goes into the state by output_key",
            Self::ManualDelta => "a program appends an event of its own that changes all scopes",
            Self::CallbackAndTool => "callbacks and tools write to the state of their context",
        }
    }
}

impl ValueEnum for Scenario {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(self.teaches()))
    }
}
