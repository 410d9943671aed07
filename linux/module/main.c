// SPDX-License-Identifier: GPL-2.0-only
/*
 * A frame allocator of Everybuddy in an unmodified kernel.
 *
 * The module takes contiguous memory from Linux, builds the system that the parameter `system` names, and tests and
 * measures it as the other parameters tell. Then it serves /dev/everybuddy until it is unloaded. A check that fails is a
 * line with "FAILED", and loading fails.
 */
#include "module.h"

#include "everybuddy_provided.h"

static char *system = "everybuddy";
module_param(system, charp, 0444);
MODULE_PARM_DESC(system, "NAME or NAME+option=value+..., as SYSTEMS.md lists them");
static unsigned int mib = 64;
module_param(mib, uint, 0444);
MODULE_PARM_DESC(mib, "the managed memory in MiB, a multiple of 4");
static unsigned int test;
module_param(test, uint, 0444);
MODULE_PARM_DESC(test, "random operations per CPU, checked against a bitmap");
static unsigned int bench;
module_param(bench, uint, 0444);
MODULE_PARM_DESC(bench, "rounds of the benchmark");
static unsigned int threads = 1;
module_param(threads, uint, 0444);
MODULE_PARM_DESC(threads, "threads of the benchmark, each on a CPU of its own");
static bool misuse;
module_param(misuse, bool, 0444);
MODULE_PARM_DESC(misuse, "free blocks wrongly, which must be reported and survived");
static bool leak;
module_param(leak, bool, 0444);
MODULE_PARM_DESC(leak, "lose a frame in the test, which must fail then");
static bool stop;
module_param(stop, bool, 0444);
MODULE_PARM_DESC(stop, "panic in Rust, which must stop the kernel with the message");

struct managed managed;
static void *metadata;
static struct task_struct *services;

/* Bits of the flags of everybuddy_allocate(). */
#define NO_WAIT 1

static void drain_here(void *unused)
{
	/* If this interrupts an operation, that operation notices that another CPU waits. */
	u16 cpu = smp_processor_id();

	if (everybuddy_drain(managed.frames, cpu))
		everybuddy_park(managed.frames, cpu);
}

s64 eb_allocate(unsigned int order)
{
	u16 cpu = get_cpu();
	s64 frame = everybuddy_allocate(managed.frames, cpu, order, NO_WAIT);
	int attempt;

	put_cpu();
	/* What lists of other CPUs keep is brought back as drain_all_pages() of Linux does it. */
	for (attempt = 0; unlikely(frame == -EVERYBUDDY_BUSY) && attempt < 100; attempt++) {
		on_each_cpu(drain_here, NULL, 1);
		cpu = get_cpu();
		frame = everybuddy_allocate(managed.frames, cpu, order, 0);
		put_cpu();
	}
	return frame;
}

int eb_free(u64 frame, unsigned int order)
{
	u16 cpu = get_cpu();
	int error = everybuddy_free(managed.frames, cpu, frame, order);

	put_cpu();
	if (unlikely(error) && error != -EVERYBUDDY_BUSY)
		WARN(1, "everybuddy: free of frame %#llx, order %u, refused: %s\n", frame, order, eb_why(error).text);
	return error;
}

struct why eb_why(int error)
{
	struct why why;

	everybuddy_explain(error, why.text, sizeof(why.text));
	return why;
}

int eb_quiesce(void)
{
	int error;

	on_each_cpu(drain_here, NULL, 1);
	error = everybuddy_quiesce(managed.frames, get_cpu());
	put_cpu();
	return error;
}

/* The work of eb_on_cpus() on one CPU. */
struct job {
	int (*work)(void *data);
	void *data;
	atomic_t *ready;
	int result;
	struct completion done;
};

static int run_job(void *data)
{
	struct job *job = data;

	atomic_dec(job->ready);
	while (atomic_read(job->ready) > 0)
		cond_resched();
	job->result = job->work(job->data);
	/* Not in code of the module, which may be unloaded as soon as this is noticed. */
	kthread_complete_and_exit(&job->done, 0);
}

int eb_on_cpus(unsigned int threads, int (*work)(void *), void *data)
{
	struct job *jobs = kcalloc(threads, sizeof(*jobs), GFP_KERNEL);
	atomic_t ready = ATOMIC_INIT(threads);
	unsigned int at;
	int error = 0;

	if (!jobs)
		return -ENOMEM;
	for (at = 0; at < threads; at++) {
		struct job *job = &jobs[at];
		struct task_struct *task;

		*job = (struct job){ .work = work, .data = data, .ready = &ready };
		init_completion(&job->done);
		task = kthread_create_on_cpu(run_job, job, at, "everybuddy/%u");
		if (IS_ERR(task)) {
			atomic_dec(&ready);
			job->result = PTR_ERR(task);
			complete(&job->done);
			continue;
		}
		wake_up_process(task);
	}
	for (at = 0; at < threads; at++) {
		wait_for_completion(&jobs[at].done);
		error = error ?: jobs[at].result;
	}
	kfree(jobs);
	return error;
}

