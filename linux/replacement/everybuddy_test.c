// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of the page allocator, whichever it is, in /sys/kernel/debug/everybuddy:
 *
 *   check       read: drains all CPUs, then compares the metadata of all systems, and /proc/vmstat, with each other while
 *               no CPU works; and the number of free pages
 *   misuse      write 1: frees a page twice, and one that is not memory; both must be reported and survived
 *   interrupts  write N: allocates and frees N times in interrupts of all CPUs
 *   reserve     write N: the same, while this task holds all pages that a task may have, and tasks ask for more
 *   locked      write N: allocates for N ms under a lock that interrupts of the first CPU take, while that CPU allocates,
 *               and all lists are drained again and again
 *   pairs       read: ticks of an allocation with its free, by order, and how long a tick is; if the page cache has most
 *               memory, with as much free outside lists as lies half way between the low and the high watermark
 */
#define pr_fmt(text) "everybuddy: " text

#include "everybuddy.h"
#include "everybuddy_clock.h"
#include "everybuddy_test.h"
#include "internal.h"

#include <linux/cpu.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/sort.h>
#include <linux/spinlock.h>
#include <linux/stop_machine.h>
#include <linux/vmstat.h>
#include <linux/workqueue.h>

/* Runs while all other CPUs are stopped, outside of any operation. */
static int check_stopped(void *data)
{
	struct seq_file *file = data;
	unsigned int cpu = smp_processor_id(), other;
	struct zone *zone;

	for_each_online_cpu(other)
		everybuddy_count_cpu(other);
	for_each_populated_zone(zone) {
		struct everybuddy *frames = zone->everybuddy->frames;
		struct everybuddy_state state;
		long counted = zone_page_state_snapshot(zone, NR_FREE_PAGES);
		char why[128];

		/* A CPU that is stopped does nothing, so this one may act for it. */
		for_each_online_cpu(other)
			everybuddy_park(frames, other);
		if (everybuddy_quiesce(frames, cpu))
			seq_printf(file, "FAILED: zone %s cannot be quiesced\n", zone->name);
		state = everybuddy_state(frames, cpu);
		if (!everybuddy_check(frames, cpu, why, sizeof(why)))
			seq_printf(file, "FAILED: zone %s: %s\n", zone->name, why);
		else if (state.free != counted)
			seq_printf(file, "FAILED: zone %s has %llu free pages, vmstat counts %ld\n", zone->name, state.free,
				   counted);
		else {
			seq_puts(file, "ok: ");
			everybuddy_print(file, zone, &state);
		}
	}
	return 0;
}

/* Before a program that ends fills the lists of CPUs again: what is in Linux's lists does not count as free. */
static void print_free(struct seq_file *file)
{
	struct zone *zone;
	long pages = 0;

	for_each_populated_zone(zone)
		pages += zone_page_state_snapshot(zone, NR_FREE_PAGES);
	seq_printf(file, "free pages %ld\n", pages);
}

