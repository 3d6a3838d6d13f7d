//! What is used, and where it comes from.

use std::io;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory};
use serde_json::{Map, Value, json};

use super::{GLOBAL_VARIABLES, options, shown};
use crate::args::Cli;
use crate::database;
use crate::output::{Format, Output};

/// The options whose values may have a password in them.
const URIS: [&str; 2] = ["database", "otlp_endpoint"];

/// An option, its values and their source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: String,
    /// None where the option is not set; passwords are hidden.
    pub(crate) values: Vec<String>,
    /// Whether it may have several values.
    is_list: bool,
    pub(crate) source: Source,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Flag,
    Environment(String),
    File,
    Default,
}

impl Source {
    fn describe(&self) -> String {
        match self {
            Self::Flag => "command line".to_owned(),
            Self::Environment(name) => name.clone(),
            Self::File => "file".to_owned(),
            Self::Default => "default".to_owned(),
        }
    }
}

/// The settings of a server as they were matched.
pub(super) fn settings(serve: &ArgMatches, from_file: &[String]) -> Vec<Setting> {
    let command = Cli::command();
    let settings = options(&command).filter_map(|arg| {
        let name = arg.get_long()?.to_owned();
        let id = arg.get_id().as_str();
        let raw = serve.get_raw(id).into_iter().flatten().map(|value| value.to_string_lossy());
        let mut values: Vec<_> =
            raw.map(|value| if URIS.contains(&id) { shown::uri(&value) } else { value.into_owned() }).collect();
        let source = match serve.value_source(id) {
            Some(ValueSource::CommandLine) => Source::Flag,
            Some(ValueSource::EnvVariable) => {
                let of_global =
                    GLOBAL_VARIABLES.iter().find(|(global, _)| *global == id).map(|(_, name)| (*name).to_owned());
                let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned());
                Source::Environment(variable.or(of_global).unwrap_or_default())
            }
            _ if from_file.contains(&name) => Source::File,
            _ => Source::Default,
        };
        if id == "database" && values.is_empty() {
            values.push(database::DEFAULT.to_owned());
        }
        let is_list = matches!(arg.get_action(), clap::ArgAction::Append);
        Some(Setting { name, values, is_list, source })
    });
    settings.collect()
}

/// Prints settings as a file that sets them, with the sources beside; or as JSON.
pub(crate) fn print(settings: &[Setting], out: &mut Output) -> io::Result<()> {
    if out.format() == Format::Json {
        let shown = settings.iter().map(|setting| {
            let value = match setting.values.as_slice() {
                values if setting.is_list => json!(values),
                [] => Value::Null,
                [value, ..] => json!(value),
            };
            (setting.name.clone(), json!({"value": value, "source": setting.source.describe()}))
        });
        return out.json(&shown.collect::<Map<_, _>>());
    }
    for Setting { name, values, is_list, source } in settings {
        let source = source.describe();
        let quoted: Vec<_> = values.iter().map(|value| quoted(value)).collect();
        let line = match quoted.as_slice() {
            values if *is_list => format!("{name} = [{}]", values.join(", ")),
            [] => format!("# {name} is not set"),
            [value, ..] => format!("{name} = {value}"),
        };
        if values.is_empty() && !is_list {
            out.text(line)?;
        } else {
            out.text(format_args!("{line:50} # {source}"))?;
        }
    }
    Ok(())
}

/// A value as TOML has it: a JSON string is one of TOML's too.
fn quoted(value: &str) -> String {
    match value {
        "true" | "false" => value.to_owned(),
        _ if value.parse::<u64>().is_ok() => value.to_owned(),
        _ => json!(value).to_string(),
    }
}
