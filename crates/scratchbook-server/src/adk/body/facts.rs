//! The schemas of the facts that a model reports about its answer: sources, usage and probabilities.

use super::check::FieldType::{Bool, Bytes, Float, Int, List, Model, Str};
use super::check::{self, optional, required};

pub(super) static GROUNDING_METADATA: check::BodyModel = check::BodyModel::forbidding(&[
    optional("imageSearchQueries", List(&Str)),
    optional("groundingChunks", List(&Model(&GROUNDING_CHUNK))),
    optional("groundingSupports", List(&Model(&GROUNDING_SUPPORT))),
    optional("retrievalMetadata", Model(&RETRIEVAL_METADATA)),
    optional("searchEntryPoint", Model(&SEARCH_ENTRY_POINT)),
    optional("webSearchQueries", List(&Str)),
    optional("googleMapsWidgetContextToken", Str),
    optional("retrievalQueries", List(&Str)),
    optional("sourceFlaggingUris", List(&Model(&SOURCE_FLAGGING_URI))),
]);

static GROUNDING_CHUNK: check::BodyModel = check::BodyModel::forbidding(&[
    optional("image", Model(&CHUNK_IMAGE)),
    optional("maps", Model(&CHUNK_MAPS)),
    optional("retrievedContext", Model(&RETRIEVED_CONTEXT)),
    optional("web", Model(&CHUNK_WEB)),
]);

static CHUNK_IMAGE: check::BodyModel = check::BodyModel::forbidding(&[
    optional("sourceUri", Str),
    optional("imageUri", Str),
    optional("title", Str),
    optional("domain", Str),
]);

static CHUNK_MAPS: check::BodyModel = check::BodyModel::forbidding(&[
    optional("placeAnswerSources", Model(&PLACE_ANSWER_SOURCES)),
    optional("placeId", Str),
    optional("text", Str),
    optional("title", Str),
    optional("uri", Str),
    optional("route", Model(&MAPS_ROUTE)),
]);

static PLACE_ANSWER_SOURCES: check::BodyModel = check::BodyModel::forbidding(&[
    optional("reviewSnippet", List(&Model(&REVIEW_SNIPPET))),
    optional("flagContentUri", Str),
    optional("reviewSnippets", List(&Model(&REVIEW_SNIPPET))),
]);

static REVIEW_SNIPPET: check::BodyModel = check::BodyModel::forbidding(&[
    optional("authorAttribution", Model(&AUTHOR_ATTRIBUTION)),
    optional("flagContentUri", Str),
    optional("googleMapsUri", Str),
    optional("relativePublishTimeDescription", Str),
    optional("review", Str),
    optional("reviewId", Str),
    optional("title", Str),
]);

static AUTHOR_ATTRIBUTION: check::BodyModel =
    check::BodyModel::forbidding(&[optional("displayName", Str), optional("photoUri", Str), optional("uri", Str)]);

static MAPS_ROUTE: check::BodyModel = check::BodyModel::forbidding(&[
    optional("distanceMeters", Int),
    optional("duration", Str),
    optional("encodedPolyline", Str),
]);

static RETRIEVED_CONTEXT: check::BodyModel = check::BodyModel::forbidding(&[
    optional("documentName", Str),
    optional("ragChunk", Model(&RAG_CHUNK)),
    optional("text", Str),
    optional("title", Str),
    optional("uri", Str),
    optional("customMetadata", List(&Model(&CHUNK_METADATA))),
    optional("fileSearchStore", Str),
    optional("pageNumber", Int),
    optional("mediaId", Str),
]);

static RAG_CHUNK: check::BodyModel = check::BodyModel::forbidding(&[
    optional("pageSpan", Model(&RAG_CHUNK_PAGE_SPAN)),
    optional("text", Str),
    optional("chunkId", Str),
    optional("fileId", Str),
]);

static RAG_CHUNK_PAGE_SPAN: check::BodyModel =
    check::BodyModel::forbidding(&[optional("firstPage", Int), optional("lastPage", Int)]);

static CHUNK_METADATA: check::BodyModel = check::BodyModel::forbidding(&[
    optional("key", Str),
    optional("numericValue", Float),
    optional("stringListValue", Model(&STRING_LIST)),
    optional("stringValue", Str),
]);

static STRING_LIST: check::BodyModel = check::BodyModel::forbidding(&[optional("values", List(&Str))]);

