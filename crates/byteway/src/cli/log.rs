//! Events on the standard error, for commands that work with drives and hosts in other processes.

use byteway_text::error::InputError;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Log filter, in the syntax of `tracing_subscriber`'s directives.
const LOG: &str = "BYTEWAY_LOG";

/// Prints events of drives and connections to the standard error from now on.
pub(super) fn log_to_stderr() -> Result<(), InputError> {
    let text = std::env::var(LOG).unwrap_or_default();
    let text = if text.trim().is_empty() { "info" } else { text.trim() };
    let filter: Targets = text.parse().map_err(|error| {
        let what = format!("`{LOG}` = {}: {error}", byteway_text::units::excerpt(text));
        InputError::new(what, "write error, warn, info, debug or trace")
    })?;
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = log.without_time().with_target(false).with_ansi(false);
    // This fails only for a second logger in one process; the first one stays.
    let _ = tracing_subscriber::registry().with(log.with_filter(filter)).try_init();
    Ok(())
}
