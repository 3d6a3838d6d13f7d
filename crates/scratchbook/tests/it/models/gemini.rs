//! Promises of models of the Gemini API.
