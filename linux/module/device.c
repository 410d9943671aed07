// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/everybuddy: mappings of it consist of frames of the system.
 *
 * A fault allocates a frame, clears it and maps it. Unmapping frees the frames of the mapping. A mapping is shared, is
 * not inherited by fork(), and can be neither split nor moved, so each frame belongs to one mapping.
 */
#include "module.h"

#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/miscdevice.h>

/* The frames of one mapping, by page; 0 is none, since Linux never gives away frame 0. */
struct mapping {
	struct mutex lock;
	unsigned long pages;
	u64 frames[];
};

static vm_fault_t fault(struct vm_fault *fault)
{
	struct mapping *mapping = fault->vma->vm_private_data;
	unsigned long page = (fault->address - fault->vma->vm_start) >> PAGE_SHIFT;
	vm_fault_t result = VM_FAULT_OOM;
	s64 frame;

	if (page >= mapping->pages)
		return VM_FAULT_SIGBUS;
	mutex_lock(&mapping->lock);
	frame = mapping->frames[page];
	if (!frame) {
		frame = eb_allocate(0);
		if (frame < 0)
			goto out;
		clear_highpage(pfn_to_page(frame));
		mapping->frames[page] = frame;
	}
	result = vmf_insert_pfn(fault->vma, fault->address, frame);
out:
	mutex_unlock(&mapping->lock);
	return result;
}

static void close(struct vm_area_struct *vma)
{
	struct mapping *mapping = vma->vm_private_data;
	unsigned long page;

	for (page = 0; page < mapping->pages; page++)
		if (mapping->frames[page])
			eb_free(mapping->frames[page], 0);
	kvfree(mapping);
}

static int refuse_split(struct vm_area_struct *vma, unsigned long address)
{
	return -EINVAL;
}

static int refuse_move(struct vm_area_struct *vma)
{
	return -EINVAL;
}

static const struct vm_operations_struct operations = {
	.fault = fault,
	.close = close,
	.may_split = refuse_split,
	.mremap = refuse_move,
};

static int map(struct file *file, struct vm_area_struct *vma)
{
	unsigned long pages = vma_pages(vma);
	struct mapping *mapping;

	/* A private mapping would copy pages, which are none to Linux here. */
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (pages > managed.count)
		return -ENOMEM;
	mapping = kvzalloc(struct_size(mapping, frames, pages), GFP_KERNEL);
	if (!mapping)
		return -ENOMEM;
	mutex_init(&mapping->lock);
	mapping->pages = pages;
	vma->vm_private_data = mapping;
	vma->vm_ops = &operations;
	vm_flags_set(vma, VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY);
	return 0;
}

static const struct file_operations files = {
	.owner = THIS_MODULE,
	.mmap = map,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "everybuddy",
	.fops = &files,
	.mode = 0600,
};

int eb_device_register(void)
{
	return misc_register(&device);
}

void eb_device_unregister(void)
{
	misc_deregister(&device);
}
