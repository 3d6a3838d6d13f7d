//! Agents and their requests to models, compared with google-adk itself, which runs in Python.

mod beside;
mod requests;
