//! The catalog of built-in profiles: a line on each, and their texts.

use serde::Serialize;

use super::{Completion, DRIVES, HOSTS, HostProfile, NETWORKS, NetworkProfile, Profile, Transport};
use byteway_text::units::{Bytes, Picos, Rate};

/// A drive's profile in a line.
#[derive(Clone, Debug, Serialize)]
pub struct DriveEntry {
    /// Name in scenarios.
    pub name: &'static str,
    /// Comment in the first line of its text.
    pub about: &'static str,
    /// PCIe generation.
    pub generation: u8,
    /// PCIe lanes.
    pub lanes: u8,
    /// Capacity visible to the host, over all namespaces.
    pub capacity: Bytes,
    /// Number of channels.
    pub channels: u32,
    /// Number of dies, over all channels.
    pub dies: u32,
    /// Size of a page.
    pub page: Bytes,
    /// Time to sense up to 4 KiB of a page, by page type.
    pub read: Vec<Picos>,
    /// Time to program a page, by page type.
    pub program: Vec<Picos>,
    /// Bandwidth of all channels together.
    pub channel_rate: Rate,
}

/// A host's profile in a line.
#[derive(Clone, Debug, Serialize)]
pub struct HostEntry {
    /// Name in scenarios.
    pub name: &'static str,
    /// Comment in the first line of its text.
    pub about: &'static str,
    /// How it detects completions.
    pub completion: Completion,
    /// Processor time of a submission.
    pub submit: Picos,
    /// Processor time of a completion.
    pub complete: Picos,
    /// Time from an interrupt to its handler.
    pub interrupt: Picos,
    /// Cores for jobs.
    pub cores: u16,
}

/// Every built-in drive profile.
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

/// Every built-in host profile.
pub fn host_entries() -> Vec<HostEntry> {
    let entry = |&(name, text): &(&'static str, &'static str)| {
        let HostProfile { cores, submit, complete, completion, interrupt, .. } = HostProfile::built_in(name)?;
        Some(HostEntry { name, about: about(text), completion, submit, complete, interrupt, cores })
    };
    HOSTS.iter().filter_map(entry).collect()
}

/// A network's profile in a line.
#[derive(Clone, Debug, Serialize)]
pub struct NetworkEntry {
    /// Name in scenarios.
    pub name: &'static str,
    /// Comment in the first line of its text.
    pub about: &'static str,
    /// Transport of capsules and data.
    pub transport: Transport,
    /// Bandwidth of the wire in one direction.
    pub rate: Rate,
    /// Largest in-capsule data.
    pub in_capsule: Bytes,
    /// Additional processor time of the host's transport driver for a command and its completion.
    pub initiator: Picos,
    /// Processor time of the target's transport driver for a read.
    pub target: Picos,
    /// Processor time of the target's block layer for a command, without a scheduler.
    pub block: Picos,
}

/// Every built-in network profile.
pub fn network_entries() -> Vec<NetworkEntry> {
    let entry = |&(name, text): &(&'static str, &'static str)| {
        let NetworkProfile { transport, rate, in_capsule, initiator, target, block, .. } =
            NetworkProfile::built_in(name)?;
        let sum = |times: &[Picos]| Picos(times.iter().map(|time| time.0).sum());
        Some(NetworkEntry {
            name,
            about: about(text),
            transport,
            rate,
            in_capsule,
            initiator: sum(&[initiator.submit, initiator.complete]),
            target: sum(&[target.interrupt, target.receive, target.respond, target.sent]),
            block: sum(&[block.build, block.dispatch, block.complete]),
        })
    };
    NETWORKS.iter().filter_map(entry).collect()
}

/// Names and texts of all built-in profiles.
pub fn all_texts() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    DRIVES.iter().chain(&HOSTS).chain(&NETWORKS)
}

/// The text of a built-in profile of a drive, a host or a network; `None` if the name is unknown.
pub fn text_of(name: &str) -> Option<&'static str> {
    all_texts().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The comment in a text's first line.
fn about(text: &'static str) -> &'static str {
    text.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']).trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    // A profile that is not listed can only be found in the sources.
    #[test]
    fn every_profile_is_listed_with_what_it_is() {
        let (drives, hosts, networks) = (drive_entries(), host_entries(), network_entries());
        assert_eq!((drives.len(), hosts.len()), (DRIVES.len(), HOSTS.len()));
        assert_eq!(networks.len(), NETWORKS.len());
        let abouts = drives.iter().map(|entry| entry.about).chain(hosts.iter().map(|entry| entry.about));
        for about in abouts.chain(networks.iter().map(|entry| entry.about)) {
            assert!((20..140).contains(&about.len()) && !about.starts_with('['), "{about}");
        }
        let samsung = drives.iter().find(|entry| entry.name == "samsung-970-pro").unwrap();
        assert_eq!((samsung.channels, samsung.dies, samsung.generation), (8, 16, 3));
        assert_eq!(samsung.read[0], Picos(29_760_000));
        assert_eq!(samsung.channel_rate, Rate(6_400_000_000));
        let rdma = networks.iter().find(|entry| entry.name == "roce-100g").unwrap();
        assert_eq!((rdma.transport, rdma.rate), (Transport::Rdma, Rate(12_500_000_000)));
        // The block layer's part of a command, which a bypass saves.
        assert_eq!(rdma.block, Picos(4_000_000));
        let mut names: Vec<&str> = all_texts().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all_texts().count(), "a name stands for one profile");
        for name in ["linux-polled", "tcp-100g"] {
            assert!(text_of(name).is_some(), "{name}");
        }
        assert!(text_of("p4501").is_none());
    }
}
