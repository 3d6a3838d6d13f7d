//! The pages of `scratchbook serve` in a browser.
#![cfg(unix)]

mod chromium;
