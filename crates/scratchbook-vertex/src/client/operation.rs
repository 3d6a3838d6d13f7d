//! Long-running operations, which one request starts and later requests poll.

use google_cloud_gax::error::Error as GaxError;
use google_cloud_longrunning::model::Operation;
use tokio::time::{sleep, timeout};

use super::VertexAiSessionService;
use super::failure::{CallKind, failure, late, unfinished};
use super::retry::looks;
use scratchbook_core::error::Result;

impl VertexAiSessionService {
    /// Starts an operation and waits until it is finished, up to its timeout.
    pub(super) async fn done<B>(&self, what: &str, call: CallKind, begin: B) -> Result<Operation>
    where
        B: Future<Output = Result<Operation, GaxError>> + Send,
    {
        let done = async {
            let mut operation = begin.await.map_err(|error| failure(what, call, error))?;
            let mut pauses = looks();
            while !operation.done {
                sleep(pauses.next().unwrap_or_default()).await;
                let look = self.patience.with(self.client.get_operation().set_name(&operation.name)).send().await;
                operation = look.map_err(|error| unfinished(what, call, error))?;
            }
            match operation.error() {
                // The operation has failed, and this status is its outcome.
                Some(status) => Err(failure(what, CallKind::Read, GaxError::service(status.as_ref().into()))),
                None => Ok(operation),
            }
        };
        let too_late = |_| late(what, call, self.create_timeout.as_secs_f64());
        timeout(self.create_timeout, done).await.map_err(too_late)?
    }
}
