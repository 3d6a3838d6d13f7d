//! The command that continues a conversation.

use std::path::Path;

use scratchbook::SessionKey;
use scratchbook::store::without_password;

use crate::args::ChatArgs;
use crate::context::{Context, DEFAULT_DATABASE};
use crate::environment;
use crate::shell::quoted;

/// The parts of the command line that the next command repeats.
#[derive(Debug)]
pub(super) struct ResumeCommand {
    words: Vec<String>,
    /// Whether the database outlives the conversation.
    lasts: bool,
}

impl ResumeCommand {
    pub(super) fn new(context: &Context, args: &ChatArgs) -> Self {
        let path = |path: &Path| path.display().to_string();
        let mut words = Vec::new();
        let mut option = |name: &str, value: Option<String>| {
            words.extend(value.into_iter().flat_map(|value| option_words(name, value)));
        };
        option("--agent", args.agent.as_deref().map(path));
        option("--agents", args.agents.as_deref().map(path));
        option("--app", args.app.clone());
        option("--model", args.model.clone());
        args.secret.iter().for_each(|secret| option("--secret", Some(secret.clone())));
        option("--schema", context.options.schema.as_deref().map(path));
        let keyring = context.options.keyring.clone().filter(|file| Some(file) != environment::keyring().as_ref());
        option("--keyring", keyring.as_deref().map(path));
        // Values from the environment are left out, because the next command reads them from there again.
        let of_environment = environment::database().ok().flatten();
        let uri = context.options.database.clone().filter(|uri| of_environment.as_ref() != Some(uri));
        let lasts = !context.uri(DEFAULT_DATABASE).starts_with("memory:");
        option("--database", uri.as_deref().map(without_password));
        Self { words, lasts }
    }

    /// Returns the command that continues a session; `None` if the session does not last.
    pub(super) fn command(&self, session: &SessionKey) -> Option<String> {
        let own = ["scratchbook".to_owned(), "chat".to_owned()].into_iter();
        let own = own.chain(option_words("--session", session.session_id().to_owned()));
        let user = Some(session.user_id().to_owned()).filter(|user| user != ChatArgs::USER);
        let own = own.chain(user.into_iter().flat_map(|user| option_words("--user", user)));
        let words = own.chain(self.words.iter().cloned()).map(|word| quoted(&word).into_owned());
        self.lasts.then(|| words.collect::<Vec<_>>().join(" "))
    }
}

/// Returns an option and its value, in one word if the value looks like an option.
fn option_words(name: &str, value: String) -> Vec<String> {
    if value.starts_with('-') { vec![format!("{name}={value}")] } else { vec![name.to_owned(), value] }
}
