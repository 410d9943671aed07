// SPDX-License-Identifier: GPL-2.0-only
/*
 * Maps frames of the system that the module has built, writes to each page, and reads all again.
 *
 * The pages must be zero at first, keep what is written, and be there for the whole size; the mapping is made several
 * times, so the second one gets frames that were written before. Mappings that the device must refuse are tried, too.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define PAGES 4096ul
#define TIMES 3

static int fail(const char *what, unsigned long page)
{
	printf("everybuddy: FAILED: mapping: %s, page %lu\n", what, page);
	return 1;
}

/* Returns the word that belongs at the start of a page. */
static uint64_t pattern(int process, int time, unsigned long page)
{
	return (page * TIMES + time) * 0x9e3779b97f4a7c15u + process;
}

static int use(int device, int process)
{
	int time;

	for (time = 0; time < TIMES; time++) {
		char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, device, 0);
		unsigned long page;

		if (memory == MAP_FAILED)
			return fail("mmap is refused", 0);
		for (page = 0; page < PAGES; page++) {
			uint64_t *words = (uint64_t *)(memory + page * PAGE);

			if (words[0] || words[PAGE / 8 - 1])
				return fail("a new page is not zero", page);
			words[0] = words[PAGE / 8 - 1] = pattern(process, time, page);
		}
		for (page = 0; page < PAGES; page++) {
			uint64_t *words = (uint64_t *)(memory + page * PAGE), expected = pattern(process, time, page);

			if (words[0] != expected || words[PAGE / 8 - 1] != expected)
				return fail("a page lost what was written", page);
		}
		if (munmap(memory + PAGE, PAGE) == 0)
			return fail("a part could be unmapped", 1);
		if (munmap(memory, PAGES * PAGE))
			return fail("munmap failed", 0);
	}
	return 0;
}

int main(void)
{
	int device = open("/dev/everybuddy", O_RDWR), status, failed;
	pid_t child;

	if (device < 0)
		return fail("/dev/everybuddy cannot be opened", 0);
	if (mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, device, 0) != MAP_FAILED)
		return fail("a private mapping is not refused", 0);
	/* Two processes at the same time. */
	child = fork();
	if (child < 0)
		return fail("fork failed", 0);
	if (child == 0)
		_exit(use(device, 1));
	failed = use(device, 2);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return fail("the other process ended", 0);
	if (failed || WEXITSTATUS(status))
		return 1;
	printf("everybuddy: mapped %lu pages %d times in two processes\n", PAGES, TIMES);
	return 0;
}
