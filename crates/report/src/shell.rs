//! Shell commands in reports, for the reader to type.

/// Quotes a string so that a shell takes it as one word.
pub fn quoted(word: &str) -> String {
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

    // Pasted into a shell, a value with a space would be two words, and one with a quote would leave the
    // quote open.
    #[test]
    fn a_word_is_one_word_to_a_shell() {
        assert_eq!(quoted("job.0.iodepth=4"), "job.0.iodepth=4");
        assert_eq!(quoted("job.0.bs=4 KiB"), "'job.0.bs=4 KiB'");
        assert_eq!(quoted("name='a'"), r"'name='\''a'\'''");
        assert_eq!(quoted("x; rm -rf ~ #"), "'x; rm -rf ~ #'");
        assert_eq!(quoted(""), "''");
    }
}
