//! A command while it is executed, and what the commands of all sets have in common.
//!
//! | file | what |
//! |---|---|
//! | [`context`] | the command, its slot, its queue |
//! | [`workspace`] | buffers, reused from command to command |
//! | [`payload`], [`stream`] | payload from the host |
//! | [`send`], [`result`] | data to the host |
//! | [`media`], [`pipeline`] | the media and the pipeline, as commands see them |

pub mod context;
pub mod media;
pub mod payload;
pub mod pipeline;
pub mod result;
pub mod send;
pub mod stream;
pub mod workspace;
