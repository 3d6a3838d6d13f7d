//! The page of the overview: plots of the last half hour, for the apps that the caller may access.

use std::collections::BTreeSet;

use axum::Extension;
use axum::extract::State;
use maud::{Markup, html};
use scratchbook::Result;
use scratchbook::session::ListSessionsConfig;
use serde::Deserialize;

use super::super::page::{InspectorPage, PageQuery};
use super::super::value::{ago, duration, number, size, visible};
use super::super::{PageAnswer, address};
use super::plot::Plot;
use crate::access::{Caller, Right};
use crate::activity::{AppCounts, Interval, SECONDS, SlowCall};
use crate::app_state::AppState;
use crate::surface::INSPECTOR;

/// How many slow calls are shown.
const CALLS: usize = 10;
/// For how many apps the size is measured.
const APPS: usize = 20;
/// About how many bytes of sessions are read to measure the size of an app.
const READ: u64 = 256 << 10;

/// What is shown.
#[derive(Debug, Deserialize)]
pub(in super::super) struct OverviewParams {
    /// Show only this app; if empty, all apps.
    #[serde(default)]
    app: String,
}

pub(in super::super) async fn page(
    State(app_state): State<AppState>,
    Extension(caller): Extension<Caller>,
    PageQuery(view): PageQuery<OverviewParams>,
) -> PageAnswer {
    caller.check(Right::Read)?;
    let now = app_state.environment.now();
    // A caller that is restricted to one user does not see what other users of the app do.
    let reaches = |app: &str| caller.user().is_none() && caller.reaches_app(app);
    let is_shown = |app: &str| reaches(app) && (view.app.is_empty() || view.app == app);
    let apps = names(&app_state, &reaches, now);
    for app in apps.iter().filter(|app| is_shown(app)).take(APPS) {
        note_size(&app_state, app, now).await?;
    }
    let intervals = app_state.activity.intervals(now);
    let body = body(&app_state, &apps, &view.app, &intervals, &is_shown, now);
    let above = vec![("overview".to_owned(), format!("{INSPECTOR}/overview"))];
    Ok(InspectorPage { title: "Overview", above, caller: Some(&caller), scripts: &["overview.js", "time.js"], body }
        .answer())
}

/// Returns the apps that are hosted or were written to, if the caller may access them.
fn names(app_state: &AppState, reaches: &impl Fn(&str) -> bool, now: f64) -> BTreeSet<String> {
    let hosted = app_state.apps.iter().map(|(name, _)| name.to_owned());
    let written = app_state.activity.intervals(now).into_iter().flat_map(|interval| interval.apps.into_keys());
    hosted.chain(written).filter(|app| reaches(app)).collect()
}

/// Adds up the bytes of an app's newest sessions, at most once in an interval.
async fn note_size(app_state: &AppState, app_name: &str, now: f64) -> Result<()> {
    if app_state.activity.has_bytes(app_name, now) {
        return Ok(());
    }
    let config = ListSessionsConfig::default().newest_first().with_page_size(1_000).with_page_bytes(READ);
    let page = app_state.store.sessions.list_sessions(app_name, &config).await?;
    let bytes = page.sessions.iter().filter_map(|session| session.stored_bytes()).sum();
    app_state.activity.note_bytes(app_name, bytes, now);
    Ok(())
}

fn body(
    app_state: &AppState,
    apps: &BTreeSet<String>,
    chosen: &str,
    intervals: &[Interval],
    is_shown: &impl Fn(&str) -> bool,
    now: f64,
) -> Markup {
    let sum = |interval: &Interval, of: fn(&AppCounts) -> u64| {
        interval.apps.iter().filter(|(app, _)| is_shown(app)).map(|(_, counts)| of(counts)).sum::<u64>()
    };
    let each = |of: fn(&AppCounts) -> u64| intervals.iter().map(|interval| sum(interval, of)).collect::<Vec<_>>();
    let mut slow: Vec<&SlowCall> =
        intervals.iter().flat_map(|interval| &interval.slow).filter(|call| is_shown(&call.app_name)).collect();
    slow.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let bytes: Vec<Option<f64>> = intervals
        .iter()
        .map(|interval| {
            let known = || interval.apps.iter().filter(|(app, _)| is_shown(app)).filter_map(|(_, counts)| counts.bytes);
            known().next().map(|_| known().sum::<u64>() as f64)
        })
        .collect();
    html! {
        div.bar {
            h1 { "Overview" }
            form.search method="get" {
                select name="app" aria-label="App" {
                    option value="" { "All apps" }
                    @for app in apps { option value=(app) selected[app == chosen] { (visible(app)) } }
                }
                button { "Show" }
            }
        }
        div #plots {
            div.plots {
                (rate("Appends per second", &each(|counts| counts.appends)))
                (counted("Conflicts", &each(|counts| counts.conflicts)))
                (counted("Errors", &each(|counts| counts.errors)))
                (sizes(&bytes))
            }
            h2 { "Slowest calls of the store" }
            @if slow.is_empty() { p.empty { "No calls in the last half hour." } }
            @else { (calls(&slow[..slow.len().min(CALLS)], now)) }
            h2 { "Apps" }
            @if apps.is_empty() { p.empty { "No app of yours is hosted here or was written to in the last half hour." } }
            @else { (table(app_state, apps, intervals)) }
        }
        p.soft {
            "What this server has done in the last half hour, kept in its memory: after a restart it begins again, and other \
             servers of the same store count by themselves. The size is that of the newest sessions, as far as they fit into \
             one page, and is looked at while this page is open."
        }
    }
}

