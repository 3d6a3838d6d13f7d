//! The loop of a conversation. `/new` continues it in a new session.

use std::sync::Arc;

use scratchbook::agent::RunConfig;
use scratchbook::content::FunctionCall;
use scratchbook::environment::{Environment, SystemEnvironment};
use scratchbook::{Content, ErrorKind, Event, GetSessionConfig, RunRequest, Runner, Session, SessionKey};
use serde_json::{Map, Value, json};

use super::agent::ChatAgent;
use super::calls::{self, PendingCalls, USER, YesOrNo};
use super::command::{self, HELP, ParsedLine};
use super::history::{is_message, last_exchanges, without_rewound};
use super::input::{Input, InputLine};
use super::resume::ResumeCommand;
use super::screen::{PROMPT, Screen};
use super::turn::{self, TurnOutcome};
use crate::failure::{CommandFailure, report};
use crate::output::{Format, plural, visible};
use crate::shared_state::shared_state;
use crate::show;

/// How many events of a session are read to continue it.
const RECENT: usize = 200;
/// How many exchanges are shown when a session is continued.
const SHOWN: usize = 3;
/// How many exchanges `/history` shows.
const HISTORY: usize = 20;

/// A conversation in progress.
pub(super) struct Conversation<'a> {
    runner: Runner,
    key: SessionKey,
    screen: Screen<'a>,
    resume: ResumeCommand,
    calls: PendingCalls,
    /// Whether the user was asked for confirmations since the last run.
    asked: bool,
    /// Whether the session exists already.
    exists: bool,
    /// The kind of error of the last answer, if it failed.
    failed: Option<ErrorKind>,
    /// How often Ctrl-C was pressed since the last line.
    interrupts: u32,
    reader: OutputReader,
    /// A line that was entered instead of a yes or a no. It is handled next.
    unread: Option<String>,
}

/// The reader of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputReader {
    /// A person at a terminal.
    Person,
    /// A program, or a file.
    Pipe,
}

/// Whether the conversation continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Continue,
    End,
}

impl<'a> Conversation<'a> {
    pub(super) fn new(
        runner: Runner,
        key: SessionKey,
        screen: Screen<'a>,
        resume: ResumeCommand,
        reader: OutputReader,
    ) -> Self {
        let calls = PendingCalls::default();
        Self {
            runner,
            key,
            screen,
            resume,
            calls,
            asked: false,
            exists: false,
            failed: None,
            interrupts: 0,
            reader,
            unread: None,
        }
    }

    /// Shows the agent, the session and its last exchanges.
    pub(super) async fn greet(
        &mut self,
        chat_agent: &ChatAgent,
        place: &str,
        input: &mut Input,
    ) -> Result<(), CommandFailure> {
        let session = self.session(GetSessionConfig::default().with_num_recent_events(RECENT)).await?;
        let past = session.as_ref().map(|session| without_rewound(session.events())).unwrap_or_default();
        past.iter().for_each(|event| self.calls.note(event));
        self.exists = session.is_some();
        let (app, agent, model) = (&chat_agent.app, chat_agent.agent.name(), chat_agent.model());
        let (id, count) = (self.key.session_id(), session.as_ref().map_or(0, Session::seq));
        self.screen.json(&json!({
            "type": "session", "appName": app, "userId": self.key.user_id(), "sessionId": id, "events": count,
            "agent": agent, "model": model, "note": chat_agent.note,
        }))?;
        let description = chat_agent.agent.description();
        let description = if description.is_empty() { String::new() } else { format!(": {}", visible(description)) };
        self.screen.heading(&visible(app), &description)?;
        if let Some(model) = model {
            self.screen.aside(&format!("  model    {}", visible(model)))?;
        }
        let events = if session.is_some() { plural(count, "event") } else { "new".to_owned() };
        self.screen.aside(&format!("  session  {}, {events}, in {}", visible(id), visible(place)))?;
        if let Some(note) = &chat_agent.note {
            self.screen.note(&visible(note))?;
        }
        if self.reader == OutputReader::Person {
            self.screen.aside("  /help says what else there is; Ctrl-D ends.")?;
        }
        input.recall(past.iter().filter(|event| is_message(event)).filter_map(first_text));
        self.show(last_exchanges(&past, SHOWN))
    }

