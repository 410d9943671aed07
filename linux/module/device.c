// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/everybuddy: mappings of it consist of frames of the system.
 *
 * A fault allocates a frame, clears it and maps it. If no frame is left, the process gets SIGBUS. A mapping is shared,
 * and can be neither split nor moved, so each frame belongs to one mapping. A child does not inherit it, unless the
 * process asks for that by MADV_DOFORK. The frames are freed when the last area that shows the mapping is closed.
 */
#include "module.h"

#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/miscdevice.h>
#include <linux/refcount.h>

/*
 * The frames of one mapping, by page; 0 is none, since Linux never gives away frame 0. Linux copies an area not only
 * for a child: it also copies it before it asks whether the area may move, and closes the copy if the move is refused.
 */
struct mapping {
	refcount_t areas;
	struct mutex lock;
	unsigned long pages;
	u64 frames[];
};

static vm_fault_t fault(struct vm_fault *fault)
{
	struct mapping *mapping = fault->vma->vm_private_data;
	unsigned long page = (fault->address - fault->vma->vm_start) >> PAGE_SHIFT;
	/* Not VM_FAULT_OOM, after which Linux tries again without end: its own memory is not exhausted. */
	vm_fault_t result = VM_FAULT_SIGBUS;
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

static void open(struct vm_area_struct *vma)
{
	struct mapping *mapping = vma->vm_private_data;

	refcount_inc(&mapping->areas);
}

static void close(struct vm_area_struct *vma)
{
	struct mapping *mapping = vma->vm_private_data;
	unsigned long page;

	if (!refcount_dec_and_test(&mapping->areas))
		return;
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
	.open = open,
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
	refcount_set(&mapping->areas, 1);
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