/* Does the deferred work of systems that have services. */
static int serve(void *unused)
{
	while (!kthread_should_stop()) {
		bool more = everybuddy_serve(managed.frames, get_cpu(), 64);

		put_cpu();
		if (more)
			cond_resched();
		else
			schedule_timeout_interruptible(1);
	}
	return 0;
}

static bool is_usable(u64 start, u64 count)
{
	u64 pfn;

	for (pfn = start; pfn < start + count; pfn++)
		if (!pfn_valid(pfn) || PageReserved(pfn_to_page(pfn)) ||
		    page_zone(pfn_to_page(pfn)) != page_zone(pfn_to_page(start)))
			return false;
	return true;
}

/* Takes contiguous memory from Linux, from the end of node 0 downwards. */
static int take_memory(u64 count)
{
	const u64 step = 1024;
	u64 end = ALIGN_DOWN(node_end_pfn(0), step);

	for (; end >= node_start_pfn(0) + count; end -= step) {
		u64 start = end - count;

		if (is_usable(start, count) && !alloc_contig_range(start, end, MIGRATE_MOVABLE, GFP_KERNEL | __GFP_NOWARN)) {
			managed.start = start;
			managed.count = count;
			return 0;
		}
	}
	pr_err("Linux has no %llu MiB of contiguous memory to give\n", count >> 8);
	return -ENOMEM;
}

static int build(void)
{
	struct everybuddy_range range = { managed.start, managed.count };
	struct everybuddy_state state;
	char *why = kzalloc(512, GFP_KERNEL);
	size_t bytes;
	int error = -EINVAL;

	if (!why)
		return -ENOMEM;
	bytes = everybuddy_bytes(system, &range, 1, nr_cpu_ids, why, 512);
	if (!bytes)
		goto refused;
	error = -ENOMEM;
	metadata = vmalloc(bytes);
	if (!metadata)
		goto out;
	error = -EINVAL;
	managed.frames = everybuddy_build(system, &range, 1, nr_cpu_ids, metadata, bytes, why, 512);
	if (!managed.frames)
		goto refused;
	error = 0;
	managed.name = system;
	state = everybuddy_state(managed.frames, get_cpu());
	put_cpu();
	pr_info("built system=%s frames=%llu first=%#llx metadata=%llu largest=%u\n", system, managed.count, managed.start,
		state.metadata_bytes, state.max_order);
	if (state.services) {
		services = kthread_run(serve, NULL, "everybuddy/s");
		if (IS_ERR(services)) {
			error = PTR_ERR(services);
			services = NULL;
		}
	}
	goto out;
refused:
	pr_err("system=%s: %s\n", system, why);
out:
	kfree(why);
	return error;
}

static void destroy(void)
{
	if (services)
		kthread_stop(services);
	vfree(metadata);
	if (managed.count)
		free_contig_range(managed.start, managed.count);
}

static int __init everybuddy_init(void)
{
	int error;

	if (!mib || mib % 4) {
		pr_err("mib=%u: the memory must be a multiple of 4 MiB\n", mib);
		return -EINVAL;
	}
	error = take_memory((u64)mib << 8);
	if (!error)
		error = build();
	if (!error && stop)
		everybuddy_stop();
	if (!error && misuse)
		error = eb_misuse();
	if (!error && test)
		error = eb_test(test, leak);
	if (!error && bench)
		error = eb_bench(bench, clamp(threads, 1u, num_online_cpus()));
	if (!error)
		error = eb_device_register();
	if (error)
		destroy();
	return error;
}
module_init(everybuddy_init);

static void __exit everybuddy_exit(void)
{
	struct everybuddy_state state;

	eb_device_unregister();
	/* What it reports is all that is left to do. */
	(void)eb_is_all_free();
	state = everybuddy_state(managed.frames, get_cpu());
	put_cpu();
	pr_info("unloaded system=%s free=%llu refills=%llu drains=%llu contended=%llu reclaims=%llu nested=%llu misuses=%llu\n",
		system, state.free, state.refills, state.drains, state.contended, state.reclaims, state.nested, state.misuses);
	destroy();
}
module_exit(everybuddy_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Frame allocators of Everybuddy, tested and measured inside Linux");
