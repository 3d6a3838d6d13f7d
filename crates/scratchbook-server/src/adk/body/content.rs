//! The models of `Content` and `Part`, as Google's GenAI types define them. Unknown fields are refused.

use super::check::FieldType::{Any, Bool, Bytes, Dict, Float, Int, List, Model, Str};
use super::check::{self, optional};

pub(super) static CONTENT: check::BodyModel =
    check::BodyModel::forbidding(&[optional("parts", List(&Model(&PART))), optional("role", Str)]);

pub(super) static PART: check::BodyModel = check::BodyModel::forbidding(&[
    optional("mediaResolution", Model(&PART_MEDIA_RESOLUTION)),
    optional("codeExecutionResult", Model(&CODE_EXECUTION_RESULT)),
    optional("executableCode", Model(&EXECUTABLE_CODE)),
    optional("fileData", Model(&FILE_DATA)),
    optional("functionCall", Model(&FUNCTION_CALL)),
    optional("functionResponse", Model(&FUNCTION_RESPONSE)),
    optional("inlineData", Model(&BLOB)),
    optional("text", Str),
    optional("thought", Bool),
    optional("thoughtSignature", Bytes),
    optional("videoMetadata", Model(&VIDEO_METADATA)),
    optional("toolCall", Model(&TOOL_CALL)),
    optional("toolResponse", Model(&TOOL_RESPONSE)),
    optional("partMetadata", Dict(&Any)),
    optional("audioTranscription", Model(&TRANSCRIPTION)),
    optional("mediaProcessing", Str),
    optional("speechMetadata", Model(&SPEECH_METADATA)),
]);

static PART_MEDIA_RESOLUTION: check::BodyModel =
    check::BodyModel::forbidding(&[optional("level", Str), optional("numTokens", Int)]);

static CODE_EXECUTION_RESULT: check::BodyModel =
    check::BodyModel::forbidding(&[optional("outcome", Str), optional("output", Str), optional("id", Str)]);

static EXECUTABLE_CODE: check::BodyModel =
    check::BodyModel::forbidding(&[optional("code", Str), optional("language", Str), optional("id", Str)]);

static FILE_DATA: check::BodyModel =
    check::BodyModel::forbidding(&[optional("displayName", Str), optional("fileUri", Str), optional("mimeType", Str)]);

static FUNCTION_CALL: check::BodyModel = check::BodyModel::forbidding(&[
    optional("id", Str),
    optional("args", Dict(&Any)),
    optional("name", Str),
    optional("partialArgs", List(&Model(&PARTIAL_ARG))),
    optional("willContinue", Bool),
]);

static PARTIAL_ARG: check::BodyModel = check::BodyModel::forbidding(&[
    optional("boolValue", Bool),
    optional("jsonPath", Str),
    optional("nullValue", Str),
    optional("numberValue", Float),
    optional("stringValue", Str),
    optional("willContinue", Bool),
]);

static FUNCTION_RESPONSE: check::BodyModel = check::BodyModel::forbidding(&[
    optional("willContinue", Bool),
    optional("scheduling", Str),
    optional("parts", List(&Model(&FUNCTION_RESPONSE_PART))),
    optional("id", Str),
    optional("name", Str),
    optional("response", Dict(&Any)),
]);

static FUNCTION_RESPONSE_PART: check::BodyModel = check::BodyModel::forbidding(&[
    optional("inlineData", Model(&FUNCTION_RESPONSE_BLOB)),
    optional("fileData", Model(&FUNCTION_RESPONSE_FILE_DATA)),
    optional("mediaProcessing", Str),
]);

static FUNCTION_RESPONSE_BLOB: check::BodyModel =
    check::BodyModel::forbidding(&[optional("mimeType", Str), optional("data", Bytes), optional("displayName", Str)]);

static FUNCTION_RESPONSE_FILE_DATA: check::BodyModel =
    check::BodyModel::forbidding(&[optional("fileUri", Str), optional("mimeType", Str), optional("displayName", Str)]);

static BLOB: check::BodyModel =
    check::BodyModel::forbidding(&[optional("data", Bytes), optional("displayName", Str), optional("mimeType", Str)]);

static VIDEO_METADATA: check::BodyModel =
    check::BodyModel::forbidding(&[optional("endOffset", Str), optional("fps", Float), optional("startOffset", Str)]);

static TOOL_CALL: check::BodyModel =
    check::BodyModel::forbidding(&[optional("id", Str), optional("toolType", Str), optional("args", Dict(&Any))]);

static TOOL_RESPONSE: check::BodyModel =
    check::BodyModel::forbidding(&[optional("id", Str), optional("toolType", Str), optional("response", Dict(&Any))]);

pub(super) static TRANSCRIPTION: check::BodyModel = check::BodyModel::forbidding(&[
    optional("text", Str),
    optional("finished", Bool),
    optional("languageCode", Str),
    optional("speakerLabel", Str),
    optional("words", List(&Model(&WORD_INFO))),
    optional("startOffset", Str),
    optional("endOffset", Str),
]);

static WORD_INFO: check::BodyModel =
    check::BodyModel::forbidding(&[optional("word", Str), optional("startOffset", Str), optional("endOffset", Str)]);

static SPEECH_METADATA: check::BodyModel =
    check::BodyModel::forbidding(&[optional("speaker", Str), optional("style", Str)]);
