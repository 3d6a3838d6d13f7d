//! The model of `Event`. Unknown fields of the event are left out, but unknown fields of its actions and content are
//! refused.

use super::check::FieldType::{Any, Bool, Dict, Float, Int, List, Model, Set, Str};
use super::check::{self, defaulted, optional, required};
use super::content::{CONTENT, TRANSCRIPTION};
use super::facts::{
    CACHE_METADATA, CITATION_METADATA, GO_AWAY, GROUNDING_METADATA, LOGPROBS_RESULT, SESSION_RESUMPTION_UPDATE,
    USAGE_METADATA, VOICE_ACTIVITY,
};

pub(super) static EVENT: check::BodyModel = check::BodyModel::ignoring(&[
    optional("modelVersion", Str),
    optional("content", Model(&CONTENT)),
    optional("groundingMetadata", Model(&GROUNDING_METADATA)),
    optional("partial", Bool),
    optional("turnComplete", Bool),
    optional("turnCompleteReason", Str),
    optional("interactionStatus", Str),
    optional("finishReason", Str),
    optional("errorCode", Str),
    optional("errorMessage", Str),
    optional("interrupted", Bool),
    optional("customMetadata", Dict(&Any)),
    optional("usageMetadata", Model(&USAGE_METADATA)),
    optional("liveSessionResumptionUpdate", Model(&SESSION_RESUMPTION_UPDATE)),
    optional("liveSessionId", Str),
    optional("goAway", Model(&GO_AWAY)),
    optional("voiceActivity", Model(&VOICE_ACTIVITY)),
    optional("inputTranscription", Model(&TRANSCRIPTION)),
    optional("outputTranscription", Model(&TRANSCRIPTION)),
    optional("avgLogprobs", Float),
    optional("logprobsResult", Model(&LOGPROBS_RESULT)),
    optional("cacheMetadata", Model(&CACHE_METADATA)),
    optional("citationMetadata", Model(&CITATION_METADATA)),
    optional("interactionId", Str),
    optional("environmentId", Str),
    defaulted("invocationId", Str),
    defaulted("author", Str),
    defaulted("actions", Model(&EVENT_ACTIONS)),
    optional("output", Any),
    defaulted("nodeInfo", Model(&NODE_INFO)),
    optional("longRunningToolIds", Set(&Str)),
    optional("branch", Str),
    optional("isolationScope", Str),
    defaulted("id", Str),
    defaulted("timestamp", Float),
]);

static EVENT_ACTIONS: check::BodyModel = check::BodyModel::forbidding(&[
    optional("skipSummarization", Bool),
    defaulted("stateDelta", Dict(&Any)),
    defaulted("artifactDelta", Dict(&Int)),
    optional("transferToAgent", Str),
    optional("transferReason", Str),
    optional("escalate", Bool),
    defaulted("requestedAuthConfigs", Dict(&Any)),
    defaulted("requestedToolConfirmations", Dict(&Model(&TOOL_CONFIRMATION))),
    optional("compaction", Model(&EVENT_COMPACTION)),
    optional("endOfAgent", Bool),
    optional("agentState", Dict(&Any)),
    optional("rewindBeforeInvocationId", Str),
    optional("route", Any),
    optional("renderUiWidgets", List(&Model(&UI_WIDGET))),
    optional("setModelResponse", Any),
]);

static TOOL_CONFIRMATION: check::BodyModel =
    check::BodyModel::forbidding(&[defaulted("hint", Str), defaulted("confirmed", Bool), optional("payload", Any)]);

static EVENT_COMPACTION: check::BodyModel = check::BodyModel::forbidding(&[
    required("startTimestamp", Float),
    required("endTimestamp", Float),
    required("compactedContent", Model(&CONTENT)),
]);

static UI_WIDGET: check::BodyModel =
    check::BodyModel::forbidding(&[required("id", Str), required("provider", Str), defaulted("payload", Dict(&Any))]);

static NODE_INFO: check::BodyModel = check::BodyModel::ignoring(&[
    defaulted("path", Str),
    optional("outputFor", List(&Str)),
    optional("messageAsOutput", Bool),
]);
