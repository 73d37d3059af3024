//! Calls for executable graphs.

use super::told::{plain, told};
use super::{Answer, Front, FrontCall};
use crate::programs::answer::Outcome;
use crate::programs::slots::ExecutableSlot;
use anabranch::{Completion, ExecutableGraph, InstantiateFlags, Stream};

/// An executable graph of the program.
pub(super) struct Object {
    executable: ExecutableGraph,
    /// Whether nodes that use the same memory may be without order, so that it must not run.
    is_loose: bool,
}

impl Front {
    /// A future of a launch, unless the executable graph must not run.
    pub(super) fn launched(&self, executable: ExecutableSlot, stream: &Stream) -> Option<Completion> {
        let object = self.objects.executables.get(&executable).filter(|object| !object.is_loose)?;
        Some(object.executable.launch_async(stream))
    }

    pub(super) fn executable_call(&mut self, call: &FrontCall) -> Option<Answer> {
        use FrontCall as C;
        Some(match call {
            C::Instantiate { graph, executable, flags, upload } => {
                let object = self.objects.graphs.get(graph)?;
                let (is_loose, flags) = (object.is_loose, InstantiateFlags::from_bits_retain(flags.0));
                let made = match upload {
                    Some(stream) => object.graph.instantiate_and_upload(flags, &*self.stream(*stream)?),
                    None => object.graph.instantiate_with_flags(flags),
                };
                told(made, |made| {
                    self.objects.executables.insert(executable.0, Object { executable: made, is_loose });
                    String::new()
                })
            }
            C::ExecutableDrop { executable } => {
                drop(self.objects.executables.remove(executable)?);
                self.has_dropped_executables = true;
                plain(Ok(()))
            }
            C::ExecutableLaunch { executable, stream } => {
                let object = self.objects.executables.get(executable).filter(|object| !object.is_loose)?;
                plain(object.executable.launch(&*self.stream(*stream)?))
            }
            C::ExecutableUpload { executable, stream } => {
                plain(self.objects.executables.get(executable)?.executable.upload(&*self.stream(*stream)?))
            }
            C::ExecutableUpdate { executable, graph } => {
                let graph = self.objects.graphs.get(graph)?;
                let object = self.objects.executables.get_mut(executable)?;
                object.is_loose |= graph.is_loose;
                match object.executable.update(&graph.graph) {
                    Ok(()) => plain(Ok(())),
                    Err(error) => {
                        Answer::with(Outcome::Status(error.error().status().0), format!("{:?}", error.result()))
                    }
                }
            }
            C::ExecutableSetNode { executable, node, work } => {
                let node = *self.objects.nodes.get(node)?;
                let mut object = self.objects.executables.remove(executable)?;
                object.is_loose |= self.is_loose(work);
                let set = self.with_work(work, |_, work| object.executable.set_node(node, work));
                self.objects.executables.insert(*executable, object);
                plain(set?)
            }
            C::ExecutableSetEnabled { executable, node, enabled } => {
                let node = *self.objects.nodes.get(node)?;
                plain(self.objects.executables.get(executable)?.executable.set_node_enabled(node, *enabled))
            }
            C::ExecutableNode { executable, node } => {
                let node = *self.objects.nodes.get(node)?;
                let asked = self.objects.executables.get(executable)?.executable.is_node_enabled(node);
                told(asked, |is_enabled| is_enabled.to_string())
            }
            _ => return None,
        })
    }
}
