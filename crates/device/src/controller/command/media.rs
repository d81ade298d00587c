//! Flushing the media, and the mapping of media errors to statuses.

use crate::controller::command::context::Context;
use byteway_firmware::MediaError;
use byteway_wire::nvme::Status;

/// Maps a media error to a status; no other code does. `unreadable` is the status for unreadable data.
pub(crate) fn status_of(error: MediaError, unreadable: Status) -> Status {
    match error {
        MediaError::OutOfRange => Status::LBA_OUT_OF_RANGE.with_dnr(),
        MediaError::Unreadable => unreadable,
        MediaError::WriteProtected => Status::NAMESPACE_WRITE_PROTECTED,
        MediaError::NotErased => Status::INTERNAL_ERROR,
        MediaError::Failed => Status::WRITE_FAULT,
    }
}

/// Waits until all buffered writes are on flash.
pub(crate) async fn settle(context: &Context<'_>) -> Result<(), Status> {
    let flushed = context.core.backing.flush(context.span, context.core.port.spans()).await;
    flushed.map_err(|error| status_of(error, Status::WRITE_FAULT))
}
