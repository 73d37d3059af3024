//! Captured conditions: parts of a capture that run depending on a value in device memory.

use super::CaptureScope;
use crate::error::{Error, Result};
use crate::memory::{BufferSlice, BufferSliceMut};
use anabranch_core::capture_state::{CaptureEnd, OpenCondition, Whole};
use anabranch_core::conditional_part::{Condition, Part};
use anabranch_hal::{ConditionalKind, Status};

/// A part of a capture, which captures in a scope of its own.
type Body<'a> = &'a mut dyn for<'scope> FnMut(&CaptureScope<'scope>) -> Result<()>;

/// The condition that is a slice's first element.
fn condition_of(slice: &BufferSlice<'_, u32>) -> Result<Condition> {
    if slice.is_empty() {
        return Err(Error::argument(Status::INVALID_VALUE, "capturing a condition", "the condition is empty"));
    }
    // The graph is notified later, when others may have borrowed it.
    slice.allocation().retained_by_graph();
    Ok(Condition { memory: slice.allocation().clone(), address: slice.device_pointer() })
}

impl CaptureScope<'_> {
    /// Captures a part that runs only if the first element of `condition` is not 0 when the part is reached. Submit the
    /// work of the part to the scope that `body` receives, which has a stream of its own.
    ///
    /// ```
    /// use anabranch::CaptureMode;
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// let mut condition = stream.upload(&[0u32])?;
    /// let mut result = stream.upload(&[0u32])?;
    /// let executable = stream.capture_executable(CaptureMode::Global, |scope| {
    ///     scope.capture_if(&condition, |part| part.fill(&mut result, 7u32))
    /// })?;
    ///
    /// executable.launch(&stream)?;
    /// assert_eq!(stream.download(&result)?, [0]);
    /// stream.fill(&mut condition, 1u32)?;
    /// executable.launch(&stream)?;
    /// assert_eq!(stream.download(&result)?, [7]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// The part comes after everything that the streams of the capture have captured by the end of `body`. So until
    /// then, these streams cannot use memory that the part uses, unless both only read it:
    /// [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE).
    ///
    /// The part may contain kernels, copies, fills, other graphs, and conditions of its own. Warp calls it
    /// `capture_if`. Follows the Programming Guide's section on conditional graph nodes. On CUDA it needs CUDA 12.4,
    /// and the library `libcudadevrt.a` of the CUDA toolkit at run time. The first condition of a context loads a kernel,
    /// for which a driver may wait until the context has no work in flight. So capture one before there is work that waits
    /// for the program.
    ///
    /// # Errors
    /// The body's error; [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if `condition` is empty;
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device has no conditional nodes, if
    /// the part allocates memory, or if parts would be nested more than 64 levels deep;
    /// [`CUDA_ERROR_FILE_NOT_FOUND (301)`](crate::Status::FILE_NOT_FOUND) if the library is not found.
    #[track_caller]
    pub fn capture_if<'c, F>(&self, condition: impl Into<BufferSlice<'c, u32>>, body: F) -> Result<()>
    where
        F: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
    {
        let mut body = once(body);
        self.capture_condition(&condition_of(&condition.into())?, ConditionalKind::If, &mut [&mut body])
    }

    /// Like [`capture_if`](Self::capture_if), with a second part that runs if the condition is 0. On CUDA it needs CUDA
    /// 12.8.
    ///
    /// # Errors
    /// Same as [`capture_if`](Self::capture_if).
    #[track_caller]
    pub fn capture_if_else<'c, F, G>(
        &self,
        condition: impl Into<BufferSlice<'c, u32>>,
        body: F,
        otherwise: G,
    ) -> Result<()>
    where
        F: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
        G: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
    {
        let (mut body, mut otherwise) = (once(body), once(otherwise));
        let condition = condition_of(&condition.into())?;
        self.capture_condition(&condition, ConditionalKind::If, &mut [&mut body, &mut otherwise])
    }

    /// Like [`capture_if`](Self::capture_if), with a part that runs repeatedly while the condition is not 0. The
    /// condition is read before each run. `body` receives it and can submit work that changes it. Warp calls it
    /// `capture_while`.
    ///
    /// ```
    /// use anabranch::{CaptureMode, HostFunction, HostModule, LaunchConfig, Module};
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// let countdown = HostModule::new().with_function(HostFunction::new("countdown", &[8, 8], |block, arguments| {
    ///     let (left, sum) = (arguments.slice::<u32>(0), arguments.slice::<u32>(1));
    ///     block.phase(|_, _| {
    ///         sum.set(0, sum.get(0) + left.get(0));
    ///         left.set(0, left.get(0) - 1);
    ///     });
    /// }));
    /// let kernel = Module::load_host(&stream.context(), &countdown)?.kernel("countdown")?;
    /// let (mut left, mut sum) = (stream.upload(&[4u32])?, stream.upload(&[0u32])?);
    ///
    /// let executable = stream.capture_executable(CaptureMode::Global, |scope| {
    ///     scope.capture_while(&mut left, |part, left| {
    ///         // SAFETY: `countdown` uses one number of either buffer.
    ///         unsafe { part.launch(&kernel, &LaunchConfig::new(1, 1), (left.reborrow(), &mut sum)) }
    ///     })
    /// })?;
    /// executable.launch(&stream)?;
    /// assert_eq!(stream.download(&sum)?, [4 + 3 + 2 + 1]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`capture_if`](Self::capture_if).
    #[track_caller]
    pub fn capture_while<'c, F>(&self, condition: impl Into<BufferSliceMut<'c, u32>>, body: F) -> Result<()>
    where
        F: for<'scope> FnOnce(&CaptureScope<'scope>, &mut BufferSliceMut<'c, u32>) -> Result<()>,
    {
        let mut slice = condition.into();
        let condition = condition_of(&slice.as_slice())?;
        let mut body = once(|part: &CaptureScope<'_>| body(part, &mut slice));
        self.capture_condition(&condition, ConditionalKind::While, &mut [&mut body])
    }

    /// Like [`capture_if`](Self::capture_if), with several parts. The part whose index is the first element of `value`
    /// runs, or none if there is no such part. On CUDA it needs CUDA 12.8.
    ///
    /// # Errors
    /// Same as [`capture_if`](Self::capture_if); [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if
    /// there are no parts, or more than 4096.
    #[track_caller]
    pub fn capture_switch<'c>(&self, value: impl Into<BufferSlice<'c, u32>>, bodies: &mut [Body<'_>]) -> Result<()> {
        self.capture_condition(&condition_of(&value.into())?, ConditionalKind::Switch, bodies)
    }

    #[track_caller]
    fn capture_condition(&self, condition: &Condition, kind: ConditionalKind, bodies: &mut [Body<'_>]) -> Result<()> {
        let open = self.core().begin_condition(condition)?;
        // Captured on their own at first: hardware does not survive a capture into a conditional node that fails.
        let parts = bodies.iter_mut().map(|body| self.capture_part(&open, *body)).collect::<Result<Vec<_>>>()?;
        self.core().capture_condition(&open, condition, kind, parts)
    }

    /// Captures a part on a stream of its own, because this stream captures the surrounding work.
    fn capture_part(&self, condition: &OpenCondition, body: Body<'_>) -> Result<Part> {
        let stream = self.context().create_stream()?;
        let whole = Whole::Capture(condition.capture().clone());
        let part = stream.core().begin_capture(self.mode(), whole, CaptureEnd::Closure)?;
        condition.add_part(&part);
        stream.run_body_as_part(part, self.mode(), |part| body(part))
    }
}

/// Makes a closure that is called once fit where a closure is expected that can be called repeatedly.
fn once<F>(body: F) -> impl for<'scope> FnMut(&CaptureScope<'scope>) -> Result<()>
where
    F: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
{
    let mut body = Some(body);
    move |scope: &CaptureScope<'_>| body.take().map_or(Ok(()), |body| body(scope))
}