    /// Runs the conversation until its end.
    pub(super) async fn hold(&mut self, input: &mut Input) -> Result<(), CommandFailure> {
        let ended = loop {
            let next = match self.ask(input).await? {
                Some(answer) => self.say(answer).await?,
                None if self.interrupts > 1 => Flow::End,
                None => match self.next(input).await? {
                    InputLine::Text(line) => self.obey(&line).await?,
                    InputLine::Interrupted => self.interrupted()?,
                    InputLine::End => Flow::End,
                },
            };
            if self.interrupts > 0 && self.reader == OutputReader::Pipe {
                break Err(CommandFailure::Interrupted);
            }
            if next == Flow::End {
                break Ok(());
            }
        };
        self.end()?;
        match self.failed {
            // A program recognizes the failure by the exit code.
            Some(kind) if self.reader == OutputReader::Pipe => ended.and(Err(CommandFailure::AlreadyReported(kind))),
            _ => ended,
        }
    }

    async fn next(&mut self, input: &mut Input) -> Result<InputLine, CommandFailure> {
        match self.unread.take() {
            Some(line) => Ok(InputLine::Text(line)),
            None => input.next(PROMPT).await,
        }
    }

    /// Handles a line of input: a command or a message.
    async fn obey(&mut self, line: &str) -> Result<Flow, CommandFailure> {
        self.interrupts = 0;
        match command::parse(line) {
            ParsedLine::Blank => {}
            ParsedLine::Message(text) => return self.say(text.into()).await,
            ParsedLine::Help => self.screen.aside(HELP)?,
            ParsedLine::State(beginning) => {
                let state = self.state().await?;
                let state: Map<_, _> = state.into_iter().filter(|(key, _)| key.starts_with(beginning)).collect();
                match state.is_empty() {
                    true => self.screen.aside("There is nothing.")?,
                    false => self.screen.state(&state)?,
                }
            }
            ParsedLine::History => {
                let session = self.session(GetSessionConfig::default()).await?;
                let past = session.map(|session| without_rewound(session.events())).unwrap_or_default();
                self.show(last_exchanges(&past, HISTORY))?;
            }
            ParsedLine::Answer("") => self.waiting("Nothing waits for an answer.")?,
            ParsedLine::Answer(value) => {
                let answer = self.calls.waiting().next().map(|call| calls::answer(call, value));
                match answer {
                    Some(answer) => return self.say(answer).await,
                    None => self.screen.aside("Nothing waits for an answer.")?,
                }
            }
            // Without a message, a run continues from the events of the session.
            ParsedLine::Retry if self.exists => return self.run(RunRequest::default()).await,
            ParsedLine::Retry => self.screen.aside("Nothing was said yet.")?,
            ParsedLine::New => {
                self.end()?;
                self.key = SessionKey::new(self.key.app_name(), self.key.user_id(), &SystemEnvironment.new_id())?;
                (self.calls, self.exists) = (PendingCalls::default(), false);
                self.screen.aside(&format!("A new session begins: {}", self.key.session_id()))?;
            }
            ParsedLine::Quit => return Ok(Flow::End),
            ParsedLine::Unknown(command) => {
                self.screen.aside(&format!("There is no {}. /help shows the commands.", visible(command)))?;
            }
        }
        Ok(Flow::Continue)
    }

    /// Sends a message to the agent, and shows the run.
    async fn say(&mut self, message: Content) -> Result<Flow, CommandFailure> {
        self.calls.note(&Event::new(USER).with_content(message.clone()));
        self.run(RunRequest::message(message)).await
    }

    async fn run(&mut self, request: RunRequest) -> Result<Flow, CommandFailure> {
        let request = request.with_config(RunConfig::default().with_streaming());
        let run = self.runner.run(self.key.user_id(), self.key.session_id(), request);
        (self.exists, self.asked, self.failed) = (true, false, None);
        match turn::follow(run, &mut self.calls, &mut self.screen).await? {
            TurnOutcome::Done => {}
            TurnOutcome::Refused => self.failed = Some(ErrorKind::FailedPrecondition),
            TurnOutcome::Failed(error) => {
                self.failed = Some(error.kind());
                report(&error.into(), self.screen.format() == Format::Json);
            }
            TurnOutcome::CutOff => {
                self.interrupts += 1;
                self.screen.aside("Cut off. What was committed before stays in the session.")?;
            }
        }
        self.waiting("")?;
        self.screen.gap()?;
        Ok(Flow::Continue)
    }

