/* CPUs that keep memory and call no more: a call of another CPU takes it, unless they are in a call.
 *
 *   lend OPERATIONS [SYSTEM...]     the calls of each thread; the systems named, all of which keep memory for a CPU, or all
 *                                   that the library lists */
#define _POSIX_C_SOURCE 200809L
#include "common.h"
#include <pthread.h>
#include <sched.h>

enum { CPUS = 4, FRAMES = 1 << 14, DMA_LIMIT = 0x1000, THREADS = 3, HELD = 400, FEW = 512 };

/* A system whose tokens are all claimed, as a kernel does at boot. */
typedef struct kernel {
    machine built;
    eb_cpu *cpu[CPUS];
} kernel;

static kernel boot(const char *system, uint32_t frames)
{
    const eb_range range = {0, frames};
    eb_setup setup = eb_setup_new(&range, 1, CPUS);
    kernel booted;
    setup.system = system;
    booted.built = build(&setup);
    for (uint32_t i = 0; i < CPUS; i++)
        EXPECT(EB_OK, eb_cpu_claim(booted.built.system, i, &booted.cpu[i]));
    return booted;
}

static void end(kernel booted, uint64_t free_frames)
{
    eb_census census;
    EXPECT(EB_OK, eb_quiesce(booted.cpu[0]));
    EXPECT(EB_OK, eb_check(booted.cpu[0], &census, NULL));
    CHECK(census.free == free_frames);
    for (uint32_t i = 0; i < CPUS; i++)
        EXPECT(EB_OK, eb_cpu_release(booted.cpu[i]));
    destroy(booted.built);
}

/* A device needs 64 KiB below 16 MiB, which is what CPU 0 keeps for itself. */
static eb_status allocate_dma(eb_cpu *cpu, uint32_t *frame)
{
    eb_request request = eb_request_frames(16);
    eb_place place = eb_place_anywhere();
    place.limit = DMA_LIMIT;
    return eb_allocate_in(cpu, &request, &place, frame);
}

/* CPU 0 has one frame and is idle. CPU 2 allocates for a device, and then all other frames. */
static void idle(const char *system)
{
    kernel booted = boot(system, FRAMES);
    uint32_t held, dma, frame, count = 0;
    static uint32_t frames[FRAMES];
    EXPECT(EB_OK, eb_allocate(booted.cpu[0], 0, 0, &held));
    EXPECT(EB_OK, allocate_dma(booted.cpu[2], &dma));
    CHECK(dma + 16 <= DMA_LIMIT);
    /* A list of CPU 0 has frames, too. */
    EXPECT(EB_OK, eb_allocate(booted.cpu[0], 0, 0, &frame));
    EXPECT(EB_OK, eb_free(booted.cpu[0], frame, 0));
    eb_status status;
    while ((status = eb_allocate(booted.cpu[2], 0, 0, &frame)) == EB_OK) {
        CHECK(count < FRAMES);
        frames[count++] = frame;
    }
    CHECK(status == EB_ERROR_EXHAUSTED && count == FRAMES - 17);
    /* The idle CPU calls again. */
    EXPECT(EB_OK, eb_free(booted.cpu[0], held, 0));
    EXPECT(EB_OK, eb_allocate(booted.cpu[0], 0, 0, &held));
    EXPECT(EB_OK, eb_free(booted.cpu[0], held, 0));
    eb_release release = eb_release_frames(dma, 16);
    EXPECT(EB_OK, eb_free_release(booted.cpu[1], &release));
    for (uint32_t i = 0; i < count; i++)
        EXPECT(EB_OK, eb_free(booted.cpu[i % CPUS], frames[i], 0));
    end(booted, FRAMES);
}

/* What a handler sees that interrupts a call of CPU 0: the visitor runs inside of one. */
typedef struct interrupt {
    kernel *interrupted, *other;
    int count;
} interrupt;

