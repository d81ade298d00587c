//! The watched drives: the latest figures of each, and when to ask for new ones.

use byteway_serve::watch::{DriveFigures, DriveWatch, Published};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;
use tokio::time::timeout_at;

/// How long figures are used again for all requests: a drive publishes once a second.
const FRESH: Duration = Duration::from_millis(950);
/// How long a drive may take to answer.
const PATIENCE: Duration = Duration::from_millis(2500);

/// A drive that is watched.
pub struct WatchedDrive {
    /// Its name.
    pub name: String,
    watch: DriveWatch,
    latest: RefCell<Option<Latest>>,
}

struct Latest {
    figures: Rc<DriveFigures>,
    published: Instant,
}

/// Whether a drive can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveState {
    /// It recovers its data, and hosts cannot attach yet.
    Starting,
    /// It is served.
    Serving,
    /// It does not answer.
    Silent,
    /// It has ended.
    Ended,
}

impl DriveState {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            DriveState::Starting => "starting",
            DriveState::Serving => "serving",
            DriveState::Silent => "silent",
            DriveState::Ended => "ended",
        }
    }
}

impl WatchedDrive {
    pub(crate) fn new(name: String, watch: DriveWatch) -> WatchedDrive {
        WatchedDrive { name, watch, latest: RefCell::default() }
    }

    /// The latest figures. `None`: there are none yet.
    pub fn figures(&self) -> Option<Rc<DriveFigures>> {
        self.latest.borrow().as_ref().map(|latest| latest.figures.clone())
    }

    /// Whether it can be used, as of the last refresh.
    pub fn state(&self) -> DriveState {
        if self.watch.has_ended() {
            return DriveState::Ended;
        }
        match &*self.latest.borrow() {
            _ if !self.watch.has_begun() => DriveState::Starting,
            Some(latest) if latest.published.elapsed() < PATIENCE => DriveState::Serving,
            _ => DriveState::Silent,
        }
    }

    /// Takes what it has published.
    fn take(&self) {
        if let Some(Published { figures, at }) = self.watch.take() {
            self.latest.replace(Some(Latest { figures: figures.into(), published: at }));
        }
    }

    fn is_fresh(&self) -> bool {
        let is_new = |latest: &Latest| latest.published.elapsed() < FRESH;
        self.watch.has_ended() || self.latest.borrow().as_ref().is_some_and(is_new)
    }
}

/// All watched drives.
pub struct Drives {
    list: Vec<WatchedDrive>,
    /// Tells this server from any other: in a container every process has the same number.
    server: String,
    /// Changes when a drive has published or ended.
    news: watch::Receiver<()>,
}

impl Drives {
    pub(crate) fn new(list: Vec<WatchedDrive>, news: watch::Receiver<()>) -> Drives {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let server = format!("{}-{}", std::process::id(), since_1970.as_nanos());
        Drives { list, server, news }
    }

    /// A text that no other server has.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The drives, in the order of their files.
    pub fn list(&self) -> &[WatchedDrive] {
        &self.list
    }

    /// Has every drive that has begun publish its figures, unless they are fresh, and waits for a limited time until they have.
    pub(crate) async fn refresh(&self) {
        let mut news = self.news.clone();
        let end = tokio::time::Instant::now() + PATIENCE;
        news.mark_unchanged();
        self.list.iter().for_each(WatchedDrive::take);
        let stale: Vec<&WatchedDrive> = self.list.iter().filter(|drive| !drive.is_fresh()).collect();
        stale.iter().for_each(|drive| drive.watch.ask());
        // A drive that has not begun answers when it has.
        while stale.iter().any(|drive| !drive.is_fresh() && drive.watch.has_begun()) {
            let Ok(Ok(())) = timeout_at(end, news.changed()).await else { return };
            self.list.iter().for_each(WatchedDrive::take);
        }
    }

    /// Takes what the drives have published at their end.
    pub(crate) fn finish(&self) {
        self.list.iter().for_each(WatchedDrive::take);
    }
}
