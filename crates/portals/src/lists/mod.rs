//! stub
use sluice_wire::{MatchBits, PeerId};
#[derive(Clone, Copy, Debug)]
pub struct Criteria {
    pub bits: MatchBits,
    pub ignore: u64,
    pub source: Option<PeerId>,
}
impl Criteria {
    pub fn accepts(&self, bits: MatchBits, peer: PeerId) -> bool {
        self.bits.accepts(self.ignore, bits) && self.source.is_none_or(|s| s == peer)
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u64);
#[derive(Debug)]
pub struct Posted<T> {
    items: Vec<(u64, Criteria, T)>,
    next: u64,
}
impl<T: Copy> Posted<T> {
    pub fn new() -> Self {
        Posted { items: Vec::new(), next: 0 }
    }
    pub fn len(&self) -> usize {
        self.items.len()
    }
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    pub fn push(&mut self, c: Criteria, item: T) -> Place {
        self.next += 1;
        self.items.push((self.next, c, item));
        Place(self.next)
    }
    pub fn remove(&mut self, p: Place) -> Option<T> {
        let i = self.items.iter().position(|x| x.0 == p.0)?;
        Some(self.items.remove(i).2)
    }
    pub fn find(
        &mut self,
        bits: MatchBits,
        source: PeerId,
        accept: impl Fn(T) -> bool,
    ) -> Option<(Place, T)> {
        self.items
            .iter()
            .find(|x| x.1.accepts(bits, source) && accept(x.2))
            .map(|x| (Place(x.0), x.2))
    }
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.items.iter().map(|x| x.2)
    }
    pub fn check_invariants(&self) {}
}
#[derive(Debug)]
pub struct Unexpected<T> {
    items: Vec<(u64, MatchBits, PeerId, T)>,
    next: u64,
}
impl<T: Copy> Unexpected<T> {
    pub fn new() -> Self {
        Unexpected { items: Vec::new(), next: 0 }
    }
    pub fn len(&self) -> usize {
        self.items.len()
    }
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    pub fn push(&mut self, b: MatchBits, s: PeerId, item: T) -> Place {
        self.next += 1;
        self.items.push((self.next, b, s, item));
        Place(self.next)
    }
    pub fn remove(&mut self, p: Place) -> Option<T> {
        let i = self.items.iter().position(|x| x.0 == p.0)?;
        Some(self.items.remove(i).3)
    }
    pub fn find(&mut self, c: &Criteria, accept: impl Fn(T) -> bool) -> Option<(Place, T)> {
        self.items.iter().find(|x| c.accepts(x.1, x.2) && accept(x.3)).map(|x| (Place(x.0), x.3))
    }
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.items.iter().map(|x| x.3)
    }
    pub fn check_invariants(&self) {}
}
