// SPDX-License-Identifier: GPL-2.0-only
/*
 * Connects the page allocator of Linux with a frame allocator of Everybuddy.
 *
 * Each zone has a system of its own, in memory that is reserved at boot. The systems decide which pages a block consists
 * of. Preparation and checks of pages, watermarks, reclaim and statistics stay Linux's.
 *
 * An operation disables preemption, and interrupts only while it may hold a lock. An interrupt that arrives in the middle
 * of an operation does not wait for locks of other CPUs: if one is held, it gets one of a few spare blocks, and what it
 * frees is postponed until the next free of its CPU. An NMI may also find a lock of its own CPU held, and gets no spare
 * block.
 */
#define pr_fmt(text) "everybuddy: " text

#include "everybuddy.h"
#include "everybuddy_provided.h"
#include "everybuddy_test.h"
#include "internal.h"

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/llist.h>
#include <linux/lockdep.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/vmstat.h>

/* A list of more pages is not drained while interrupts are disabled. */
#define LIST_MAX 4096

/* So many pages of a zone for each CPU are too few for a drain, except in a very small zone: see few_pages(). */
#define FEW_PAGES 32l

#define WHY_BYTES 512

DEFINE_STATIC_KEY_FALSE(everybuddy_key);
DEFINE_STATIC_CALL_NULL(everybuddy_allocate_now, everybuddy_allocate);
DEFINE_STATIC_CALL_NULL(everybuddy_free_now, everybuddy_free_part);
DEFINE_STATIC_CALL_NULL(everybuddy_allocate_for_now, everybuddy_allocate_for);
DEFINE_STATIC_KEY_FALSE(everybuddy_hints_key);
DEFINE_PER_CPU(bool, everybuddy_has_chores);

static struct everybuddy_zone replaced[MAX_NR_ZONES] __read_mostly;

/* Some spare blocks of each small order, for interrupts that interrupt an operation and find a lock held. */
#define SPARE_ORDERS (PAGE_ALLOC_COSTLY_ORDER + 1)
#define SPARES 4
struct spares {
	struct page *pages[SPARE_ORDERS][SPARES];
	unsigned int count[SPARE_ORDERS];
};

/* What a CPU does later, mostly after its next free. */
struct chores {
	local_t uncounted[MAX_NR_ZONES];
	atomic_long_t told[MAX_NR_ZONES];
	bool is_short; /* of spares */
	bool has_to_drain; /* since a drain interrupted an operation of this CPU */
	struct llist_head postponed; /* frees */
	struct spares spares;
	unsigned long postponements;
	unsigned long spares_used;
};
static DEFINE_PER_CPU(struct chores, chores);

static char system_spec[128] __ro_after_init = "off";

static int __init parse_system(char *text)
{
	if (text && strscpy(system_spec, text, sizeof(system_spec)) < 0)
		strscpy(system_spec, "a name that is too long", sizeof(system_spec));
	return 0;
}
early_param("everybuddy", parse_system);

/* A system that reads hints gets none, so that a comparison shows what they gain. */
static bool ignores_hints __ro_after_init;

static int __init parse_hints(char *text)
{
	ignores_hints = text && !strcmp(text, "off");
	if (!ignores_hints && (!text || strcmp(text, "on")))
		pr_err("everybuddy_hints=%s is not known, only on and off; hints are on\n", text ?: "");
	return 0;
}
early_param("everybuddy_hints", parse_hints);

static void *__init allocate_metadata(size_t bytes, char *why)
{
	void *memory = memblock_alloc(bytes, SMP_CACHE_BYTES);

	if (!memory)
		scnprintf(why, WHY_BYTES, "%zu bytes of metadata cannot be reserved", bytes);
	return memory;
}

