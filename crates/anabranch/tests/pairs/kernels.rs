//! Calls of modules and kernels.

use crate::table::{Call, call};
use crate::world::{LENGTH, modules};
use anabranch::{ArgumentList, DualModule, FunctionAttribute, HostFunction, HostModule, LaunchConfig, Module, Status};

anabranch::kernels! {
    struct Declared {
        fn set(to: &mut [u32], value: u32);
    }
}

/// Text that is no PTX, and PTX of no architecture.
const NO_CODE: &[Status] = &[Status::INVALID_IMAGE, Status::INVALID_PTX];

pub(crate) const CALLS: &[Call] = &[
    call("DualModule::load", |world, side| {
        let set = world.dual.load(&world.context)?.kernel("set")?;
        // The module is unloaded while it is in use.
        side.write(world, |stream, own, value| stream.launch_checked(&set, &LaunchConfig::new(1, 1), (own, value)))
    }),
    call("DualModule::new", |world, _| {
        let error = DualModule::new().load(&world.context).err();
        assert!(error.is_some_and(|error| error.status() == Status::NO_BINARY_FOR_GPU || error.is_sticky()));
        Ok(())
    }),
    call("Kernel::as_raw", |world, _| {
        assert_eq!(world.set.as_raw(), world.set.as_raw());
        Ok(())
    }),
    call("Kernel::id", |world, _| {
        assert_eq!(world.set.id(), world.set.clone().id());
        Ok(())
    }),
    call("Kernel::info", |world, _| world.set.info().map(drop)),
    call("Kernel::max_active_blocks", |world, _| {
        assert!(world.set.max_active_blocks(32, 0)? > 0);
        Ok(())
    }),
    call("Kernel::max_active_clusters", |world, _| {
        assert!(world.set.max_active_clusters(&LaunchConfig::new(8, 32).cluster(2))? > 0);
        Ok(())
    }),
    call("Kernel::max_cluster_size", |world, _| {
        assert!(world.set.max_cluster_size(&LaunchConfig::new(8, 32))? > 0);
        Ok(())
    }),
    call("Kernel::module", |world, _| {
        assert_eq!(world.set.module().id(), world.module.id());
        Ok(())
    }),
    call("Kernel::name", |world, _| {
        assert_eq!(world.set.name(), "set");
        Ok(())
    }),
    call("Kernel::parameters", |world, _| {
        assert_eq!(world.set.parameters().map(<[_]>::len), Some(2));
        Ok(())
    }),
    call("Kernel::set_attribute", |world, side| {
        world.set.set_attribute(FunctionAttribute::MaxDynamicSharedBytes(side.random.u32(..1024)))
    }),
    call("Kernel::set_label", |world, _| {
        world.set.set_label("setting");
        assert!(!world.set.set_label("another label"), "only the first is kept");
        Ok(())
    }),
    call("KernelCall::kernel", |world, side| {
        let declared = Declared::load(&world.module)?;
        side.write(world, |stream, own, value| {
            let call = declared.set(own, value);
            assert_eq!(call.kernel().name(), "set");
            call.launch_checked(stream, &LaunchConfig::new(1, 1))
        })
    }),
    call("ArgumentList::is_empty", |_, _| {
        assert!(ArgumentList::new().is_empty());
        Ok(())
    }),
    call("ArgumentList::len", |world, _| {
        let mut arguments = ArgumentList::new();
        arguments.push(&world.shared);
        assert_eq!(arguments.len(), 1);
        Ok(())
    }),
    call("ArgumentList::new", |world, side| {
        let set = &world.set;
        side.write(world, |stream, own, value| {
            let mut arguments = ArgumentList::new();
            arguments.push(own);
            arguments.push(value);
            stream.launch_checked(set, &LaunchConfig::new(1, 1), arguments)
        })
    }),
    call("LaunchConfig::block", |_, _| {
        assert_eq!(LaunchConfig::new(1, 2).block(), [2, 1, 1]);
        Ok(())
    }),
    call("LaunchConfig::for_elements", |_, _| {
        assert!(LaunchConfig::for_elements(3).grid()[0] > 0);
        Ok(())
    }),
    call("LaunchConfig::grid", |_, _| {
        assert_eq!(LaunchConfig::new(3, 2).grid(), [3, 1, 1]);
        Ok(())
    }),
    call("LaunchConfig::new", |_, _| {
        assert_eq!(LaunchConfig::new(3, 2), LaunchConfig::new([3, 1, 1], (2, 1)));
        Ok(())
    }),
    call("Module::as_raw", |world, _| {
        assert_ne!(world.module.as_raw(), world.with_global.as_raw());
        Ok(())
    }),
    call("Module::context", |world, _| {
        assert_eq!(world.module.context(), world.context);
        Ok(())
    }),
    call("Module::copy_to_global", |world, side| {
        world.with_global.copy_to_global(world.stream(&mut side.random), "table", &world.shared)
    }),
    call("Module::global", |world, _| {
        assert_eq!(world.with_global.global("table")?.1, LENGTH * 4);
        Ok(())
    }),
    call("Module::id", |world, _| {
        assert_ne!(world.module.id(), world.with_global.id());
        Ok(())
    }),
    call("Module::kernel", |world, _| world.module.kernel("set").map(drop)),
    call("Module::kernel_names", |world, _| {
        assert_eq!(world.module.kernel_names()?.len(), 2);
        Ok(())
    }),
    call("Module::load_compiled", |world, _| Module::load_compiled(&world.context, &world.compiled).map(drop))
        .may(NO_CODE),
    call("Module::load_host", |world, side| {
        let module = HostModule::new().with_function(HostFunction::new("nothing", &[], |_, _| ()));
        let nothing = Module::load_host(&world.context, &module)?.kernel("nothing")?;
        world.stream(&mut side.random).launch_checked(&nothing, &LaunchConfig::new(2, 2), ())
    }),
    call("Module::load_ptx", |world, _| Module::load_ptx(&world.context, "no text").map(drop)).may(NO_CODE),
    call("Module::set_global", |world, side| {
        let values = [side.random.u32(..); LENGTH];
        world.with_global.set_global(world.stream(&mut side.random), "table", &values)
    }),
    call("Module::set_name", |world, _| {
        world.module.set_name("a module");
        assert!(!world.module.set_name("another name"), "only the first is kept");
        Ok(())
    }),
    call("the drop of a module", |world, _| modules().load(&world.context).map(drop)),
];
