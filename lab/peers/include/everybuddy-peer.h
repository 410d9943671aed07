/*
 * The table of functions through which `everybuddy bench --peer FILE` calls an allocator of page frames.
 *
 * A shared library exports one object with the name `everybuddy_peer`:
 *
 *     const struct everybuddy_peer everybuddy_peer = {
 *         .version = EVERYBUDDY_PEER_VERSION, .max_order = 10, .name = "mine", ...
 *     };
 *
 * Frames are numbers: memory has the frames 0, 1, 2, ..., and nothing backs them, so the allocator must not access them.
 * It keeps its records in memory of its own. A block of order j has 2^j frames, and its first number is a multiple of 2^j.
 *
 * Threads. `init` and `destroy` are called by one thread, while no other function runs. The others are called by as many
 * threads as there are CPUs, simultaneously. A thread passes the number of its own CPU, and no two threads pass the same
 * number at a time, so what belongs to a CPU needs no lock. Any CPU may free the block of another one. `init` is called
 * for each workload and round, and for the checks before them. At most one handle exists at a time.
 *
 * No function may throw an exception, exit the process, or use `longjmp`.
 */
#ifndef EVERYBUDDY_PEER_H
#define EVERYBUDDY_PEER_H

#include <stdint.h>

/* The version of this table. It changes with every change of the structure. */
#define EVERYBUDDY_PEER_VERSION 1u

/* The result of `allocate` if it serves no block: memory is exhausted, or the order is not supported. */
#define EVERYBUDDY_PEER_REFUSED UINT32_MAX

struct everybuddy_peer {
    /* EVERYBUDDY_PEER_VERSION. */
    uint32_t version;
    /* The largest order that it serves. Workloads with larger blocks are left out. No request is above order 10. */
    uint32_t max_order;
    /* The name in tables and for `--baseline`: 1 to 40 letters, digits, `-`, `_` and `.`. */
    const char *name;
    /* One line for the table of contenders, or a null pointer. */
    const char *summary;
    /* Creates an allocator of free frames, and returns its handle, or a null pointer if it cannot manage them. */
    void *(*init)(uint32_t frames, uint32_t cpus);
    /* Allocates a block. Returns its first frame, or EVERYBUDDY_PEER_REFUSED. Must refuse orders above `max_order`. */
    uint32_t (*allocate)(void *handle, uint32_t cpu, uint32_t order);
    /* Frees a block that was allocated with this order. Returns 0, or another number if the block was not allocated. */
    int32_t (*free)(void *handle, uint32_t cpu, uint32_t frame, uint32_t order);
    /* Returns the bytes of all records. The pointer to this function may be null: the size is then unknown. */
    uint64_t (*metadata_bytes)(void *handle);
    /* Ends the use of the handle. Blocks may still be allocated. */
    void (*destroy)(void *handle);
};

#ifdef __cplusplus
extern "C"
#else
extern
#endif
#if defined(__GNUC__)
__attribute__((visibility("default")))
#elif defined(_WIN32)
__declspec(dllexport)
#endif
const struct everybuddy_peer everybuddy_peer;

#endif
