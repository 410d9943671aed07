/* SPDX-License-Identifier: GPL-2.0-only */
/* What the tests need to know of the replacement. */
#ifndef MM_EVERYBUDDY_TEST_H
#define MM_EVERYBUDDY_TEST_H

struct everybuddy;
struct zone;

/* Adds what a CPU has not counted to the zones' counters. The CPU is the calling one, or one that does nothing. */
void everybuddy_count_cpu(unsigned int cpu);

/* The system of a zone, or NULL. */
struct everybuddy *everybuddy_of(const struct zone *zone);

/* Sums over all CPUs: frees that an interrupt had to postpone, and spare blocks that interrupts got. */
void everybuddy_count_chores(unsigned long *postponements, unsigned long *spares_used);

#endif
