//! The stream of updates of an open page: server-sent events, one a second.
//!
//! All pages get the same bytes. A page that is slow misses updates; it never holds more than one.

use hyper::body::{Body, Bytes, Frame};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::watch;

/// Updates for pages. Empty: none yet.
pub(crate) type Updates = watch::Receiver<Bytes>;

type Next = Pin<Box<dyn Future<Output = (Option<Bytes>, Updates)>>>;

/// The body of a stream of updates. It ends with the sender.
pub(crate) struct EventStream(Next);

impl EventStream {
    pub(crate) fn new(mut updates: Updates) -> EventStream {
        updates.mark_unchanged();
        EventStream(next(updates))
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
