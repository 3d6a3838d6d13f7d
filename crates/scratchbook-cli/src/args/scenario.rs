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
            Self::SupportChat => "a new chat starts empty, the customer's tickets and score stay",
            Self::Game => "two players share a leaderboard; a tournament is another app",
            Self::DeltaFlow => "writes collect in a delta and are committed with its event",
            Self::Greeting => "output_key saves an agent's answer in the state",
            Self::ManualDelta => "a program appends its own event, which changes all scopes",
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