    /// Shows the calls that wait for an answer, or the text `none` if there are no calls. `/answer` answers the first
    /// call.
    fn waiting(&mut self, none: &str) -> Result<(), CommandFailure> {
        let waiting: Vec<_> = self.calls.waiting().map(|call| show::shortened(show::call_of(call))).collect();
        match waiting.split_first() {
            None if none.is_empty() => {}
            None => self.screen.aside(none)?,
            Some((first, later)) => {
                self.screen.aside(&format!("/answer VALUE, with JSON or text, answers: {first}"))?;
                for call in later {
                    self.screen.aside(&format!("    and then: {call}"))?;
                }
            }
        }
        Ok(())
    }

    /// Asks the user to confirm calls, and returns the message with the answers. Returns `None` if no call needs a
    /// confirmation, or if the user does not answer one of them.
    async fn ask(&mut self, input: &mut Input) -> Result<Option<Content>, CommandFailure> {
        let asking = self.calls.confirmations();
        if std::mem::replace(&mut self.asked, true) || asking.is_empty() {
            return Ok(None);
        }
        let mut answers = Vec::new();
        for call in asking {
            match self.confirm(&call, input).await? {
                Some(said) => answers.push((call, said)),
                // The calls of a run are answered together.
                None => return Ok(None),
            }
        }
        Ok(Some(calls::confirmed(&answers)))
    }

    /// Asks for a yes or a no. Returns `None` if there is no answer.
    async fn confirm(&mut self, call: &FunctionCall, input: &mut Input) -> Result<Option<YesOrNo>, CommandFailure> {
        self.screen.question(call)?;
        // Text that was typed before the question appeared is not an answer to it.
        input.discard_typed_ahead();
        loop {
            match input.next("y/n> ").await? {
                InputLine::Text(line) => {
                    self.interrupts = 0;
                    if let Some(said) = YesOrNo::parse(&line) {
                        return Ok(Some(said));
                    }
                    // The lines of a pipe were written before the question.
                    if self.reader == OutputReader::Pipe {
                        self.screen.aside("That is no y or n; the question stays open.")?;
                        self.unread = Some(line);
                        return Ok(None);
                    }
                    self.screen.aside("Say y or n.")?;
                }
                InputLine::Interrupted => {
                    self.interrupted()?;
                    return Ok(None);
                }
                InputLine::End => return Ok(None),
            }
        }
    }

    fn interrupted(&mut self) -> Result<Flow, CommandFailure> {
        self.interrupts += 1;
        if self.interrupts > 1 || self.reader == OutputReader::Pipe {
            return Ok(Flow::End);
        }
        self.screen.aside("Once more, or Ctrl-D, ends the conversation.")?;
        Ok(Flow::Continue)
    }

    /// Shows the command that continues the session.
    fn end(&mut self) -> Result<(), CommandFailure> {
        if !self.exists {
            return Ok(());
        }
        let (id, command) = (self.key.session_id(), self.resume.command(&self.key));
        self.screen.json(&json!({"type": "end", "sessionId": id, "goOnWith": command}))?;
        match command {
            Some(command) => {
                self.screen.aside(&format!("The session is {}. Continue it with:", visible(id)))?;
                Ok(self.screen.command(&visible(&command))?)
            }
            None => Ok(self.screen.aside("The session was in memory, and is gone.")?),
        }
    }

    fn show(&mut self, exchanges: &[Arc<Event>]) -> Result<(), CommandFailure> {
        for event in exchanges {
            self.screen.said_before(event)?;
        }
        if !exchanges.is_empty() {
            self.screen.gap()?;
        }
        Ok(())
    }

    async fn session(&self, config: GetSessionConfig) -> Result<Option<Session>, CommandFailure> {
        Ok(self.runner.session_service().get_session(&self.key, &config).await?)
    }

    /// Returns the state as the agents see it, even if the session does not exist yet.
    async fn state(&self) -> Result<Map<String, Value>, CommandFailure> {
        if let Some(session) = self.session(GetSessionConfig::state_only()).await? {
            return Ok(session.state().to_map());
        }
        let sessions = self.runner.session_service();
        Ok(shared_state(sessions, self.key.app_name(), self.key.user_id()).await?)
    }
}

fn first_text(event: &Arc<Event>) -> Option<&str> {
    event.content.as_ref()?.parts().iter().find_map(|part| part.text.as_deref())
}
