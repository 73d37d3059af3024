//! Calls of graphs and executable graphs.

use crate::table::{Call, call};
use crate::world::{Expected, LENGTH, Side, World};
use anabranch::{
    Conditional, ConditionalKind, Graph, GraphNodeKind, InstantiateFlags, Node, NodeWork, Region, Result, Status,
    Volume, VolumeMut, WaitCondition,
};
use futures::executor::block_on;

/// The host uses memory of the graph at the moment.
const EXCLUDED: &[Status] = &[Status::ILLEGAL_STATE];

/// Makes a graph of one node, and launches it.
pub(crate) fn launch_one(world: &World, side: &mut Side<'_, '_>, work: NodeWork<'_>) -> Result<()> {
    let mut graph = world.context.create_graph()?;
    graph.add((), work)?;
    graph.instantiate()?.launch(world.stream(&mut side.random))
}

/// As above, of work that writes the thread's own memory.
fn write_by_one(
    world: &World,
    side: &mut Side<'_, '_>,
    work: impl FnOnce(anabranch::BufferSliceMut<'_, u32>, u32) -> Result<NodeWork<'static>>,
) -> Result<()> {
    side.write(world, |stream, own, value| {
        let mut graph = world.context.create_graph()?;
        graph.add((), work(own, value)?)?;
        graph.instantiate()?.launch(stream)
    })
}

fn with_condition(graph: &mut Graph) -> Result<(Conditional, Node)> {
    let conditional = graph.create_conditional(Some(0))?;
    let node = graph.add_conditional((), conditional, ConditionalKind::If, 1)?;
    Ok((conditional, node))
}

pub(crate) const CALLS: &[Call] = &[
    call("Graph::as_raw", |world, _| {
        assert_eq!(world.graph.as_raw(), world.graph.as_raw());
        Ok(())
    }),
    call("Graph::context", |world, _| {
        assert_eq!(world.graph.context(), world.context);
        Ok(())
    }),
    call("Graph::dependencies_of", |world, _| {
        assert_eq!(world.graph.dependencies_of(world.copying)?.len(), 1);
        Ok(())
    }),
    call("Graph::dependents_of", |world, _| {
        assert_eq!(world.graph.dependents_of(world.filling)?.len(), 2);
        Ok(())
    }),
    call("Graph::describe", |world, _| {
        assert_eq!(world.graph.describe()?.nodes().len(), 3);
        Ok(())
    }),
    call("Graph::edges", |world, _| {
        assert_eq!(world.graph.edges()?.len(), 2);
        Ok(())
    }),
    call("Graph::find_in_clone", |world, _| {
        let clone = world.graph.try_clone()?;
        let found = world.graph.find_in_clone(world.filling, &clone)?;
        assert_eq!(clone.node_kind(found)?, GraphNodeKind::FILL);
        Ok(())
    }),
    call("Graph::id", |world, _| {
        assert_eq!(world.graph.id(), world.executables[0].graph_id());
        Ok(())
    }),
    call("Graph::instantiate", |world, side| {
        let executable = world.graph.instantiate()?;
        if side.coin() { executable.launch(world.stream(&mut side.random)) } else { Ok(()) }
    })
    .may(EXCLUDED),
    call("Graph::instantiate_and_upload", |world, side| {
        let stream = world.stream(&mut side.random);
        world.graph.instantiate_and_upload(InstantiateFlags::empty(), stream).map(drop)
    }),
    call("Graph::instantiate_with_flags", |world, _| {
        world.graph.instantiate_with_flags(InstantiateFlags::AUTO_FREE_ON_LAUNCH).map(drop)
    }),
    call("Graph::node_kind", |world, _| {
        assert_eq!(world.graph.node_kind(world.filling)?, GraphNodeKind::FILL);
        Ok(())
    }),
    call("Graph::node_event", |world, _| world.graph.node_event(world.copying).map(drop)),
    call("Graph::node_parameters", |world, _| world.graph.node_parameters(world.copying).map(drop)),
    call("Graph::nodes", |world, _| {
        assert_eq!(world.graph.nodes()?.len(), 3);
        Ok(())
    }),
    call("Graph::root_nodes", |world, _| {
        assert_eq!(world.graph.root_nodes()?, [world.filling]);
        Ok(())
    }),
    call("Graph::set_name", |world, _| {
        world.graph.set_name("a graph");
        assert!(!world.graph.set_name("another name"), "only the first is kept");
        Ok(())
    }),
    call("Graph::to_dot", |world, _| world.graph.to_dot().map(drop)),
    call("Graph::to_json", |world, _| world.graph.to_json().map(drop)),
    call("Graph::to_mermaid", |world, _| world.graph.to_mermaid().map(drop)),
    call("Graph::try_clone", |world, side| {
        let clone = world.graph.try_clone()?;
        assert_eq!(clone.edges()?.len(), 2);
        if side.coin() { world.executable(&mut side.random).update(&clone).map_err(Into::into) } else { Ok(()) }
    }),
    call("GraphDescription::to_dot", |world, _| {
        assert!(world.graph.describe()?.to_dot().contains("digraph"));
        Ok(())
    }),
    call("GraphDescription::to_json", |world, _| world.graph.describe()?.to_json().map(drop)),
    call("GraphDescription::to_mermaid", |world, _| {
        assert!(!world.graph.describe()?.without_parameters().to_mermaid().is_empty());
        Ok(())
    }),
    call("ExecutableGraph::as_raw", |world, _| {
        assert_ne!(world.executables[0].as_raw(), world.executables[1].as_raw());
        Ok(())
    }),
    call("ExecutableGraph::context", |world, _| {
        assert_eq!(world.executables[0].context(), world.context);
        Ok(())
    }),
    call("ExecutableGraph::flags", |world, side| world.executable(&mut side.random).flags().map(drop)),
    call("ExecutableGraph::graph_id", |world, _| {
        assert_ne!(world.executables[0].graph_id(), world.executables[1].graph_id());
        Ok(())
    }),
    call("ExecutableGraph::id", |world, _| {
        assert_ne!(world.executables[0].id(), world.executables[1].id());
        Ok(())
    }),
    call("ExecutableGraph::is_node_enabled", |world, _| world.executables[0].is_node_enabled(world.filling).map(drop)),
    call("ExecutableGraph::launch", |world, side| {
        let executable = world.executable(&mut side.random);
        executable.launch(world.stream(&mut side.random))
    })
    .may(EXCLUDED),
    call("ExecutableGraph::launch_async", |world, side| {
        let executable = world.executable(&mut side.random);
        let launched = executable.launch_async(world.stream(&mut side.random));
        if side.coin() { block_on(launched) } else { Ok(()) }
    })
    .may(EXCLUDED),
    call("ExecutableGraph::set_name", |world, side| {
        let executable = world.executable(&mut side.random);
        executable.set_name("an executable graph");
        assert!(!executable.set_name("another name"), "only the first is kept");
        Ok(())
    }),
    call("ExecutableGraph::set_node", |world, _| {
        world.executables[0]
            .set_node(world.copying, NodeWork::copy(&mut world.context.allocate_pinned(LENGTH)?, &world.shared)?)
    }),
    call("ExecutableGraph::set_node_enabled", |world, side| {
        let is_enabled = side.coin();
        world.executables[0].set_node_enabled(world.copying, is_enabled)
    }),
    call("ExecutableGraph::update", |world, side| {
        let executable = world.executable(&mut side.random);
        executable.update(&world.graph).map_err(Into::into)
    }),
    call("ExecutableGraph::upload", |world, side| {
        let executable = world.executable(&mut side.random);
        executable.upload(world.stream(&mut side.random))
    }),
    call("BodyGraph of a conditional node", |world, _| {
        let mut graph = world.context.create_graph()?;
        let (_, node) = with_condition(&mut graph)?;
        let mut body = graph.body(node, 0)?;
        body.add((), NodeWork::event_record(&world.events[0]))?;
        assert_eq!(body.nodes()?.len(), 1);
        Ok(())
    }),
    call("NodeWork::child", |world, side| launch_one(world, side, NodeWork::child(&world.graph))).may(EXCLUDED),
    call("NodeWork::copy", |world, side| {
        side.copy(world, |stream, own| {
            let mut graph = world.context.create_graph()?;
            graph.add((), NodeWork::copy(own, &world.shared)?)?;
            graph.instantiate()?.launch(stream)
        })
    }),
    call("NodeWork::copy_region", |world, side| {
        let region = Region { extent: [4, 4, 1], ..Region::default() };
        side.copy(world, |stream, own| {
            let mut graph = world.context.create_graph()?;
            let (to, from) = (VolumeMut::new(own, 4, 4), Volume::new(&world.shared, 4, 4));
            graph.add((), NodeWork::copy_region(to, from, &region)?)?;
            graph.instantiate()?.launch(stream)
        })
    }),
    call("NodeWork::empty", |world, side| launch_one(world, side, NodeWork::empty())),
    call("NodeWork::event_record", |world, side| {
        let work = NodeWork::event_record(world.event(&mut side.random));
        launch_one(world, side, work)
    }),
    call("NodeWork::event_wait", |world, side| {
        let work = NodeWork::event_wait(world.event(&mut side.random));
        launch_one(world, side, work)
    }),
    call("NodeWork::fill", |world, side| write_by_one(world, side, |own, value| NodeWork::fill(own, value))),
    call("NodeWork::fill_zero", |world, side| {
        let stream = world.stream(&mut side.random);
        side.write_one_of(world, Expected::OneOf(vec![0]), |own| {
            let mut graph = world.context.create_graph()?;
            graph.add((), NodeWork::fill_zero(own)?)?;
            graph.instantiate()?.launch(stream)
        })
    }),
    call("NodeWork::host_func", |world, side| launch_one(world, side, NodeWork::host_func(|| {}))),
    call("NodeWork::set_conditional", |world, side| {
        let mut graph = world.context.create_graph()?;
        let conditional = graph.create_conditional(Some(0))?;
        let set = graph.add((), NodeWork::set_conditional(conditional, &world.shared)?)?;
        graph.add_conditional(set, conditional, ConditionalKind::If, 1)?;
        graph.instantiate()?.launch(world.stream(&mut side.random))
    }),
    call("NodeWork::wait_signal", |world, side| {
        let work = NodeWork::wait_signal(&world.signal, WaitCondition::GreaterOrEqual, 0);
        launch_one(world, side, work)
    }),
    call("NodeWork::write_signal", |world, side| {
        let half = side.value();
        launch_one(world, side, NodeWork::write_signal(&world.signal, half << 32 | half))
    }),
    call("UpdateError::error", |world, _| {
        let refused = world.executables[0].update(&world.context.create_graph()?);
        let Err(error) = refused else { panic!("the structure differs") };
        assert!(world.is_lost() || error.error().status() == Status::GRAPH_EXEC_UPDATE_FAILURE);
        Ok(())
    }),
    call("UpdateError::node", |world, _| {
        let refused = world.executables[0].update(&world.context.create_graph()?);
        let Err(error) = refused else { panic!("the structure differs") };
        let _ = error.node();
        Ok(())
    }),
    call("UpdateError::result", |world, _| {
        let refused = world.executables[0].update(&world.context.create_graph()?);
        let Err(error) = refused else { panic!("the structure differs") };
        let _ = error.result();
        Ok(())
    }),
];
