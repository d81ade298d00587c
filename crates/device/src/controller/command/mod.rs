//! A command in execution: code that the commands of all sets share.
//!
//! | file | what |
//! |---|---|
//! | [`context`] | the command, its slot, its queue |
//! | [`workspace`] | buffers, reused |
//! | [`payload`], [`stream`] | payload from the host |
//! | [`send`], [`result`] | data to the host |
//! | [`media`], [`pipeline`] | media errors, and the pipeline's latency |

pub mod context;
pub mod media;
pub mod payload;
pub mod pipeline;
pub mod result;
pub mod send;
pub mod stream;
pub mod workspace;
