//! The built-in profiles side by side: what is in each, in a line, and their texts.

use serde::Serialize;

use super::{Completion, DRIVES, HOSTS, HostProfile, Profile};
use byteway_console::units::{Bytes, Picos, Rate};

/// A drive's profile in a line.
#[derive(Clone, Debug, Serialize)]
pub struct DriveEntry {
    /// What a scenario calls it.
    pub name: &'static str,
    /// What stands in the first line of its text.
    pub about: &'static str,
    /// PCIe generation.
    pub generation: u8,
    /// PCIe lanes.
    pub lanes: u8,
    /// What the host sees, over all namespaces.
    pub capacity: Bytes,
    /// Channels.
    pub channels: u32,
    /// Dies, over all channels.
    pub dies: u32,
    /// A page.
    pub page: Bytes,
    /// Sensing at most 4 KiB of a page, page type by page type.
    pub read: Vec<Picos>,
    /// Programming a page, page type by page type.
    pub program: Vec<Picos>,
    /// Bytes a second of all channels together.
    pub channel_rate: Rate,
}

/// A host's profile in a line.
#[derive(Clone, Debug, Serialize)]
pub struct HostEntry {
    /// What a scenario calls it.
    pub name: &'static str,
    /// What stands in the first line of its text.
    pub about: &'static str,
    /// How it learns of completions.
    pub completion: Completion,
    /// A command's submission.
    pub submit: Picos,
    /// A completion's handling.
    pub complete: Picos,
    /// From an interrupt to its handler.
    pub interrupt: Picos,
    /// Cores on which jobs run.
    pub cores: u16,
}

/// Every built-in profile of a drive.
pub fn drive_entries() -> Vec<DriveEntry> {
    let entry = |&(name, text): &(&'static str, &'static str)| {
        let profile = Profile::built_in(name)?;
        let flash = profile.flash;
        Some(DriveEntry {
            name,
            about: about(text),
            generation: profile.link.generation,
            lanes: profile.link.lanes,
            capacity: profile.drive.capacity,
            channels: flash.channels,
            dies: flash.channels * flash.ways * flash.dies,
            page: flash.page,
            read: flash.read_partial.unwrap_or(flash.read),
            program: flash.program,
            channel_rate: Rate(flash.channel_rate.0 * u64::from(flash.channels)),
        })
    };
    DRIVES.iter().filter_map(entry).collect()
}

/// Every built-in profile of a host.
pub fn host_entries() -> Vec<HostEntry> {
    let entry = |&(name, text): &(&'static str, &'static str)| {
        let HostProfile { cores, submit, complete, completion, interrupt, .. } = HostProfile::built_in(name)?;
        Some(HostEntry { name, about: about(text), completion, submit, complete, interrupt, cores })
    };
    HOSTS.iter().filter_map(entry).collect()
}

/// The text of a built-in profile of a drive or of a host; `None` if there is none of that name.
pub fn text_of(name: &str) -> Option<&'static str> {
    DRIVES.iter().chain(&HOSTS).find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The comment in a text's first line.
fn about(text: &'static str) -> &'static str {
    text.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']).trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    // A profile that is not in the list is not found by anyone who doesn't read the sources.
    #[test]
    fn every_profile_is_listed_with_what_it_is() {
        let (drives, hosts) = (drive_entries(), host_entries());
        assert_eq!((drives.len(), hosts.len()), (DRIVES.len(), HOSTS.len()));
        for about in drives.iter().map(|entry| entry.about).chain(hosts.iter().map(|entry| entry.about)) {
            assert!((20..140).contains(&about.len()) && !about.starts_with('['), "{about}");
        }
        let samsung = drives.iter().find(|entry| entry.name == "samsung-970-pro").unwrap();
        assert_eq!((samsung.channels, samsung.dies, samsung.generation), (8, 16, 3));
        assert_eq!(samsung.read[0], Picos(29_760_000));
        assert_eq!(samsung.channel_rate, Rate(6_400_000_000));
        assert!(text_of("linux-polled").is_some() && text_of("p4501").is_none());
    }
}
