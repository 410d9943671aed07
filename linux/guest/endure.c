// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads whose requests of memory may fail: they go on after a failure, and check what they got.
 *
 *   endure tasks SECONDS     processes that execute programs, map memory, write and read files, and read a disk
 *   endure everyone SECONDS  the same, while requests of all tasks and of interrupts fail, too
 *   endure offline SECONDS   CPUs go offline and come back; the metadata are checked while one CPU works
 *   endure refused           reads the ticks of pairs, while all requests but the first few fail
 *
 * Linux makes requests fail (Documentation/fault-injection), as `knobs` say, of processes that ask for it.
 * Each load ends with a line that starts with "endure:".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "loads.h"

#define WORKERS 4
#define MOST_CPUS 64
/* More repetitions of a call that only a failing request can make fail are a fault. */
#define PATIENCE 1000

static const char *const knobs[] = {
	"/sys/kernel/debug/fail_page_alloc/task-filter",
	"/sys/kernel/debug/failslab/task-filter",
};

/* What the processes did, in memory that they share. */
static struct {
	unsigned long done, failed;
} *counts;

static int fail(const char *what, long where)
{
	printf("endure: FAILED: %s, %ld\n", what, where);
	fflush(stdout);
	return 1;
}

/* Writes a word into a file of the kernel, again and again if a request fails. */
static int set(int file, const char *word)
{
	int left;

	for (left = PATIENCE; left && write(file, word, strlen(word)) < 0; left--)
		usleep(1000);
	return left ? 0 : fail(word, errno);
}

/* Opens a file, again and again if a request fails. */
static int open_file(const char *name, int flags)
{
	int left, file = -1;

	for (left = PATIENCE; left && file < 0; left--)
		file = open(name, flags);
	return file;
}

/* Prints what the kernel writes into a file, again and again if a request fails. */
static int show(const char *name)
{
	static char text[4000];
	ssize_t bytes = -1;
	int left, file;

	for (left = PATIENCE; left && bytes <= 0; left--) {
		file = open(name, O_RDONLY);
		bytes = read(file, text, sizeof(text) - 1);
		close(file);
	}
	printf("%.*s", bytes > 0 ? (int)bytes : 0, text);
	return bytes > 0 ? 0 : fail(name, errno);
}

/* From now on, requests of this process and of those that it creates fail, or no longer. */
static int let_fail(bool may_fail)
{
	static int file = -1;
	/* A stack that could not grow would end the process. */
	volatile char stack[64 * PAGE];
	unsigned long at;

	for (at = 0; at < sizeof(stack); at += PAGE)
		stack[at] = 0;
	if (file < 0)
		file = open_file("/proc/self/make-it-fail", O_WRONLY);
	if (file < 0)
		return fail("make-it-fail", errno);
	return set(file, may_fail ? "1" : "0");
}

static bool execute(void)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		return false;
	if (child == 0) {
		execl("/proc/self/exe", "endure", "nothing", NULL);
		_exit(1);
	}
	/* The kernel ends a process that it has begun to replace, and cannot complete. */
	return waitpid(child, &status, 0) == child && !status;
}

static int map(uint64_t *random, bool *done)
{
	/* One of four has room for huge pages. */
	unsigned long pages = 1 + next_random(random) % (next_random(random) % 4 ? 100 : 1200), page;
	uint64_t mark = next_random(random);
	char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int left;

	if (memory == MAP_FAILED)
		return *done = false;
	madvise(memory, pages * PAGE, mark % 2 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	for (page = 0; page < pages; page++) {
		uint64_t *words = (uint64_t *)(memory + page * PAGE);

		if (words[0] || words[PAGE / 8 - 1])
			return fail("a new page is not zero", page);
		words[0] = mark + page;
		words[PAGE / 8 - 1] = mark - page;
	}
	for (page = 0; page < pages; page++) {
		uint64_t *words = (uint64_t *)(memory + page * PAGE);

		if (words[0] != mark + page || words[PAGE / 8 - 1] != mark - page)
			return fail("a page lost what was written", page);
	}
	for (left = PATIENCE; left && munmap(memory, pages * PAGE); left--)
		;
	return left ? 0 : fail("munmap", errno);
}

/* What a file contains is known as far as it was written. */
static int use_file(uint64_t *random, const char *name, bool *done)
{
	uint64_t buffer[PAGE / 8 + 3], seed = next_random(random), state = seed, at;
	unsigned long wanted = 1 + next_random(random) % 50, written = 0;
	int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600), failed = 0;

	*done = false;
	if (file < 0)
		return 0;
	for (; wanted; wanted--) {
		ssize_t bytes;

		for (at = 0; at < PAGE / 8 + 3; at++)
			buffer[at] = next_random(&state);
		bytes = write(file, buffer, sizeof(buffer));
		written += bytes > 0 ? bytes : 0;
		if (bytes != sizeof(buffer))
			break;
	}
	*done = !wanted;
	state = seed;
	lseek(file, 0, SEEK_SET);
	while (written >= sizeof(buffer) && !failed) {
		ssize_t bytes = read(file, buffer, sizeof(buffer));

		for (at = 0; bytes >= 0 && at < (size_t)bytes / 8; at++)
			if (buffer[at] != next_random(&state))
				failed = fail("a file changed", written);
		if (bytes != sizeof(buffer)) {
			*done = false;
			break;
		}
		written -= sizeof(buffer);
	}
	close(file);
	return failed;
}

/* The disk is larger than memory: the page cache takes what is free. */
static bool read_disk(uint64_t *random, int disk)
{
	static char buffer[16 * PAGE];
	int left;

	for (left = 4; left; left--)
		if (pread(disk, buffer, sizeof(buffer), next_random(random) % (1 << 20) * sizeof(buffer)) < 0)
			return false;
	return true;
}

