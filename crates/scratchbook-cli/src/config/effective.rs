//! The settings in effect, and where each comes from.

use std::any::TypeId;
use std::io;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory};
use serde_json::{Map, Number, Value, json};

use super::{GLOBAL_VARIABLES, options, shown};
use crate::args::Cli;
use crate::context::DEFAULT_DATABASE;
use crate::output::{Format, Output};

/// The options whose values can contain a password.
const URIS: [&str; 2] = ["database", "otlp_endpoint"];

/// A setting: an option, its values and their source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: String,
    /// Empty if the option is not set. Passwords are removed.
    pub(crate) values: Vec<Value>,
    /// Whether the option can have several values.
    is_list: bool,
    pub(crate) source: SettingSource,
}

/// The source of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingSource {
    Flag,
    Environment(String),
    File,
    Default,
}

impl SettingSource {
    fn describe(&self) -> String {
        match self {
            Self::Flag => "command line".to_owned(),
            Self::Environment(name) => name.clone(),
            Self::File => "file".to_owned(),
            Self::Default => "default".to_owned(),
        }
    }
}

/// Reads the settings of a server from the parsed arguments.
pub(super) fn settings(serve: &ArgMatches, from_file: &[String]) -> Vec<Setting> {
    let command = Cli::command();
    let settings = options(&command).filter_map(|arg| {
        let name = arg.get_long()?.to_owned();
        let id = arg.get_id().as_str();
        let raw = serve.get_raw(id).into_iter().flatten().map(|value| value.to_string_lossy());
        let mut values: Vec<_> = match arg.get_action() {
            // The environment has several words for true, so the parsed value is shown.
            ArgAction::SetTrue => vec![json!(serve.get_flag(id))],
            _ if URIS.contains(&id) => raw.map(|value| json!(shown::uri(&value))).collect(),
            _ if is_text(arg) => raw.map(|value| json!(value)).collect(),
            _ => raw.map(|value| number(&value).unwrap_or_else(|| json!(value))).collect(),
        };
        let source = match serve.value_source(id) {
            Some(ValueSource::CommandLine) => SettingSource::Flag,
            Some(ValueSource::EnvVariable) => {
                let of_global =
                    GLOBAL_VARIABLES.iter().find(|(global, _)| *global == id).map(|(_, name)| (*name).to_owned());
                let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned());
                SettingSource::Environment(variable.or(of_global).unwrap_or_default())
            }
            _ if from_file.contains(&name) => SettingSource::File,
            _ => SettingSource::Default,
        };
        if id == "database" && values.is_empty() {
            values.push(json!(DEFAULT_DATABASE));
        }
        let is_list = matches!(arg.get_action(), ArgAction::Append);
        Some(Setting { name, values, is_list, source })
    });
    settings.collect()
}

/// Prints settings as a config file, with their sources in comments, or as JSON.
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
        // Strings, numbers, true and false are the same in JSON and TOML.
        let written: Vec<_> = values.iter().map(Value::to_string).collect();
        let line = match written.as_slice() {
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

/// Returns whether every text is a valid value of an option.
fn is_text(arg: &Arg) -> bool {
    let kind = arg.get_value_parser().type_id();
    kind == TypeId::of::<String>() || kind == TypeId::of::<PathBuf>()
}

fn number(text: &str) -> Option<Value> {
    text.parse::<u64>().map(Value::from).ok().or_else(|| Number::from_f64(text.parse().ok()?).map(Value::Number))
}
