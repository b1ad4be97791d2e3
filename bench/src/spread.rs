//! Several rounds of one figure. The middle one counts; how far the others lie from it is the noise.

/// The figures of several rounds, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    sorted: Vec<f64>,
}

impl Spread {
    /// What a share of the rounds lies at or below; nothing when there were no rounds.
    pub fn at(&self, share: f64) -> Option<f64> {
        let last = self.sorted.len().checked_sub(1)?;
        let place = (share.clamp(0.0, 1.0) * last as f64).round() as usize;
        self.sorted.get(place).copied()
    }

    /// The middle one, or what lies between the middle two.
    pub fn median(&self) -> Option<f64> {
        let rounds = self.sorted.len();
        let (low, high) = (self.sorted.get(rounds.checked_sub(1)? / 2)?, self.sorted.get(rounds / 2)?);
        Some(f64::midpoint(*low, *high))
    }

    /// The least and the most.
    pub fn range(&self) -> Option<(f64, f64)> {
        Some((*self.sorted.first()?, *self.sorted.last()?))
    }

    /// How many rounds there were.
    pub fn rounds(&self) -> usize {
        self.sorted.len()
    }
}

impl FromIterator<f64> for Spread {
    fn from_iter<I: IntoIterator<Item = f64>>(rounds: I) -> Self {
        let mut sorted: Vec<f64> = rounds.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        Self { sorted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends() {
        let spread: Spread = [3.0, 1.0, 2.0].into_iter().collect();
        assert_eq!(spread.median(), Some(2.0));
        assert_eq!(spread.range(), Some((1.0, 3.0)));
        assert_eq!(spread.at(0.99), Some(3.0));
        let even: Spread = [1.0, 2.0, 4.0, 9.0].into_iter().collect();
        assert_eq!(even.median(), Some(3.0));
    }

    #[test]
    fn no_rounds_have_no_middle() {
        let spread: Spread = std::iter::empty().collect();
        assert_eq!((spread.median(), spread.range()), (None, None));
    }
}
