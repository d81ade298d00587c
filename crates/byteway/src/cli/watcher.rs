//! What answers the watchers of served drives over HTTP, in a program that has it (the feature `http`).

#[cfg(feature = "http")]
pub use byteway_watch::{Watcher, Watching};

#[cfg(not(feature = "http"))]
pub use absent::{Watcher, Watching};

#[cfg(not(feature = "http"))]
mod absent {
    use byteway_serve::watch::DriveWatch;
    use byteway_text::error::InputError;
    use std::convert::Infallible;
    use std::net::SocketAddr;

    /// Nothing that listens.
    pub struct Watcher(Infallible);

    /// Nothing that answers.
    pub struct Watching(Infallible);

    // What answers ends where it is dropped, and so does this, or a lint finds that to drop it has no effect.
    impl Drop for Watching {
        fn drop(&mut self) {
            match self.0 {}
        }
    }

    impl Watcher {
        /// Refuses.
        ///
        /// # Errors
        /// Always: this program has no HTTP.
        pub fn bind(_: SocketAddr) -> Result<Watcher, InputError> {
            let help = "build it with `--features http`, or install a package, which has it";
            Err(InputError::new("this program was built without HTTP, which --http needs", help))
        }

        /// Never called.
        pub fn url(&self) -> String {
            match self.0 {}
        }

        /// Never called.
        pub fn is_exposed(&self) -> bool {
            match self.0 {}
        }

        /// Never called.
        pub fn watch(&mut self, _: &str) -> std::io::Result<DriveWatch> {
            match self.0 {}
        }

        /// Never called.
        pub fn start(self) -> std::io::Result<Watching> {
            match self.0 {}
        }
    }
}
