// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads on the page allocator of the machine that check what they get:
 *
 *   storm exec N      N processes that execute this program, on two CPUs
 *   storm files MIB   files of odd sizes in /tmp, written, read back, and half of them replaced
 *   storm age MIB     small files in /tmp, most of which are deleted and replaced at random; they stay
 *   storm map ROUNDS  two processes that map, check and unmap anonymous memory, half of it with huge pages
 *   storm hog         a process that takes memory until the kernel kills it, while others work
 *   storm hold MIB    a process that writes so much memory, checks it as long as /tmp/held exists, and ends
 *   storm fault       ticks per fault of anonymous memory
 *   storm count COMMAND...
 *                     executes a command on each CPU, between two markers at which linux/instructions.c counts
 *
 * Each ends with a line that starts with "storm:".
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include "loads.h"

#define WORKERS 2

static int fail(const char *what, unsigned long where)
{
	printf("storm: FAILED: %s, %lu\n", what, where);
	return 1;
}

/* Runs `work` in processes, waits for them, and returns how many failed. */
static int in_processes(int (*work)(int worker, unsigned long size), unsigned long size)
{
	int worker, status, failed = 0;

	fflush(stdout);
	for (worker = 0; worker < WORKERS; worker++) {
		pid_t child = fork();

		if (child < 0)
			return fail("fork", worker);
		if (child == 0) {
			failed = work(worker, size);
			fflush(stdout);
			_exit(failed);
		}
	}
	for (worker = 0; worker < WORKERS; worker++)
		failed += wait(&status) < 0 || status != 0;
	return failed;
}

static int execute(int worker, unsigned long times)
{
	unsigned long time;

	for (time = 0; time < times / WORKERS; time++) {
		int status;
		pid_t child = fork();

		if (child < 0)
			return fail("fork", time);
		if (child == 0) {
			execl("/proc/self/exe", "storm", "nothing", NULL);
			_exit(1);
		}
		if (waitpid(child, &status, 0) != child || status)
			return fail("a process ended otherwise", time);
	}
	return 0;
}

/* The words of a file; `sum` is what they must add up to. */
static int write_file(const char *name, uint64_t seed, unsigned long words)
{
	int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	uint64_t buffer[PAGE / 8 + 3];

	if (file < 0)
		return fail(name, 0);
	while (words) {
		unsigned long count = words < PAGE / 8 + 3 ? words : PAGE / 8 + 3, at;

		for (at = 0; at < count; at++)
			buffer[at] = next_random(&seed);
		if (write(file, buffer, count * 8) != (ssize_t)(count * 8))
			return fail("write", words);
		words -= count;
	}
	return close(file);
}

static int read_file(const char *name, uint64_t seed, unsigned long words)
{
	int file = open(name, O_RDONLY);
	uint64_t buffer[PAGE / 8];

	if (file < 0)
		return fail(name, 1);
	while (words) {
		unsigned long count = words < PAGE / 8 ? words : PAGE / 8, at;

		if (read(file, buffer, count * 8) != (ssize_t)(count * 8))
			return fail("read", words);
		for (at = 0; at < count; at++)
			if (buffer[at] != next_random(&seed))
				return fail("a file changed", words - at);
		words -= count;
	}
	return close(file);
}

#define FILES 16

static int use_files(int worker, unsigned long mib)
{
	unsigned long words = (mib << 17) / WORKERS / FILES - 77, round, at;
	char name[40];

	for (round = 0; round < 3; round++) {
		for (at = 0; at < FILES; at++) {
			uint64_t seed = 1 + at + FILES * (worker + 1);

			snprintf(name, sizeof(name), "/tmp/%d-%lu", worker, at);
			/* Of the first round, every other file is replaced. */
			if ((round == 0 || at % 2) && (unlink(name), write_file(name, seed + 1000 * round, words)))
				return 1;
			if (read_file(name, seed + (at % 2 ? 1000 * round : 0), words))
				return 1;
		}
	}
	for (at = 0; at < FILES; at++) {
		snprintf(name, sizeof(name), "/tmp/%d-%lu", worker, at);
		unlink(name);
	}
	return 0;
}

/* Files of 1 to 32 pages: as many as fit, then deletions until at most two fifths of the pages stay, then replacements. */
static int age(int worker, unsigned long mib)
{
	unsigned long pages = (mib << 8) / WORKERS, files = pages / 16, used = 0, at, step;
	unsigned char *size = calloc(files, 1);
	uint64_t random = 0x2545f4914f6cdd1du * (worker + 1);
	char name[40];

	if (!size)
		return fail("calloc", files);
	for (step = 0; step < 8 * files; step++) {
		/* The first steps fill memory, the next ones empty it, the others keep it so. */
		unsigned long wanted = step < 2 * files ? pages : pages * 2 / 5;

		at = next_random(&random) % files;
		snprintf(name, sizeof(name), "/tmp/age-%d-%lu", worker, at);
		if (size[at]) {
			if (used <= wanted && step < 2 * files)
				continue;
			if (read_file(name, 1 + at, size[at] * (PAGE / 8)) || unlink(name))
				return 1;
			used -= size[at];
			size[at] = 0;
			continue;
		}
		size[at] = 1 + next_random(&random) % 32;
		if (used + size[at] > wanted)
			size[at] = 0;
		else if (write_file(name, 1 + at, size[at] * (PAGE / 8)))
			return 1;
		used += size[at];
	}
	return 0;
}