static int work(int worker, time_t end)
{
	uint64_t random = 0x9e3779b97f4a7c15u * (worker + 1);
	int disk = open_file("/dev/nullb0", O_RDONLY), failed = 0;
	unsigned long turn;
	char name[30];

	snprintf(name, sizeof(name), "/tmp/endure-%d", worker);
	if (disk < 0 || let_fail(true))
		return fail("/dev/nullb0", errno);
	for (turn = worker; time(NULL) < end && !failed; turn++) {
		bool done = true;

		switch (turn % 4) {
		case 0:
			done = execute();
			break;
		case 1:
			failed = map(&random, &done);
			break;
		case 2:
			failed = use_file(&random, name, &done);
			break;
		case 3:
			done = read_disk(&random, disk);
		}
		*(done ? &counts[worker].done : &counts[worker].failed) += 1;
	}
	failed |= let_fail(false);
	unlink(name);
	return failed;
}

/* Runs a child, and returns its process. */
static pid_t start(int (*function)(int worker, time_t end), int worker, time_t end)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		int failed = function(worker, end);

		fflush(stdout);
		_exit(failed);
	}
	return child;
}

/* Asks for pages in interrupts until the time is over. */
static int interrupt(int worker, time_t end)
{
	int file = open_file("/sys/kernel/debug/everybuddy/interrupts", O_WRONLY), failed = file < 0;

	while (!failed && time(NULL) < end)
		failed = set(file, "100");
	return failed;
}

static int tasks(unsigned long seconds, bool everyone)
{
	time_t end = time(NULL) + seconds;
	unsigned long done = 0, undone = 0;
	int files[2], worker, status, failed = 0;
	unsigned int at;

	counts = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		return fail("mmap", errno);
	memset(counts, 0, PAGE);
	for (worker = 0; worker < WORKERS; worker++)
		if (start(work, worker, end) < 0)
			return fail("fork", errno);
	if (everyone) {
		if (start(interrupt, 0, end) < 0)
			return fail("fork", errno);
		/* The first writing needs memory that stays. */
		for (at = 0; at < 2; at++) {
			files[at] = open_file(knobs[at], O_WRONLY);
			failed |= files[at] < 0 || set(files[at], "Y");
		}
		for (at = 0; at < 2; at++)
			failed |= set(files[at], "N");
		while (time(NULL) < end)
			usleep(100000);
		for (at = 0; at < 2; at++)
			failed |= set(files[at], "Y");
	}
	for (worker = 0; worker < WORKERS + everyone; worker++)
		failed |= wait(&status) < 0 || status != 0;
	for (worker = 0; worker < WORKERS; worker++) {
		done += counts[worker].done;
		undone += counts[worker].failed;
	}
	printf("endure: %lu loads done, %lu not\n", done, undone);
	return failed || !done;
}

static int offline(unsigned long seconds)
{
	time_t end = time(NULL) + seconds;
	unsigned long gone = 0, back = 0, failed = 0;
	uint64_t random = 0x2545f4914f6cdd1du;
	int files[MOST_CPUS], cpus, cpu;
	bool is_offline[MOST_CPUS] = {};

	for (cpus = 1; cpus < MOST_CPUS; cpus++) {
		char name[60];

		snprintf(name, sizeof(name), "/sys/devices/system/cpu/cpu%d/online", cpus);
		files[cpus] = open(name, O_WRONLY);
		if (files[cpus] < 0)
			break;
	}
	if (cpus < 3 || let_fail(true))
		return fail("too few CPUs", cpus);
	while (time(NULL) < end) {
		cpu = 1 + next_random(&random) % (cpus - 1);
		if (write(files[cpu], is_offline[cpu] ? "1" : "0", 1) != 1) {
			failed++;
			continue;
		}
		is_offline[cpu] = !is_offline[cpu];
		*(is_offline[cpu] ? &gone : &back) += 1;
	}
	if (let_fail(false))
		return 1;
	for (cpu = 1; cpu < cpus; cpu++) {
		if (!is_offline[cpu] && set(files[cpu], "0"))
			return 1;
		gone += !is_offline[cpu];
	}
	/* What CPUs kept must have returned, not only when they are back. */
	if (show("/sys/kernel/debug/everybuddy/check"))
		return 1;
	for (cpu = 1; cpu < cpus; cpu++) {
		if (set(files[cpu], "1"))
			return 1;
		back++;
	}
	printf("endure: CPUs went offline %lu times, came back %lu times, failed %lu times\n", gone, back, failed);
	return !gone || gone != back || sysconf(_SC_NPROCESSORS_ONLN) != cpus;
}

static int refused(void)
{
	static char text[2000];
	int file = open("/sys/kernel/debug/everybuddy/pairs", O_RDONLY);
	ssize_t bytes;

	if (file < 0 || let_fail(true))
		return fail("pairs", errno);
	memset(text, 0, sizeof(text));
	bytes = read(file, text, sizeof(text) - 1);
	if (let_fail(false) || bytes <= 0)
		return fail("pairs", errno);
	printf("%s", text);
	return 0;
}

int main(int count, char **arguments)
{
	const char *load = count > 1 ? arguments[1] : "";
	unsigned long seconds = count > 2 ? strtoul(arguments[2], NULL, 10) : 0;
	int failed;

	if (!strcmp(load, "nothing"))
		return 0;
	if (!strcmp(load, "tasks") || !strcmp(load, "everyone"))
		failed = tasks(seconds, !strcmp(load, "everyone"));
	else if (!strcmp(load, "offline"))
		failed = offline(seconds);
	else if (!strcmp(load, "refused"))
		failed = refused();
	else
		return fail("no such load", 0);
	printf("endure: %s %s\n", load, failed ? "FAILED" : "passed");
	return failed;
}
