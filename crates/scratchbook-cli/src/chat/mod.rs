//! `scratchbook chat`: a conversation with an agent in the terminal. Each conversation is a session.
//!
//! - `agent.rs`: the agent. `conversation.rs`: the loop of the conversation. `turn.rs`: one run of the agent.
//! - `input.rs`: reading lines. `command.rs`: parsing them. `screen.rs`: showing events.
//! - `calls.rs`: calls that wait for the user. `history.rs`: earlier messages. `resume.rs`: the command that continues.

mod agent;
mod calls;
mod command;
mod conversation;
mod history;
mod input;
mod resume;
mod screen;
mod turn;

use std::sync::Arc;

use scratchbook::artifact::ArtifactService;
use scratchbook::environment::{Environment, SystemEnvironment};
use scratchbook::layer::WithSecretKeys;
use scratchbook::session::SecretKeys;
use scratchbook::{Runner, SessionKey, SessionService};

use crate::address::{known, resolve};
use crate::args::{Address, ChatArgs};
use crate::context::{Context, DEFAULT_DATABASE};
use crate::database::{self, OpenDatabase};
use crate::failure::CommandFailure;
use crate::output::Output;
use agent::ChatAgent;
use conversation::{Conversation, OutputReader};
use input::Input;
use resume::ResumeCommand;
use screen::{AgentNames, Screen};

/// Runs a conversation.
pub(crate) async fn chat(context: &Context, args: ChatArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let agent = ChatAgent::of(&args)?;
    let address = args.address(&agent.app)?;
    let new = SessionKey::new(&agent.app, args.user_id(), &SystemEnvironment.new_id())?;
    let mut input = Input::open(out.format())?;
    let place = scratchbook::store::without_password(database::checked_uri(context)?);
    let database = OpenDatabase::open_or_create(context, DEFAULT_DATABASE).await?;

    let key = match address {
        // A session that does not exist is created under its id.
        Some(Address::Whole(key)) => known(&database, &key).await?.unwrap_or(key),
        Some(address) => resolve(&address, &database).await?,
        None => new,
    };
    let secret = SecretKeys::new(&args.secret);
    let sessions: Arc<dyn SessionService> =
        Arc::new(WithSecretKeys::new(Arc::clone(&database.sessions), secret.clone()));
    let artifacts: Arc<dyn ArtifactService> = Arc::clone(&database.artifacts);
    let runner = Runner::builder(&agent.app, Arc::clone(&agent.agent), sessions).artifacts(artifacts);
    let runner = runner.auto_create_session().build()?;

    let names = if agent.agent.sub_agents().is_empty() { AgentNames::One } else { AgentNames::Several };
    let screen = Screen::new(out, secret, names);
    let resume = ResumeCommand::new(context, &args);
    let reader = if input.is_terminal() { OutputReader::Person } else { OutputReader::Pipe };
    let mut conversation = Conversation::new(runner, key, screen, resume, reader);
    let held = async {
        conversation.greet(&agent, &place, &mut input).await?;
        conversation.hold(&mut input).await
    };
    let held = held.await;
    // Closing finishes accepted writes, however the conversation ended.
    database.close().await?;
    held
}
