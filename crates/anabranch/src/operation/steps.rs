//! The steps of an operation, in the order in which they are made.

use super::each::Each;
use crate::error::Result;
use crate::stream::Stream;

/// Makes a value, and queues the work for it in a stream.
pub(super) type Queue<'a> = Box<dyn FnOnce(&Stream) -> Result<()> + Send + 'a>;

/// One step of an operation.
///
/// A step does not own the steps before it. So going through any number of them, and dropping them, takes no more of the stack
/// than one does.
pub(super) enum Step<'a> {
    /// Gets the stream of the place.
    Queue(Queue<'a>),
    /// Is followed by the steps that are chosen in it.
    Choose(Box<dyn Choose + 'a>),
    /// Up to so many other streams leave that of the place.
    Fork(usize),
    /// What follows is this part of what comes behind the innermost fork that has not joined: the place changes.
    Part(usize),
    /// The streams of the innermost fork join, the place is the one before it, and the values of the parts become one.
    ///
    /// A step that is not made is dropped before they join: what it owns may be freed in their streams. Only a step that is made
    /// puts several values into one, because that would end the process if it were dropped and two of them unwound.
    Join(Queue<'a>),
}

/// A choice of the steps that follow.
///
/// It is no closure: the type of a closure that returns steps names their lifetime, which would then be invariant, and an
/// operation that lives long could not be used as one that lives shorter.
pub(super) trait Choose: Send {
    /// The steps that follow.
    fn choose<'s>(self: Box<Self>) -> Result<Steps<'s>>
    where
        Self: 's;
}

/// Steps, one after the other.
#[derive(Default)]
pub(super) struct Steps<'a>(Each<Step<'a>>);

impl<'a> Steps<'a> {
    pub(super) fn push(&mut self, step: Step<'a>) {
        self.0.push_back(step);
    }

    pub(super) fn push_front(&mut self, step: Step<'a>) {
        self.0.push_front(step);
    }

    pub(super) fn pop_front(&mut self) -> Option<Step<'a>> {
        self.0.pop_front()
    }

    /// Adds steps behind these.
    pub(super) fn append(&mut self, later: Self) {
        let earlier = std::mem::take(self);
        self.0 = earlier.0.followed_by(later.0);
    }

    /// Adds steps before these.
    pub(super) fn prepend(&mut self, earlier: Self) {
        let later = std::mem::take(self);
        self.0 = earlier.0.followed_by(later.0);
    }
}