fn rate(title: &str, counts: &[u64]) -> Markup {
    let per_second = |count: u64| count as f64 / SECONDS as f64;
    let values: Vec<_> = counts.iter().map(|count| Some(per_second(*count))).collect();
    let all: u64 = counts.iter().sum();
    let top = format!("{:.1}", per_second(counts.iter().copied().max().unwrap_or_default()));
    Plot { title, words: format!("{} in all", number(all)), values: &values, top }.markup()
}

fn counted(title: &str, counts: &[u64]) -> Markup {
    let values: Vec<_> = counts.iter().map(|count| Some(*count as f64)).collect();
    let all: u64 = counts.iter().sum();
    let top = number(counts.iter().copied().max().unwrap_or_default());
    Plot { title, words: format!("{} in all", number(all)), values: &values, top }.markup()
}

fn sizes(bytes: &[Option<f64>]) -> Markup {
    let text = |bytes: f64| size(bytes as u64);
    let words =
        bytes.iter().rev().flatten().next().map_or("not known yet".to_owned(), |last| format!("{} now", text(*last)));
    let top = text(bytes.iter().flatten().copied().fold(0.0, f64::max));
    Plot { title: "Size", words, values: bytes, top }.markup()
}

fn calls(slow: &[&SlowCall], now: f64) -> Markup {
    html! {
        table.list {
            thead { tr { th scope="col" { "Call" } th scope="col" { "App" } th.number scope="col" { "Time" } th.number scope="col" { "When" } } }
            tbody {
                @for call in slow {
                    tr {
                        td { code { (call.method) } }
                        td data-name="App" { a.quiet href=(address::app(&call.app_name)) { bdi { (visible(&call.app_name)) } } }
                        td.number data-name="Time" { (duration(call.seconds)) }
                        td.number data-name="When" { (ago(call.time, now)) }
                    }
                }
            }
        }
    }
}

/// Returns the figures of each app.
fn table(app_state: &AppState, apps: &BTreeSet<String>, intervals: &[Interval]) -> Markup {
    let of = |app: &str| {
        let counts = intervals.iter().filter_map(|interval| interval.apps.get(app));
        counts.fold(AppCounts::default(), |all, counts| AppCounts {
            appends: all.appends + counts.appends,
            conflicts: all.conflicts + counts.conflicts,
            errors: all.errors + counts.errors,
            bytes: counts.bytes.or(all.bytes),
        })
    };
    html! {
        table.list {
            thead {
                tr {
                    th scope="col" { "App" } th.number scope="col" { "Appends" } th.number scope="col" { "Conflicts" }
                    th.number scope="col" { "Errors" } th.number scope="col" { "Size" }
                }
            }
            tbody {
                @for app in apps {
                    @let counts = of(app);
                    tr {
                        td.name {
                            a href=(address::app(app)) { bdi { (visible(app)) } }
                            @if app_state.apps.get(app).is_some() { " " span.badge { "agent hosted here" } }
                        }
                        td.number data-name="Appends" { (number(counts.appends)) }
                        td.number data-name="Conflicts" { (number(counts.conflicts)) }
                        td.number data-name="Errors" { (number(counts.errors)) }
                        td.number data-name="Size" { @match counts.bytes { Some(bytes) => (size(bytes)), None => "?" } }
                    }
                }
            }
        }
    }
}
