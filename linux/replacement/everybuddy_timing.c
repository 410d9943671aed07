// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts the ticks of single calls of the page allocator, whichever it is. /sys/kernel/debug/everybuddy/latencies:
 *
 *   write 1   starts to count the ticks of all calls of tasks
 *   write 0   stops
 *   read      each number of ticks, and how many allocations and frees took so many
 *
 * It has a configuration option of its own, since even hooks that do nothing make Linux's functions some instructions
 * longer.
 */
#include "everybuddy.h"
#include "everybuddy_clock.h"
#include "everybuddy_test.h"

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/seq_file.h>

/* More ticks count as so many. */
#define TICKS_MAX 65535ull

/* Of one CPU, or hints. */
static u32 latencies[EVERYBUDDY_CALLS][TICKS_MAX + 1];
static DEFINE_PER_CPU(u64, begin);
DEFINE_STATIC_KEY_FALSE(everybuddy_timing_key);

void everybuddy_note_begin(void)
{
	if (in_task())
		this_cpu_write(begin, rdtsc_ordered());
}

void everybuddy_note_end(enum everybuddy_call call)
{
	u64 ticks = rdtsc_ordered();

	if (!in_task() || !this_cpu_read(begin))
		return;
	ticks = min(ticks - this_cpu_read(begin), TICKS_MAX);
	this_cpu_write(begin, 0);
	latencies[call][ticks]++;
}

static int latencies_show(struct seq_file *file, void *unused)
{
	unsigned int ticks;

	seq_printf(file, "clock ticks=%llu instructions=%u\n", everybuddy_clock_ticks(), EVERYBUDDY_CLOCK_INSTRUCTIONS);
	for (ticks = 0; ticks <= TICKS_MAX; ticks++)
		if (latencies[EVERYBUDDY_ALLOCATION][ticks] || latencies[EVERYBUDDY_FREE][ticks])
			seq_printf(file, "latency %u %u %u\n", ticks, latencies[EVERYBUDDY_ALLOCATION][ticks],
				   latencies[EVERYBUDDY_FREE][ticks]);
	return 0;
}

static int latencies_open(struct inode *inode, struct file *file)
{
	return single_open(file, latencies_show, NULL);
}

static ssize_t latencies_write(struct file *file, const char __user *text, size_t length, loff_t *position)
{
	u64 value;
	int error = kstrtou64_from_user(text, length, 0, &value);

	if (error)
		return error;
	static_branch_disable(&everybuddy_timing_key);
	if (value) {
		memset(latencies, 0, sizeof(latencies));
		static_branch_enable(&everybuddy_timing_key);
	}
	return length;
}

static const struct file_operations latencies_fops = {
	.open = latencies_open,
	.read = seq_read,
	.write = latencies_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int __init everybuddy_timing(void)
{
	debugfs_create_file("latencies", 0600, everybuddy_folder, NULL, &latencies_fops);
	return 0;
}
late_initcall(everybuddy_timing);
