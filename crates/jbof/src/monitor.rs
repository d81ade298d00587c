//! A drive's resource monitor: utilization of its cores and flash channels since the last measurement.

use super::state::Member;
use crate::decision::descriptor::Utilisation;
use byteway_clock::{Delay, Time};
use byteway_firmware::Site;
use byteway_world::PoweredDrive;

/// Busy times of a drive at the last measurement.
pub(super) struct Monitor {
    at: Time,
    cores: Delay,
    lent: Delay,
    /// Core time requested by others but not yet spent.
    pending: Delay,
    channels: Delay,
}

/// Utilization of a drive in a period, each from 0 to 1.
pub(super) struct Busy {
    /// Cores.
    pub(super) processor: f64,
    /// Cores, counting its own work only.
    pub(super) alone: f64,
    /// Flash channels, in the mean.
    pub(super) data_end: f64,
}

impl Monitor {
    /// Starts measuring, for a drive that was just powered on.
    pub(super) fn new(now: Time, site: &Site) -> Monitor {
        let (pending, channels) = Default::default();
        Monitor { at: now, cores: site.busy(), lent: site.lent(), pending, channels }
    }

    /// Utilization since the last measurement.
    pub(super) fn look(&mut self, member: &Member, drive: &PoweredDrive, now: Time) -> Busy {
        let (cores, lent) = (member.site.busy(), member.site.lent());
        let flash = drive.arrays();
        let count: u32 = flash.iter().map(|flash| flash.geometry().channels).sum();
        let channels = flash.iter().fold(Delay::ZERO, |sum, flash| {
            (0..flash.geometry().channels).fold(sum, |sum, channel| sum + flash.channel_busy(channel))
        });
        let elapsed = now.since(self.at).0.max(1);
        let share = |busy: Delay, of: usize| busy.0 as f64 / (elapsed * of.max(1) as u64) as f64;
        let done = cores.saturating_sub(self.cores);
        // Work for others is counted when it is requested; if it waits it is done in a later period, and does not count
        // as the drive's own there.
        let asked = self.pending + lent.saturating_sub(self.lent);
        let done_for_others = asked.min(done);
        let processor = share(done, member.site.cores());
        let for_others = share(done_for_others, member.site.cores());
        let data_end = share(channels.saturating_sub(self.channels), count as usize);
        *self = Monitor { at: now, cores, lent, pending: asked.saturating_sub(done_for_others), channels };
        member.count(|figures| {
            (figures.processor, figures.data_end) = (Utilisation::of(processor), Utilisation::of(data_end));
        });
        Busy { processor, alone: (processor - for_others).max(0.0), data_end }
    }
}
