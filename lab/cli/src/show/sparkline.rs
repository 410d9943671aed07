//! A series as one line of text.
//!
//! The shape of a curve is more informative than its mean.
//!
//! # Invariants
//! The highest value of the series is a full block, zero is a space.

const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws a series with at most `width` characters; each character shows the maximum of the values that it represents.
pub fn of(values: &[u64], width: usize) -> String {
    let Some(top) = values.iter().max().copied().filter(|top| *top > 0) else {
        return String::new();
    };
    let width = width.clamp(1, values.len());
    let character = |at: usize| {
        let part = &values[at * values.len() / width..(at + 1) * values.len() / width];
        let value = part.iter().max().copied().unwrap_or(0);
        // Any value above zero has at least the lowest block.
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
