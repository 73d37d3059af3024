//! Calls of green contexts, and of what they are made of.

use crate::table::{Call, call};
use anabranch::SplitFlags;

pub(crate) const CALLS: &[Call] = &[
    call("Context::create_green_context", |world, side| {
        let green = world.other.create_green_context([&world.multiprocessors])?;
        let stream = green.create_stream()?;
        let value = side.random.u32(..);
        assert_eq!(stream.download(&stream.upload(&[value])?)?, [value]);
        Ok(())
    }),
    call("Device::multiprocessors", |world, _| {
        assert_eq!(world.other.device().multiprocessors()?.count(), world.multiprocessors.count());
        Ok(())
    }),
    call("GreenContext::as_raw", |world, _| {
        assert_eq!(world.green.as_raw(), world.green.as_raw());
        Ok(())
    }),
    call("GreenContext::context", |world, _| {
        assert_eq!(world.green.context(), world.other);
        Ok(())
    }),
    call("GreenContext::create_stream", |world, side| {
        let stream = world.green.create_stream()?;
        let value = side.random.u32(..);
        assert_eq!(stream.download(&stream.upload(&[value])?)?, [value]);
        Ok(())
    }),
    call("GreenContext::create_stream_with_priority", |world, side| {
        let stream = world.green.create_stream_with_priority(side.random.i32(-9..9))?;
        stream.launch_host_func(|| {})
    }),
    call("GreenContext::multiprocessors", |world, _| {
        assert_eq!(world.green.multiprocessors()?.count(), 1);
        Ok(())
    }),
    call("Multiprocessors::alignment", |world, _| {
        assert_eq!(world.multiprocessors.alignment(), 1);
        Ok(())
    }),
    call("Multiprocessors::count", |world, _| {
        assert!(world.multiprocessors.count() > 0);
        Ok(())
    }),
    call("Multiprocessors::device", |world, _| {
        assert_eq!(world.multiprocessors.device(), *world.other.device());
        Ok(())
    }),
    call("Multiprocessors::minimum_partition", |world, _| {
        assert_eq!(world.multiprocessors.minimum_partition(), 1);
        Ok(())
    }),
    call("Multiprocessors::split", |world, _| {
        let (groups, _) = world.multiprocessors.split(1, 1)?;
        assert_eq!(groups.len(), 1);
        Ok(())
    }),
    call("Multiprocessors::split_with_flags", |world, _| {
        world.multiprocessors.split_with_flags(2, 0, SplitFlags::IGNORE_COSCHEDULING).map(drop)
    }),
    call("Stream::multiprocessors", |world, side| {
        assert!(world.stream(&mut side.random).multiprocessors()?.count() > 0);
        Ok(())
    }),
];
