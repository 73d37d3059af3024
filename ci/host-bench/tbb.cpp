// The rows of crates/anabranch-host/benches/queue.rs with oneTBB: a stream is a serial function node with an unlimited queue
// in front, which one worker runs.
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

using Clock = std::chrono::steady_clock;

static double each(Clock::time_point begin, unsigned count) {
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / count;
}

int main(int count, char** arguments) {
    unsigned operations = count > 1 ? std::atoi(arguments[1]) : 1000;
    unsigned round_trips = count > 2 ? std::atoi(arguments[2]) : 100;
    // The waiting thread takes part, as it does on the host device, beside one worker.
    tbb::global_control control(tbb::global_control::max_allowed_parallelism, 2);
    tbb::flow::graph graph;
    std::atomic<unsigned long> counter{0};
    using Job = std::function<void()>;
    tbb::flow::function_node<Job> stream(graph, tbb::flow::serial, [](const Job& job) -> tbb::flow::continue_msg {
        job();
        return {};
    });
    auto enqueue = [&] { stream.try_put([&counter] { counter.fetch_add(1, std::memory_order_relaxed); }); };
    for (unsigned index = 0; index < 1000; ++index) {
        enqueue();
        graph.wait_for_all();
    }
    auto begin = Clock::now();
    for (unsigned index = 0; index < operations; ++index) enqueue();
    std::printf("oneTBB\tenqueue\t%.2f\n", each(begin, operations));
    graph.wait_for_all();
    std::printf("oneTBB\tin order\t%.2f\n", each(begin, operations));
    begin = Clock::now();
    for (unsigned index = 0; index < round_trips; ++index) {
        enqueue();
        graph.wait_for_all();
    }
    std::printf("oneTBB\tround trip\t%.2f\n", each(begin, round_trips));
    return counter.load() == 1000ul + operations + round_trips ? 0 : 1;
}
