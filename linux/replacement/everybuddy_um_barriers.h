/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Barriers between CPUs of a user-mode kernel on x86-64. It has none of its own, so the generic ones fence whenever a lock is
 * released, which no other kernel on x86-64 does: a store is enough there.
 */
#ifndef EVERYBUDDY_UM_BARRIERS_H
#define EVERYBUDDY_UM_BARRIERS_H

#define __smp_mb() asm volatile("lock; orl $0, -8(%%rsp)" : : : "memory", "cc")
#define __smp_rmb() barrier()
#define __smp_wmb() barrier()
#define __smp_mb__before_atomic() barrier()
#define __smp_mb__after_atomic() barrier()
#define __smp_load_acquire(from) \
	({ \
		__unqual_scalar_typeof(*(from)) loaded = READ_ONCE(*(from)); \
		barrier(); \
		(typeof(*(from)))loaded; \
	})
#define __smp_store_release(to, value) \
	do { \
		barrier(); \
		WRITE_ONCE(*(to), value); \
	} while (0)

#endif