/* Builds the system of a zone, of which all pages are allocated then. */
static bool __init build(struct zone *zone, char *why)
{
	static struct everybuddy_range ranges[EVERYBUDDY_MAX_RANGES] __initdata;
	struct everybuddy_zone *own = zone->everybuddy;
	unsigned long first, end, frames = 0;
	struct everybuddy_state state;
	size_t bytes, count = 0;
	void *memory;
	int at, order;

	for_each_mem_pfn_range(at, MAX_NUMNODES, &first, &end, NULL) {
		first = max(first, zone->zone_start_pfn);
		end = min(end, zone_end_pfn(zone));
		if (first >= end)
			continue;
		if (count == EVERYBUDDY_MAX_RANGES) {
			scnprintf(why, WHY_BYTES, "zone %s has more than %d ranges", zone->name, EVERYBUDDY_MAX_RANGES);
			return false;
		}
		ranges[count++] = (struct everybuddy_range){ first, end - first };
		frames += end - first;
	}
	bytes = everybuddy_bytes(system_spec, ranges, count, nr_cpu_ids, why, WHY_BYTES);
	memory = bytes ? allocate_metadata(bytes, why) : NULL;
	if (!memory)
		return false;
	own->frames = everybuddy_build(system_spec, ranges, count, nr_cpu_ids, memory, bytes, why, WHY_BYTES);
	if (!own->frames)
		return false;
	state = everybuddy_state(own->frames, 0);
	own->refused = NR_PAGE_ORDERS;
	own->has_services = state.services;
	own->owns = state.owns;
	/*
	 * Everything is allocated, in large blocks; memblock and others free parts of them. At first only the blocks that
	 * there are, so that no request is refused: a system may treat memory as short after that.
	 */
	for (order = state.max_order; order >= 0; order--) {
		u64 left = everybuddy_state(own->frames, 0).free_blocks[order];

		while (left-- && everybuddy_allocate(own->frames, 0, order, EVERYBUDDY_NO_WAIT) >= 0)
			;
		everybuddy_drain(own->frames, 0);
	}
	state = everybuddy_state(own->frames, 0);
	for (order = state.max_order; state.free && order >= 0; order--) {
		while (everybuddy_allocate(own->frames, 0, order, EVERYBUDDY_NO_WAIT) >= 0)
			;
		everybuddy_drain(own->frames, 0);
	}
	pr_info("zone %s: system=%s frames=%lu metadata=%llu\n", zone->name, system_spec, frames, state.metadata_bytes);
	return true;
}

void __init everybuddy_boot(void)
{
	static char why[WHY_BYTES] __initdata;
	struct everybuddy *first = NULL;
	struct zone *zone;

	if (!strcmp(system_spec, "off"))
		return;
	for_each_zone(zone) {
		zone->everybuddy = &replaced[zone_idx(zone)];
		zone->everybuddy->uncounted = &chores.uncounted[zone_idx(zone)];
		zone->everybuddy->told = &chores.told[zone_idx(zone)];
	}
	for_each_populated_zone(zone) {
		if (!build(zone, why)) {
			/* The memory of zones before stays reserved. */
			pr_err("%s; Linux's own allocator is used\n", why);
			return;
		}
		if (!first)
			first = zone->everybuddy->frames;
		if (zone->everybuddy->frames->allocate != first->allocate) {
			pr_err("zone %s needs other code than the zones before; Linux's own allocator is used\n", zone->name);
			return;
		}
	}
	static_call_update(everybuddy_allocate_now, first->allocate);
	static_call_update(everybuddy_allocate_for_now, first->allocate_for);
	static_call_update(everybuddy_free_now, first->free_part);
	if (everybuddy_state(first, 0).hints && !ignores_hints)
		static_branch_enable(&everybuddy_hints_key);
	static_branch_enable(&everybuddy_key);
}

/* Updates the sum of what CPUs keep by one of them, and returns how much that keeps. Any CPU may do that. */
static long tell(struct everybuddy_zone *own, unsigned int cpu)
{
	atomic_long_t *told = per_cpu_ptr(own->told, cpu);
	long kept = everybuddy_buffered(own->frames, cpu);

	if (atomic_long_read(told) != kept)
		atomic_long_add(kept - atomic_long_xchg(told, kept), &own->kept);
	return kept;
}

