//! A series in one line of text.
//!
//! Exists because the shape of a curve says more than its mean.
//!
//! Invariant: the highest value of the series is a full block, zero is a space.

const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws a series in at most `width` characters; each shows the highest of the values it stands
/// for.
pub fn of(values: &[u64], width: usize) -> String {
    let Some(top) = values.iter().max().copied().filter(|top| *top > 0) else {
        return String::new();
    };
    let width = width.clamp(1, values.len());
    let character = |at: usize| {
        let part = &values[at * values.len() / width..(at + 1) * values.len() / width];
        let value = part.iter().max().copied().unwrap_or(0);
        // At least the lowest block for anything above zero.
        BLOCKS[(u128::from(value) * 8).div_ceil(u128::from(top)) as usize]
    };
    (0..width).map(character).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn shapes() {
        assert_eq!(super::of(&[0, 1, 4, 8], 4), " ▁▄█");
        assert_eq!(super::of(&[1, 8, 2, 4], 2), "█▄");
        assert_eq!(super::of(&[0, 0], 4), "");
        assert_eq!(super::of(&[], 4), "");
        assert_eq!(super::of(&[5], 40), "█");
    }
}
