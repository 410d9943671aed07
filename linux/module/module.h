/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the module share. */
#ifndef EVERYBUDDY_MODULE_H
#define EVERYBUDDY_MODULE_H

#define pr_fmt(text) "everybuddy: " text

#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/smp.h>
#include <linux/vmalloc.h>

#include "everybuddy_kernel.h"

/* The system, and the memory that it manages: `count` frames from `start` on. */
struct managed {
	struct everybuddy *frames;
	const char *name;
	u64 start;
	u64 count;
};
extern struct managed managed;

/* Allocates a block in a context that may sleep. Returns its first frame, or an error of everybuddy_kernel.h. */
s64 eb_allocate(unsigned int order);

/* Frees a block. A refused free is reported with the caller's stack, and its error returned. */
int eb_free(u64 frame, unsigned int order);

/* Returns to the zone layer what CPUs keep, and finishes deferred work. Returns an error if a CPU is in use. */
int eb_quiesce(void);

/* The text of an error of everybuddy_kernel.h. */
struct why {
	char text[80];
};
struct why eb_why(int error);

/* Runs `work` on the first `threads` CPUs at the same time, and waits. Returns the first error. */
int eb_on_cpus(unsigned int threads, int (*work)(void *), void *data);

/* Reports a check that failed. */
#define eb_failed(text, ...) (pr_err("FAILED: " text "\n", ##__VA_ARGS__), -EIO)

int eb_test(unsigned int operations, bool leak);
/* Returns an error if not all memory is free, or if the metadata is wrong. Nothing else may be running. */
int eb_is_all_free(void);

int eb_misuse(void);
int eb_bench(unsigned int rounds, unsigned int threads);
int eb_device_register(void);
void eb_device_unregister(void);

#endif