#define MAPPINGS 12

static int map(int worker, unsigned long rounds)
{
	struct mapping {
		char *memory;
		unsigned long pages;
		uint64_t mark;
	} mappings[MAPPINGS] = {};
	uint64_t random = 0x9e3779b97f4a7c15u * (worker + 1);
	unsigned long round, page;

	for (round = 0; round < rounds; round++) {
		struct mapping *at = &mappings[next_random(&random) % MAPPINGS];

		if (at->memory) {
			for (page = 0; page < at->pages; page++) {
				uint64_t *words = (uint64_t *)(at->memory + page * PAGE);

				if (words[0] != at->mark + page || words[PAGE / 8 - 1] != at->mark - page)
					return fail("a page lost what was written", page);
			}
			munmap(at->memory, at->pages * PAGE);
			at->memory = NULL;
			continue;
		}
		at->pages = 1 + next_random(&random) % 3000;
		at->mark = next_random(&random);
		at->memory = mmap(NULL, at->pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at->memory == MAP_FAILED)
			return fail("mmap", at->pages);
		madvise(at->memory, at->pages * PAGE, round % 2 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
		for (page = 0; page < at->pages; page++) {
			uint64_t *words = (uint64_t *)(at->memory + page * PAGE);

			if (words[0] || words[PAGE / 8 - 1])
				return fail("a new page is not zero", page);
			words[0] = at->mark + page;
			words[PAGE / 8 - 1] = at->mark - page;
		}
	}
	return 0;
}

static int take_all(void)
{
	for (;;) {
		char *memory = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		unsigned long at;

		if (memory == MAP_FAILED)
			return 1;
		for (at = 0; at < 8 << 20; at += PAGE)
			memory[at] = 1;
	}
}

static int hog(void)
{
	int status, failed;
	pid_t child = fork();

	if (child < 0)
		return fail("fork", 0);
	if (child == 0)
		_exit(take_all());
	failed = in_processes(execute, 40);
	if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		return fail("the hog was not killed", status);
	return failed;
}

static int hold(unsigned long mib)
{
	unsigned long words = mib << 17, at;
	uint64_t *memory = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return fail("mmap", mib);
	for (at = 0; at < words; at += PAGE / 8) {
		if (memory[at] || memory[at + PAGE / 8 - 1])
			return fail("a new page is not zero", at);
		memory[at] = memory[at + PAGE / 8 - 1] = at + 1;
	}
	if (close(open("/tmp/held", O_WRONLY | O_CREAT, 0600)))
		return fail("/tmp/held", 0);
	do {
		sleep(1);
		for (at = 0; at < words; at += PAGE / 8)
			if (memory[at] != at + 1 || memory[at + PAGE / 8 - 1] != at + 1)
				return fail("a page lost what was written", at);
	} while (!access("/tmp/held", F_OK));
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

#define FAULTS 4000

static int fault(void)
{
	static uint64_t ticks[FAULTS];
	char *memory = mmap(NULL, FAULTS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long page;

	if (memory == MAP_FAILED)
		return fail("mmap", FAULTS);
	madvise(memory, FAULTS * PAGE, MADV_NOHUGEPAGE);
	memset(ticks, 1, sizeof(ticks));
	for (page = 0; page < FAULTS; page++) {
		uint64_t start = __rdtsc();

		memory[page * PAGE] = 1;
		ticks[page] = __rdtsc() - start;
	}
	qsort(ticks, FAULTS, sizeof(*ticks), compare);
	munmap(memory, FAULTS * PAGE);
	printf("fault ticks=%lu\n", ticks[FAULTS / 2]);
	return 0;
}

/* Does nothing on a processor. */
static void mark(void)
{
	asm volatile("nopl 0x65627564(%%rax)" ::: "memory");
}

static int count_instructions(char **command)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), cpu;
	int status, failed = 0;

	fflush(stdout);
	mark();
	for (cpu = 0; cpu < cpus; cpu++) {
		char name[20];
		pid_t child = fork();

		if (child < 0)
			return fail("fork", cpu);
		if (child == 0) {
			snprintf(name, sizeof(name), "%ld", cpu);
			setenv("CPU", name, 1);
			execvp(command[0], command);
			_exit(1);
		}
	}
	for (cpu = 0; cpu < cpus; cpu++)
		failed += wait(&status) < 0 || status != 0;
	mark();
	return failed;
}

int main(int count, char **arguments)
{
	const char *load = count > 1 ? arguments[1] : "";
	unsigned long size = count > 2 ? strtoul(arguments[2], NULL, 10) : 0;
	int failed;

	if (!strcmp(load, "nothing"))
		return 0;
	if (!strcmp(load, "exec"))
		failed = in_processes(execute, size);
	else if (!strcmp(load, "files"))
		failed = in_processes(use_files, size);
	else if (!strcmp(load, "age"))
		failed = in_processes(age, size);
	else if (!strcmp(load, "map"))
		failed = in_processes(map, size);
	else if (!strcmp(load, "hog"))
		failed = hog();
	else if (!strcmp(load, "hold"))
		failed = hold(size);
	else if (!strcmp(load, "fault"))
		failed = fault();
	else if (!strcmp(load, "count") && count > 2)
		failed = count_instructions(arguments + 2);
	else
		return fail("no such load", 0);
	printf("storm: %s %s\n", load, failed ? "FAILED" : "passed");
	return failed;
}
