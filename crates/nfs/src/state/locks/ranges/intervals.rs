//! Locks of one kind in the order of their first bytes, found by what they overlap, except those of one owner.
//!
//! This is an AVL tree. Each node knows how far the locks below it reach, and how far those reach that belong to anybody but the
//! owner of the farthest. So a search skips the asking owner's locks, and takes a number of steps proportional to the
//! height of the tree for each lock that it finds.

use std::cmp::Ordering;

use crate::state::locks::ranges::Range;

/// A first byte, and the number of the owner: locks of different owners may begin at the same byte.
type Key = (u64, u64);

type Link<O> = Option<Box<Node<O>>>;

/// The tree.
#[derive(Clone, Debug)]
pub(super) struct Intervals<O>(Link<O>);

/// A lock.
#[derive(Clone, Debug)]
struct Node<O> {
    key: Key,
    last: u64,
    owner: O,
    left: Link<O>,
    right: Link<O>,
    /// Of this node and all below it.
    reach: Reach,
    /// Levels from here down.
    levels: u8,
}

/// How far locks reach.
#[derive(Clone, Copy, Debug)]
struct Reach {
    /// The last byte of any of them, and the number of its owner.
    last: u64,
    owner: u64,
    /// The last byte of those of other owners.
    others: Option<u64>,
}

impl Reach {
    /// Returns the reach of the locks of both.
    fn join(self, other: Reach) -> Reach {
        let (far, near) = if self.last >= other.last { (self, other) } else { (other, self) };
        let of_others = if near.owner == far.owner { near.others } else { Some(near.last) };
        Reach { others: far.others.max(of_others), ..far }
    }

    /// Returns the last byte of locks that are not this owner's.
    fn except(self, owner: Option<u64>) -> Option<u64> {
        if owner == Some(self.owner) { self.others } else { Some(self.last) }
    }
}

impl<O> Default for Intervals<O> {
    fn default() -> Self {
        Intervals(None)
    }
}

impl<O> Intervals<O> {
    /// Adds a lock of this owner, which must have none with the same first byte.
    pub(super) fn insert(&mut self, range: Range, number: u64, owner: O) {
        let reach = Reach { last: range.last, owner: number, others: None };
        let key = (range.first, number);
        let node = Node { key, last: range.last, owner, left: None, right: None, reach, levels: 1 };
        self.0 = Some(inserted(self.0.take(), Box::new(node)));
    }

    /// Removes the lock of this owner with this first byte, if there is one.
    pub(super) fn remove(&mut self, first: u64, number: u64) {
        self.0 = removed(self.0.take(), (first, number));
    }

    /// Iterates over the locks that overlap a range, by their first byte, except those of the owner with this number.
    pub(super) fn overlapping(&self, range: Range, except: Option<u64>) -> Overlapping<'_, O> {
        let mut found = Overlapping { range, except, path: Vec::new() };
        found.descend(&self.0);
        found
    }
}

/// The locks that overlap a range.
pub(super) struct Overlapping<'t, O> {
    range: Range,
    except: Option<u64>,
    /// The next node, and those above it that come later.
    path: Vec<&'t Node<O>>,
}

impl<'t, O> Overlapping<'t, O> {
    /// Goes to the first node below that may overlap the range or have a later one beside it that does.
    fn descend(&mut self, mut link: &'t Link<O>) {
        while let Some(node) = link
            && node.reach.except(self.except).is_some_and(|last| last >= self.range.first)
        {
            self.path.push(node);
            link = &node.left;
        }
    }
}

impl<'t, O> Iterator for Overlapping<'t, O> {
    type Item = (Range, &'t O);

    fn next(&mut self) -> Option<(Range, &'t O)> {
        while let Some(node) = self.path.pop() {
            let (first, number) = node.key;
            if first > self.range.last {
                // So do all that come later.
                self.path.clear();
                return None;
            }
            self.descend(&node.right);
            if self.except != Some(number) && node.last >= self.range.first {
                return Some((Range { first, last: node.last }, &node.owner));
            }
        }
        None
    }
}

impl<O> Node<O> {
    /// Determines what depends on the nodes below.
    fn update(&mut self) {
        let own = Reach { last: self.last, owner: self.key.1, others: None };
        let below = [&self.left, &self.right].into_iter().flatten();
        self.reach = below.fold(own, |reach, node| reach.join(node.reach));
        self.levels = 1 + levels(&self.left).max(levels(&self.right));
    }
}

fn levels<O>(link: &Link<O>) -> u8 {
    link.as_ref().map_or(0, |node| node.levels)
}

fn inserted<O>(link: Link<O>, new: Box<Node<O>>) -> Box<Node<O>> {
    let Some(mut node) = link else { return new };
    if new.key < node.key {
        node.left = Some(inserted(node.left.take(), new));
    } else {
        node.right = Some(inserted(node.right.take(), new));
    }
    balanced(node)
}

fn removed<O>(link: Link<O>, key: Key) -> Link<O> {
    let mut node = link?;
    match key.cmp(&node.key) {
        Ordering::Less => node.left = removed(node.left.take(), key),
        Ordering::Greater => node.right = removed(node.right.take(), key),
        Ordering::Equal => {
            let Some(right) = node.right.take() else { return node.left.take() };
            let (rest, mut next) = without_first(right);
            (next.left, next.right) = (node.left.take(), rest);
            return Some(balanced(next));
        }
    }
    Some(balanced(node))
}

/// Takes the first node out of a tree.
fn without_first<O>(mut node: Box<Node<O>>) -> (Link<O>, Box<Node<O>>) {
    match node.left.take() {
        None => (node.right.take(), node),
        Some(left) => {
            let (rest, first) = without_first(left);
            node.left = rest;
            (Some(balanced(node)), first)
        }
    }
}

/// Makes the sides of a node differ by one level at most, where they differ by two at most.
fn balanced<O>(mut node: Box<Node<O>>) -> Box<Node<O>> {
    let (left, right) = (levels(&node.left), levels(&node.right));
    if left > right + 1 {
        let lean = |child: Box<Node<O>>| {
            if levels(&child.left) < levels(&child.right) { rotated_left(child) } else { child }
        };
        node.left = node.left.take().map(lean);
        return rotated_right(node);
    }
    if right > left + 1 {
        let lean = |child: Box<Node<O>>| {
            if levels(&child.right) < levels(&child.left) { rotated_right(child) } else { child }
        };
        node.right = node.right.take().map(lean);
        return rotated_left(node);
    }
    node.update();
    node
}

/// Puts the node on the left above this one.
fn rotated_right<O>(mut node: Box<Node<O>>) -> Box<Node<O>> {
    let Some(mut top) = node.left.take() else { return node };
    node.left = top.right.take();
    node.update();
    top.right = Some(node);
    top.update();
    top
}

/// Puts the node on the right above this one.
fn rotated_left<O>(mut node: Box<Node<O>>) -> Box<Node<O>> {
    let Some(mut top) = node.right.take() else { return node };
    node.right = top.left.take();
    node.update();
    top.left = Some(node);
    top.update();
    top
}

#[cfg(test)]
mod tests;
