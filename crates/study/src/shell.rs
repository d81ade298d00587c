//! Commands that reports tell one to type.

/// As a shell takes it for one word.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "=.,_-/:%+".contains(c);
    if word.chars().all(plain) && !word.is_empty() {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A value with a space or a quote would be two words, or an open quote, to the shell that it is pasted into.
    #[test]
    fn a_word_is_one_word_to_a_shell() {
        assert_eq!(quoted("job.0.iodepth=4"), "job.0.iodepth=4");
        assert_eq!(quoted("job.0.bs=4 KiB"), "'job.0.bs=4 KiB'");
        assert_eq!(quoted("name='a'"), r"'name='\''a'\'''");
        assert_eq!(quoted("x; rm -rf ~ #"), "'x; rm -rf ~ #'");
        assert_eq!(quoted(""), "''");
    }
}
