//! Kernels with declared parameters.

use super::Kernel;
use crate::error::{Error, Result};
use crate::module::Module;
use anabranch_hal::Status;
use bytemuck::NoUninit;

/// Declares the parameters of a module's kernels, and generates launchers that take arguments of those types.
///
/// A declaration is a structure whose functions are kernels. The possible parameters are:
///
/// | declared | the kernel's parameter | the launcher takes |
/// |---|---|---|
/// | `y: &mut [T]` | a pointer to memory that the kernel writes, and perhaps reads | what becomes a [`BufferSliceMut<T>`](crate::BufferSliceMut): `&mut buffer` of any kind, or a part of one |
/// | `x: &[T]` | a pointer to memory that the kernel only reads | what becomes a [`BufferSlice<T>`](crate::BufferSlice): `&buffer` of any kind, or a part of one |
/// | `n: T` | a number, or a plain `#[repr(C)]` structure, by value | a `T` and nothing that would be converted to it; `T` is [`NoUninit`](crate::bytemuck::NoUninit) |
///
/// An address that does not belong to a buffer is a [`DevicePointer`](crate::DevicePointer) by value. There are up to
/// sixteen parameters. Kernels are found by the names of the functions, or by the names in `#[name = "…"]`. Other
/// attributes, documentation and visibility apply to the generated items. The structure has:
///
/// * `load(&Module) -> Result<Self>`, which finds the kernels and compares them with the declaration. It returns
///   [`CUDA_ERROR_NOT_FOUND (500)`](crate::Status::NOT_FOUND) if the module has no kernel of a name, and
///   [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if a kernel has a different number of parameters or
///   different sizes. The message describes the declaration and the module. Drivers before CUDA 12.4 do not report the
///   parameters of a kernel; then only its name is compared. Of the types, only the sizes can be compared.
/// * `host_function(name, closure) -> HostFunction`, which makes the closure the kernel of that name in a module for
///   the host device, with the sizes of the declared parameters. If no kernel of that name is declared, the host
///   function has no parameters, and `load` reports which name is missing.
/// * for each function a method of that name, the launcher, which takes the arguments and returns a
///   [`KernelCall`](crate::KernelCall). Functions cannot be named `load` or `host_function`: declare such a kernel
///   under another name, and set its own with `#[name = "…"]`.
/// * for each function also a field of that name, the [`Kernel`](crate::Kernel), for its attributes and its occupancy.
///
/// The structure implements `Clone` and `Debug`.
///
/// # Safety
///
/// Declaring, loading and passing the arguments is safe. Launching is `unsafe`, because the declaration cannot be
/// compared with what the code does. [The caller promises](crate::KernelCall#what-the-caller-of-a-launch-promises), in
/// short, that the declaration is true, that the kernel accesses only the buffers that it receives, and that its
/// threads do not race. Closures on the host device are checked while they run, and
/// [`launch_checked`](crate::KernelCall::launch_checked) launches them safely.
///
/// # Examples
///
/// ```
/// use anabranch::{DualModule, Instance, LaunchConfig};
///
/// anabranch::kernels! {
///     /// The kernels of `vectors.cu`.
///     pub struct Vectors {
///         /// y = a x + y, for the first `n` elements.
///         pub fn saxpy(y: &mut [f32], x: &[f32], a: f32, n: u32);
///         /// C++ names are mangled unless they are declared `extern "C"`.
///         #[name = "_Z5scalePffj"]
///         pub fn scale(data: &mut [f32], factor: f32, n: u32);
///     }
/// }
///
/// let context = Instance::new()?.device("host")?.context()?;
/// let stream = context.create_stream()?;
/// // For GPUs add `.ptx(include_str!("vectors.ptx"))`.
/// let module = DualModule::new()
///     .host_function(Vectors::host_function("saxpy", |block, arguments| {
///         let (y, x) = (arguments.slice::<f32>(0), arguments.slice::<f32>(1));
///         let (a, n) = (arguments.scalar::<f32>(2), arguments.scalar::<u32>(3) as usize);
///         block.phase(|thread, _shared| {
///             let i = thread.global_x();
///             if i < n {
///                 y.set(i, a * x.get(i) + y.get(i));
///             }
///         });
///     }))
///     .host_function(Vectors::host_function("_Z5scalePffj", |block, arguments| {
///         let (data, factor) = (arguments.slice::<f32>(0), arguments.scalar::<f32>(1));
///         let n = arguments.scalar::<u32>(2) as usize;
///         block.phase(|thread, _shared| {
///             let i = thread.global_x();
///             if i < n {
///                 data.set(i, factor * data.get(i));
///             }
///         });
///     }))
///     .load(&context)?;
/// let kernels = Vectors::load(&module)?;
///
/// let (mut y, x) = (stream.upload(&[1.0f32, 2.0, 3.0])?, stream.upload(&[10.0f32, 20.0, 30.0])?);
/// let config = LaunchConfig::for_elements(3);
/// // SAFETY: the declaration is that of the code, both buffers have `n` elements, and a thread uses only its own.
/// unsafe { kernels.saxpy(&mut y, &x, 2.0, 3).launch(&stream, &config)? };
/// // SAFETY: the declaration is that of the code, and the last two elements are as many as it is told.
/// unsafe { kernels.scale(y.slice_mut(1..)?, 0.5, 2).launch(&stream, &config)? };
/// assert_eq!(stream.download(&y)?, [21.0, 21.0, 31.5]);
/// # Ok::<(), anabranch::Error>(())
/// ```
///
/// Arguments that do not match the declaration do not compile, such as a shared reference to a buffer that the kernel
/// writes:
///
/// ```compile_fail,E0277
/// # anabranch::kernels! { struct Vectors { fn fill(data: &mut [f32], value: f32, n: u32); } }
/// # fn example(kernels: &Vectors, data: &mut anabranch::Buffer<f32>) {
/// let _ = kernels.fill(&*data, 1.0, 3);
/// # }
/// ```
///
/// A launch of a declared kernel can be awaited, and can be a node of a graph:
///
/// ```
/// # use anabranch::{DualModule, Instance, LaunchConfig};
/// anabranch::kernels! {
///     struct Counters {
///         fn increment(counter: &mut [u32]);
///     }
/// }
///
/// let context = Instance::new()?.device("host")?.context()?;
/// let module = DualModule::new().host_function(Counters::host_function("increment", |_, arguments| {
///     arguments.slice::<u32>(0).fetch_update(0, |count| count + 1);
/// }));
/// let kernels = Counters::load(&module.load(&context)?)?;
/// let (stream, config) = (context.create_stream()?, LaunchConfig::new(1, 1));
/// let mut counter = stream.upload(&[0u32])?;
///
/// // SAFETY: the declaration is that of the code, the buffer has an element, and there is one thread.
/// let launched = unsafe { kernels.increment(&mut counter).launch_async(&stream, &config) };
/// # futures::executor::block_on(async {
/// launched.await?;
/// # Ok::<(), anabranch::Error>(())
/// # })?;
///
/// let mut graph = context.create_graph()?;
/// // SAFETY: at every launch of the graph, the buffer has an element, and there is one thread.
/// graph.add((), unsafe { kernels.increment(&mut counter).into_node(&config)? })?;
/// graph.instantiate()?.launch(&stream)?;
/// assert_eq!(stream.download(&counter)?, [2]);
/// # Ok::<(), anabranch::Error>(())
/// ```
#[macro_export]
macro_rules! kernels {
    (
        $(#[$($attribute:tt)*])*
        $visibility:vis struct $structure:ident {
            $(
                $(#[$($kernel_attribute:tt)*])*
                $kernel_visibility:vis fn $kernel:ident($($parameter:tt)*);
            )*
        }
    ) => {
        $(#[$($attribute)*])*
        #[derive(Clone, Debug)]
        $visibility struct $structure {
            $(
                #[doc = concat!("The kernel that `", stringify!($kernel), "` launches.")]
                $kernel_visibility $kernel: $crate::Kernel,
            )*
        }

        impl $structure {
            /// Finds the kernels in `module`, and compares their parameters with the declared ones.
            ///
            /// # Errors
            // Without links: this is documentation of the program's crate.
            #[doc = "`CUDA_ERROR_NOT_FOUND (500)` if the module has no kernel of a name; `CUDA_ERROR_INVALID_VALUE (1)`"]
            #[doc = "if a kernel has a different number of parameters or different sizes."]
            $visibility fn load(module: &$crate::Module) -> $crate::Result<Self> {
                let _ = module;
                $crate::Result::Ok(Self {
                    $($kernel: $crate::Kernel::__declared(
                        module,
                        $crate::__kernels!(@name $kernel $(#[$($kernel_attribute)*])*),
                        $crate::__kernels!(@sizes [] $($parameter)*),
                        concat!(stringify!($kernel), "(", stringify!($($parameter)*), ")"),
                    )?,)*
                })
            }

            /// Makes a closure the kernel `name` of a module for the host device, with the sizes of the declared
            /// parameters.
            #[allow(dead_code, reason = "not every program has kernels for the host device")]
            $visibility fn host_function(
                name: &str,
                body: impl Fn(&mut $crate::Block<'_>, &$crate::HostArguments<'_>)
                + ::core::marker::Send
                + ::core::marker::Sync
                + 'static,
            ) -> $crate::HostFunction {
                let kernels: &[(&str, &[usize])] = &[$((
                    $crate::__kernels!(@name $kernel $(#[$($kernel_attribute)*])*),
                    $crate::__kernels!(@sizes [] $($parameter)*),
                ),)*];
                let declared = kernels.iter().find(|kernel| kernel.0 == name);
                $crate::HostFunction::new(name, declared.map_or(&[], |kernel| kernel.1), body)
            }

            $($crate::__kernels! {
                @launcher [] [$kernel_visibility] $kernel [$($parameter)*] $(#[$($kernel_attribute)*])*
            })*
        }
    };
    ($($other:tt)*) => {
        ::core::compile_error!(
            "expected `struct Name { fn kernel(parameter: Type, …); … }`, where a function has neither generics, nor a \
             result, nor a body"
        );
    };
}

/// The implementation of [`kernels!`](crate::kernels).
#[doc(hidden)]
#[macro_export]
macro_rules! __kernels {
    // The name of a kernel in its module.
    (@name $kernel:ident) => { $crate::Kernel::__name(stringify!($kernel)) };
    (@name $kernel:ident #[name = $name:literal] $($rest:tt)*) => { $name };
    (@name $kernel:ident #[$($other:tt)*] $($rest:tt)*) => { $crate::__kernels!(@name $kernel $($rest)*) };

    // The sizes of the parameters. What is no parameter is reported by the launcher.
    (@sizes [$($size:expr,)*]) => { &[$($size,)*] };
    (@sizes [$($size:expr,)*] $name:ident: &mut [$element:ty] $(, $($rest:tt)*)?) => {
        $crate::__kernels!(@sizes [$($size,)* ::core::mem::size_of::<$crate::DevicePointer>(),] $($($rest)*)?)
    };
    (@sizes [$($size:expr,)*] $name:ident: &[$element:ty] $(, $($rest:tt)*)?) => {
        $crate::__kernels!(@sizes [$($size,)* ::core::mem::size_of::<$crate::DevicePointer>(),] $($($rest)*)?)
    };
    (@sizes [$($size:expr,)*] $name:ident: & $($rest:tt)*) => { &[] };
    (@sizes [$($size:expr,)*] $name:ident: $scalar:ty $(, $($rest:tt)*)?) => {
        $crate::__kernels!(@sizes [$($size,)* $crate::Kernel::__size_by_value::<$scalar>(),] $($($rest)*)?)
    };
    (@sizes $($other:tt)*) => { &[] };

    // A launcher: its attributes first, without the name.
    (@launcher $kept:tt $visibility:tt $kernel:ident $parameters:tt #[name = $name:literal] $($rest:tt)*) => {
        $crate::__kernels! { @launcher $kept $visibility $kernel $parameters $($rest)* }
    };
    (@launcher $kept:tt $visibility:tt $kernel:ident $parameters:tt #[name $($other:tt)*] $($rest:tt)*) => {
        ::core::compile_error! { "the name of a kernel in its module is given as `#[name = \"…\"]`" }
    };
    (@launcher [$($kept:tt)*] $visibility:tt $kernel:ident $parameters:tt #[$($attribute:tt)*] $($rest:tt)*) => {
        $crate::__kernels! { @launcher [$($kept)* #[$($attribute)*]] $visibility $kernel $parameters $($rest)* }
    };
    (@launcher $kept:tt $visibility:tt $kernel:ident [$($parameter:tt)*]) => {
        $crate::__kernels! { @parameters $kept $visibility $kernel [] $($parameter)* }
    };

    // Then its parameters, one by one.
    (@parameters $kept:tt $visibility:tt $kernel:ident [$($done:tt)*]
        $name:ident: &mut [$element:ty] $(, $($rest:tt)*)?
    ) => {
        $crate::__kernels! { @parameters $kept $visibility $kernel [$($done)* ($name written $element)] $($($rest)*)? }
    };
    (@parameters $kept:tt $visibility:tt $kernel:ident [$($done:tt)*]
        $name:ident: &[$element:ty] $(, $($rest:tt)*)?
    ) => {
        $crate::__kernels! { @parameters $kept $visibility $kernel [$($done)* ($name read $element)] $($($rest)*)? }
    };
    (@parameters $kept:tt $visibility:tt $kernel:ident $done:tt $name:ident: & $($rest:tt)*) => {
        ::core::compile_error! { concat!(
            "parameter `", stringify!($name), "` of kernel `", stringify!($kernel), "`: memory that the kernel reads is `&[T]`, \
             memory that it writes `&mut [T]`, also where it is a single element"
        ) }
    };
    (@parameters $kept:tt $visibility:tt $kernel:ident $done:tt $name:ident: * $($rest:tt)*) => {
        ::core::compile_error! { concat!(
            "parameter `", stringify!($name), "` of kernel `", stringify!($kernel), "`: memory that the kernel reads is `&[T]`, \
             memory that it writes `&mut [T]`, and an address that is no buffer's `DevicePointer`"
        ) }
    };
    (@parameters $kept:tt $visibility:tt $kernel:ident [$($done:tt)*] $name:ident: $scalar:ty $(, $($rest:tt)*)?) => {
        $crate::__kernels! { @parameters $kept $visibility $kernel [$($done)* ($name scalar $scalar)] $($($rest)*)? }
    };
    (@parameters [$($kept:tt)*] [$visibility:vis] $kernel:ident [$(($name:ident $kind:ident $type:ty))*]) => {
        $($kept)*
        #[inline]
        #[allow(clippy::too_many_arguments, reason = "as many as the kernel has parameters")]
        $visibility fn $kernel<'a>(
            &'a self,
            $($name: $crate::__kernels!(@given 'a $kind $type),)*
        ) -> $crate::KernelCall<'a, ($($crate::__kernels!(@held 'a $kind $type),)*)> {
            $crate::KernelCall::__new(&self.$kernel, ($($crate::__kernels!(@make $kind $name),)*))
        }
    };
    (@parameters $kept:tt $visibility:tt $kernel:ident $done:tt $($other:tt)*) => {
        ::core::compile_error! { concat!(
            "a parameter of kernel `", stringify!($kernel), "` is `name: &[T]`, `name: &mut [T]` or `name: T`, and this is not: `",
            stringify!($($other)*), "`"
        ) }
    };

    // What a launcher takes for a parameter, what it makes of it, and how.
    (@given $a:lifetime written $element:ty) => {
        impl ::core::convert::Into<$crate::BufferSliceMut<$a, $element>>
    };
    (@given $a:lifetime read $element:ty) => { impl ::core::convert::Into<$crate::BufferSlice<$a, $element>> };
    (@given $a:lifetime scalar $scalar:ty) => { $scalar };
    (@held $a:lifetime written $element:ty) => { $crate::BufferSliceMut<$a, $element> };
    (@held $a:lifetime read $element:ty) => { $crate::BufferSlice<$a, $element> };
    (@held $a:lifetime scalar $scalar:ty) => { $crate::Scalar<$scalar> };
    (@make scalar $name:ident) => { $crate::Scalar($name) };
    (@make $kind:ident $name:ident) => { ::core::convert::Into::into($name) };
}

impl Kernel {
    /// The size of a parameter by value. For a type that is not plain, the compiler's error message refers to this
    /// function.
    #[doc(hidden)]
    pub const fn __size_by_value<T: NoUninit>() -> usize {
        size_of::<T>()
    }

    /// The name of a function: that of `r#type` is `type`.
    #[doc(hidden)]
    pub const fn __name(identifier: &'static str) -> &'static str {
        match identifier.as_bytes() {
            [b'r', b'#', ..] => identifier.split_at(2).1,
            _ => identifier,
        }
    }

    /// Finds a declared kernel: `name` in the module, with parameters of these sizes. `declaration` is its text.
    #[doc(hidden)]
    pub fn __declared(module: &Module, name: &str, sizes: &[usize], declaration: &str) -> Result<Self> {
        let operation = "loading declared kernels";
        let refuse = |status: Status, message: String| {
            Error::argument(status, operation, format!("kernel `{name}`, declared as `{declaration}`: {message}"))
                .at(module.core().context().place())
        };
        let kernel = match module.kernel(name) {
            Ok(kernel) => kernel,
            Err(error) if error.status() == Status::NOT_FOUND => {
                let mut message = error.message().unwrap_or("the module has no such kernel").to_owned();
                // The mangled name of a function has its plain name in it, after the name's length.
                let (names, part) = (module.kernel_names().unwrap_or_default(), format!("{}{name}", name.len()));
                if let Some(mangled) = names.iter().find(|other| other.starts_with("_Z") && other.contains(&part)) {
                    message.push_str(&format!("; declare it with #[name = \"{mangled}\"]"));
                }
                return Err(refuse(Status::NOT_FOUND, message));
            }
            Err(error) => return Err(error),
        };
        let Some(parameters) = kernel.parameters() else { return Ok(kernel) };
        let found: Vec<usize> = parameters.iter().map(|parameter| parameter.size).collect();
        if found == sizes {
            return Ok(kernel);
        }
        Err(refuse(
            Status::INVALID_VALUE,
            format!(
                "these are parameters of {sizes:?} bytes, and the module's kernel has {found:?}; declare what the code has"
            ),
        ))
    }
}
