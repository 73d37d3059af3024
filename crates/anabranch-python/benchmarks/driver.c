// The calls of the driver that speed.py measures, in loops of C: what no library can be faster than.
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef int (*record_call)(void *event, void *stream);
typedef int (*wait_call)(void *stream, void *event, unsigned flags);
typedef int (*stream_call)(void *stream);
typedef int (*graph_call)(void *graph, void *stream);
typedef int (*launch_call)(void *kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared, void *stream,
                           void **arguments, void **extra);

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

// The nanoseconds of `count` calls, or -1 if one fails or the name is unknown.
int64_t measure(const char *name, int count, void *stream, void *other, void *event, void *empty, void *four, void **arguments,
                void *graph) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return -1;
    record_call record = (record_call)dlsym(driver, "cuEventRecord");
    wait_call wait = (wait_call)dlsym(driver, "cuStreamWaitEvent");
    stream_call query = (stream_call)dlsym(driver, "cuStreamQuery");
    stream_call synchronize = (stream_call)dlsym(driver, "cuStreamSynchronize");
    graph_call launch_graph = (graph_call)dlsym(driver, "cuGraphLaunch");
    launch_call launch = (launch_call)dlsym(driver, "cuLaunchKernel");
    if (!record || !wait || !query || !synchronize || !launch_graph || !launch) return -1;
    int failed = 0;
    int64_t start = now();
#define LOOP(text, call)                                         \
    if (!strcmp(name, text)) {                                   \
        for (int i = 0; i < count; i++) failed |= (call);        \
        return failed ? -1 : now() - start;                      \
    }
    LOOP("record", record(event, stream))
    LOOP("record and wait", record(event, stream) | wait(other, event, 0))
    LOOP("query", query(stream))
    LOOP("empty launch", launch(empty, 1, 1, 1, 64, 1, 1, 0, stream, 0, 0))
    LOOP("launch, 4 arguments", launch(four, 1, 1, 1, 64, 1, 1, 0, stream, arguments, 0))
    LOOP("graph launch", launch_graph(graph, stream))
    LOOP("launch and synchronize", launch(empty, 1, 1, 1, 64, 1, 1, 0, stream, 0, 0) | synchronize(stream))
    return -1;
}