static uint32_t handler(void *context, uint32_t start, uint32_t order)
{
    interrupt *seen = context;
    uint32_t frame;
    eb_cpu **cpu = seen->interrupted->cpu;
    (void)start;
    (void)order;
    /* Its own token is in the call, so the handler cannot use it, and CPU 2 cannot borrow it. */
    EXPECT(EB_ERROR_IN_CALL, eb_free(cpu[0], 0, 0));
    EXPECT(EB_ERROR_IN_CALL, eb_cpu_release(cpu[0]));
    EXPECT(EB_ERROR_BUSY, eb_allocate(cpu[2], 0, 0, &frame));
    /* CPU 0 of another system is in no call. */
    EXPECT(EB_OK, eb_allocate(seen->other->cpu[2], 0, 0, &frame));
    EXPECT(EB_OK, eb_free(seen->other->cpu[2], frame, 0));
    seen->count++;
    return EB_VISIT_KEEP_AND_STOP;
}

/* CPU 2 has all frames except the last one, which CPU 0 has freed. */
static kernel keep(const char *system)
{
    kernel booted = boot(system, FEW);
    uint32_t frame, last = 0;
    while (eb_allocate(booted.cpu[2], 0, 0, &frame) == EB_OK)
        last = frame;
    EXPECT(EB_OK, eb_free(booted.cpu[0], last, 0));
    return booted;
}

static void in_call(const char *system)
{
    kernel booted = keep(system), other = keep(system);
    interrupt seen = {&booted, &other, 0};
    uint64_t kept;
    uint32_t frame;
    EXPECT(EB_OK, eb_drain(booted.cpu[0]));
    EXPECT(EB_OK, eb_visit_free(booted.cpu[0], 0, handler, &seen, &kept));
    CHECK(seen.count == 1 && kept == 1);
    /* The call is over, and the visitor kept the frame: nothing is free, and that is certain. */
    EXPECT(EB_ERROR_EXHAUSTED, eb_allocate(booted.cpu[2], 0, 0, &frame));
    end(booted, 0);
    end(other, 1);
}

/* What each thread writes to its frames. Not atomic: a sanitizer sees a frame that two threads have. */
static uint32_t content[FEW];
static kernel shared;
static uint32_t operations;

static void *run(void *argument)
{
    const uint32_t number = *(uint32_t *)argument;
    eb_cpu *cpu = shared.cpu[number];
    uint32_t held[HELD], count = 0;
    uint64_t random = number * 0x9e3779b97f4a7c15ull;
    for (uint32_t i = 0; i < operations; i++) {
        /* Together they want more than there is, and each is idle now and then. */
        if (below(&random, 3) > 0 && count < HELD) {
            eb_status status = eb_allocate(cpu, 0, 0, &held[count]);
            CHECK(status == EB_OK || status == EB_ERROR_EXHAUSTED || status == EB_ERROR_BUSY);
            if (status == EB_OK)
                content[held[count++]] = number;
        } else if (count > 0) {
            uint32_t frame = held[--count];
            CHECK(content[frame] == number);
            EXPECT(EB_OK, eb_free(cpu, frame, 0));
        }
        if (below(&random, 64) == 0)
            sched_yield();
    }
    while (count > 0)
        EXPECT(EB_OK, eb_free(cpu, held[--count], 0));
    return NULL;
}

static void give_way(uint32_t attempt)
{
    if (attempt > 3)
        sched_yield();
}

/* Threads that keep their tokens exclude each other. */
static void threads(const char *system)
{
    pthread_t started[THREADS];
    uint32_t numbers[THREADS];
    shared = boot(system, FEW);
    eb_set_pause(give_way);
    for (uint32_t i = 0; i < THREADS; i++) {
        numbers[i] = i + 1;
        CHECK(pthread_create(&started[i], NULL, run, &numbers[i]) == 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(started[i], NULL) == 0);
    eb_set_pause(NULL);
    end(shared, FEW);
}

int main(int argc, char **argv)
{
    static char *keepers[] = {"everybuddy", "lbs-31", "magazines"};
    operations = argc > 1 ? (uint32_t)atoi(argv[1]) : 20000;
    for (size_t i = 0; argc <= 2 && i < eb_system_count(); i++) {
        subject = eb_system_name(i);
        idle(subject);
    }
    char **systems = argc > 2 ? argv + 2 : keepers;
    for (int i = 0; i < (argc > 2 ? argc - 2 : 3); i++) {
        subject = systems[i];
        idle(subject);
        in_call(subject);
        threads(subject);
    }
    puts("lend: passed");
    return 0;
}