static int check_show(struct seq_file *file, void *unused)
{
	drain_all_pages(NULL);
	print_free(file);
	if (!everybuddy_enabled()) {
		seq_puts(file, "ok: off\n");
		return 0;
	}
	stop_machine(check_stopped, file, NULL);
	seq_puts(file, "ok: ");
	everybuddy_print_chores(file);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(check);

/* A page that a zone contains, but that is not memory: below 1 MiB, PCs have such. */
#define HOLE 0xa0

/*
 * Frees a block twice, and a page that is not memory. All other CPUs are stopped: between the two frees, one of their tasks
 * could allocate the block, and the second free would be right. The chores of this CPU would do the same, since they
 * allocate spare blocks after a free. So they come first.
 */
static int stopped_misuse(void *block)
{
	struct page *page = block;

	everybuddy_do_chores();
	__free_pages(page, 2);
	/* As if a driver had kept a reference too many. */
	set_page_count(page, 1);
	__free_pages(page, 2);
	set_page_count(page, 0);
	/* Otherwise Linux's own check of the flag might find it. */
	page = pfn_to_page(HOLE);
	__ClearPageReserved(page);
	set_page_count(page, 1);
	__free_pages(page, 0);
	set_page_count(page, 1);
	__SetPageReserved(page);
	return 0;
}

static int misuse(void *unused, u64 value)
{
	struct page *page;

	/* Linux's own lists would be corrupted. */
	if (!everybuddy_enabled())
		return -EOPNOTSUPP;
	page = alloc_pages(GFP_KERNEL, 2);
	if (!page)
		return -ENOMEM;
	return stop_machine(stopped_misuse, page, NULL);
}
DEFINE_DEBUGFS_ATTRIBUTE(misuse_fops, NULL, misuse, "%llu\n");

/* Single pages, and blocks of several. */
static atomic_long_t got[2], failed[2];

/* Single pages, then blocks of each small order, as interrupts of a network card might want. */
#define SINGLE_PAGES 32
#define BLOCKS 4
static void interrupt(struct irq_work *unused)
{
	struct page *pages[SINGLE_PAGES + BLOCKS * PAGE_ALLOC_COSTLY_ORDER];
	unsigned int at;

#define ORDER_AT(at) ((at) < SINGLE_PAGES ? 0 : 1 + ((at) - SINGLE_PAGES) / BLOCKS)
	for (at = 0; at < ARRAY_SIZE(pages); at++) {
		pages[at] = alloc_pages(GFP_ATOMIC | __GFP_NOWARN, ORDER_AT(at));
		atomic_long_inc(&(pages[at] ? got : failed)[ORDER_AT(at) > 0]);
	}
	for (at = 0; at < ARRAY_SIZE(pages); at++)
		if (pages[at])
			__free_pages(pages[at], ORDER_AT(at));
#undef ORDER_AT
}
static DEFINE_PER_CPU(struct irq_work, interrupt_work) = IRQ_WORK_INIT_HARD(interrupt);

/* One load at a time. */
static DEFINE_MUTEX(loading);

static void request_in_interrupts(const char *name, u64 rounds)
{
	struct zone *zone = everybuddy_largest_zone();
	unsigned long most = 0, low = ULONG_MAX;

	memset(got, 0, sizeof(got));
	memset(failed, 0, sizeof(failed));
	while (rounds--) {
		unsigned int cpu;

		for_each_online_cpu(cpu)
			irq_work_queue_on(per_cpu_ptr(&interrupt_work, cpu), cpu);
		for_each_online_cpu(cpu)
			irq_work_sync(per_cpu_ptr(&interrupt_work, cpu));
		most = max(most, zone_page_state(zone, NR_FREE_PAGES));
		low = min(low, low_wmark_pages(zone));
		/* Other tasks run meanwhile. */
		fsleep(100);
	}
	pr_info("%s got %ld pages, %ld blocks, failed %ld, %ld; most free %lu, low %lu\n", name,
		atomic_long_read(&got[0]), atomic_long_read(&got[1]), atomic_long_read(&failed[0]),
		atomic_long_read(&failed[1]), most, low);
}

static int interrupts(void *unused, u64 rounds)
{
	cpus_read_lock();
	mutex_lock(&loading);
	request_in_interrupts("interrupts", rounds);
	mutex_unlock(&loading);
	cpus_read_unlock();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(interrupts_fops, NULL, interrupts, "%llu\n");

/* So many blocks that lists of CPUs are refilled and drained. */
#define BURST 128
static bool is_over;

static void free_all(struct list_head *blocks, unsigned int order)
{
	struct page *page, *next;

	list_for_each_entry_safe(page, next, blocks, lru)
		__free_pages(page, order);
}

/* Allocates a burst of blocks of one order, then frees them. */
static void allocate_burst(gfp_t gfp)
{
	static atomic_t orders;
	unsigned int order = atomic_inc_return(&orders) % (PAGE_ALLOC_COSTLY_ORDER + 1), left;
	struct page *page;
	LIST_HEAD(blocks);

	for (left = BURST; left && (page = alloc_pages(gfp | __GFP_NOWARN, order)); left--)
		list_add(&page->lru, &blocks);
	free_all(&blocks, order);
}

static atomic_long_t bursts;

static void ask(struct work_struct *unused)
{
	while (!READ_ONCE(is_over)) {
		allocate_burst(GFP_NOWAIT);
		atomic_long_inc(&bursts);
		cond_resched();
	}
}
static DEFINE_PER_CPU(struct work_struct, asking);

static int reserve(void *unused, u64 rounds)
{
	unsigned int cpu;
	struct page *page;
	LIST_HEAD(held);
	long pages = 0;

	while ((page = alloc_page(GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN))) {
		list_add(&page->lru, &held);
		pages++;
		cond_resched();
	}
	cpus_read_lock();
	mutex_lock(&loading);
	WRITE_ONCE(is_over, false);
	atomic_long_set(&bursts, 0);
	for_each_online_cpu(cpu)
		schedule_work_on(cpu, per_cpu_ptr(&asking, cpu));
	request_in_interrupts("reserve", rounds);
	WRITE_ONCE(is_over, true);
	for_each_online_cpu(cpu)
		flush_work(per_cpu_ptr(&asking, cpu));
	mutex_unlock(&loading);
	cpus_read_unlock();
	pr_info("reserve: a task held %ld pages, others asked %ld times\n", pages, atomic_long_read(&bursts));
	free_all(&held, 0);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(reserve_fops, NULL, reserve, "%llu\n");

/* As the lock of a driver: interrupts take it, and tasks hold it while they allocate. */
static DEFINE_SPINLOCK(shared);
static long locked_rounds, interrupted_rounds;

static void take_shared(void *unused)
{
	spin_lock(&shared);
	spin_unlock(&shared);
}

static void allocate_interrupted(struct work_struct *unused)
{
	for (interrupted_rounds = 0; !READ_ONCE(is_over); interrupted_rounds++) {
		allocate_burst(GFP_KERNEL);
		cond_resched();
	}
}
static DECLARE_WORK(interrupted, allocate_interrupted);

static void allocate_locked(struct work_struct *unused)
{
	unsigned long flags;

	for (locked_rounds = 0; !READ_ONCE(is_over); locked_rounds++) {
		smp_call_function_single(0, take_shared, NULL, 0);
		spin_lock_irqsave(&shared, flags);
		allocate_burst(GFP_ATOMIC);
		spin_unlock_irqrestore(&shared, flags);
		cond_resched();
	}
}
static DECLARE_WORK(locking, allocate_locked);

static int locked(void *unused, u64 milliseconds)
{
	unsigned long end = jiffies + msecs_to_jiffies(milliseconds);
	unsigned int other;
	long drains;

	cpus_read_lock();
	other = cpumask_next(0, cpu_online_mask);
	if (other >= nr_cpu_ids) {
		cpus_read_unlock();
		return -EOPNOTSUPP;
	}
	mutex_lock(&loading);
	WRITE_ONCE(is_over, false);
	schedule_work_on(0, &interrupted);
	schedule_work_on(other, &locking);
	for (drains = 0; time_before(jiffies, end); drains++) {
		drain_all_pages(NULL);
		msleep(1);
	}
	WRITE_ONCE(is_over, true);
	flush_work(&interrupted);
	flush_work(&locking);
	mutex_unlock(&loading);
	cpus_read_unlock();
	pr_info("locked passed %ld rounds, %ld interrupted ones, %ld drains\n", locked_rounds, interrupted_rounds, drains);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(locked_fops, NULL, locked, "%llu\n");

#define ROUNDS 101 /* so that no timer interrupt reaches the median one */
#define PAIRS 64

static int compare(const void *a, const void *b)
{
	u64 left = *(const u64 *)a, right = *(const u64 *)b;

	return left < right ? -1 : left > right;
}

#ifdef alloc_pages_bulk_array /* its name before Linux 6.14 */
#define alloc_bulk alloc_pages_bulk_array
#else
#define alloc_bulk alloc_pages_bulk
#endif

/* What `PAIRS` pages, or blocks, take in the median round, in ticks: one by one, or in a bulk. */
static u64 median_of_rounds(unsigned int order, bool in_bulk)
{
	static struct page *pages[PAIRS];
	static u64 rounds[ROUNDS];
	unsigned int round, at;

	for (round = 0; round < ROUNDS; round++) {
		u64 start = rdtsc_ordered();

		/* It fills the gaps of an array, and may give less than there is. */
		if (in_bulk) {
			memset(pages, 0, sizeof(pages));
			for (at = 0; at < PAIRS && alloc_bulk(GFP_KERNEL, PAIRS, pages) < PAIRS; at++)
				;
		}
		for (at = 0; at < PAIRS; at++) {
			struct page *page = in_bulk ? pages[at] : alloc_pages(GFP_KERNEL | __GFP_NOWARN, order);

			if (!page)
				return 0;
			__free_pages(page, order);
		}
		rounds[round] = rdtsc_ordered() - start;
		cond_resched();
	}
	sort(rounds, ROUNDS, sizeof(u64), compare, NULL);
	return rounds[ROUNDS / 2];
}

static void print_pairs(struct seq_file *file, const char *what, unsigned int number, u64 ticks)
{
	u64 tenths = ticks * 10 / PAIRS;

	seq_printf(file, "%s=%u ticks=%llu.%llu\n", what, number, tenths / 10, tenths % 10);
}

/* The free pages of a zone that are in no list of a CPU. Linux's own count has no others. */
static unsigned long free_outside(struct zone *zone)
{
	return zone_page_state(zone, NR_FREE_PAGES) - (everybuddy_enabled() ? everybuddy_unusable(zone, false) : 0);
}

static int pairs_show(struct seq_file *file, void *unused)
{
	static const unsigned int orders[] = { 0, 3, 9 };
	u64 ticks = rdtsc_ordered(), nanoseconds = ktime_get_ns();
	struct zone *zone = everybuddy_largest_zone();
	unsigned long low = low_wmark_pages(zone), high = high_wmark_pages(zone);
	bool is_used = global_node_page_state(NR_FILE_PAGES) > totalram_pages() / 2;
	struct page *page;
	unsigned int at;
	LIST_HEAD(held);

	/* As in the middle between two times at which kswapd works. */
	while (is_used && free_outside(zone) > (low + high) / 2 && (page = alloc_page(GFP_NOWAIT | __GFP_NOWARN)))
		list_add(&page->lru, &held);
	seq_printf(file, "clock ticks=%llu instructions=%u\n", everybuddy_clock_ticks(), EVERYBUDDY_CLOCK_INSTRUCTIONS);
	seq_printf(file, "memory free=%lu low=%lu high=%lu\n", free_outside(zone), low, high);
	for (at = 0; at < ARRAY_SIZE(orders); at++)
		if (!is_used || !orders[at])
			print_pairs(file, "pair order", orders[at], median_of_rounds(orders[at], false));
	print_pairs(file, "bulk pages", PAIRS, median_of_rounds(0, true));
	ticks = rdtsc_ordered() - ticks;
	seq_printf(file, "tick ps=%llu\n", (ktime_get_ns() - nanoseconds) * 1000 / ticks);
	free_all(&held, 0);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(pairs);

static int __init everybuddy_test(void)
{
	struct dentry *folder = everybuddy_folder;
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		INIT_WORK(per_cpu_ptr(&asking, cpu), ask);
	debugfs_create_file("check", 0400, folder, NULL, &check_fops);
	debugfs_create_file("misuse", 0200, folder, NULL, &misuse_fops);
	debugfs_create_file("interrupts", 0200, folder, NULL, &interrupts_fops);
	debugfs_create_file("reserve", 0200, folder, NULL, &reserve_fops);
	debugfs_create_file("locked", 0200, folder, NULL, &locked_fops);
	debugfs_create_file("pairs", 0400, folder, NULL, &pairs_fops);
	return 0;
}
late_initcall(everybuddy_test);