/* Adds what a CPU has not counted yet to the free pages of a zone. Returns how many pages it keeps. */
static long count_cpu(struct zone *zone, unsigned int cpu)
{
	local_t *uncounted = per_cpu_ptr(zone->everybuddy->uncounted, cpu);

	mod_zone_page_state(zone, NR_FREE_PAGES, local_xchg(uncounted, 0));
	return tell(zone->everybuddy, cpu);
}

/*
 * If the lists of all CPUs together hold at most so many pages, a drain is not worth it, even if the zone has few free
 * pages.
 */
static long few_pages(struct zone *zone)
{
	long few = min(FEW_PAGES * (long)num_online_cpus(), (long)zone_managed_pages(zone) / 8);

	return max((long)zone->_watermark[WMARK_MIN] / 4, few);
}

/*
 * Drains the list of this CPU if the zone has no more free pages outside it than a watermark: atomic requests of other CPUs
 * may need what this CPU keeps. A short list stays, unless the CPU owns something else.
 */
static void shorten_list(struct zone *zone, enum zone_watermarks mark, long kept)
{
	struct everybuddy_zone *own = zone->everybuddy;
	unsigned int cpu = smp_processor_id();

	if ((long)zone_page_state(zone, NR_FREE_PAGES) - kept > (long)wmark_pages(zone, mark) ||
	    (kept <= few_pages(zone) / num_online_cpus() && !own->owns))
		return;
	if ((kept > LIST_MAX && irqs_disabled()) || !everybuddy_drain(own->frames, cpu)) {
		this_cpu_ptr(&chores)->has_to_drain = true;
		__this_cpu_write(everybuddy_has_chores, true);
	}
	tell(own, cpu);
}

void everybuddy_count_now(struct zone *zone)
{
	bool is_freeing = local_read(this_cpu_ptr(zone->everybuddy->uncounted)) > 0;
	long kept = count_cpu(zone, smp_processor_id());

	if (!is_freeing)
		return;
	everybuddy_note_freed(zone);
	shorten_list(zone, WMARK_LOW, kept);
}

void everybuddy_leave_reserve(struct zone *zone)
{
	preempt_disable();
	shorten_list(zone, WMARK_MIN, tell(zone->everybuddy, smp_processor_id()));
	preempt_enable();
}

/* Reports a misuse, or postpones the free and returns false. */
bool everybuddy_not_freed(struct page *page, unsigned int order, int error)
{
	struct chores *own;

	if (error != -EVERYBUDDY_BUSY) {
		char text[80];

		everybuddy_explain(error, text, sizeof(text));
		WARN(1, "everybuddy: free of page %#lx, order %u, refused: %s\n", page_to_pfn(page), order, text);
		return true;
	}
	own = this_cpu_ptr(&chores);
	set_page_private(page, order);
	llist_add((struct llist_node *)&page->lru, &own->postponed);
	own->postponements++;
	__this_cpu_write(everybuddy_has_chores, true);
	return false;
}

static void free_postponed(struct chores *own)
{
	struct llist_node *at, *next;

	llist_for_each_safe(at, next, llist_del_all(&own->postponed)) {
		struct page *page = container_of((struct list_head *)at, struct page, lru);
		unsigned int order = page_private(page);

		set_page_private(page, 0);
		everybuddy_free_here(page_zone(page), page, order);
	}
}

static struct page *pop_spare(unsigned int order)
{
	struct page *page = NULL;
	unsigned long flags;
	struct chores *own;

	/* Interrupts can be disabled here, and NMIs cannot. */
	if (order >= SPARE_ORDERS || in_nmi())
		return NULL;
	local_irq_save(flags);
	own = this_cpu_ptr(&chores);
	if (own->spares.count[order]) {
		page = own->spares.pages[order][--own->spares.count[order]];
		own->spares_used++;
	}
	/* Also if there was none: memory may have been exhausted when they were filled last. */
	own->is_short = true;
	__this_cpu_write(everybuddy_has_chores, true);
	local_irq_restore(flags);
	return page;
}

struct zone *everybuddy_largest_zone(void)
{
	struct zone *zone, *largest = NULL;

