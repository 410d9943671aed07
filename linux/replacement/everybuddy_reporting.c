// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reports free pages to the hypervisor, in place of Linux's search of its free lists.
 *
 * Which blocks were reported is known next to the systems, not in struct page. A search begins at the start of a zone, goes
 * on with each call, and is repeated until nothing was freed meanwhile.
 */
#include "everybuddy.h"
#include "page_reporting.h"

#include <linux/mm.h>
#include <linux/page_reporting.h>
#include <linux/scatterlist.h>
#include <linux/seq_file.h>

static atomic_long_t reported_pages, returned_blocks;

void everybuddy_unmark_reported(struct everybuddy_zone *own, s64 frame, unsigned int order)
{
	struct everybuddy_reporting *reporting = READ_ONCE(own->reporting);
	u32 blocks = reporting ? everybuddy_reporting_allocated(reporting, frame, order) : 0;

	if (blocks)
		atomic_long_add(blocks, &returned_blocks);
}

void everybuddy_note_freed_now(struct zone *zone)
{
	if (!READ_ONCE(zone->everybuddy->has_freed))
		WRITE_ONCE(zone->everybuddy->has_freed, true);
	page_reporting_notify_free(MAX_PAGE_ORDER);
}

/* Takes unreported blocks, and fills the list from its end. Returns how many places are left, or all if none was found. */
static unsigned int take_unreported(struct zone *zone, struct scatterlist *list, unsigned int capacity,
				    unsigned int least, u32 *budget, int *error)
{
	struct everybuddy_zone *own = zone->everybuddy;
	unsigned int left = capacity;
	unsigned long pages = 0;

	/* The caller's watermark allows for so many pages. */
	while (left && pages < (unsigned long)capacity << least) {
		u8 order;
		s64 frame = everybuddy_reporting_take(own->reporting, get_cpu(), budget, &order);

		if (frame >= 0)
			everybuddy_count(zone, own, order, false);
		put_cpu();
		if (frame < 0) {
			*error = frame;
			break;
		}
		sg_set_page(&list[--left], pfn_to_page(frame), PAGE_SIZE << order, 0);
		pages += 1ul << order;
	}
	return left;
}

static void put_reported(struct zone *zone, struct scatterlist *at, bool is_reported)
{
	struct everybuddy_zone *own = zone->everybuddy;

	for (; at; at = sg_next(at)) {
		unsigned int order = get_order(at->length), cpu = get_cpu();

		WARN_ON(everybuddy_reporting_put(own->reporting, cpu, page_to_pfn(sg_page(at)), order, is_reported));
		everybuddy_count(zone, own, order, true);
		put_cpu();
		if (is_reported)
			atomic_long_add(1l << order, &reported_pages);
	}
}

static bool begin_reporting(struct everybuddy_zone *own, unsigned int order)
{
	size_t bytes;
	void *memory;

	if (!own->frames || !static_key_enabled(&page_reporting_enabled))
		return false;
	if (own->reporting)
		return true;
	bytes = everybuddy_reporting_bytes(own->frames, order);
	memory = bytes ? kvmalloc(bytes, GFP_KERNEL) : NULL;
	if (!memory)
		return false;
	/* No block is marked before the first one is put back, and who gets such a block sees this. */
	smp_store_release(&own->reporting, everybuddy_reporting_build(own->frames, order, memory, bytes));
	return own->reporting;
}

int everybuddy_report(struct page_reporting_dev_info *device, struct zone *zone, struct scatterlist *list,
		      unsigned int capacity, unsigned int order, bool *more)
{
	struct everybuddy_zone *own = zone->everybuddy;
	/* A sixteenth of the zone, or what one call reports. */
	u32 budget = max(zone->spanned_pages >> order >> 4, (unsigned long)capacity);
	int error = 0, end = 0;

	if (!begin_reporting(own, order))
		return 0;
	/* One page in a list, such as the page table of a process that ended, keeps a block from being found. */
	if (!own->is_searched) {
		WRITE_ONCE(own->has_freed, false);
		everybuddy_drain_all();
	}
	while (!end && !error) {
		unsigned int left = take_unreported(zone, list, capacity, order, &budget, &end);

		if (left == capacity)
			break;
		error = device->report(device, list + left, capacity - left);
		put_reported(zone, list + left, !error);
		sg_init_table(list, capacity);
	}
	own->is_searched = end != -EVERYBUDDY_EXHAUSTED;
	/* Until nothing was freed during a whole search, which may have passed it. What was reported is freed, too. */
	if (own->is_searched || READ_ONCE(own->has_freed))
		*more = true;
	return error;
}

void everybuddy_print_reporting(struct seq_file *file)
{
	seq_printf(file, "reported pages=%ld returned blocks=%ld\n", atomic_long_read(&reported_pages),
		   atomic_long_read(&returned_blocks));
}
