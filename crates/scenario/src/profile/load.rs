//! Loading of profiles: the text of a profile, of its bases, and the overrides of a scenario, merged.
//!
//! `base = "cosmos-plus"` at the top of a profile inherits all keys that it does not set itself, so that
//! profiles can share constants.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::DeValue;

use crate::source::{Index, Sources, Texts, Tree, merge};
use byteway_text::error::{InputError, suggest};
use byteway_text::units::excerpt;

/// Depth of a chain of bases, at most.
const BASES_MAX: usize = 8;

/// Loads a profile with the overrides of a scenario. `name` is one of `known`, or a path relative to the
/// directory of the text that contains it; `section` is the scenario's section that names it. The sources note its
/// constants.
pub(crate) fn load<'t, T: DeserializeOwned>(
    sources: &mut Sources<'t>,
    known: &[(&'static str, &'static str)],
    name: &str,
    name_span: Range<usize>,
    over: Option<Tree<'t>>,
    (section, noun): (&str, &str),
) -> Result<(T, Index), InputError> {
    let begin = sources.end();
    let mut tree = parse(sources, known, name, &name_span, noun)?;
    let mut count = 0;
    while let Some((base, span)) = take_base(sources, &mut tree)? {
        count += 1;
        if count > BASES_MAX {
            let what = format!("more than {BASES_MAX} {noun}s are based on one another");
            return Err(InputError::new(what, "break the circle").at(sources.place(&span)));
        }
        let mut below = parse(sources, known, &base, &span, noun)?;
        merge(below.get_mut(), tree.into_inner());
        tree = below;
    }
    if let Some(over) = over {
        merge(tree.get_mut(), over);
    }
    let (profile, index) = sources.decode(tree, noun)?;
    sources.note_constants(section, &index, begin);
    Ok((profile, index))
}

/// A built-in profile; `None` if the name is unknown.
pub(super) fn built_in<T: DeserializeOwned>(
    known: &[(&'static str, &'static str)],
    name: &str,
    noun: &str,
) -> Option<T> {
    let (name, _) = known.iter().find(|(known, _)| *known == name)?;
    let texts = Texts::default();
    let loaded = load(&mut Sources::new(&texts), known, name, 0..0, None, ("", noun));
    Some(loaded.expect("a test loads every built-in profile").0)
}

/// Parses the text of one profile.
fn parse<'t>(
    sources: &mut Sources<'t>,
    known: &[(&'static str, &'static str)],
    name: &str,
    name_span: &Range<usize>,
    noun: &str,
) -> Result<Spanned<Tree<'t>>, InputError> {
    let is_path = name.contains('/') || name.ends_with(".toml");
    match known.iter().find(|(known, _)| *known == name) {
        Some((name, text)) => sources.parse_built_in(&format!("built-in {noun} {name}"), text),
        None if is_path => {
            let path = sources.folder(name_span.start).join(name);
            sources.parse_file(&path, noun).map_err(|error| match error.place {
                None => error.at(sources.place(name_span)),
                Some(_) => error,
            })
        }
        None => {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let what = format!("there is no built-in {noun} `{}`", excerpt(name));
            let help = format!("{}; or write the path of a .toml file", suggest(name, &names));
            Err(InputError::new(what, help).at(sources.place(name_span)))
        }
    }
}

/// Removes the key `base` from a profile; returns its value with its location.
fn take_base(
    sources: &Sources<'_>,
    tree: &mut Spanned<Tree<'_>>,
) -> Result<Option<(String, Range<usize>)>, InputError> {
    let Some(base) = tree.get_mut().remove("base") else { return Ok(None) };
    let span = base.span();
    match base.into_inner() {
        DeValue::String(name) => Ok(Some((name.into_owned(), span))),
        _ => {
            let help = "write the name of a profile in quotes, or the path of one";
            Err(InputError::new("`base`: only a text fits here", help).at(sources.place(&span)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{DRIVES, HOSTS, HostProfile, Profile};
    use byteway_text::units::Picos;

    fn host(text: &str) -> Result<HostProfile, InputError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine.toml"), text).unwrap();
        let texts = Texts::default();
        let mut sources = Sources::new(&texts);
        let root = sources.parse_text("s.toml", folder.path(), "x = 1\n")?;
        load(&mut sources, &HOSTS, "mine.toml", root.span(), None, ("host", "host profile"))
            .map(|(host, _)| host)
    }

    // A key that did not override its base could not be changed.
    #[test]
    fn a_profile_has_its_own_keys_and_the_rest_of_its_base() {
        let found = host("base = \"cosmos\"\nsubmit = \"70 ns\"\n").unwrap();
        let cosmos = HostProfile::built_in("cosmos").unwrap();
        assert_eq!(found, HostProfile { submit: Picos(70_000), ..cosmos });
    }

    // A cycle would load indefinitely; an unknown name must be reported at its location.
    #[test]
    fn a_wrong_base_is_named() {
        let shown = |text: &str| host(text).unwrap_err().to_string();
        assert!(shown("base = \"mine.toml\"\n").contains("based on one another"));
        let message = shown("base = \"cosmo\"\n");
        assert!(message.contains("mine.toml:1:8") && message.contains("did you mean `cosmos`"), "{message}");
        assert!(shown("base = 3\n").contains("only a text fits"));
        assert!(shown("submit = \"70 ns\"\n").contains("lacks the key"));
        assert!(DRIVES.iter().all(|(name, _)| built_in::<Profile>(&DRIVES, name, "profile").is_some()));
    }
}