	for_each_populated_zone(zone)
		if (!largest || zone_managed_pages(zone) > zone_managed_pages(largest))
			largest = zone;
	return largest;
}

/* Spares are of the largest zone, so that most requests may have them. */
static void fill_spares(struct chores *own)
{
	struct zone *zone = everybuddy_largest_zone();
	unsigned int order;

	own->is_short = false;
	for (order = 0; order < SPARE_ORDERS; order++) {
		while (READ_ONCE(own->spares.count[order]) < SPARES) {
			s64 frame = everybuddy_allocate(zone->everybuddy->frames, smp_processor_id(), order, EVERYBUDDY_NO_WAIT);
			unsigned long flags;
			struct page *page;

			if (frame < 0)
				return;
			everybuddy_count(zone, zone->everybuddy, order, false);
			everybuddy_unmark(zone->everybuddy, frame, order);
			page = pfn_to_page(frame);
			local_irq_save(flags);
			if (own->spares.count[order] < SPARES) {
				own->spares.pages[order][own->spares.count[order]++] = page;
				page = NULL;
			}
			local_irq_restore(flags);
			if (page)
				everybuddy_free_here(zone, page, order);
		}
	}
}

/* After a free, or before a search. Preemption is disabled. */
void everybuddy_do_chores(void)
{
	struct chores *own = this_cpu_ptr(&chores);

	/* An interrupt may have arrived during an operation, and would postpone again what it frees. */
	if (!in_task())
		return;
	__this_cpu_write(everybuddy_has_chores, false);
	free_postponed(own);
	/* A drain may take long, so not under a lock for which interrupts are disabled. */
	if (own->has_to_drain && irqs_disabled())
		__this_cpu_write(everybuddy_has_chores, true);
	else if (own->has_to_drain)
		everybuddy_drain_cpu(smp_processor_id());
	else if (own->is_short)
		fill_spares(own);
	/* Not at once: spares are not worth what a drain has just returned. */
	if (own->is_short)
		__this_cpu_write(everybuddy_has_chores, true);
}

void everybuddy_count_cpu(unsigned int cpu)
{
	struct zone *zone;

	for_each_populated_zone(zone)
		count_cpu(zone, cpu);
}

/* Frees the spare blocks of a CPU that is offline. */
static void free_spares(struct spares *spares)
{
	unsigned int order;

	for (order = 0; order < SPARE_ORDERS; order++) {
		while (spares->count[order]) {
			struct page *page = spares->pages[order][--spares->count[order]];

			everybuddy_free_here(page_zone(page), page, order);
		}
	}
}

void everybuddy_drain_cpu(unsigned int cpu)
{
	struct chores *chores_of_cpu = per_cpu_ptr(&chores, cpu);
	struct zone *zone;

	preempt_disable();
	chores_of_cpu->has_to_drain = false;
	free_postponed(chores_of_cpu);
	if (!cpu_online(cpu)) {
		free_spares(&chores_of_cpu->spares);
		/* They are filled again when it has returned. */
		chores_of_cpu->is_short = true;
		per_cpu(everybuddy_has_chores, cpu) = true;
	}
	everybuddy_count_cpu(cpu);
	for_each_populated_zone(zone) {
		struct everybuddy_zone *own = zone->everybuddy;

		if (!everybuddy_drain(own->frames, cpu)) {
			/* It interrupts an operation of this CPU. */
			chores_of_cpu->has_to_drain = true;
			__this_cpu_write(everybuddy_has_chores, true);
			continue;
		}
		if (own->has_services)
			everybuddy_serve(own->frames, cpu, 1024);
		everybuddy_park(own->frames, cpu);
		tell(own, cpu);
	}
	preempt_enable();
}

static void drain_here(void *unused)
{
	everybuddy_drain_cpu(smp_processor_id());
}

void everybuddy_drain_all(void)
{
	static DEFINE_MUTEX(draining);
	static unsigned long begun;
	unsigned long before = READ_ONCE(begun);

	/* Of all that wait for a drain to end, only the first begins another: it serves them all. */
	mutex_lock(&draining);
	if (before == begun) {
		WRITE_ONCE(begun, begun + 1);
		on_each_cpu(drain_here, NULL, 1);
	}
	mutex_unlock(&draining);
}

