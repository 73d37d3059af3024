//! Errors without lasting effect, and their messages.

use super::memory_raw::{HUGE, Raw};
use crate::case::{Case, Failed, Need, Verdict, equal, holds, refused, status_of};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::{DeviceOrdinal, Live, MemoryPoolHandle};
use anabranch::{Capabilities, ErrorKind, LaunchConfig, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("errors.do_no_lasting_harm", "X2", do_no_lasting_harm),
    Case::new("errors.leave_the_order_alone", "X2", leave_the_order_alone),
    Case::new("errors.are_of_the_call", "X3", are_of_the_call),
    Case::new("errors.say_what_where_and_why", "X3", say_what_where_and_why),
    Case::new("errors.missing_device", "X2", missing_device),
    Case::new("errors.null_pool", "X2", null_pool).needs(&[Need::Capability(Capabilities::MEMORY_POOLS)]),
];

fn do_no_lasting_harm(environment: &Environment) -> Verdict {
    let (raw, stream) = (Raw::new(environment)?, environment.stream()?);
    let mut buffer = stream.upload(&[1u32, 2, 3])?;
    let kernel = environment.kernel("store")?;
    refused(
        "a grid without blocks",
        {
            // SAFETY: the driver or the library refuses the call.
            unsafe { stream.launch(&kernel, &LaunchConfig::new(0, 1), (&mut buffer, 1u32)) }
        },
        Status::INVALID_VALUE,
    )?;
    equal("too much memory", raw.allocate(HUGE), Err(Status::OUT_OF_MEMORY))?;
    refused("a missing kernel", environment.kernel("nothing like it"), Status::NOT_FOUND)?;
    refused("unequal lengths", stream.copy_from_host(&mut buffer, &[1]), Status::INVALID_VALUE)?;
    holds("the stream is fine", stream.query()?)?;
    stream.synchronize()?;
    environment.context().synchronize()?;
    equal("contents", stream.download(&buffer)?, vec![1, 2, 3])
}

fn leave_the_order_alone(environment: &Environment) -> Verdict {
    let (stream, add) = (environment.stream()?, environment.kernel("add")?);
    let mut output = stream.upload(&[1u32])?;
    let mut expected = 1u32;
    for step in 0..100u32 {
        let config = LaunchConfig::new(u32::from(step % 3 != 1), 1);
        // SAFETY: `add` accesses only the number that its first argument points to.
        let result = unsafe { stream.launch(&add, &config, (&mut output, 7u32, step)) };
        if step % 3 == 1 {
            refused("a grid without blocks", result, Status::INVALID_VALUE)?;
        } else {
            result?;
            expected = expected.wrapping_mul(7).wrapping_add(step);
        }
    }
    equal("result", stream.download(&output)?, vec![expected])
}

fn are_of_the_call(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut buffer = stream.upload(&[1u32])?;
    let results = [
        stream.copy_from_host(&mut buffer, &[]).err(),
        environment.kernel("nothing like it").err(),
        stream.allocate_zeroed::<u8>(HUGE).err(),
    ];
    for error in results {
        let error = error.ok_or_else(|| Failed("a call succeeded that must not".to_owned()))?;
        equal("of earlier work", error.is_asynchronous(), false)?;
        equal("sticky", error.is_sticky(), false)?;
        holds("it is an argument's or the driver's", matches!(error.kind(), ErrorKind::Argument | ErrorKind::Driver))?;
    }
    Ok(())
}

fn say_what_where_and_why(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let Err(error) = stream.allocate_zeroed::<u8>(HUGE) else {
        return Err(Failed("the allocation succeeded".to_owned()));
    };
    let text = error.to_string();
    holds("the operation", text.contains(error.operation()) && error.operation().contains("allocating"))?;
    holds("the device", text.contains(&environment.device().to_string()))?;
    holds("the stream", text.contains(&stream.id().to_string()))?;
    holds("the driver's name of the code", text.contains("CUDA_ERROR_OUT_OF_MEMORY"))?;
    holds("what helps", error.hint().is_some_and(|hint| text.ends_with(hint)))
}

fn missing_device(environment: &Environment) -> Verdict {
    let (driver, missing) = (environment.device().driver(), DeviceOrdinal(9999));
    let statuses = [
        status_of(driver.device_properties(missing)),
        status_of(driver.primary_context_retain(missing)),
        status_of(driver.device_can_access_peer(environment.device().ordinal(), missing)),
        status_of(driver.context_create(missing, anabranch::ContextFlags::empty())),
    ];
    equal("statuses", statuses, [Status::INVALID_DEVICE; 4])
}

fn null_pool(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let null = Live::<MemoryPoolHandle>::NULL;
    let statuses = [
        status_of(raw.driver().allocate_async(&raw.context().into(), 64, Some(null), raw.stream().live())),
        status_of(raw.driver().memory_pool_trim(null, 0)),
        // SAFETY: a null handle is refused.
        status_of(unsafe { raw.driver().memory_pool_destroy(null.handle()) }),
    ];
    equal("statuses", statuses, [Status::INVALID_VALUE; 3])
}
