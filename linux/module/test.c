// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random operations on all CPUs, and in interrupts of them, checked against a bitmap.
 *
 * The bitmap has a bit per frame: whether somebody has it. Each frame of a new block must be clear there, and each frame
 * of a block that is freed must be set. After the operations all memory is allocated frame by frame until none is left,
 * freed again, largely by other CPUs, and counted.
 */
#include "module.h"

#define HELD 256

static unsigned long *shadow;
static u32 *all_frames;
static atomic64_t taken, exhausted, done_operations, in_interrupts, postponed;
static atomic_t seeds;
static unsigned int operations, largest;
static bool is_over;

static int claim(s64 frame, unsigned int order)
{
	u64 at, first = frame - managed.start;

	if (frame < managed.start || first + (1ull << order) > managed.count)
		return eb_failed("a block of order %u at %#llx lies outside the memory", order, frame);
	if (frame & ((1ull << order) - 1))
		return eb_failed("a block of order %u at %#llx is not aligned", order, frame);
	for (at = first; at < first + (1ull << order); at++)
		if (test_and_set_bit(at, shadow))
			return eb_failed("frame %#llx was allocated twice", managed.start + at);
	return 0;
}

static int unclaim(s64 frame, unsigned int order)
{
	u64 at, first = frame - managed.start;

	for (at = first; at < first + (1ull << order); at++)
		if (!test_and_clear_bit(at, shadow))
			return eb_failed("frame %#llx is not allocated any more", managed.start + at);
	return 0;
}

/* Frees a block that the bitmap has. */
static int release(s64 frame, unsigned int order)
{
	int error = unclaim(frame, order);

	return error ?: eb_free(frame, order) ? -EIO : 0;
}

