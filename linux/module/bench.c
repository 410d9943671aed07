// SPDX-License-Identifier: GPL-2.0-only
/*
 * Instructions per call, of the system and of Linux's alloc_pages() and __free_pages().
 *
 * In a virtual machine that counts instructions (QEMU's -icount shift=0) a tick of the time stamp counter is an
 * instruction; the line "clock" tells whether it is. A round allocates a burst of blocks and frees them again. The median
 * of the rounds is printed, which no timer interrupt reaches, and the percentiles of single calls. `floor` is the same
 * loop around functions that do nothing. Several threads measure at the same time, each with its own line per workload.
 */
/* Its definition of pr_fmt comes before the kernel's. */
#include "module.h"
#include "everybuddy_clock.h"

#include <linux/sort.h>

#define BURST 512
/* Buckets of a histogram: 32 for each power of two, so a bucket is at most 3 % wide. */
#define BUCKETS (32 * 20)

struct allocator {
	const char *name;
	unsigned long (*allocate)(unsigned int order);
	void (*free)(unsigned long block, unsigned int order);
};

static noinline unsigned long floor_allocate(unsigned int order)
{
	barrier();
	return order + 1;
}

static noinline void floor_free(unsigned long block, unsigned int order)
{
	barrier();
}

static noinline unsigned long linux_allocate(unsigned int order)
{
	return (unsigned long)alloc_pages(GFP_KERNEL | __GFP_NOWARN, order);
}

static noinline void linux_free(unsigned long block, unsigned int order)
{
	__free_pages((struct page *)block, order);
}

static noinline unsigned long own_allocate(unsigned int order)
{
	s64 frame = eb_allocate(order);

	return frame < 0 ? 0 : frame;
}

static noinline void own_free(unsigned long block, unsigned int order)
{
	eb_free(block, order);
}

/* A workload: blocks of an order, `burst` of them before they are freed. */
struct workload {
	const char *name;
	unsigned int order;
	unsigned int burst;
};

static const struct workload workloads[] = {
	{ "pair", 0, 1 },
	{ "burst", 0, BURST },
	{ "burst", 3, 64 },
	{ "burst", 9, 4 },
};

static int compare(const void *a, const void *b)
{
	u64 left = *(const u64 *)a, right = *(const u64 *)b;

	return left < right ? -1 : left > right;
}

static u64 median(u64 *values, unsigned int count)
{
	sort(values, count, sizeof(*values), compare, NULL);
	return values[count / 2];
}

static unsigned int bucket(u64 value)
{
	unsigned int power = fls64(value);

	if (power <= 6)
		return value;
	return min_t(unsigned int, 32 * (power - 5) + ((value >> (power - 6)) & 31), BUCKETS - 1);
}

/* Returns the largest value of a bucket. */
static u64 bucket_end(unsigned int at)
{
	if (at < 64)
		return at;
	return ((32ull + at % 32 + 1) << (at / 32 - 1)) - 1;
}

/* Returns the value that a share of the calls did not exceed, to the width of a bucket. */
static u64 percentile(const u32 *histogram, u64 calls, unsigned int hundredths)
{
	u64 sum = 0;
	unsigned int at;

	for (at = 0; at < BUCKETS - 1; at++) {
		sum += histogram[at];
		if (sum * 10000 >= calls * hundredths)
			break;
	}
	return bucket_end(at);
}

/* The sums of a round: ticks of all allocations, of all frees, and the blocks that were refused. */
struct round {
	u64 allocate;
	u64 free;
	u64 refused;
};

static noinline void run_round(const struct allocator *allocator, const struct workload *workload,
			       unsigned long *blocks, struct round *round)
{
	unsigned int order = workload->order, at;
	u64 start, middle, end;

	start = rdtsc_ordered();
	if (workload->burst == 1) {
		for (at = 0; at < BURST; at++) {
			blocks[0] = allocator->allocate(order);
			round->refused += !blocks[0];
			if (blocks[0])
				allocator->free(blocks[0], order);
		}
		end = rdtsc_ordered();
		round->allocate += end - start;
		return;
	}
	for (at = 0; at < workload->burst; at++)
		blocks[at] = allocator->allocate(order);
	middle = rdtsc_ordered();
	for (at = 0; at < workload->burst; at++)
		if (blocks[at])
			allocator->free(blocks[at], order);
	end = rdtsc_ordered();
	for (at = 0; at < workload->burst; at++)
		round->refused += !blocks[at];
	round->allocate += middle - start;
	round->free += end - middle;
}

