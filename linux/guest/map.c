// SPDX-License-Identifier: GPL-2.0-only
/*
 * Maps frames of the system that the module has built, writes to each page, and reads all again.
 *
 * New pages must be zero, and keep what is written until the last process unmaps them: after each call that the device
 * must refuse, and after Linux has copied the area for a child. Each check fills another mapping first, which would get
 * frames that were freed too early. Frames that were not freed would be missing when all of them are mapped.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define PAGES 4096ul
#define TIMES 3
/* The pages of a mapping that is tested in other ways. */
#define FEW 16ul

/* What is tested at the moment. */
static const char *step;

static int fail(const char *what, unsigned long page)
{
	printf("everybuddy: FAILED: mapping: %s: %s, page %lu\n", step, what, page);
	return 1;
}

/* Maps pages of the device. The mapping must not need the file descriptor. */
static char *map(unsigned long pages, int protection, int flags)
{
	int device = open("/dev/everybuddy", O_RDWR);
	char *memory = mmap(NULL, pages * PAGE, protection, flags, device, 0);

	close(device);
	return memory;
}

static char *map_shared(unsigned long pages)
{
	return map(pages, PROT_READ | PROT_WRITE, MAP_SHARED);
}

/* Returns the word that belongs at the start and the end of a page. */
static uint64_t pattern(unsigned int seed, unsigned long page)
{
	return (page << 8 | seed) * 0x9e3779b97f4a7c15u;
}

/* Writes to new pages, from `first` to `end`. */
static int fill(char *memory, unsigned long first, unsigned long end, unsigned int seed)
{
	unsigned long page;

	if (memory == MAP_FAILED)
		return fail("mmap is refused", first);
	for (page = first; page < end; page++) {
		uint64_t *words = (uint64_t *)(memory + page * PAGE);

		if (words[0] || words[PAGE / 8 - 1])
			return fail("a new page is not zero", page);
		words[0] = words[PAGE / 8 - 1] = pattern(seed, page);
	}
	return 0;
}

/* Checks pages that were filled. */
static int check(char *memory, unsigned long first, unsigned long end, unsigned int seed)
{
	unsigned long page;

	for (page = first; page < end; page++) {
		uint64_t *words = (uint64_t *)(memory + page * PAGE), expected = pattern(seed, page);

		if (words[0] != expected || words[PAGE / 8 - 1] != expected)
			return fail("a page lost what was written", page);
	}
	return 0;
}

static int unmap(char *memory, unsigned long pages)
{
	return munmap(memory, pages * PAGE) ? fail("munmap failed", 0) : 0;
}

/* Maps new pages, writes to them, and unmaps them. */
static int use(unsigned long pages, unsigned int seed)
{
	char *memory = map_shared(pages);

	return fill(memory, 0, pages, seed) || check(memory, 0, pages, seed) || unmap(memory, pages);
}

/* The second time, a mapping gets frames that were written before. */
static int repeat(unsigned int seed)
{
	int time;

	for (time = 0; time < TIMES; time++)
		if (use(PAGES, seed + time))
			return 1;
	return 0;
}

/* A page that was read before it may be written. */
static int protect(void)
{
	char *memory = map(FEW, PROT_READ, MAP_SHARED);
	unsigned long page;

	step = "protection";
	if (memory == MAP_FAILED)
		return fail("mmap is refused", 0);
	for (page = 0; page < FEW; page++)
		if (memory[page * PAGE])
			return fail("a new page is not zero", page);
	if (mprotect(memory, FEW * PAGE, PROT_READ | PROT_WRITE))
		return fail("mprotect failed", 0);
	return fill(memory, 0, FEW, 1) || use(FEW, 2) || check(memory, 0, FEW, 1) || unmap(memory, FEW);
}

/* A call with pages of a mapping. */
struct attempt {
	const char *name;
	enum { REMAP, UNMAP, PROTECT, REPLACE } call;
	unsigned long first;
	unsigned long pages;
	unsigned long wanted;
	int flags;
};

static const struct attempt attempts[] = {
	{ "a move", REMAP, 0, FEW, FEW, MREMAP_MAYMOVE | MREMAP_FIXED },
	{ "a move of the first page", REMAP, 0, 1, 1, MREMAP_MAYMOVE | MREMAP_FIXED },
	{ "a move of the last page", REMAP, FEW - 1, 1, 1, MREMAP_MAYMOVE | MREMAP_FIXED },
	{ "a move that leaves the area", REMAP, 0, FEW, FEW, MREMAP_MAYMOVE | MREMAP_DONTUNMAP },
	{ "a second area", REMAP, 0, 0, FEW, MREMAP_MAYMOVE },
	{ "a larger area", REMAP, 0, FEW, FEW + 1, 0 },
	{ "a larger area that may move", REMAP, 0, FEW, FEW + 1, MREMAP_MAYMOVE },
	{ "a larger area that moves", REMAP, 0, FEW, FEW + 1, MREMAP_MAYMOVE | MREMAP_FIXED },
	{ "a smaller area", REMAP, 0, FEW, 1, 0 },
	{ "a smaller area that moves", REMAP, 0, FEW, 1, MREMAP_MAYMOVE | MREMAP_FIXED },
	{ "munmap of the first page", UNMAP, 0, 1 },
	{ "munmap of a page in the middle", UNMAP, 1, 1 },
	{ "munmap of the last page", UNMAP, FEW - 1, 1 },
	{ "mprotect of a part", PROTECT, 1, FEW - 1 },
	{ "another mapping over a part", REPLACE, 1, FEW - 1 },
};

