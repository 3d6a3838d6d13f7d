//! Why a request failed, in the words of the protocol. The texts of `rmcp` name Rust types, and reach the model.

use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::client::HttpFailure;

const CLOSED: &str = "it closed the connection";

/// Says why a request got no result.
pub(crate) fn of_request(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => error.message.to_string(),
        ServiceError::TransportSend(error) => of_transport(error),
        ServiceError::TransportClosed => CLOSED.to_owned(),
        ServiceError::UnexpectedResponse => "its result is not one of this request".to_owned(),
        _ => "the request was cancelled".to_owned(),
    }
}

/// Says why a session could not be opened.
pub(crate) fn of_start(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => of_transport(error),
        ClientInitializeError::JsonRpcError(error) => error.message.to_string(),
        ClientInitializeError::ConnectionClosed(_) => CLOSED.to_owned(),
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "it has no version of the protocol that this client knows".to_owned()
        }
        _ => "its answer to 'initialize' is not one".to_owned(),
    }
}

fn of_transport(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<StreamableHttpError<HttpFailure>>() {
        Some(StreamableHttpError::Client(failure)) => failure.to_string(),
        Some(StreamableHttpError::SessionExpired | StreamableHttpError::SessionRecoveryTimeout) => {
            "it does not know the session any more".to_owned()
        }
        Some(StreamableHttpError::ReinitializationFailed(error)) => error.message.to_string(),
        Some(_) => CLOSED.to_owned(),
        // The standard input of a process.
        None => error.error.to_string(),
    }
}
