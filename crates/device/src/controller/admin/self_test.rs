//! Device Self-test (NVMe Base 2.1, 5.1.5): starts or ends a self-test.

use crate::controller::command::context::Context;
use crate::controller::state::self_test::Test;
use byteway_wire::nvme::{DeviceSelfTest, NSID_ALL, SelfTestResult, Status};

/// Executes a Device Self-test command.
pub fn command(context: &Context<'_>) -> Result<(), Status> {
    let core = context.core;
    let nsid = context.sqe.nsid;
    let extended = match DeviceSelfTest::parse(context.sqe).stc {
        DeviceSelfTest::SHORT => false,
        DeviceSelfTest::EXTENDED => true,
        DeviceSelfTest::ABORT => {
            core.end_self_test(SelfTestResult::ABORTED);
            core.background.persistence.counted();
            return Ok(());
        }
        _ => return Err(Status::INVALID_FIELD.with_dnr()),
    };
    if nsid != 0 && nsid != NSID_ALL {
        core.inventory.active(nsid)?;
    }
    if core.background.self_test.current().is_some() {
        return Err(Status::SELF_TEST_IN_PROGRESS);
    }
    core.background.self_test.begin(Test { extended, nsid, percent: 0, controller: core.number });
    Ok(())
}
