//! The data of a List (NVMe KV 1.0, 3.2.3): the number of keys (4 bytes), then each key with its length (2 bytes) in
//! front, padded to a multiple of 4 bytes. It contains whole keys only.

/// Bytes before the first key.
pub const HEADER_BYTES: usize = 4;
/// Bytes of a key's length.
const LENGTH_BYTES: usize = 2;

/// Bytes of an entry with a key of `length` bytes.
pub const fn entry_bytes(length: usize) -> usize {
    (LENGTH_BYTES + length).next_multiple_of(4)
}

/// Starts a list in `into`, which is cleared.
pub fn begin(into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(&[0; HEADER_BYTES]);
}

/// Appends a key to a list.
pub fn push(into: &mut Vec<u8>, key: &[u8]) {
    let end = into.len() + entry_bytes(key.len());
    into.extend_from_slice(&(key.len() as u16).to_le_bytes());
    into.extend_from_slice(key);
    into.resize(end, 0);
    if let Some((count, _)) = into.split_first_chunk_mut::<HEADER_BYTES>() {
        *count = (u32::from_le_bytes(*count) + 1).to_le_bytes();
    }
}

/// The number of keys, as `bytes` states it.
pub fn count(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |count| u32::from_le_bytes(*count))
}

/// The keys in `bytes`: as many as stated, up to the first that is truncated.
pub fn keys(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let mut left = count(bytes);
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let (length, behind) = rest.split_first_chunk::<LENGTH_BYTES>()?;
        let length = usize::from(u16::from_le_bytes(*length));
        let key = behind.get(..length)?;
        rest = rest.get(entry_bytes(length)..).unwrap_or_default();
        Some(key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a host would read the padding of a key as the next one's length.
    #[test]
    fn lists_come_back_as_they_were_made() {
        let all: Vec<&[u8]> = vec![b"a", b"bc", b"def", b"ghij", b"0123456789abcdef"];
        let mut bytes = vec![9; 100];
        begin(&mut bytes);
        assert_eq!((keys(&bytes).count(), count(&bytes)), (0, 0));
        all.iter().for_each(|key| push(&mut bytes, key));
        assert_eq!(bytes[..12], [5, 0, 0, 0, 1, 0, b'a', 0, 2, 0, b'b', b'c']);
        assert_eq!(bytes.len(), HEADER_BYTES + all.iter().map(|key| entry_bytes(key.len())).sum::<usize>());
        assert_eq!(keys(&bytes).collect::<Vec<_>>(), all);
    }

    /// Without this a hostile drive could make a host read past its buffer.
    #[test]
    fn a_list_that_is_cut_off_ends_there() {
        let mut bytes = Vec::new();
        begin(&mut bytes);
        push(&mut bytes, b"one");
        push(&mut bytes, b"two");
        for cut in 0..bytes.len() {
            assert!(keys(&bytes[..cut]).count() <= 2);
        }
        bytes[0] = 255;
        assert_eq!(keys(&bytes).count(), 2);
        assert_eq!(keys(&[1, 0, 0, 0, 255, 255, 1]).count(), 0);
    }
}