/* Searches what CPUs keep for a block. */
struct page *everybuddy_alloc_slowly(struct zone *zone, unsigned int order, gfp_t gfp, u8 flags, s64 frame)
{
	bool may_wait = (gfp & __GFP_DIRECT_RECLAIM) && in_task() && !irqs_disabled();
	struct everybuddy_zone *own = zone->everybuddy;
	bool repeats = false;
	struct page *spare;
	int attempt;

	/* A CPU that never frees would not reach its chores otherwise. They may free what this request needs. */
	if (this_cpu_read(everybuddy_has_chores)) {
		preempt_disable();
		everybuddy_do_chores();
		preempt_enable();
		repeats = in_task() && order <= PAGE_ALLOC_COSTLY_ORDER;
	}
	/* Large blocks are worth a search only after reclaim, which drains all CPUs itself. */
	if (order > PAGE_ALLOC_COSTLY_ORDER)
		may_wait = false;
	for (attempt = 0; attempt < (own->has_services ? 16 : 2); attempt++) {
		if (frame == -EVERYBUDDY_BUSY && may_wait)
			everybuddy_drain_all();
		else if (!repeats && !own->has_services)
			break;
		repeats = false;
		if (own->has_services) {
			everybuddy_serve(own->frames, get_cpu(), 64);
			put_cpu();
		}
		/* Not to wait for a CPU that is not in the kernel. */
		frame = everybuddy_allocate(own->frames, get_cpu(), order, flags);
		if (frame >= 0)
			everybuddy_count(zone, own, order, false);
		put_cpu();
		if (frame >= 0) {
			everybuddy_unmark(own, frame, order);
			return pfn_to_page(frame);
		}
	}
	if (frame == -EVERYBUDDY_BUSY && zone == everybuddy_largest_zone()) {
		spare = may_wait ? NULL : pop_spare(order);
		if (spare)
			return spare;
	}
	if (order && order < READ_ONCE(own->refused))
		WRITE_ONCE(own->refused, order);
	return NULL;
}

long everybuddy_unusable(struct zone *zone, bool may_use_reserves)
{
	struct everybuddy_zone *own = zone->everybuddy;
	unsigned int cpu, here = raw_smp_processor_id();
	long pages = 0;

	if (!own->frames)
		return 0;
	for_each_online_cpu(cpu) {
		/* Others may have taken what a CPU kept. */
		long kept = tell(own, cpu);

		if (!may_use_reserves || cpu != here)
			pages += kept;
		/* Pages that CPUs have allocated, but still count as free. */
		pages -= local_read(per_cpu_ptr(own->uncounted, cpu));
	}
	return max(pages, 0l);
}

bool everybuddy_drain_scarce(const struct alloc_context *ac)
{
	struct zoneref *at;
	struct zone *zone;

	for_each_zone_zonelist_nodemask(zone, at, ac->zonelist, ac->highest_zoneidx, ac->nodemask) {
		/* Not for fewer: the drain interrupts all CPUs, and reclaim calls this often. */
		if (everybuddy_is_above(zone, 3 * high_wmark_pages(zone)) ||
		    everybuddy_unusable(zone, false) <= few_pages(zone))
			continue;
		everybuddy_drain_all();
		return true;
	}
	return false;
}

static struct everybuddy_state state_of(const struct zone *zone)
{
	struct everybuddy_state state = everybuddy_state(zone->everybuddy->frames, get_cpu());

	put_cpu();
	return state;
}

