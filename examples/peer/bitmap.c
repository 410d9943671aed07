/*
 * An allocator that `everybuddy bench --peer` measures: one bit per frame, set while the frame is free, without locks.
 *
 *     cc -std=c11 -O2 -shared -fPIC -I lab/peers/include examples/peer/bitmap.c -o target/bitmap.so
 *
 * A block lies within one word, so the largest has 64 frames. Each CPU searches from the word in which it was served last,
 * and CPUs start in different parts of memory. The search visits the words one by one, which is slow in full memory.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "everybuddy-peer.h"

enum { MAX_ORDER = 6, LINE = 128 };

/* What a CPU keeps for itself, on cache lines of its own. */
struct cpu {
    _Alignas(LINE) uint32_t word;
};

struct bitmap {
    uint32_t words, cpus;
    struct cpu *cpu;
    _Atomic uint64_t *free;
};

/* The frames of a block, from bit 0 on. */
static uint64_t block(uint32_t order) {
    return order == MAX_ORDER ? UINT64_MAX : (UINT64_C(1) << (1u << order)) - 1;
}

static void bitmap_destroy(void *handle) {
    struct bitmap *own = handle;
    free(own->cpu);
    free(own->free);
    free(own);
}

static void *bitmap_init(uint32_t frames, uint32_t cpus) {
    struct bitmap *own = calloc(1, sizeof *own);
    if (!own) return NULL;
    own->words = frames / 64 + (frames % 64 != 0);
    own->cpus = cpus;
    own->cpu = aligned_alloc(LINE, cpus * sizeof *own->cpu);
    own->free = calloc(own->words, sizeof *own->free);
    if (!own->cpu || !own->free) {
        bitmap_destroy(own);
        return NULL;
    }
    for (uint32_t cpu = 0; cpu < cpus; cpu++)
        own->cpu[cpu].word = (uint64_t)own->words * cpu / cpus;
    for (uint32_t word = 0; word < frames / 64; word++)
        atomic_init(&own->free[word], UINT64_MAX);
    if (frames % 64 != 0)
        atomic_init(&own->free[frames / 64], (UINT64_C(1) << frames % 64) - 1);
    return own;
}

static uint32_t bitmap_allocate(void *handle, uint32_t cpu, uint32_t order) {
    struct bitmap *own = handle;
    if (order > MAX_ORDER) return EVERYBUDDY_PEER_REFUSED;
    uint32_t word = own->cpu[cpu].word;
    for (uint32_t seen = 0; seen < own->words; seen++) {
        uint64_t bits = atomic_load_explicit(&own->free[word], memory_order_relaxed);
        for (uint32_t at = 0; bits != 0 && at < 64; at += 1u << order) {
            const uint64_t mask = block(order) << at;
            while ((bits & mask) == mask) {
                /* Acquire: the frames' contents of their last owner come before those of this one. */
                if (atomic_compare_exchange_weak_explicit(&own->free[word], &bits, bits & ~mask,
                                                          memory_order_acquire, memory_order_relaxed)) {
                    own->cpu[cpu].word = word;
                    return 64 * word + at;
                }
            }
        }
        word = word + 1 == own->words ? 0 : word + 1;
    }
    return EVERYBUDDY_PEER_REFUSED;
}

static int32_t bitmap_free(void *handle, uint32_t cpu, uint32_t frame, uint32_t order) {
    struct bitmap *own = handle;
    (void)cpu;
    if (order > MAX_ORDER || frame / 64 >= own->words) return 1;
    const uint64_t mask = block(order) << frame % 64;
    /* A mistake of the caller changes nothing. */
    if ((atomic_load_explicit(&own->free[frame / 64], memory_order_relaxed) & mask) != 0) return 1;
    return (atomic_fetch_or_explicit(&own->free[frame / 64], mask, memory_order_release) & mask) != 0;
}

static uint64_t bitmap_metadata_bytes(void *handle) {
    const struct bitmap *own = handle;
    return sizeof *own + own->cpus * sizeof *own->cpu + own->words * sizeof *own->free;
}

const struct everybuddy_peer everybuddy_peer = {
    .version = EVERYBUDDY_PEER_VERSION,
    .max_order = MAX_ORDER,
    .name = "example-bitmap",
    .summary = "one bit per frame, without locks; a search by words",
    .init = bitmap_init,
    .allocate = bitmap_allocate,
    .free = bitmap_free,
    .metadata_bytes = bitmap_metadata_bytes,
    .destroy = bitmap_destroy,
};
