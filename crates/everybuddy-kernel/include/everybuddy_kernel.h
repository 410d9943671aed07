/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The frame allocators of Everybuddy for a kernel written in C.
 *
 * A caller of every function with a CPU runs on that CPU with preemption disabled, or in an interrupt of it. An interrupt
 * handler may call during an operation: it then bypasses per-CPU lists, only tries locks, and gets EVERYBUDDY_BUSY if one
 * is held. A non-maskable interrupt may call, too, and may then wait for a lock that another CPU holds. No function sleeps.
 *
 * The managed memory is never accessed. All metadata lies in the memory that is given to everybuddy_build().
 */
#ifndef EVERYBUDDY_KERNEL_H
#define EVERYBUDDY_KERNEL_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;
#endif

/* Errors, which functions return as negative numbers. In some, the bits from 8 on store an order. */
#define EVERYBUDDY_EXHAUSTED 1 /* no block of that size is free */
#define EVERYBUDDY_TOO_LARGE 2 /* larger than the largest block */
#define EVERYBUDDY_NO_SUCH_CPU 3 /* the system was not built for that CPU */
#define EVERYBUDDY_BUSY 4 /* a lock or another CPU's list was not available: park all CPUs, then try again */
#define EVERYBUDDY_BAD_ORDER 5 /* the order is above the limit of all systems */
#define EVERYBUDDY_FOREIGN 6 /* the frame lies outside the managed memory */
#define EVERYBUDDY_HOLE 7 /* the frame lies in a hole */
#define EVERYBUDDY_RESERVED 8 /* the frame is reserved */
#define EVERYBUDDY_NOT_ALLOCATED 9 /* the frame is free: freed twice, or never allocated */
#define EVERYBUDDY_INSIDE_BLOCK 10 /* the frame lies inside a block */
#define EVERYBUDDY_WRONG_ORDER 11 /* a block of another order starts here */

#define EVERYBUDDY_MAX_RANGES 32
#define EVERYBUDDY_ORDERS 19

/* What a kernel knows about a request. Frames for the same task and mapping are often requested one after the other. */
struct everybuddy_hint {
	u32 task;
	u32 region; /* the mapping that the frame is for */
	u32 left; /* frames of that mapping from this one on */
};

/* A system. It lives in the memory in which it was built, and starts with functions that are compiled for its kind. */
struct everybuddy {
	s64 (*allocate)(struct everybuddy *frames, u16 cpu, u8 order, u8 flags);
	s64 (*allocate_for)(struct everybuddy *frames, u16 cpu, u8 order, u8 flags, const struct everybuddy_hint *hint);
	int (*free)(struct everybuddy *frames, u16 cpu, u64 frame, u8 order);
	int (*free_part)(struct everybuddy *frames, u16 cpu, u64 frame, u8 order);
};

/* Physical frames. */
struct everybuddy_range {
	u64 start;
	u64 frames;
};

struct everybuddy_state {
	u64 free; /* free frames of the zone layer */
	u64 buffered; /* frames in per-CPU lists, and in queues of services */
	u64 metadata_bytes;
	u64 refills; /* of per-CPU lists */
	u64 drains; /* of per-CPU lists */
	u64 contended; /* locks that another CPU held */
	u64 reclaims; /* requests that asked all CPUs to drain their lists */
	u64 nested; /* operations that interrupted another one */
	u64 misuses; /* frees that were refused */
	u32 services; /* if not 0, call everybuddy_serve() from time to time */
	u32 max_order;
	u32 hints; /* 1 if everybuddy_allocate_for() differs from everybuddy_allocate() */
	u32 owns; /* 1 if CPUs own free frames that everybuddy_buffered() does not count */
	u64 free_blocks[EVERYBUDDY_ORDERS];
};

/*
 * Returns the bytes that everybuddy_build() needs. `spec` is NAME or NAME+option=value+..., as SYSTEMS.md lists them. At
 * most EVERYBUDDY_MAX_RANGES ranges, in ascending order. `cpus` counts all CPUs that may ever exist. Returns 0 if there is
 * no such system, and writes the reason into `why`.
 */
size_t everybuddy_bytes(const char *spec, const struct everybuddy_range *ranges, size_t count, u16 cpus,
			char *why, size_t why_bytes);

/*
 * Builds a system whose memory is all free, in memory with any content. Returns NULL on failure, and writes the reason into
 * `why`. To destroy the system, free its memory.
 */
struct everybuddy *everybuddy_build(const char *spec, const struct everybuddy_range *ranges, size_t count, u16 cpus,
				    void *memory, size_t bytes, char *why, size_t why_bytes);

/* Allocates 2^order frames. Returns the first frame, or an error. `flags`: bit 0 not to wait for other CPUs, bits 1 and 2
 * the class of mobility (0 unmovable, 1 movable, 2 reclaimable, 3 never freed).
 */
static inline s64 everybuddy_allocate(struct everybuddy *frames, u16 cpu, u8 order, u8 flags)
{
	return frames->allocate(frames, cpu, order, flags);
}

