/* SPDX-License-Identifier: GPL-2.0-only */
/* The replacement of the page allocator's free lists, as the rest of mm/ sees it. */
#ifndef MM_EVERYBUDDY_H
#define MM_EVERYBUDDY_H

#include <linux/gfp.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/mmzone.h>

#ifdef CONFIG_EVERYBUDDY

DECLARE_STATIC_KEY_FALSE(everybuddy_key);

/* Whether a system was named on the command line. It does not change after everybuddy_boot(). */
static __always_inline bool everybuddy_enabled(void)
{
	return static_branch_unlikely(&everybuddy_key);
}

/* Builds a system for each zone in memory from memblock. All pages are allocated until memblock frees them. */
void everybuddy_boot(void);

/* Allocates 2^order pages of a zone, or returns NULL. Drains all CPUs first if the caller may wait. */
struct page *everybuddy_alloc_pages(struct zone *zone, unsigned int order, gfp_t gfp);

/* Frees 2^order pages that are a block, a part of one or several. A wrong free is reported, and changes nothing. */
void everybuddy_free_pages(struct zone *zone, struct page *page, unsigned int order);

/* Returns the list of a CPU to the zones: of this one, or of one that is offline. */
void everybuddy_drain_cpu(unsigned int cpu);

/* Returns the lists of all CPUs to the zones. */
void everybuddy_drain_all(void);

/* With at most this many free pages of a zone, it matters how many are in lists of CPUs. */
extern unsigned long everybuddy_scarce[MAX_NR_ZONES];

/* The pages of a zone that are in lists of CPUs, or counted as free and allocated. */
long everybuddy_unusable(struct zone *zone);

static __always_inline bool everybuddy_is_scarce(struct zone *zone)
{
	return zone_page_state(zone, NR_FREE_PAGES) <= everybuddy_scarce[zone_idx(zone)];
}

/* The free pages that only some CPUs can allocate; 0 while many others are free. Every request asks. */
static __always_inline long everybuddy_buffered_pages(struct zone *zone)
{
	return unlikely(everybuddy_is_scarce(zone)) ? everybuddy_unusable(zone) : 0;
}

/* Whether a block of 2^order pages is free. */
bool everybuddy_has_block(struct zone *zone, unsigned int order);

/* Writes the numbers of free blocks into zone->free_area, if there is a system. */
void everybuddy_count_free(struct zone *zone);

#else

static inline bool everybuddy_enabled(void) { return false; }
static inline void everybuddy_boot(void) { }
static inline struct page *everybuddy_alloc_pages(struct zone *zone, unsigned int order, gfp_t gfp) { return NULL; }
static inline void everybuddy_free_pages(struct zone *zone, struct page *page, unsigned int order) { }
static inline void everybuddy_drain_cpu(unsigned int cpu) { }
static inline void everybuddy_drain_all(void) { }
static inline long everybuddy_buffered_pages(struct zone *zone) { return 0; }
static inline bool everybuddy_has_block(struct zone *zone, unsigned int order) { return false; }
static inline void everybuddy_count_free(struct zone *zone) { }

#endif
#endif