static int succeeds(const struct attempt *attempt, char *memory, char *place)
{
	char *start = memory + attempt->first * PAGE;
	size_t bytes = attempt->pages * PAGE;

	switch (attempt->call) {
	case REMAP:
		return mremap(start, bytes, attempt->wanted * PAGE, attempt->flags, place) != MAP_FAILED;
	case UNMAP:
		return munmap(start, bytes) == 0;
	case PROTECT:
		return mprotect(start, bytes, PROT_NONE) == 0;
	default:
		return mmap(start, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
	}
}

/* What the device refuses changes nothing. */
static int refuse(void)
{
	unsigned int at;

	step = "a private mapping";
	if (map(1, PROT_READ | PROT_WRITE, MAP_PRIVATE) != MAP_FAILED)
		return fail("it is not refused", 0);
	for (at = 0; at < sizeof(attempts) / sizeof(*attempts); at++) {
		char *memory = map_shared(FEW);
		char *place = mmap(NULL, 2 * FEW * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		step = attempts[at].name;
		if (fill(memory, 0, FEW, 1))
			return 1;
		if (succeeds(&attempts[at], memory, place))
			return fail("it is not refused", attempts[at].first);
		if (use(FEW, 2) || check(memory, 0, FEW, 1) || unmap(memory, FEW) || unmap(place, 2 * FEW))
			return 1;
	}
	return 0;
}

/* Runs `work` in a child, before which this process may unmap the memory. */
static int in_child(int (*work)(char *memory), char *memory, int is_unmapped)
{
	int gate[2], status;
	pid_t child;
	char byte;

	if (pipe(gate) || (child = fork()) < 0)
		return fail("fork failed", 0);
	if (child == 0) {
		close(gate[1]);
		/* It ends when the other side is closed. */
		exit(read(gate[0], &byte, 1) || work(memory));
	}
	close(gate[0]);
	if (is_unmapped && unmap(memory, FEW))
		return 1;
	close(gate[1]);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return fail("the child was killed", 0);
	return WEXITSTATUS(status);
}

static int lacks(char *memory)
{
	return msync(memory, PAGE, MS_ASYNC) ? 0 : fail("a child has the mapping", 0);
}

/* One half is filled before, and the other one by the child. */
static int extend(char *memory)
{
	return check(memory, 0, FEW / 2, 1) || fill(memory, FEW / 2, FEW, 2);
}

static int keeps(char *memory)
{
	return use(FEW, 3) || check(memory, 0, FEW / 2, 1) || check(memory, FEW / 2, FEW, 2);
}

/* A child, and a child that has the mapping, too; the last one keeps it. */
static int inherit(void)
{
	char *memory = map_shared(FEW);

	step = "fork";
	if (fill(memory, 0, FEW / 2, 1) || in_child(lacks, memory, 0))
		return 1;
	if (madvise(memory, FEW * PAGE, MADV_DOFORK))
		return fail("MADV_DOFORK is refused", 0);
	return in_child(extend, memory, 0) || keeps(memory) || in_child(keeps, memory, 1);
}

static sigjmp_buf interrupted;

static void interrupt(int signal)
{
	siglongjmp(interrupted, signal);
}

/* Writes to pages until there is no frame for one. Returns its number. */
static unsigned long fill_until_refused(char *memory, unsigned long pages)
{
	static volatile unsigned long page;
	int caught;

	signal(SIGBUS, interrupt);
	/* A fault that is repeated without end would not be refused at all. */
	signal(SIGALRM, interrupt);
	alarm(60);
	caught = sigsetjmp(interrupted, 1);
	if (!caught)
		for (page = 0; page < pages && !fill(memory, page, page + 1, 2);)
			page++;
	alarm(0);
	signal(SIGBUS, SIG_DFL);
	if (caught == SIGALRM)
		fail("a fault does not end", page);
	return caught == SIGBUS ? page : 0;
}

/* Maps more than there is. Afterwards all is free again, so the second time is as the first one. */
static int exhaust(void)
{
	FILE *parameter = fopen("/sys/module/everybuddy/parameters/mib", "r");
	unsigned long pages, half;
	int time;

	step = "exhaustion";
	if (!parameter || fscanf(parameter, "%lu", &pages) != 1)
		return fail("the size of the memory is not known", 0);
	fclose(parameter);
	pages = pages * (1 << 20) / PAGE;
	half = pages / 2;
	if (map_shared(pages + 1) != MAP_FAILED)
		return fail("a mapping that is larger than the memory is not refused", pages);
	for (time = 0; time < 2; time++) {
		char *some = map_shared(half), *more = map_shared(pages);

		if (fill(some, 0, half, 1))
			return 1;
		if (fill_until_refused(more, pages) != pages - half)
			return fail("the wrong page is refused", pages - half);
		if (check(some, 0, half, 1) || check(more, 0, pages - half, 2) || unmap(some, half))
			return 1;
		/* Also the page that was refused. */
		if (fill(more, pages - half, pages, 2) || check(more, 0, pages, 2) || unmap(more, pages))
			return 1;
	}
	return 0;
}

int main(void)
{
	int status, failed;
	pid_t child;

	step = "two processes";
	child = fork();
	if (child < 0)
		return fail("fork failed", 0);
	if (child == 0)
		exit(repeat(1));
	failed = repeat(1 + TIMES);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return fail("the other process was killed", 0);
	if (failed || WEXITSTATUS(status) || protect() || refuse() || inherit() || exhaust())
		return 1;
	printf("everybuddy: mapped %lu pages %d times in two processes\n", PAGES, TIMES);
	return 0;
}
