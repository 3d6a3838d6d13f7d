//! What logs and metrics show of runs.

use metrics_exporter_prometheus::PrometheusBuilder;
use scratchbook::model::ScriptedLlm;
use scratchbook::{Error, ErrorKind, LlmAgent};
use tracing::Level;

use super::Host;
use crate::log::LogLines;

#[tokio::test]
async fn runs_are_told_of_by_names_and_never_by_values() {
    let log = LogLines::default();
    let recorder = PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    // Listens to this thread, on which the whole test runs.
    let _listening = log.listen(Level::TRACE);
    let _metrics = metrics::set_default_local_recorder(&recorder);

    let model = ScriptedLlm::from_fn(|request| match request.contents.last().map(scratchbook::Content::text) {
        Some(said) if said.contains("boom") => Err(Error::new(ErrorKind::Unavailable, "hunter2")),
        _ => Ok("hunter2".into()),
    });
    let host = Host::start(LlmAgent::builder("demo").model(model).output_key("last").build().unwrap()).await;
    let answer = host.run_sse("hunter2").await;
    let id = answer.header("scratchbook-invocation-id").unwrap().to_owned();
    answer.frames().await;
    host.run_sse("hunter2 boom").await.frames().await;

    let log = log.take();
    let ended: Vec<_> = log.lines().filter(|line| line.contains("the run has ended")).collect();
    assert!(ended[0].contains(&format!("run{{app=\"demo\" invocation_id=\"{id}\"")), "{}", ended[0]);
    assert!(ended[0].contains("outcome=\"completed\"") && ended[0].contains("time="), "{}", ended[0]);
    assert!(ended[1].contains("outcome=\"failed\" error=\"unavailable\""), "{}", ended[1]);
    assert!(!log.contains("hunter2"), "{log}");
    let shown = metrics.render();
    for line in [
        "scratchbook_runs_total{app=\"demo\",outcome=\"completed\"} 1",
        "scratchbook_runs_total{app=\"demo\",outcome=\"failed\"} 1",
        "scratchbook_run_seconds_count{app=\"demo\",outcome=\"completed\"} 1",
        "scratchbook_runs{app=\"demo\"} 0",
    ] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    assert!(!shown.contains("hunter2"));
}
