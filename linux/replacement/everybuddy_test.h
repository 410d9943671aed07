/* SPDX-License-Identifier: GPL-2.0-only */
/* What the tests need to know of the replacement. */
#ifndef MM_EVERYBUDDY_TEST_H
#define MM_EVERYBUDDY_TEST_H

struct dentry;
struct everybuddy_state;
struct seq_file;
struct zone;

/* The folder in debugfs. */
extern struct dentry *everybuddy_folder;

/* Returns the populated zone with most pages. */
struct zone *everybuddy_largest_zone(void);

/* Adds what a CPU has not counted to the zones' counters. The CPU is the calling one, or one that does nothing. */
void everybuddy_count_cpu(unsigned int cpu);

/* Prints a line about the system of a zone. */
void everybuddy_print(struct seq_file *file, const struct zone *zone, const struct everybuddy_state *state);

/* Prints what CPUs postponed, and the spare blocks that interrupts got. */
void everybuddy_print_chores(struct seq_file *file);

#endif
