//! All cases, by group.

mod batch;
mod callback;
mod capture_again;
mod capture_begin;
mod capture_calls;
mod capture_conditions;
mod capture_edges;
mod capture_end;
mod capture_events;
mod capture_external;
mod capture_forks;
mod capture_host_functions;
mod capture_info;
mod capture_into;
mod capture_invalidated;
mod capture_isolation;
mod capture_launches;
mod capture_legacy;
mod capture_limits;
mod capture_memory;
mod capture_modes;
mod capture_nodes;
mod capture_order;
mod capture_order_calls;
mod capture_random;
mod capture_raw;
mod capture_stale_events;
mod capture_threads;
mod capture_tools;
mod capture_uncaptured;
mod context;
mod copy;
mod copy_refused;
mod copy_region;
mod current;
mod default_stream;
mod default_stream_per_thread;
mod destroy;
mod errors;
mod event;
mod event_contexts;
mod event_elapsed;
mod event_flags;
#[cfg(unix)]
mod external;
mod fill;
mod foreign;
mod graph_change;
mod graph_conditional;
mod graph_edges;
mod graph_events;
mod graph_first_wrong;
mod graph_freed_by;
mod graph_host;
mod graph_instantiate;
mod graph_instantiate_refused;
mod graph_launch;
mod graph_life;
mod graph_memory;
mod graph_nodes;
mod graph_pairing;
mod graph_query;
mod graph_random;
mod graph_raw;
mod graph_refused;
mod graph_refused_whole;
mod graph_restricted;
mod graph_set;
mod graph_set_refused;
mod graph_tools;
mod graph_update;
mod graph_update_order;
mod green_context;
mod handle;
mod host_function;
mod host_function_panic;
mod host_function_waiting;
mod host_kernel;
mod interprocess;
mod launch;
mod launch_attributes;
mod launch_edges;
mod launch_order;
mod launch_refused;
mod managed;
mod memory;
mod memory_gate;
mod memory_order;
mod memory_raw;
mod module;
mod module_image;
mod order;
mod order_random;
mod order_tools;
mod order_trace;
mod peer;
mod pinned;
mod pool;
mod priority;
mod ptx;
mod registered;
mod sticky;
mod sticky_calls;
mod stream;
mod stream_identity;
mod tensor_map;
mod value;
mod value_arguments;
mod value_batch;
mod virtual_memory;

use crate::case::Case;

/// All cases, in the order of their groups.
pub fn all() -> Vec<Case> {
    [
        default_stream::CASES,
        default_stream_per_thread::CASES,
        event::CASES,
        event_elapsed::CASES,
        event_flags::CASES,
        event_contexts::CASES,
        stream::CASES,
        stream_identity::CASES,
        priority::CASES,
        destroy::CASES,
        host_function::CASES,
        host_function_panic::CASES,
        host_function_waiting::CASES,
        callback::CASES,
        value::CASES,
        value_arguments::CASES,
        value_batch::CASES,
        order::CASES,
        order_random::CASES,
        context::CASES,
        current::CASES,
        sticky::CASES,
        sticky_calls::CASES,
        memory::CASES,
        memory_order::CASES,
        pool::CASES,
        copy::CASES,
        copy_refused::CASES,
        copy_region::CASES,
        batch::CASES,
        fill::CASES,
        pinned::CASES,
        registered::CASES,
        managed::CASES,
        module::CASES,
        module_image::CASES,
        ptx::CASES,
        launch::CASES,
        launch_attributes::CASES,
        launch_edges::CASES,
        launch_refused::CASES,
        launch_order::CASES,
        host_kernel::CASES,
        peer::CASES,
        foreign::CASES,
        interprocess::CASES,
        virtual_memory::CASES,
        #[cfg(unix)]
        external::CASES,
        green_context::CASES,
        tensor_map::CASES,
        handle::CASES,
        graph_nodes::CASES,
        graph_refused::CASES,
        graph_refused_whole::CASES,
        graph_restricted::CASES,
        graph_first_wrong::CASES,
        graph_freed_by::CASES,
        graph_edges::CASES,
        graph_query::CASES,
        graph_change::CASES,
        graph_instantiate::CASES,
        graph_instantiate_refused::CASES,
        graph_launch::CASES,
        graph_events::CASES,
        graph_host::CASES,
        graph_life::CASES,
        graph_update::CASES,
        graph_pairing::CASES,
        graph_update_order::CASES,
        graph_set::CASES,
        graph_set_refused::CASES,
        graph_memory::CASES,
        graph_conditional::CASES,
        graph_random::CASES,
        errors::CASES,
        capture_begin::CASES,
        capture_end::CASES,
        capture_modes::CASES,
        capture_nodes::CASES,
        capture_threads::CASES,
        capture_forks::CASES,
        capture_isolation::CASES,
        capture_conditions::CASES,
        capture_external::CASES,
        capture_events::CASES,
        capture_legacy::CASES,
        capture_stale_events::CASES,
        capture_invalidated::CASES,
        capture_order::CASES,
        capture_uncaptured::CASES,
        capture_info::CASES,
        capture_into::CASES,
        capture_again::CASES,
        capture_edges::CASES,
        capture_launches::CASES,
        capture_limits::CASES,
        capture_memory::CASES,
        capture_host_functions::CASES,
        capture_random::CASES,
        crate::ptx::GOLDEN_CASES,
    ]
    .concat()
}