/* Looks whether a block is free, after a request of that order failed. Counts all blocks, so only once in each tick. */
bool everybuddy_search_block(struct zone *zone, unsigned int order)
{
	unsigned long now = jiffies;
	struct everybuddy_state state;
	int at;

	if (READ_ONCE(zone->everybuddy->searched) == now)
		return false;
	WRITE_ONCE(zone->everybuddy->searched, now);
	state = state_of(zone);
	/* Inside an operation nothing is known. */
	if (!state.metadata_bytes)
		return true;
	for (at = state.max_order; at >= (int)order; at--) {
		if (state.free_blocks[at]) {
			WRITE_ONCE(zone->everybuddy->refused, at + 1);
			return true;
		}
	}
	return false;
}

void everybuddy_count_free(struct zone *zone)
{
	struct everybuddy_state state;
	int order;

	if (!everybuddy_enabled() || !zone->everybuddy->frames)
		return;
	state = state_of(zone);
	for (order = 0; order < NR_PAGE_ORDERS; order++)
		WRITE_ONCE(zone->free_area[order].nr_free, state.free_blocks[order]);
	/* The lists of CPUs are single pages here. Larger blocks than Linux has count as several. */
	zone->free_area[0].nr_free += state.buffered;
	for (; order < EVERYBUDDY_ORDERS; order++)
		zone->free_area[MAX_PAGE_ORDER].nr_free += state.free_blocks[order] << (order - MAX_PAGE_ORDER);
}

/* Does the deferred work of systems that have services. */
static int serve(void *unused)
{
	while (!kthread_should_stop()) {
		struct zone *zone;
		bool more = false;

		for_each_populated_zone(zone) {
			if (!zone->everybuddy->has_services)
				continue;
			more |= everybuddy_serve(zone->everybuddy->frames, get_cpu(), 64);
			put_cpu();
		}
		if (more)
			cond_resched();
		else
			schedule_timeout_interruptible(1);
	}
	return 0;
}

#ifdef CONFIG_DEBUG_FS
struct dentry *everybuddy_folder;

void everybuddy_print(struct seq_file *file, const struct zone *zone, const struct everybuddy_state *state)
{
	seq_printf(file, "zone %s free=%llu buffered=%llu metadata=%llu refills=%llu drains=%llu contended=%llu reclaims=%llu nested=%llu misuses=%llu\n",
		   zone->name, state->free, state->buffered, state->metadata_bytes, state->refills, state->drains,
		   state->contended, state->reclaims, state->nested, state->misuses);
}

void everybuddy_print_chores(struct seq_file *file)
{
	unsigned long postponements = 0, spares_used = 0;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		postponements += per_cpu(chores.postponements, cpu);
		spares_used += per_cpu(chores.spares_used, cpu);
	}
	seq_printf(file, "postponed=%lu spares=%lu\n", postponements, spares_used);
}

static int statistics_show(struct seq_file *file, void *unused)
{
	struct zone *zone;

	if (!everybuddy_enabled()) {
		seq_puts(file, "off\n");
		return 0;
	}
	seq_printf(file, "system %s\n", system_spec);
	seq_printf(file, "hints %s\n", static_branch_unlikely(&everybuddy_hints_key) ? "on" : "off");
	for_each_populated_zone(zone) {
		struct everybuddy_state state = state_of(zone);

		everybuddy_print(file, zone, &state);
	}
	everybuddy_print_chores(file);
	everybuddy_print_reporting(file);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(statistics);

static void __init create_folder(void)
{
	everybuddy_folder = debugfs_create_dir("everybuddy", NULL);
	debugfs_create_file("statistics", 0444, everybuddy_folder, NULL, &statistics_fops);
}
#else
static void __init create_folder(void) { }
#endif

static int __init everybuddy_start(void)
{
	struct zone *zone = everybuddy_enabled() ? everybuddy_largest_zone() : NULL;
	unsigned int cpu;

	create_folder();
	if (!zone)
		return 0;
	/* Also of CPUs that are online later. */
	for_each_possible_cpu(cpu) {
		per_cpu(chores.is_short, cpu) = true;
		per_cpu(everybuddy_has_chores, cpu) = true;
	}
	if (zone->everybuddy->has_services && IS_ERR(kthread_run(serve, NULL, "everybuddy")))
		pr_warn("the services have no thread: they run when memory is short\n");
	return 0;
}
late_initcall(everybuddy_start);
