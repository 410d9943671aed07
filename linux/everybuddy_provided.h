/* SPDX-License-Identifier: GPL-2.0-only */
/* The functions that the object of the allocators needs of a kernel. One file of each program includes this. */
#ifndef EVERYBUDDY_PROVIDED_H
#define EVERYBUDDY_PROVIDED_H

#include <linux/bug.h>
#include <linux/irqflags.h>
#include <linux/printk.h>

void everybuddy_panic(const char *message)
{
	pr_emerg("%s\n", message);
	BUG();
}

size_t everybuddy_interrupts_off(void)
{
	unsigned long flags;

	local_irq_save(flags);
	return flags;
}

void everybuddy_interrupts_restore(size_t before)
{
	local_irq_restore(before);
}

#endif
