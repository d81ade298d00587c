//! The stream of updates of an open page: server-sent events, one a second.
//!
//! All pages get the same bytes. A page that is slow misses updates; it never holds more than one. A page that is opened gets what the last
//! ten minutes were first.

use hyper::body::{Body, Bytes, Frame};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::watch;

/// Updates for pages. Empty: none yet.
pub(crate) type Updates = watch::Receiver<Bytes>;

type Next = Pin<Box<dyn Future<Output = (Option<Bytes>, Updates)>>>;

/// Updates that are kept: ten minutes.
const KEPT_MOST: usize = 600;
/// Bytes of them: with dozens of drives fewer updates are kept.
const KEPT_BYTES_MOST: usize = 4 << 20;

/// What drives did lately, for pages that are opened later.
#[derive(Default)]
pub(crate) struct History(RefCell<(VecDeque<String>, usize)>);

impl History {
    /// Keeps what drives did in an update, and forgets the oldest.
    pub(crate) fn keep(&self, line: String) {
        let (lines, bytes) = &mut *self.0.borrow_mut();
        *bytes += line.len();
        lines.push_back(line);
        while lines.len() > KEPT_MOST || *bytes > KEPT_BYTES_MOST {
            let Some(oldest) = lines.pop_front() else { break };
            *bytes -= oldest.len();
        }
    }

    /// All of it as an event of `server`, a text without quotes.
    pub(crate) fn event(&self, server: &str) -> Bytes {
        let lines: Vec<String> = self.0.borrow().0.iter().cloned().collect();
        event("history", &format!("{{\"server\":\"{server}\",\"updates\":[{}]}}", lines.join(",")))
    }
}

/// The body of a stream of updates. It ends with the sender.
pub(crate) struct EventStream(Next);

impl EventStream {
    /// Begins with the event `before`.
    pub(crate) fn new(mut updates: Updates, before: Bytes) -> EventStream {
        updates.mark_unchanged();
        EventStream(Box::pin(async move { (Some(before), updates) }))
    }
}

fn next(mut updates: Updates) -> Next {
    Box::pin(async move {
        let update = updates.changed().await.ok().map(|()| updates.borrow_and_update().clone());
        (update, updates)
    })
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.as_mut().poll(context).map(|(update, updates)| {
            self.0 = next(updates);
            update.map(|update| Ok(Frame::data(update)))
        })
    }
}

/// An update as an event.
pub(crate) fn event(name: &str, json: &str) -> Bytes {
    // JSON has no line feed of its own.
    format!("event: {name}\ndata: {json}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    // A server that is watched for days would fill the memory.
    #[test]
    fn the_oldest_is_forgotten_first() {
        let history = History::default();
        (0..2 * KEPT_MOST).for_each(|at| history.keep(at.to_string()));
        let kept = String::from_utf8(history.event("1-2").to_vec()).unwrap();
        assert!(
            kept.starts_with("event: history\ndata: {\"server\":\"1-2\",\"updates\":[600,601,"),
            "{kept}"
        );
        assert!(kept.ends_with(",1199]}\n\n"), "{kept}");
        (0..10).for_each(|_| history.keep("0".repeat(KEPT_BYTES_MOST / 4)));
        assert_eq!(history.0.borrow().0.len(), 4);
    }
}