/* Times single allocations into a histogram; returns their number. */
static u64 run_calls(const struct allocator *allocator, const struct workload *workload, unsigned int rounds,
		     u64 nothing, unsigned long *blocks, u32 *histogram)
{
	unsigned int round, at;

	for (round = 0; round < rounds; round++) {
		for (at = 0; at < workload->burst; at++) {
			u64 start = rdtsc_ordered(), ticks;

			blocks[at] = allocator->allocate(workload->order);
			ticks = rdtsc_ordered() - start;
			histogram[bucket(ticks - min(ticks, nothing))]++;
		}
		for (at = 0; at < workload->burst; at++)
			if (blocks[at])
				allocator->free(blocks[at], workload->order);
		cond_resched();
	}
	return (u64)rounds * workload->burst;
}

static int run_workload(const struct allocator *allocator, const struct workload *workload, unsigned int rounds,
			u64 nothing)
{
	unsigned int per_round = workload->burst == 1 ? BURST : workload->burst, at;
	u64 *allocates = kvmalloc_array(rounds, sizeof(u64), GFP_KERNEL), refused = 0, calls, allocate, free;
	u64 *frees = kvmalloc_array(rounds, sizeof(u64), GFP_KERNEL);
	unsigned long *blocks = kvcalloc(BURST, sizeof(*blocks), GFP_KERNEL);
	u32 *histogram = kvcalloc(BUCKETS, sizeof(u32), GFP_KERNEL);
	int error = -ENOMEM;

	if (!allocates || !frees || !blocks || !histogram)
		goto out;
	/* The first rounds fill lists and caches. */
	for (at = 0; at < rounds + 8; at++) {
		struct round round = {};

		run_round(allocator, workload, blocks, &round);
		allocates[at % rounds] = round.allocate;
		frees[at % rounds] = round.free;
		refused += round.refused;
		cond_resched();
	}
	calls = run_calls(allocator, workload, rounds, nothing, blocks, histogram);
	allocate = median(allocates, rounds) * 10 / per_round;
	free = median(frees, rounds) * 10 / per_round;
	pr_info("bench allocator=%s cpu=%u workload=%s order=%u burst=%u allocate=%llu.%llu free=%llu.%llu refused=%llu p50=%llu p99=%llu\n",
		allocator->name, raw_smp_processor_id(), workload->name, workload->order, workload->burst, allocate / 10, allocate % 10, free / 10,
		free % 10, refused, percentile(histogram, calls, 5000), percentile(histogram, calls, 9900));
	error = refused ? eb_failed("%s refused %llu blocks of order %u", allocator->name, refused, workload->order) : 0;
out:
	kvfree(allocates);
	kvfree(frees);
	kvfree(blocks);
	kvfree(histogram);
	return error;
}

static int run_thread(void *rounds)
{
	const struct allocator allocators[] = {
		{ "floor", floor_allocate, floor_free },
		{ "alloc_pages", linux_allocate, linux_free },
		{ managed.name, own_allocate, own_free },
	};
	u64 start, nothing = ~0ull;
	unsigned int at, workload;
	int error = 0;

	for (at = 0; at < 100; at++) {
		start = rdtsc_ordered();
		nothing = min(nothing, rdtsc_ordered() - start);
	}
	for (at = 0; at < ARRAY_SIZE(allocators); at++)
		for (workload = 0; workload < ARRAY_SIZE(workloads) && !error; workload++)
			error = run_workload(&allocators[at], &workloads[workload], *(unsigned int *)rounds, nothing);
	return error;
}

int eb_bench(unsigned int rounds, unsigned int threads)
{
	pr_info("clock ticks=%llu instructions=%u\n", everybuddy_clock_ticks(), EVERYBUDDY_CLOCK_INSTRUCTIONS);
	return eb_on_cpus(threads, run_thread, &rounds);
}
