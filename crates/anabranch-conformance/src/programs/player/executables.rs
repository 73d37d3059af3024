//! Calls for executable graphs.

use super::super::answer::{Answer, Outcome};
use super::super::call::ExecutableCall;
use super::super::slots::{GraphSlot, New};
use super::graphs::node_context;
use super::objects::ExecutableObject;
use super::{Stage, plain, told};
use anabranch::hal::{Detail, Failure, InstantiateFlags};

impl Stage {
    pub(super) fn executable_call(&mut self, call: &ExecutableCall) -> Option<Answer> {
        let driver = self.driver.clone();
        Some(match call {
            ExecutableCall::Instantiate { graph, executable: New(slot), flags, upload } => {
                let (handle, context) = self.objects.graph(*graph)?;
                let upload = match upload {
                    Some(upload) => Some(self.objects.stream(*upload)?.0),
                    None => None,
                };
                let flags = InstantiateFlags::from_bits_retain(flags.0);
                match driver.graph_instantiate(&self.call_for(context), handle, flags, upload) {
                    Ok(handle) => {
                        let graph = self.objects.outermost(*graph);
                        self.objects.add_executable(*slot, ExecutableObject { handle, context, graph });
                        Answer::new(Outcome::Status(0))
                    }
                    Err(failure) => self.refused(*graph, &failure),
                }
            }
            ExecutableCall::Destroy { executable } => {
                let (handle, context) = self.objects.take_executable(*executable)?;
                // SAFETY: the slot is empty now, so that nobody uses it any more.
                plain(unsafe { driver.executable_destroy(&self.call_for(context), handle) })
            }
            ExecutableCall::Flags { executable } => {
                let (handle, context) = self.objects.executable(*executable)?;
                let flags = driver.executable_flags(&self.call_for(context), handle);
                told(flags, |flags| format!("{:#x}", flags.bits()))
            }
            ExecutableCall::Upload { executable, stream } => {
                let (handle, _) = self.objects.executable(*executable)?;
                let call = self.call_on(*stream, self.objects.stream(*stream)?.1);
                plain(driver.executable_upload(&call, handle, self.objects.stream(*stream)?.0))
            }
            ExecutableCall::Launch { executable, stream } => {
                let (handle, _) = self.objects.executable(*executable)?;
                let call = self.call_on(*stream, self.objects.stream(*stream)?.1);
                let (stream, _) = self.objects.stream(*stream)?;
                // SAFETY: what the nodes do is sound whenever they run.
                plain(unsafe { driver.executable_launch(&call, handle, stream) })
            }
            ExecutableCall::Update { executable, graph } => {
                let (handle, context) = self.objects.executable(*executable)?;
                let (source, _) = self.objects.graph(*graph)?;
                // SAFETY: the nodes of the graph are sound, and what they use exists until the program is over.
                match unsafe { driver.executable_update(&self.call_for(context), handle, source) } {
                    Ok(()) => Answer::new(Outcome::Status(0)),
                    Err(failure) => self.refused(*graph, &failure),
                }
            }
            ExecutableCall::SetParameters { executable, node, parameters } => {
                let (handle, context) = self.objects.executable(*executable)?;
                let (original, of) = self.objects.node(*node)?;
                let call = self.harness.call(node_context(context, parameters));
                let parameters = self.parameters(node.graph, of, parameters)?;
                // SAFETY: as for the nodes of graphs.
                plain(unsafe { driver.executable_set_node_parameters(&call, handle, original, &parameters) })
            }
            ExecutableCall::SetEnabled { executable, node, enabled } => {
                let (handle, context) = self.objects.executable(*executable)?;
                let (original, _) = self.objects.node(*node)?;
                let call = self.harness.call(context);
                // SAFETY: what the nodes do is sound whichever of them run.
                plain(unsafe { driver.executable_set_node_enabled(&call, handle, original, *enabled) })
            }
            ExecutableCall::Enabled { executable, node } => {
                let (handle, context) = self.objects.executable(*executable)?;
                let (original, _) = self.objects.node(*node)?;
                told(driver.executable_node_enabled(&self.harness.call(context), handle, original), |enabled| {
                    enabled.to_string()
                })
            }
        })
    }

    /// The answer where a graph was not instantiated, or an executable graph not updated from it, with the reason.
    fn refused(&self, graph: GraphSlot, failure: &Failure) -> Answer {
        let (reason, node) = match failure.detail.as_deref() {
            Some(Detail::Instantiate { result, node }) => (result.0, *node),
            Some(Detail::Update { result, node }) => (result.0, *node),
            _ => return Answer::new(Outcome::Status(failure.status.0)),
        };
        let node = node.map(|node| format!(" node={}", self.objects.node_name(graph, node))).unwrap_or_default();
        Answer::with(Outcome::Status(failure.status.0), format!("reason={reason}{node}"))
    }
}
