//! The media, as commands see them: flushed, and how their failures become statuses.

use crate::controller::command::context::Context;
use byteway_firmware::MediaError;
use byteway_wire::nvme::Status;

/// The one place where a failure of the media becomes a status.
pub(crate) fn status_of(error: MediaError, unreadable: Status) -> Status {
    match error {
        MediaError::OutOfRange => Status::LBA_OUT_OF_RANGE.with_dnr(),
        MediaError::Unreadable => unreadable,
        MediaError::WriteProtected => Status::NAMESPACE_WRITE_PROTECTED,
        MediaError::NotErased => Status::INTERNAL_ERROR,
        MediaError::Failed => Status::WRITE_FAULT,
    }
}

/// Waits until everything that is buffered is on flash.
pub(crate) async fn settle(context: &Context<'_>) -> Result<(), Status> {
    let flushed = context.core.backing.flush(context.span, context.core.port.spans()).await;
    flushed.map_err(|error| status_of(error, Status::WRITE_FAULT))
}
