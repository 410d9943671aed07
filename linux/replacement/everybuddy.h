/* SPDX-License-Identifier: GPL-2.0-only */
/* The replacement of the page allocator's free lists, as the rest of mm/ sees it. */
#ifndef MM_EVERYBUDDY_H
#define MM_EVERYBUDDY_H

#include <linux/everybuddy_kernel.h>
#include <linux/gfp.h>
#include <linux/jump_label.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/static_call.h>
#include <linux/vmstat.h>
#include <asm/local.h>

struct alloc_context;
struct page_reporting_dev_info;
struct scatterlist;
struct seq_file;

/* What a call that is timed does. */
enum everybuddy_call { EVERYBUDDY_ALLOCATION, EVERYBUDDY_FREE, EVERYBUDDY_CALLS };

#ifdef CONFIG_EVERYBUDDY_TIMING

DECLARE_STATIC_KEY_FALSE(everybuddy_timing_key);

void everybuddy_note_begin(void);
void everybuddy_note_end(enum everybuddy_call call);

/* Between these two, a test counts ticks if it was told to, whichever allocator there is. */
static __always_inline void everybuddy_begin_call(void)
{
	if (static_branch_unlikely(&everybuddy_timing_key))
		everybuddy_note_begin();
}

static __always_inline void everybuddy_end_call(enum everybuddy_call call)
{
	if (static_branch_unlikely(&everybuddy_timing_key))
		everybuddy_note_end(call);
}

#else

static inline void everybuddy_begin_call(void) { }
static inline void everybuddy_end_call(enum everybuddy_call call) { }

#endif

#ifdef CONFIG_EVERYBUDDY

/* What stands in the place of a zone's free lists. Without NUMA, a zone has one. */
struct everybuddy_zone {
	struct everybuddy *frames;
	/* The change of the number of free pages that a CPU has not added to the zone's counter. */
	local_t __percpu *uncounted;
	/* The part of `kept` that is of this CPU. */
	atomic_long_t __percpu *told;
	/* From this order on, which is at least 1, a request has failed since a block was last seen. */
	unsigned int refused;
	bool has_services;
	bool owns; /* free pages by CPU, besides lists */
	/* When blocks were counted last, in jiffies. */
	unsigned long searched;
	/* Which free blocks the hypervisor was told of. NULL until something asks for that. */
	struct everybuddy_reporting *reporting;
	bool is_searched; /* for unreported blocks: a search has begun, and has not reached the end of the zone */
	bool has_freed; /* pages since that search began at the start of the zone */
	/* The free pages in lists of CPUs: of each CPU as many as when it last changed the zone's counter, or was asked. */
	atomic_long_t kept ____cacheline_aligned_in_smp;
};

DECLARE_STATIC_KEY_FALSE(everybuddy_key);

/* Whether a system was named on the command line. It does not change after everybuddy_boot(). */
static __always_inline bool everybuddy_enabled(void)
{
	return static_branch_unlikely(&everybuddy_key);
}

/* Builds a system for each zone in memory from memblock. All pages are allocated until memblock frees them. */
void everybuddy_boot(void);

/* Returns the list of a CPU to the zones: of this one, or of one that is offline. */
void everybuddy_drain_cpu(unsigned int cpu);

/* Returns the lists of all CPUs to the zones. */
void everybuddy_drain_all(void);

/* The operations of the chosen system, as direct calls on architectures that have them. */
DECLARE_STATIC_CALL(everybuddy_allocate_now, everybuddy_allocate);
DECLARE_STATIC_CALL(everybuddy_allocate_for_now, everybuddy_allocate_for);
DECLARE_STATIC_CALL(everybuddy_free_now, everybuddy_free_part);

/* Whether the system reads hints. */
DECLARE_STATIC_KEY_FALSE(everybuddy_hints_key);

/* Bits of the flags of everybuddy_allocate(). The classes have the numbers of Linux's first migrate types. */
#define EVERYBUDDY_NO_WAIT 1
#define EVERYBUDDY_CLASS_SHIFT 1

/* The largest change, in free pages, that a CPU may keep to itself before it changes the zone's counter. */
#define EVERYBUDDY_UNCOUNTED 32

/* Whether this CPU has something to do after its next free. */
DECLARE_PER_CPU(bool, everybuddy_has_chores);

