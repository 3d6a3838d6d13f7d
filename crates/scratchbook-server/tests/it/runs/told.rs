//! What logs and metrics know of runs.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use metrics_exporter_prometheus::PrometheusBuilder;
use scratchbook::{Error, ErrorKind, LlmAgent, ScriptedLlm};
use tracing_subscriber::fmt::MakeWriter;

use super::Host;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn runs_are_told_of_by_names_and_never_by_values() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
    let subscriber = subscriber.with_writer(lines.clone()).finish();
    let recorder = PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    // Of this thread, on which everything here is run.
    let _log = tracing::subscriber::set_default(subscriber);
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

    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
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