static u32 next_random(u32 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* Allocates and frees blocks of random orders, small ones more often. */
static int work(void *unused)
{
	struct block {
		s64 frame;
		unsigned int order;
	} *held = kcalloc(HELD, sizeof(*held), GFP_KERNEL);
	u32 random = 0x9e3779b9u * atomic_inc_return(&seeds);
	unsigned int blocks = 0, at, round;
	int error = held ? 0 : -ENOMEM;

	for (round = 0; round < operations && !error; round++) {
		u32 choice = next_random(&random);

		if (!(round & 63))
			cond_resched();
		/* Longer phases of growth and of decline. */
		if (blocks < HELD && (!blocks || (choice & 7) < (round & 4096 ? 5 : 3))) {
			unsigned int order = __ffs((choice >> 8) | 1 << largest);
			s64 frame = eb_allocate(order);

			if (frame >= 0) {
				error = claim(frame, order);
				held[blocks++] = (struct block){ frame, order };
			} else if (frame == -EVERYBUDDY_EXHAUSTED || frame == -EVERYBUDDY_BUSY) {
				atomic64_inc(&exhausted);
			} else {
				error = eb_failed("a request of order %u was refused: %s", order, eb_why(frame).text);
			}
		} else if (blocks) {
			at = choice % blocks;
			error = release(held[at].frame, held[at].order);
			held[at] = held[--blocks];
		}
		atomic64_inc(&done_operations);
	}
	while (blocks && !error) {
		blocks--;
		error = release(held[blocks].frame, held[blocks].order);
	}
	kfree(held);
	return error;
}

/* A block that an interrupt could not free, because a lock was held. */
static DEFINE_PER_CPU(s64, waiting) = -1;

/* Allocates and frees a frame in an interrupt. */
static void interrupt(void *failed)
{
	u16 cpu = smp_processor_id();
	s64 *mine = this_cpu_ptr(&waiting);
	int error;

	if (*mine < 0) {
		s64 frame = everybuddy_allocate(managed.frames, cpu, 0, 1);

		if (frame < 0)
			return;
		atomic64_inc(&in_interrupts);
		if (claim(frame, 0) || unclaim(frame, 0))
			*(bool *)failed = true;
		*mine = frame;
	}
	error = everybuddy_free(managed.frames, cpu, *mine, 0);
	if (error == -EVERYBUDDY_BUSY) {
		atomic64_inc(&postponed);
		return;
	}
	*mine = -1;
	if (error)
		*(bool *)failed = true;
}

static int interrupter(void *failed)
{
	while (!READ_ONCE(is_over)) {
		on_each_cpu(interrupt, failed, 1);
		cond_resched();
	}
	return 0;
}

/* Allocates frames until none is left. */
static int take_all(void *unused)
{
	int error = 0;

	while (!error) {
		s64 frame = eb_allocate(0);

		if (frame == -EVERYBUDDY_EXHAUSTED)
			return 0;
		if (frame < 0)
			return eb_failed("a frame was refused while memory was left: %s", eb_why(frame).text);
		error = claim(frame, 0);
		if (!error)
			all_frames[atomic64_inc_return(&taken) - 1] = frame - managed.start;
		cond_resched();
	}
	return error;
}

/* Frees all frames; CPUs take turns. */
static int free_all(void *unused)
{
	int error = 0;

	while (!error) {
		s64 at = atomic64_dec_return(&taken);

		if (at < 0)
			return 0;
		error = release(managed.start + all_frames[at], 0);
		cond_resched();
	}
	return error;
}

int eb_is_all_free(void)
{
	struct everybuddy_state state;
	char why[128];
	bool is_right;
	int error = eb_quiesce();

	if (error)
		return eb_failed("the lists of CPUs cannot be brought back: %s", eb_why(error).text);
	state = everybuddy_state(managed.frames, get_cpu());
	is_right = everybuddy_check(managed.frames, smp_processor_id(), why, sizeof(why));
	put_cpu();
	if (!is_right)
		return eb_failed("system=%s: %s", managed.name, why);
	if (state.free != managed.count)
		return eb_failed("system=%s leaks %lld frames", managed.name, managed.count - state.free);
	return 0;
}

static int run(bool leak)
{
	unsigned int threads = num_online_cpus(), cpu;
	bool failed = false;
	struct task_struct *task;
	int error;

	task = kthread_run(interrupter, &failed, "everybuddy/i");
	if (IS_ERR(task))
		return PTR_ERR(task);
	get_task_struct(task);
	error = eb_on_cpus(threads, work, NULL);
	WRITE_ONCE(is_over, true);
	kthread_stop(task);
	put_task_struct(task);
	for_each_possible_cpu(cpu) {
		s64 frame = per_cpu(waiting, cpu);

		if (frame >= 0 && eb_free(frame, 0))
			failed = true;
		per_cpu(waiting, cpu) = -1;
	}
	if (failed)
		error = eb_failed("an interrupt got a frame that was in use, or could not free it");
	if (!error && leak)
		eb_allocate(0);
	error = error ?: eb_is_all_free();
	error = error ?: eb_on_cpus(threads, take_all, NULL);
	if (!error && atomic64_read(&taken) != managed.count)
		error = eb_failed("only %lld of %llu frames could be allocated", atomic64_read(&taken), managed.count);
	error = error ?: eb_on_cpus(threads, free_all, NULL);
	return error ?: eb_is_all_free();
}

int eb_test(unsigned int number, bool leak)
{
	int error = -ENOMEM;

	operations = number;
	largest = min(everybuddy_state(managed.frames, get_cpu()).max_order, 10u);
	put_cpu();
	shadow = bitmap_zalloc(managed.count, GFP_KERNEL);
	all_frames = vmalloc_array(managed.count, sizeof(*all_frames));
	if (shadow && all_frames)
		error = run(leak);
	vfree(all_frames);
	bitmap_free(shadow);
	if (!error)
		pr_info("passed system=%s cpus=%u operations=%lld refused=%lld interrupts=%lld postponed=%lld\n", managed.name,
			num_online_cpus(), atomic64_read(&done_operations), atomic64_read(&exhausted),
			atomic64_read(&in_interrupts), atomic64_read(&postponed));
	return error;
}

/*
 * Misuse is refused, reported with the stack of the caller, and changes nothing. Nothing else allocates meanwhile, since
 * the second of two frees would be right if the block had been allocated in between: the device is not registered yet.
 */
int eb_misuse(void)
{
	s64 frame = eb_allocate(3);
	int twice, foreign;

	if (frame < 0 || eb_free(frame, 3))
		return eb_failed("a block of order 3 cannot be allocated and freed");
	twice = eb_free(frame, 3);
	foreign = eb_free(managed.start + managed.count + 8, 3);
	if (twice != -EVERYBUDDY_NOT_ALLOCATED)
		return eb_failed("a double free was answered by %d", twice);
	if (foreign != -EVERYBUDDY_FOREIGN && foreign != -EVERYBUDDY_HOLE)
		return eb_failed("a free of a frame of another owner was answered by %d", foreign);
	pr_info("refused system=%s double=%d foreign=%d\n", managed.name, -twice, -foreign);
	return 0;
}
