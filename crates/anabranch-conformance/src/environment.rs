//! The environment of a case: a device, a context and loaded kernels.

use crate::case::{Case, Failed, Need};
use crate::kernels;
use anabranch::{BackendKind, Context, Device, Kernel, LaunchConfig, Module, NodeWork, Result, Stream, StreamFlags};

/// A device and the objects that all cases use.
#[derive(Debug)]
pub struct Environment {
    device: Device,
    peer: Option<Device>,
    context: Context,
    module: Module,
}

impl Environment {
    /// Opens the device, and loads and warms up the kernels. Loading may block while work is pending, so nothing must
    /// be loaded while a case has a blocked stream. `peer` is a second device of the same back end.
    ///
    /// # Errors
    ///
    /// If the device cannot be opened or the kernels cannot be loaded.
    pub fn open(device: &Device, peer: Option<&Device>) -> Result<Self> {
        let context = device.context()?;
        let module = kernels::program().load(&context)?;
        let environment = Self { device: device.clone(), peer: peer.cloned(), context, module };
        let stream = environment.context.create_stream()?;
        let mut word = stream.allocate_zeroed::<u32>(1)?;
        let store = environment.kernel("store")?;
        // SAFETY: `store` writes only the number that its first argument points to.
        unsafe { stream.launch(&store, &LaunchConfig::new(1, 1), (&mut word, 0u32))? };
        for name in ["add", "spin", "scale"] {
            environment.kernel(name)?;
        }
        stream.synchronize()?;
        Ok(environment)
    }

    /// The device under test.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The primary context of the device.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The second device, for a case that [needs](Need::TwoDevices) one.
    pub(crate) fn peer(&self) -> std::result::Result<&Device, Failed> {
        self.peer
            .as_ref()
            .ok_or_else(|| Failed("the case uses a second device but does not list it as a need".to_owned()))
    }

    /// The kernels, loaded in the primary context.
    pub(crate) fn module(&self) -> &Module {
        &self.module
    }

    /// A kernel of `kernels.cu`.
    pub(crate) fn kernel(&self, name: &str) -> Result<Kernel> {
        self.module.kernel(name)
    }

    /// A non-blocking stream.
    pub(crate) fn stream(&self) -> Result<Stream> {
        self.context.create_stream()
    }

    /// A stream that is ordered with the legacy default stream.
    pub(crate) fn blocking_stream(&self) -> Result<Stream> {
        self.context.create_stream_with_flags(StreamFlags::empty())
    }

    /// Why kernels cannot set conditional values here, or `None` if they can.
    fn cannot_set_conditionals(&self) -> Option<String> {
        let set = || {
            let mut graph = self.context.create_graph()?;
            let conditional = graph.create_conditional(None)?;
            NodeWork::set_conditional(conditional, &self.stream()?.allocate_zeroed::<u32>(1)?)
        };
        set().err().map(|error| error.to_string())
    }

    pub(crate) fn lacks(&self, case: &Case) -> Option<String> {
        case.needs.iter().find_map(|need| match need {
            Need::Capability(capability) if !self.device.capabilities().contains(*capability) => {
                Some(format!("{} has no {capability:?}", self.device))
            }
            Need::Without(capability) if self.device.capabilities().contains(*capability) => {
                Some(format!("{} has {capability:?}", self.device))
            }
            Need::TwoDevices if self.peer.is_none() => Some(format!("{} is the only device", self.device)),
            Need::ConditionalSetting => self.cannot_set_conditionals(),
            Need::ExternalFiles if !cfg!(unix) || self.device.backend() != BackendKind::Host => {
                Some(format!("{} takes no files", self.device))
            }
            _ => None,
        })
    }
}
