// An allocator that never reuses a frame, with one mistake, which a macro names.
#include <stdlib.h>
#include "everybuddy-peer.h"
#ifndef VERSION
#define VERSION EVERYBUDDY_PEER_VERSION
#endif
#ifndef NAME
#define NAME "broken"
#endif
#ifndef FRAME
#define FRAME next
#endif
#ifndef FREED
#define FREED 0
#endif
#ifndef MOST
#define MOST UINT32_MAX
#endif
static uint32_t next, memory;
static void *start(uint32_t frames, uint32_t cpus) {
    (void)cpus;
    next = 0;
    memory = frames;
    return frames <= MOST ? &next : NULL;
}
static uint32_t get(void *handle, uint32_t cpu, uint32_t order) {
    (void)handle, (void)cpu;
    if (order != 0 || next == memory) return EVERYBUDDY_PEER_REFUSED;
    uint32_t frame = FRAME;
    next++;
    return frame;
}
static int32_t put(void *handle, uint32_t cpu, uint32_t frame, uint32_t order) {
    (void)handle, (void)cpu, (void)frame, (void)order;
    return FREED;
}
static void end(void *handle) { (void)handle; }
#ifndef PUT
#define PUT put
#endif
#ifndef NO_TABLE
const struct everybuddy_peer everybuddy_peer = {
    .version = VERSION, .name = NAME, .init = start, .allocate = get, .free = PUT, .destroy = end,
};
#endif