static CHUNK_WEB: check::BodyModel =
    check::BodyModel::forbidding(&[optional("domain", Str), optional("title", Str), optional("uri", Str)]);

static GROUNDING_SUPPORT: check::BodyModel = check::BodyModel::forbidding(&[
    optional("confidenceScores", List(&Float)),
    optional("groundingChunkIndices", List(&Int)),
    optional("segment", Model(&SEGMENT)),
    optional("renderedParts", List(&Int)),
]);

static SEGMENT: check::BodyModel = check::BodyModel::forbidding(&[
    optional("startIndex", Int),
    optional("endIndex", Int),
    optional("partIndex", Int),
    optional("text", Str),
]);

static RETRIEVAL_METADATA: check::BodyModel =
    check::BodyModel::forbidding(&[optional("googleSearchDynamicRetrievalScore", Float)]);

static SEARCH_ENTRY_POINT: check::BodyModel =
    check::BodyModel::forbidding(&[optional("renderedContent", Str), optional("sdkBlob", Bytes)]);

static SOURCE_FLAGGING_URI: check::BodyModel =
    check::BodyModel::forbidding(&[optional("flagContentUri", Str), optional("sourceId", Str)]);

pub(super) static USAGE_METADATA: check::BodyModel = check::BodyModel::forbidding(&[
    optional("cacheTokensDetails", List(&Model(&MODALITY_TOKEN_COUNT))),
    optional("cachedContentTokenCount", Int),
    optional("candidatesTokenCount", Int),
    optional("candidatesTokensDetails", List(&Model(&MODALITY_TOKEN_COUNT))),
    optional("promptTokenCount", Int),
    optional("promptTokensDetails", List(&Model(&MODALITY_TOKEN_COUNT))),
    optional("thoughtsTokenCount", Int),
    optional("toolUsePromptTokenCount", Int),
    optional("toolUsePromptTokensDetails", List(&Model(&MODALITY_TOKEN_COUNT))),
    optional("totalTokenCount", Int),
    optional("trafficType", Str),
]);

static MODALITY_TOKEN_COUNT: check::BodyModel =
    check::BodyModel::forbidding(&[optional("modality", Str), optional("tokenCount", Int)]);

pub(super) static SESSION_RESUMPTION_UPDATE: check::BodyModel = check::BodyModel::forbidding(&[
    optional("newHandle", Str),
    optional("resumable", Bool),
    optional("lastConsumedClientMessageIndex", Int),
]);

pub(super) static GO_AWAY: check::BodyModel = check::BodyModel::forbidding(&[optional("timeLeft", Str)]);

pub(super) static VOICE_ACTIVITY: check::BodyModel =
    check::BodyModel::forbidding(&[optional("voiceActivityType", Str), optional("audioOffset", Str)]);

pub(super) static LOGPROBS_RESULT: check::BodyModel = check::BodyModel::forbidding(&[
    optional("chosenCandidates", List(&Model(&CANDIDATE))),
    optional("topCandidates", List(&Model(&TOP_CANDIDATES))),
    optional("logProbabilitySum", Float),
]);

static CANDIDATE: check::BodyModel = check::BodyModel::forbidding(&[
    optional("logProbability", Float),
    optional("token", Str),
    optional("tokenId", Int),
]);

static TOP_CANDIDATES: check::BodyModel =
    check::BodyModel::forbidding(&[optional("candidates", List(&Model(&CANDIDATE)))]);

pub(super) static CITATION_METADATA: check::BodyModel =
    check::BodyModel::forbidding(&[optional("citations", List(&Model(&CITATION)))]);

static CITATION: check::BodyModel = check::BodyModel::forbidding(&[
    optional("endIndex", Int),
    optional("license", Str),
    optional("publicationDate", Model(&DATE)),
    optional("startIndex", Int),
    optional("title", Str),
    optional("uri", Str),
]);

static DATE: check::BodyModel =
    check::BodyModel::forbidding(&[optional("day", Int), optional("month", Int), optional("year", Int)]);

pub(super) static CACHE_METADATA: check::BodyModel = check::BodyModel::forbidding(&[
    optional("cache_name", Str),
    optional("expire_time", Float),
    required("fingerprint", Str),
    optional("invocations_used", Int),
    required("contents_count", Int),
    optional("created_at", Float),
]);
