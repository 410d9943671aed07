/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whether a tick of the time stamp counter is an instruction, as under QEMU's -icount shift=0: a loop of a known number of
 * instructions is timed.
 */
#ifndef EVERYBUDDY_CLOCK_H
#define EVERYBUDDY_CLOCK_H

#include <linux/minmax.h>
#include <linux/types.h>

#ifdef CONFIG_UML
/* User-mode Linux has no header for it. */
static inline u64 rdtsc_ordered(void)
{
	u32 low, high;

	asm volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return low | (u64)high << 32;
}
#else
#include <asm/msr.h>
#endif

/* The loop makes this many rounds, of two instructions each. */
#define EVERYBUDDY_CLOCK_LOOPS 100000
#define EVERYBUDDY_CLOCK_INSTRUCTIONS (2 * EVERYBUDDY_CLOCK_LOOPS)

/* Returns the ticks of the loop: the least of some tries, which no timer interrupt reaches. */
static inline u64 everybuddy_clock_ticks(void)
{
	u64 ticks = ~0ull;
	unsigned int at;

	for (at = 0; at < 5; at++) {
		unsigned long loops = EVERYBUDDY_CLOCK_LOOPS;
		u64 start = rdtsc_ordered();

		asm volatile("1: dec %0; jnz 1b" : "+r"(loops) : : "cc");
		ticks = min(ticks, rdtsc_ordered() - start);
	}
	return ticks;
}

#endif
