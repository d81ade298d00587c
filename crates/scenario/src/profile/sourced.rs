//! Constants of profiles with their sources, so that a result that rests on an assumption can be told from one that does not.

/// A constant that a scenario takes from a profile, as the profile writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedConstant {
    /// The section whose overrides change it: `drive` or `drive.1`, `host`, `target`, `network`.
    pub section: String,
    /// Its key in the profile, such as `controller.fetch_burst`.
    pub key: String,
    /// Its value in TOML.
    pub value: String,
    /// Its source: the comment behind it, or behind the header of its section.
    pub source: String,
}

impl SourcedConstant {
    /// Whether it is a plausible value for which nothing is published.
    pub fn is_assumed(&self) -> bool {
        let source = self.source.to_ascii_lowercase();
        let words: Vec<&str> =
            source.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let is_said = |at: usize| words[at] == "assumed" && (at == 0 || words[at - 1] != "not");
        (0..words.len()).any(is_said)
    }

    /// The `--set` that gives it another value.
    pub fn set(&self, value: &str) -> String {
        format!("{}.override.{}={value}", self.section, self.key)
    }
}

/// The comment in a line of TOML, which begins behind the value.
fn comment(line: &str) -> Option<&str> {
    line.split_once('#').map(|(_, comment)| comment.trim())
}

/// The source of the value at this range of a profile's text.
pub(crate) fn source_at(text: &str, value: std::ops::Range<usize>) -> String {
    let own = text[value.end..].lines().next().and_then(comment);
    let header = || {
        text[..value.start].lines().rev().find(|line| line.trim_start().starts_with('[')).and_then(comment)
    };
    own.or_else(header).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use crate::{Options, Scenario};
    use std::path::Path;

    // A constant whose source is not found would be taken for one that is published.
    #[test]
    fn constants_have_the_sources_of_their_profiles() {
        let folder = tempfile::tempdir().unwrap();
        let mine = "base = \"modern-gen5\"\n[controller]\nfetch_burst = 2 # assumed: half\n  [flash] # Assumed\nprogram = [\"1 ms\"] # unassumed: measured, not assumed\nerase = \"4 ms\"\n";
        std::fs::write(folder.path().join("mine.toml"), mine).unwrap();
        let text = "[drive]\nprofile = \"mine.toml\"\n[drive.override]\nlink.lanes = 2 # assumed\n\
                    [host]\nprofile = \"xeon-e5-v4\"\n[target]\n[[job]]\nrw = \"randread\"\ncount = 1\n";
        let scenario =
            Scenario::from_text("s.toml", folder.path(), text, &Options::default()).expect("it is right");
        let found = |section: &str, key: &str| {
            let mut all = scenario.constants.iter();
            all.find(|one| one.section == section && one.key == key)
        };
        let burst = found("drive", "controller.fetch_burst").unwrap();
        assert_eq!((burst.value.as_str(), burst.source.as_str()), ("2", "assumed: half"));
        assert_eq!(burst.set("4"), "drive.override.controller.fetch_burst=4");
        assert!(burst.is_assumed());
        assert!(found("drive", "flash.erase").is_some_and(|one| one.is_assumed() && one.value == "\"4 ms\""));
        assert!(found("drive", "flash.program").is_some_and(|one| !one.is_assumed()));
        let inherited = found("drive", "firmware.clock").unwrap();
        assert!(inherited.is_assumed() && inherited.source.contains("nanosecond"), "{inherited:?}");
        assert!(found("drive", "flash.read").is_some_and(|one| one.value.starts_with('[')));
        assert!(found("host", "submit").is_some() && found("network", "rate").is_some());
        assert!(found("target", "cores").is_some());
        // What the scenario sets is its author's own.
        assert_eq!((found("drive", "link.lanes"), found("drive", "flash.read.0")), (None, None));
        assert_eq!((found("drive", "base"), found("drive", "flash")), (None, None));
        let sets = vec!["drive.override.controller.fetch_burst=8".to_owned()];
        let options = Options { sets, ..Options::default() };
        let set = Scenario::from_text("s.toml", Path::new(folder.path()), text, &options).unwrap();
        assert!(set.constants.iter().all(|one| one.key != "controller.fetch_burst"));
    }
}