/* The same, for a system that reads hints: its state says so. */
static inline s64 everybuddy_allocate_for(struct everybuddy *frames, u16 cpu, u8 order, u8 flags,
					  const struct everybuddy_hint *hint)
{
	return frames->allocate_for(frames, cpu, order, flags, hint);
}

/* Frees 2^order frames. Returns 0, or an error, which changes nothing. */
static inline int everybuddy_free(struct everybuddy *frames, u16 cpu, u64 frame, u8 order)
{
	return frames->free(frames, cpu, frame, order);
}

/*
 * Frees 2^order frames that are a block, a part of one, or several: a kernel that splits blocks does not tell the allocator.
 * Returns 0, or an error, which changes nothing. A block costs as much as with everybuddy_free().
 */
static inline int everybuddy_free_part(struct everybuddy *frames, u16 cpu, u64 frame, u8 order)
{
	return frames->free_part(frames, cpu, frame, order);
}

/* Returns the number of frames in the list of a CPU: a hint while it works. Takes no lock. */
u64 everybuddy_buffered(struct everybuddy *frames, u16 cpu);

/* Announces that this CPU will not call for a while. Returns false if the caller interrupted an operation of this CPU. */
bool everybuddy_park(struct everybuddy *frames, u16 cpu);

/* Returns all frames of this CPU's list to the zone layer. Returns false if the caller interrupted an operation. */
bool everybuddy_drain(struct everybuddy *frames, u16 cpu);

/* Returns the frames of all lists to the zone layer, and finishes deferred work. All other CPUs must be parked. */
int everybuddy_quiesce(struct everybuddy *frames, u16 cpu);

/* Does deferred work of at most `budget` units per service. Returns true if there is more. */
bool everybuddy_serve(struct everybuddy *frames, u16 cpu, u32 budget);

/* Checks all metadata, while no other CPU calls. Returns false on a violation, and writes it into `why`. */
bool everybuddy_check(struct everybuddy *frames, u16 cpu, char *why, size_t why_bytes);

/* Returns the state of the system; counters are sums over all CPUs. */
struct everybuddy_state everybuddy_state(struct everybuddy *frames, u16 cpu);

/*
 * Reports: which free blocks the monitor of the virtual machine was told of. A kernel that has none calls none of these
 * functions. Blocks have at least the order that was given to everybuddy_reporting_build(), and are as large as possible.
 */
struct everybuddy_reporting;

/* Returns the bytes that everybuddy_reporting_build() needs, or 0 if the system has no block of that order. */
size_t everybuddy_reporting_bytes(struct everybuddy *frames, u8 order);

/* Begins, in memory with any content. Nothing is reported yet. Returns NULL if everybuddy_reporting_bytes() returns 0 or more
 * bytes than there are. To end, free the memory.
 */
struct everybuddy_reporting *everybuddy_reporting_build(struct everybuddy *frames, u8 order, void *memory, size_t bytes);

/*
 * Takes the next free block that was not reported, and goes on from there with the next call. Returns its first frame, and
 * its order in `order`: the caller holds it until everybuddy_reporting_put(). Each block that is looked at takes one from
 * `budget`. -EVERYBUDDY_EXHAUSTED: the end of memory was reached, and the next call begins from the start.
 * -EVERYBUDDY_BUSY: the budget was used up, or the caller interrupted an operation of this CPU.
 */
s64 everybuddy_reporting_take(struct everybuddy_reporting *reporting, u16 cpu, u32 *budget, u8 *order);

/*
 * Puts back a block that was taken, by its frame and order. `reported`: the monitor took it, so it is not taken again until
 * a frame of it was allocated. Returns 0, or an error; -EVERYBUDDY_BUSY if the caller interrupted an operation of this CPU.
 */
int everybuddy_reporting_put(struct everybuddy_reporting *reporting, u16 cpu, u64 frame, u8 order, bool reported);

/*
 * Must be called after each allocation of 2^order frames, before they are used. Returns how many blocks of the reporting
 * order, of those that the frames touch, had been reported until now. One load if none.
 */
u32 everybuddy_reporting_allocated(struct everybuddy_reporting *reporting, u64 frame, u8 order);

/* Returns the number of blocks that are taken: a request that failed may succeed after they were put back. A hint. */
u32 everybuddy_reporting_held(struct everybuddy_reporting *reporting);

/* Writes the text of an error, and returns its length. */
size_t everybuddy_explain(int error, char *out, size_t bytes);

/* Panics, so that a test sees what the kernel makes of it. */
void everybuddy_stop(void) __attribute__((noreturn));

/* The kernel provides this function: it prints the message and stops, as BUG() does. */
void everybuddy_panic(const char *message) __attribute__((noreturn));

/*
 * The kernel provides these functions. The first disables the interrupts of this CPU and returns their previous state.
 * The second takes that state, and enables interrupts if they were enabled before. Both are called around work under a
 * lock, also in interrupt handlers. Calls can be nested.
 */
size_t everybuddy_interrupts_off(void);
void everybuddy_interrupts_restore(size_t before);

#endif
