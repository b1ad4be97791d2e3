//! How many calls may run at the same time.

use super::GuardError;

/// A number of places that can be taken and given back, and changed while calls run.
///
/// ```
/// use redrive_core::guard::ConcurrencyLimit;
///
/// let mut limit = ConcurrencyLimit::new(2)?;
/// assert!(limit.try_acquire() && limit.try_acquire());
/// assert!(!limit.try_acquire());
///
/// limit.resize(1)?; // the two that run may finish; none starts until they have
/// limit.release();
/// assert!(!limit.try_acquire());
/// limit.release();
/// assert!(limit.try_acquire());
/// # Ok::<(), redrive_core::guard::GuardError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConcurrencyLimit {
    limit: u32,
    in_flight: u32,
}

impl ConcurrencyLimit {
    /// A limit of at least one place.
    pub fn new(limit: u32) -> Result<Self, GuardError> {
        Ok(Self { limit: Self::checked(limit)?, in_flight: 0 })
    }

    fn checked(limit: u32) -> Result<u32, GuardError> {
        if limit == 0 {
            return Err(GuardError::new(
                "concurrency",
                limit,
                "write at least 1, or pause the flow to hold every call",
            ));
        }
        Ok(limit)
    }

    /// Takes a place; false when none is free.
    #[must_use = "a call may start only when a place was taken"]
    pub fn try_acquire(&mut self) -> bool {
        let free = self.in_flight < self.limit;
        if free {
            self.in_flight += 1;
        }
        free
    }

    /// Gives a place back; false, and nothing changes, when none was taken.
    pub fn release(&mut self) -> bool {
        let taken = self.in_flight > 0;
        self.in_flight -= u32::from(taken);
        taken
    }

    /// Changes the number of places. Places taken beyond a smaller limit stay taken until they are given back.
    pub fn resize(&mut self, limit: u32) -> Result<(), GuardError> {
        self.limit = Self::checked(limit)?;
        Ok(())
    }

    /// The places there are.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// The places taken.
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The places free.
    pub const fn available(&self) -> u32 {
        self.limit.saturating_sub(self.in_flight)
    }
}