/* What the functions below leave to code that is not inline. */
struct page *everybuddy_alloc_slowly(struct zone *zone, unsigned int order, gfp_t gfp, u8 flags, s64 frame);
bool everybuddy_not_freed(struct page *page, unsigned int order, int error);
void everybuddy_do_chores(void);
void everybuddy_count_now(struct zone *zone);

#ifdef CONFIG_PAGE_REPORTING

DECLARE_STATIC_KEY_FALSE(page_reporting_enabled);

void everybuddy_unmark_reported(struct everybuddy_zone *own, s64 frame, unsigned int order);
void everybuddy_note_freed_now(struct zone *zone);

/* After each allocation, before the pages are used: what was reported to the hypervisor is so no longer. */
static __always_inline void everybuddy_unmark(struct everybuddy_zone *own, s64 frame, unsigned int order)
{
	if (static_branch_unlikely(&page_reporting_enabled))
		everybuddy_unmark_reported(own, frame, order);
}

/* After pages were freed, now and then: they may have become large blocks. Linux looks at each block that it merges. */
static __always_inline void everybuddy_note_freed(struct zone *zone)
{
	if (static_branch_unlikely(&page_reporting_enabled))
		everybuddy_note_freed_now(zone);
}

/* Prints what was reported. */
void everybuddy_print_reporting(struct seq_file *file);

/*
 * Reports free blocks of a zone to the hypervisor, of at least an order, and as many as Linux does in one pass. Returns an
 * error of the device. Sets `more` if the search has to go on.
 */
int everybuddy_report(struct page_reporting_dev_info *device, struct zone *zone, struct scatterlist *list,
		      unsigned int capacity, unsigned int order, bool *more);

#else

static inline void everybuddy_unmark(struct everybuddy_zone *own, s64 frame, unsigned int order) { }
static inline void everybuddy_note_freed(struct zone *zone) { }
static inline void everybuddy_print_reporting(struct seq_file *file) { }

#endif

/*
 * The pages of a zone that are in lists of CPUs, or that are allocated but still counted as free. Excludes the list of
 * this CPU if may_use_reserves, since that list can serve requests for single pages. Asks each CPU.
 */
long everybuddy_unusable(struct zone *zone, bool may_use_reserves);

/*
 * The same at the price of one read, without what has changed since each CPU last changed the zone's counter: usually no
 * more than a batch for each CPU.
 */
static __always_inline long everybuddy_kept(const struct zone *zone)
{
	return max(atomic_long_read(&zone->everybuddy->kept), 0l);
}

/* Whether a zone has more free pages than a number, without those that CPUs keep. */
static __always_inline bool everybuddy_is_above(const struct zone *zone, long pages)
{
	return atomic_long_read(&zone->vm_stat[NR_FREE_PAGES]) - everybuddy_kept(zone) > pages;
}

/* Drains the lists of all CPUs, and returns true, if they hold more than a few pages of a zone that the request may use. */
bool everybuddy_drain_scarce(const struct alloc_context *ac);

/* After a request: drains the list of this CPU if the zone has no more free pages outside it than the minimal watermark. */
void everybuddy_leave_reserve(struct zone *zone);

/*
 * Counts 2^order pages that this CPU has allocated or freed: few of them later, together with others. Preemption is
 * disabled. Interrupts may arrive, and call this, too.
 */
static __always_inline void everybuddy_count(struct zone *zone, struct everybuddy_zone *own, unsigned int order,
					     bool is_free)
{
	long change = is_free ? 1l << order : -1l << order;
	unsigned long uncounted;
	local_t *here;

	lockdep_assert_preemption_disabled();
	here = this_cpu_ptr(own->uncounted);
	uncounted = local_add_return(change, here);
	/* One comparison for both signs. */
	if (unlikely(uncounted + EVERYBUDDY_UNCOUNTED > 2 * EVERYBUDDY_UNCOUNTED))
		everybuddy_count_now(zone);
}

