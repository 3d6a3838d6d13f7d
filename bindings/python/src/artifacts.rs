//! The class `Artifacts`: the named, versioned data that a store keeps beside its sessions. Deep values are JSON.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use scratchbook::artifact::{ArtifactService, ListVersionsConfig};
use scratchbook::content::Part;
use scratchbook::{Result, SessionKey, json, plan};
use serde_json::{Map, Value};

use crate::call::Call;
use crate::opened::{LazyStore, let_go};
use crate::runtime;
use crate::shape::CallAnswer;
use crate::store::{AddressTuple, PyStore, key};

/// The artifacts of a store, which is opened at its first call.
#[pyclass(frozen, module = "scratchbook._scratchbook", name = "Artifacts")]
pub(crate) struct PyArtifacts {
    opened: Arc<LazyStore>,
}

impl Drop for PyArtifacts {
    fn drop(&mut self) {
        let_go(Arc::clone(&self.opened));
    }
}

impl PyArtifacts {
    fn call<F>(
        &self,
        py: Python<'_>,
        address: AddressTuple,
        work: impl FnOnce(Arc<dyn ArtifactService>, SessionKey) -> F + Send + 'static,
    ) -> PyResult<Call>
    where
        F: Future<Output = Result<CallAnswer>> + Send + 'static,
    {
        self.opened.check()?;
        let opened = Arc::clone(&self.opened);
        let called = async move {
            let key = key(&address)?;
            let artifacts = Arc::clone(&opened.store().await?.artifacts);
            work(artifacts, key).await
        };
        Ok(Call::new(runtime::handle(py)?, called))
    }
}

#[pymethods]
impl PyArtifacts {
    /// Creates the artifacts of a store. Both use one connection, which the first call to either opens.
    #[new]
    fn new(store: &PyStore) -> Self {
        Self { opened: store.opened() }
    }

    /// Saves a version and returns its number.
    fn save(
        &self,
        py: Python<'_>,
        address: AddressTuple,
        name: String,
        part: PyBackedBytes,
        metadata: PyBackedBytes,
    ) -> PyResult<Call> {
        self.call(py, address, |artifacts, key| async move {
            let part: Part = json::from_slice(&part).map_err(|e| e.context("the artifact"))?;
            let metadata: Map<String, Value> =
                json::from_slice(&metadata).map_err(|e| e.context("the artifact's metadata"))?;
            artifacts.save_artifact(&key, &name, part, metadata).await.map(CallAnswer::Number)
        })
    }

    /// Loads a version, or the newest one. An invalid name is treated as the name of a missing artifact.
    #[pyo3(signature = (address, name, version=None))]
    fn load(&self, py: Python<'_>, address: AddressTuple, name: String, version: Option<u64>) -> PyResult<Call> {
        self.call(py, address, move |artifacts, key| async move {
            if plan::check_filename(&name).is_err() {
                return Ok(CallAnswer::Nothing);
            }
            let part = artifacts.load_artifact(&key, &name, version).await?;
            part.as_ref().map_or(Ok(CallAnswer::Nothing), CallAnswer::json)
        })
    }

    /// The names of all artifacts that a session sees.
    fn list(&self, py: Python<'_>, address: AddressTuple) -> PyResult<Call> {
        self.call(py, address, |artifacts, key| async move { CallAnswer::json(&artifacts.list_artifacts(&key).await?) })
    }

    /// A page of the versions of a name from this one on, oldest first; empty after the last one.
    fn versions(
        &self,
        py: Python<'_>,
        address: AddressTuple,
        name: String,
        first: u64,
        has_metadata: bool,
    ) -> PyResult<Call> {
        self.call(py, address, move |artifacts, key| async move {
            if plan::check_filename(&name).is_err() {
                return CallAnswer::json(&[(); 0]);
            }
            let config = ListVersionsConfig::default().with_from(first);
            let config = if has_metadata { config } else { config.without_metadata() };
            CallAnswer::json(&artifacts.list_artifact_versions(&key, &name, &config).await?)
        })
    }

    /// Deletes all versions of a name; does nothing if it has no version.
    fn delete(&self, py: Python<'_>, address: AddressTuple, name: String) -> PyResult<Call> {
        self.call(py, address, |artifacts, key| async move {
            if plan::check_filename(&name).is_ok() {
                artifacts.delete_artifact(&key, &name).await?;
            }
            Ok(CallAnswer::Nothing)
        })
    }
}
