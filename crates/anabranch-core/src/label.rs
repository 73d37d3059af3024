//! The identity of an object: an id that is never reused, and the name that a program has given to it.

use crate::context::ContextCore;
use anabranch_hal::{ObjectHandle, ObjectId};
use std::fmt;
use std::sync::OnceLock;

/// An object's id and name.
pub struct Label {
    id: ObjectId,
    name: OnceLock<Box<str>>,
}

impl Label {
    /// A new id, without a name. A layer of the driver that observes objects is notified.
    #[inline]
    #[track_caller]
    pub fn new(context: &ContextCore, object: ObjectHandle) -> Self {
        let id = ObjectId::next();
        if context.device().observes_objects() {
            context.driver().object_created(&context.call("creating an object"), object, id);
        }
        Self { id, name: OnceLock::new() }
    }

    /// The number.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// The name, if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.name.get().map(AsRef::as_ref)
    }

    /// Names the object. Returns `false` if it already has a name, which it keeps.
    #[track_caller]
    pub fn set_name(&self, context: &ContextCore, name: &str) -> bool {
        let is_set = self.name.set(name.into()).is_ok();
        if is_set && context.device().observes_objects() {
            context.driver().object_named(&context.call("naming an object"), self.id, name);
        }
        is_set
    }
}

impl fmt::Display for Label {
    /// The name in quotation marks with a space before it, if there is one.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(formatter, " \"{name}\""),
            None => Ok(()),
        }
    }
}