/* Allocates 2^order pages of a zone, or returns NULL. Drains all CPUs first if the caller may wait. */
static __always_inline struct page *everybuddy_alloc_pages(struct zone *zone, unsigned int order, gfp_t gfp,
							    int migratetype)
{
	u8 flags = EVERYBUDDY_NO_WAIT | migratetype << EVERYBUDDY_CLASS_SHIFT;
	struct everybuddy_zone *own = zone->everybuddy;
	unsigned int cpu = get_cpu();
	struct page *page;
	s64 frame;

	/* An interrupt may take the hint of the task that it interrupts: a wrong hint costs little. */
	if (static_branch_unlikely(&everybuddy_hints_key) && current->everybuddy_hint.left)
		frame = static_call(everybuddy_allocate_for_now)(own->frames, cpu, order, flags,
								 &current->everybuddy_hint);
	else
		frame = static_call(everybuddy_allocate_now)(own->frames, cpu, order, flags);
	if (unlikely(frame < 0)) {
		put_cpu();
		return everybuddy_alloc_slowly(zone, order, gfp, flags, frame);
	}
	everybuddy_count(zone, own, order, false);
	put_cpu();
	everybuddy_unmark(own, frame, order);
	page = pfn_to_page(frame);
	/* So that callers need not compare it. */
	if (!page)
		__builtin_unreachable();
	return page;
}

/* Between these two, most requests of this task are for a page of a mapping. */
static __always_inline void everybuddy_begin_fault(struct vm_area_struct *vma, unsigned long address)
{
	/* A stack grows downwards: what follows is not known. */
	if (static_branch_unlikely(&everybuddy_hints_key) && !(vma->vm_flags & VM_GROWSDOWN))
		current->everybuddy_hint = (struct everybuddy_hint){
			.task = current->pid,
			.region = vma->vm_start >> PAGE_SHIFT,
			.left = (vma->vm_end - address) >> PAGE_SHIFT,
		};
}

static __always_inline void everybuddy_end_fault(void)
{
	if (static_branch_unlikely(&everybuddy_hints_key))
		current->everybuddy_hint.left = 0;
}

/* Frees pages, or postpones that and returns false. Preemption is disabled. */
static __always_inline bool everybuddy_free_here(struct zone *zone, struct page *page, unsigned int order)
{
	struct everybuddy_zone *own = zone->everybuddy;
	int error = static_call(everybuddy_free_now)(own->frames, smp_processor_id(), page_to_pfn(page), order);

	if (unlikely(error))
		return everybuddy_not_freed(page, order, error);
	everybuddy_count(zone, own, order, true);
	return true;
}

/* Frees 2^order pages that are a block, a part of one or several. A wrong free is reported, and changes nothing. */
static __always_inline void everybuddy_free_pages(struct zone *zone, struct page *page, unsigned int order)
{
	preempt_disable();
	__count_vm_events(PGFREE, 1 << order);
	if (everybuddy_free_here(zone, page, order) && unlikely(__this_cpu_read(everybuddy_has_chores)))
		everybuddy_do_chores();
	preempt_enable();
}

bool everybuddy_search_block(struct zone *zone, unsigned int order);

/* Whether a block of 2^order pages is free. Single pages count as free. */
static __always_inline bool everybuddy_has_block(struct zone *zone, unsigned int order)
{
	return likely(order < READ_ONCE(zone->everybuddy->refused)) || everybuddy_search_block(zone, order);
}

/* Writes the numbers of free blocks into zone->free_area, if there is a system. */
void everybuddy_count_free(struct zone *zone);

#else

static inline bool everybuddy_enabled(void) { return false; }
static inline void everybuddy_boot(void) { }
static inline struct page *everybuddy_alloc_pages(struct zone *zone, unsigned int order, gfp_t gfp, int migratetype) { return NULL; }
static inline void everybuddy_free_pages(struct zone *zone, struct page *page, unsigned int order) { }
static inline void everybuddy_drain_cpu(unsigned int cpu) { }
static inline void everybuddy_drain_all(void) { }
static inline long everybuddy_unusable(struct zone *zone, bool may_use_reserves) { return 0; }
static inline long everybuddy_kept(const struct zone *zone) { return 0; }
static inline bool everybuddy_drain_scarce(const struct alloc_context *ac) { return false; }
static inline bool everybuddy_is_above(const struct zone *zone, long pages) { return false; }
static inline void everybuddy_leave_reserve(struct zone *zone) { }
static inline void everybuddy_begin_fault(struct vm_area_struct *vma, unsigned long address) { }
static inline void everybuddy_end_fault(void) { }
static inline bool everybuddy_has_block(struct zone *zone, unsigned int order) { return false; }
static inline void everybuddy_count_free(struct zone *zone) { }
static inline int everybuddy_report(struct page_reporting_dev_info *device, struct zone *zone, struct scatterlist *list,
				    unsigned int capacity, unsigned int order, bool *more) { return 0; }

#endif
#endif
