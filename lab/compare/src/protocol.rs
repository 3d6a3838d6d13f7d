//! The messages between the harness and a runner, as lines of JSON.
//!
//! A runner is started as `RUNNER STORE LOCATION [SERVICE]`. It prints a [`Hello`], and then one [`RunnerAnswer`] for
//! each [`CellRequest`] that it reads. It ends when its standard input ends.

use serde::{Deserialize, Serialize};

/// The first line of a runner: what it measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The name of the system, such as `google-adk`.
    pub system: String,
    /// The class or the way that is measured, if the system has several for this store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The system's version.
    pub version: String,
    /// `memory`, `sqlite` or `postgres`.
    pub store: String,
    /// The configuration, in words.
    pub configuration: String,
}

/// Asks for one measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellRequest {
    /// What is done, such as `append`.
    pub workload: String,
    /// How many events, sessions or keys exist before the measurement, or how many keys a new session has.
    pub size: u64,
    /// How many tasks do this at the same time.
    pub tasks: usize,
    /// How long to measure, without the preparation.
    pub seconds: f64,
    /// The round, from 1. It makes ids unique.
    pub round: usize,
}

/// The answer of a runner to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RunnerAnswer {
    /// The system cannot do this, or takes too long for it.
    Unsupported {
        /// Why, in one sentence.
        unsupported: String,
    },
    /// The measurement failed.
    Failed {
        /// What went wrong.
        error: String,
    },
    /// The measurement succeeded.
    Measured(Measurement),
}

/// A measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// How many operations were acknowledged.
    pub operations: u64,
    /// How many operations were tried, if some can be refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempted: Option<u64>,
    /// How long they took together, in seconds.
    #[serde(serialize_with = "short")]
    pub seconds: f64,
    /// The processor time of the runner and its children, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "short_option")]
    pub processor_seconds: Option<f64>,
    /// How long single operations took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latencies_us: Option<Latencies>,
    /// What went wrong under concurrency.
    #[serde(default, deserialize_with = "or_nothing", skip_serializing_if = "WrongCounts::is_nothing")]
    pub wrong: WrongCounts,
    /// Bytes for each event, if the workload counts bytes.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "short_option")]
    pub bytes: Option<f64>,
    /// What a reader has to know about this measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Percentiles, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Half of the operations took at most this long.
    #[serde(serialize_with = "short")]
    pub p50: f64,
    /// Nine of ten operations took at most this long.
    #[serde(serialize_with = "short")]
    pub p90: f64,
    /// 99 of 100 operations took at most this long.
    #[serde(serialize_with = "short")]
    pub p99: f64,
    /// The slowest operation.
    #[serde(serialize_with = "short")]
    pub max: f64,
}

/// What went wrong, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WrongCounts {
    /// Acknowledged events or keys that do not exist afterwards.
    pub lost: u64,
    /// Appends that were refused although no other writer wrote their keys.
    pub refused: u64,
    /// Neighbouring events of one writer in the wrong order.
    pub disordered: u64,
    /// Events that are stored more than once.
    pub doubled: u64,
}

impl WrongCounts {
    /// Whether nothing went wrong.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.refused += other.refused;
        self.disordered += other.disordered;
        self.doubled += other.doubled;
    }
}

impl Measurement {
    /// Checks the numbers of an answer.
    ///
    /// # Errors
    ///
    /// A number cannot be right. The message names it.
    pub fn check(&self) -> Result<(), String> {
        if self.operations == 0 && self.attempted.unwrap_or(0) == 0 && self.bytes.is_none() {
            return Err("the runner measured nothing: operations is 0".to_owned());
        }
        let numbers = [Some(self.seconds), self.processor_seconds, self.bytes];
        match numbers.into_iter().flatten().find(|number| !number.is_finite() || *number < 0.0) {
            Some(number) => Err(format!("the runner answered {number}, which is no time and no size")),
            None if self.operations > 0 && self.seconds == 0.0 && self.bytes.is_none() => {
                Err("the runner answered 0 seconds".to_owned())
            }
            None => Ok(()),
        }
    }

    /// Returns the number of operations per second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.operations as f64 / self.seconds } else { 0.0 }
    }
}

/// Rounds a number to five digits, so that files of results stay small.
#[must_use]
pub fn rounded(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    format!("{number:.4e}").parse().unwrap_or(number)
}

/// Reads `null` as nothing.
fn or_nothing<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<WrongCounts, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn short<S: serde::Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    rounded(*number).serialize(serializer)
}

#[allow(clippy::ref_option, reason = "serde passes a reference to the field")]
fn short_option<S: serde::Serializer>(number: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    number.map(rounded).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> RunnerAnswer {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn answers_have_different_fields() {
        let why = RunnerAnswer::Unsupported { unsupported: "no".to_owned() };
        assert_eq!(answer(r#"{"unsupported":"no"}"#), why);
        assert_eq!(answer(r#"{"error":"full"}"#), RunnerAnswer::Failed { error: "full".to_owned() });
        let text = r#"{"operations":3,"seconds":1.5,"processor_seconds":null,"latencies_us":null,"wrong":{"lost":1},
            "bytes":null,"note":null}"#;
        let RunnerAnswer::Measured(measured) = answer(text) else { panic!("it is a measurement") };
        assert_eq!((measured.per_second(), measured.wrong.lost, measured.wrong.doubled), (2.0, 1, 0));
        let RunnerAnswer::Measured(measured) = answer(r#"{"operations":3,"seconds":1.5,"wrong":null}"#) else {
            panic!("it is a measurement")
        };
        assert!(measured.wrong.is_nothing());
    }

    #[test]
    fn nonsense_is_not_an_answer() {
        for text in ["{}", "3", r#"{"operations":-1,"seconds":1}"#, r#"{"operations":1}"#, "hello"] {
            assert!(serde_json::from_str::<RunnerAnswer>(text).is_err(), "{text}");
        }
        let measured = |operations, seconds| Measurement { operations, seconds, ..Measurement::default() };
        assert!(measured(0, 1.0).check().is_err());
        assert!(measured(1, 0.0).check().is_err());
        assert!(measured(1, f64::NAN).check().is_err());
        assert!(measured(1, 0.1).check().is_ok());
    }

    #[test]
    fn numbers_are_written_with_five_digits() {
        let measured = Measurement { operations: 7, seconds: 1.234_567_89, ..Measurement::default() };
        assert_eq!(serde_json::to_string(&measured).unwrap(), r#"{"operations":7,"seconds":1.2346}"#);
    }
}
