//! The order of the crate's locks. A thread takes them in this order, and holds none of them while it runs work.

anabranch_sync::ranks! { from 1000;
    /// The primary context of a device. A context is made under it.
    PRIMARY,
    /// All captures of a driver. Nodes are added under it.
    CAPTURES,
    /// The launches of an executable graph: their plan, and the last of them. Launches are enqueued, and plans made of
    /// graphs, under it.
    LAUNCHES,
    /// The contents of a graph. Those of the graphs in its nodes, which are younger, are locked under it.
    GRAPH,
    /// What an event captured last. A stream is marked under it.
    EVENT,
    /// The turn of an operation on the legacy stream. The streams of the context are looked through under it.
    LEGACY,
    /// The streams of a context.
    STREAMS,
    /// All blocks of graphs: whether they are allocated, and counted.
    GRAPH_BLOCKS,
    /// How much memory of a device graphs have.
    GRAPH_COUNTS,
    /// All allocations of a driver.
    ALLOCATIONS,
    /// The heaps of contexts.
    HEAPS,
    /// The heap of a context. Kernels allocate under it.
    HEAP,
    /// Memory whose free is in a stream.
    LEAVING,
    /// Objects by their handles.
    HANDLES,
    /// The blocks of a memory pool.
    POOL,
    /// Waits for values. What waits is asked under it whether it is lost.
    VALUES,
    /// The launch of an executable graph that runs.
    RUN,
    /// The partitions of the workers.
    PARTITIONS,
    /// The tasks of a partition.
    PARTITION,
    /// The queued tasks, and the workers.
    READY,
    /// The engines that lack workers.
    STARTER,
    /// The generator of the deterministic mode.
    RANDOM,
    /// What the checker knows.
    CHECKER,
    /// The threads that run a kernel.
    SHARE,
    /// Launches that have run, as the running thread collects them.
    COLLECTED,
    /// Launches that have run, for the launches to come.
    SPARES,
    /// What a parked stream waits for.
    PARKED,
    /// Who waits for places of a stream.
    WAITERS,
    /// A failure that is to be reported.
    FAILURE,
    /// The peers of a context.
    PEERS,
}
