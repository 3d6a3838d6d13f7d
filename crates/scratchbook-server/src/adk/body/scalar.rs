//! Single values as pydantic reads them: its conversions, and its messages for values that it refuses.

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Number, Value, json};

use super::check::{Loc, Problems};

/// Records values that are not booleans, and converts numbers and words to booleans.
pub(super) fn boolean(value: &mut Value, loc: &Loc<'_>, problems: &mut Problems) {
    let read = match value {
        Value::Bool(_) => return,
        Value::String(text) => match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "t" | "yes" | "y" | "on" => Some(true),
            "0" | "false" | "f" | "no" | "n" | "off" => Some(false),
            _ => None,
        },
        Value::Number(number) => match number.as_f64() {
            Some(0.0) => Some(false),
            Some(1.0) => Some(true),
            Some(float) if float.fract() != 0.0 => {
                return problems.add("bool_type", loc, "Input should be a valid boolean", value);
            }
            _ => None,
        },
        _ => return problems.add("bool_type", loc, "Input should be a valid boolean", value),
    };
    match read {
        Some(read) => *value = Value::Bool(read),
        None => {
            let message = "Input should be a valid boolean, unable to interpret input";
            problems.add("bool_parsing", loc, message, value);
        }
    }
}

/// Records values that are not integers, and converts booleans, strings and whole floats to integers.
pub(super) fn integer(value: &mut Value, loc: &Loc<'_>, problems: &mut Problems) {
    let read = match value {
        Value::Number(number) if !number.is_f64() => return,
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => float as i64,
            _ => {
                let message = "Input should be a valid integer, got a number with a fractional part";
                return problems.add("int_from_float", loc, message, value);
            }
        },
        Value::Bool(flag) => i64::from(*flag),
        Value::String(text) => match text.trim().parse() {
            Ok(number) => number,
            Err(_) => {
                let message = "Input should be a valid integer, unable to parse string as an integer";
                return problems.add("int_parsing", loc, message, value);
            }
        },
        _ => return problems.add("int_type", loc, "Input should be a valid integer", value),
    };
    *value = Value::Number(read.into());
}

/// Records values that are not numbers, and converts booleans and strings to numbers.
pub(super) fn float(value: &mut Value, loc: &Loc<'_>, problems: &mut Problems) {
    let read = match value {
        Value::Number(_) => return,
        Value::Bool(flag) => f64::from(u8::from(*flag)),
        Value::String(text) => match text.trim().parse() {
            Ok(number) => number,
            Err(_) => {
                let message = "Input should be a valid number, unable to parse string as a number";
                return problems.add("float_parsing", loc, message, value);
            }
        },
        _ => return problems.add("float_type", loc, "Input should be a valid number", value),
    };
    match Number::from_f64(read) {
        Some(read) => *value = Value::Number(read),
        None => problems.add("finite_number", loc, "Input should be a finite number", value),
    }
}

/// The decoder of base64. It accepts text with or without padding, as pydantic does; callers first convert the standard
/// alphabet to the URL-safe one.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Records a string that is not base64.
pub(super) fn bytes(value: &mut Value, loc: &Loc<'_>, problems: &mut Problems) {
    let Value::String(text) = value else {
        return problems.add("bytes_type", loc, "Input should be a valid bytes", value);
    };
    let Err(error) = BASE64.decode(text.replace('+', "-").replace('/', "_")) else { return };
    let (message, error) = (format!("Data should be valid base64: {error}"), error.to_string());
    let context = json!({"encoding": "base64", "encoding_error": error});
    problems.add_with("bytes_invalid_encoding", loc, &message, value, Some(context));
}
