//! Columns of a row group that are read in pieces: reads of a bounded length, several of which may be outstanding. Columns that follow
//! one another are read as one.

use std::collections::BTreeMap;

/// One read of a row group's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u32,
}

/// The pieces, of up to `piece_bytes` each, that hold these ranges (offset and length) of a row group, ascending. A gap of up to
/// `gap_bytes` between two ranges is read with them.
pub fn pieces(ranges: &[(u64, u32)], piece_bytes: u32, gap_bytes: u64) -> Vec<Piece> {
    let mut sorted: Vec<(u64, u64)> = ranges
        .iter()
        .filter(|range| range.1 > 0)
        .map(|(offset, bytes)| (*offset, offset + u64::from(*bytes)))
        .collect();
    sorted.sort_unstable();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in sorted {
        match runs.last_mut() {
            Some(last) if begin <= last.1 + gap_bytes => last.1 = last.1.max(end),
            _ => runs.push((begin, end)),
        }
    }
    let cut = |(begin, end): (u64, u64)| {
        let piece = move |offset: u64| Piece { offset, bytes: (end - offset).min(piece_bytes.into()) as u32 };
        (begin..end).step_by(piece_bytes as usize).map(piece)
    };
    runs.into_iter().flat_map(cut).collect()
}

/// The bytes of a range, of the pieces that hold it, by where they begin.
pub fn column(pieces: &BTreeMap<u64, Vec<u8>>, (offset, bytes): (u64, u32)) -> Vec<u8> {
    let end = offset + u64::from(bytes);
    let mut column = Vec::with_capacity(bytes as usize);
    let first = pieces.range(..=offset).next_back().map_or(offset, |(begin, _)| *begin);
    for (begin, piece) in pieces.range(first..end) {
        let from = offset.saturating_sub(*begin).min(piece.len() as u64) as usize;
        let to = end.saturating_sub(*begin).min(piece.len() as u64) as usize;
        column.extend_from_slice(&piece[from..to]);
    }
    column
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u32 = 128 << 10;

    // A column that is cut at a piece's end, or put together with its neighbour's bytes, is another column.
    #[test]
    fn columns_are_put_together_of_pieces() {
        let long = PIECE + 1000;
        // The second follows the first; then there is a gap, and an empty one.
        let ranges = [(0, 500), (500, long), (u64::from(long) + 2000, 100), (7, 0)];
        for (gap, wanted) in [
            (0, vec![(0, PIECE), (u64::from(PIECE), 1500), (u64::from(long) + 2000, 100)]),
            (1500, vec![(0, PIECE), (u64::from(PIECE), 3100)]),
        ] {
            let all = pieces(&ranges, PIECE, gap);
            let found: Vec<(u64, u32)> = all.iter().map(|piece| (piece.offset, piece.bytes)).collect();
            assert_eq!(found, wanted);
            let byte = |at: u64| (at % 251) as u8;
            let read =
                |piece: &Piece| (piece.offset..piece.offset + u64::from(piece.bytes)).map(byte).collect();
            let brought: BTreeMap<u64, Vec<u8>> =
                all.iter().map(|piece| (piece.offset, read(piece))).collect();
            for (offset, bytes) in ranges {
                let expected: Vec<u8> = (offset..offset + u64::from(bytes)).map(byte).collect();
                assert_eq!(column(&brought, (offset, bytes)), expected, "{offset}");
            }
        }
    }
}
