//! The budget of one evaluation, in steps and in bytes.

use std::cell::Cell;

use crate::limits;

/// Bytes of text that are copied, compared or searched for the price of one step.
const READ_BYTES_PER_STEP: usize = 64;
/// Bytes of text that are decoded and handled character by character for the price of one step.
const SCANNED_BYTES_PER_STEP: usize = 4;

/// The steps and bytes that one evaluation may still use.
///
/// Create one per evaluation of a whole expression, template or transformation and pass it to
/// everything that the evaluation calls, so that all parts draw on the same allowance. Work is charged
/// before it is done, memory before it is allocated. A step is about the work of looking at one node.
///
/// ```
/// use xpath::{Budget, BudgetExceeded};
///
/// let budget = Budget::new(10, 1_000);
/// budget.charge_steps(4)?;
/// assert_eq!(budget.steps_left(), 6);
/// assert_eq!(budget.charge_memory(1_001), Err(BudgetExceeded::Bytes { max: 1_000 }));
/// # Ok::<(), BudgetExceeded>(())
/// ```
#[derive(Debug, Clone)]
pub struct Budget {
    steps_left: Cell<u64>,
    bytes_left: Cell<u64>,
    steps_max: u64,
    bytes_max: u64,
    /// A charge of memory has failed, so that all further charges fail.
    is_full: Cell<bool>,
    /// The element whose namespaces were looked up last; it declares some.
    scope: Cell<Option<xml::NodeId>>,
}

/// An evaluation used up its [`Budget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BudgetExceeded {
    #[error("evaluation stopped after {max} steps; use a narrower path or allow more steps")]
    Steps { max: u64 },
    #[error("evaluation stopped: it needs more than {max} bytes; select less or allow more bytes")]
    Bytes { max: u64 },
}

/// The budget for a worker thread: [`limits::BUDGET_STEPS`] and [`limits::BUDGET_BYTES`].
impl Default for Budget {
    fn default() -> Self {
        Self::new(limits::BUDGET_STEPS, limits::BUDGET_BYTES)
    }
}

impl Budget {
    #[must_use]
    pub fn new(steps: u64, bytes: u64) -> Self {
        Self {
            steps_left: Cell::new(steps),
            bytes_left: Cell::new(bytes),
            steps_max: steps,
            bytes_max: bytes,
            is_full: Cell::new(false),
            scope: Cell::new(None),
        }
    }

    /// The budget for tools that run in a process of their own: [`limits::BUDGET_LARGE_STEPS`] and
    /// [`limits::BUDGET_LARGE_BYTES`].
    #[must_use]
    pub fn large() -> Self {
        Self::new(limits::BUDGET_LARGE_STEPS, limits::BUDGET_LARGE_BYTES)
    }

    /// Charges work.
    ///
    /// # Errors
    /// [`BudgetExceeded::Steps`] if fewer are left; then none are left.
    #[inline]
    pub fn charge_steps(&self, steps: u64) -> Result<(), BudgetExceeded> {
        let left = self.steps_left.get();
        self.steps_left.set(left.saturating_sub(steps));
        if steps <= left { Ok(()) } else { Err(BudgetExceeded::Steps { max: self.steps_max }) }
    }

    /// Charges the steps of copying, comparing or searching `bytes` of text.
    ///
    /// # Errors
    /// As [`Budget::charge_steps`].
    #[inline]
    pub fn charge_reading(&self, bytes: usize) -> Result<(), BudgetExceeded> {
        match (bytes / READ_BYTES_PER_STEP) as u64 {
            0 => Ok(()),
            steps => self.charge_steps(steps),
        }
    }

    /// Charges the steps of handling `bytes` of text character by character.
    ///
    /// # Errors
    /// As [`Budget::charge_steps`].
    #[inline]
    pub fn charge_scanning(&self, bytes: usize) -> Result<(), BudgetExceeded> {
        self.charge_steps((bytes / SCANNED_BYTES_PER_STEP) as u64)
    }

    /// Charges the steps of looking up the namespaces in scope of an element. A document remembers the last look-up,
    /// which is free for elements with the same namespaces.
    ///
    /// # Errors
    /// As [`Budget::charge_steps`].
    pub fn charge_scope(&self, element: xml::Node<'_>) -> Result<(), BudgetExceeded> {
        let scope = element.namespaces_in_scope();
        let holder = Some(scope.holder());
        let known = self.scope.replace(holder) == holder;
        self.charge_steps(if known { 1 } else { scope.visited() as u64 })
    }

    /// Charges memory: text, node-sets and trees that the evaluation is about to create. Memory that it frees is
    /// credited only by [`Budget::release_memory`].
    ///
    /// # Errors
    /// [`BudgetExceeded::Bytes`] if fewer are left; then all charges fail until [`Budget::resume`].
    #[inline]
    pub fn charge_memory(&self, bytes: usize) -> Result<(), BudgetExceeded> {
        let left = self.bytes_left.get().checked_sub(bytes as u64);
        match left.filter(|_| !self.is_full.get()) {
            Some(left) => {
                self.bytes_left.set(left);
                Ok(())
            }
            None => Err(self.out_of_memory()),
        }
    }

    /// Reports that memory does not fit, for a caller that has compared its need with [`Budget::bytes_left`]. All
    /// charges fail until [`Budget::resume`].
    pub fn out_of_memory(&self) -> BudgetExceeded {
        self.is_full.set(true);
        BudgetExceeded::Bytes { max: self.bytes_max }
    }

    /// Makes the budget usable for another evaluation after a charge of memory has failed. The failed charge does not
    /// count.
    pub fn resume(&self) {
        self.is_full.set(false);
    }

    /// Credits memory that was charged and has been freed, such as the keys of a sort.
    pub fn release_memory(&self, bytes: usize) {
        let left = self.bytes_left.get().saturating_add(bytes as u64);
        self.bytes_left.set(left.min(self.bytes_max));
    }

    /// Raises the limits by `steps` and `bytes`.
    pub fn extend(&mut self, steps: u64, bytes: u64) {
        self.steps_max = self.steps_max.saturating_add(steps);
        self.bytes_max = self.bytes_max.saturating_add(bytes);
        self.release_steps(steps);
        self.release_memory(usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    /// Leaves at most `left` steps. Returns the number of steps withheld, for [`Budget::release_steps`].
    #[must_use]
    pub fn withhold_steps(&self, left: u64) -> u64 {
        let all = self.steps_left.get();
        self.steps_left.set(all.min(left));
        all.saturating_sub(left)
    }

    /// Credits steps that were withheld.
    pub fn release_steps(&self, steps: u64) {
        let left = self.steps_left.get().saturating_add(steps);
        self.steps_left.set(left.min(self.steps_max));
    }

    #[must_use]
    pub fn steps_left(&self) -> u64 {
        self.steps_left.get()
    }

    #[must_use]
    pub fn bytes_left(&self) -> u64 {
        if self.is_full.get() { 0 } else { self.bytes_left.get() }
    }

    #[must_use]
    pub fn steps_used(&self) -> u64 {
        self.steps_max - self.steps_left.get()
    }

    #[must_use]
    pub fn bytes_used(&self) -> u64 {
        self.bytes_max - self.bytes_left.get()
    }
}
