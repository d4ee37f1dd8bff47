//! The bytes of one execution, as choices: each is made from the next bytes, and zero when
//! there are none left. So any bytes are a run, and one that is cut off is one too.

/// See the module.
#[derive(Debug)]
pub struct Input<'a> {
    left: &'a [u8],
}

impl<'a> Input<'a> {
    /// All of these are to be used.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { left: bytes }
    }

    /// Whether no byte is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// The next eight bytes, as a number.
    pub fn word(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// The next byte, made smaller than `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// One bit.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Whether it is the one case of `count`.
    pub fn one_in(&mut self, count: u8) -> bool {
        self.below(usize::from(count)) == 0
    }

    /// As many of the next bytes as there are, up to `len`.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, left) = self.left.split_at(len.min(self.left.len()));
        self.left = left;
        taken
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.left)
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.take(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }
}
