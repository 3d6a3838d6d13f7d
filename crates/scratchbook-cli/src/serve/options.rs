//! Applies the options for authentication, TLS, limits, surfaces and the inspector to the server.

use std::num::NonZeroUsize;

use scratchbook::Error;
use scratchbook_server::{Login, RateLimit, ServerBuilder, ServerLimits, Surface, Tls};

use super::telemetry;
use crate::args::{AccessArgs, LimitArgs, ServeArgs};

/// Applies authentication, TLS, the URL prefix and allowed origins.
///
/// # Errors
///
/// `InvalidArgument` if only one of certificate and key is given. The server checks the contents of the files.
pub(super) fn guarded(mut server: ServerBuilder, args: &AccessArgs) -> Result<ServerBuilder, Error> {
    let AccessArgs { tokens, jwks, jwt_secret_file, jwt_issuer, jwt_audience, .. } = args;
    if args.has_login() || jwt_issuer.is_some() || jwt_audience.is_some() {
        let login = Login::new();
        let login = tokens.iter().fold(login, |login, file| login.with_tokens(file));
        let login = jwks.iter().fold(login, |login, file| login.with_jwks(file));
        let login = jwt_secret_file.iter().fold(login, |login, file| login.with_jwt_secret(file));
        let login = jwt_issuer.iter().fold(login, |login, issuer| login.with_jwt_issuer(issuer));
        server = server.login(jwt_audience.iter().fold(login, |login, audience| login.with_jwt_audience(audience)));
    }
    server = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => server.tls(Tls::new(certificate, key)),
        (None, None) => server,
        (Some(_), None) => return Err(Error::invalid("a certificate is given, but no key; give --tls-key FILE")),
        (None, Some(_)) => return Err(Error::invalid("a key is given, but no certificate; give --tls-cert FILE")),
    };
    if let Some(prefix) = &args.url_prefix {
        server = server.url_prefix(prefix);
    }
    Ok(server.allow_origins(&args.allow_origins))
}

/// Applies the limits.
pub(super) fn limited(server: ServerBuilder, args: &LimitArgs, connections: usize) -> ServerBuilder {
    let limits = ServerLimits::default()
        .with_body_bytes(args.max_body_bytes.get())
        .with_answer_bytes(args.max_answer_bytes.get())
        .with_body_events(args.max_body_events.get())
        .with_body_memory(args.max_body_memory.get())
        .with_connections(connections)
        .with_connections_before_login(args.max_connections_before_login.get())
        .with_trusted_proxies(args.trusted_proxy.iter().copied())
        .with_streams(args.max_streams.get())
        .with_requests(args.max_concurrent_requests.get())
        .with_heavy_writes(args.max_heavy_writes.get())
        .with_idle_time(args.idle_seconds)
        .with_answer_time(args.answer_seconds)
        .with_shutdown_time(args.shutdown_seconds);
    let heavy_reads = args.max_heavy_reads.map(NonZeroUsize::get);
    let limits = heavy_reads.into_iter().fold(limits, ServerLimits::with_heavy_reads);
    let rate = args.max_requests_per_second.map(RateLimit::per_second);
    server
        .limits(rate.into_iter().fold(limits, ServerLimits::with_rate))
        .max_runs(args.max_runs.get())
        .max_waiting_runs_per_session(args.max_waiting_runs_per_session)
}

/// Applies whether there is an inspector, and which details exported spans of runs contain.
pub(super) fn shown(server: ServerBuilder, args: &ServeArgs) -> ServerBuilder {
    let server = server.tracing(telemetry::exported(args));
    if args.no_inspector { server.without_inspector() } else { server }
}

/// Returns the surfaces to serve.
pub(super) fn surfaces(args: &ServeArgs) -> Vec<Surface> {
    let is_off = |surface: &Surface| match surface {
        Surface::Adk => args.no_adk,
        Surface::V1 => args.no_v1,
        Surface::Vertex => args.no_vertex,
        _ => false,
    };
    Surface::ALL.into_iter().filter(|surface| !is_off(surface)).collect()
}
