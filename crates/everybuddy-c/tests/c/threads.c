/* Threads that allocate, hand blocks to each other, and free them.
 *
 *   threads OPERATIONS [SYSTEM...]        the systems named, or all that the library lists
 *
 * There are more threads than CPUs, so tokens move between threads. A thread writes to its frames as if they were its
 * own: a sanitizer sees a frame that two threads have, and a free that is not ordered before the next allocation. */
#define _POSIX_C_SOURCE 200809L
#include "common.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 4, CPUS = 3, FRAMES = 6000, SLOTS = 64, HELD = 48, TURN = 200 };

/* A block in a slot: its first frame and its order, plus one; 0 is none. */
static _Atomic uint64_t slots[SLOTS];
/* Who acts as each CPU: the number of a thread. Relaxed, so that only the library orders one holder after another. */
static _Atomic uint32_t holders[CPUS];
/* What each thread writes to its frames. Not atomic. */
static uint64_t content[FRAMES + 1024];
static eb_system *machine_system;
static uint32_t operations;
/* What succeeded: blocks that were allocated, and those that were freed out of a slot. */
static _Atomic uint64_t allocated, handed;

static void give_way(uint32_t attempt)
{
    if (attempt > 3)
        sched_yield();
}

static void fill(uint32_t start, uint32_t order, uint64_t mark)
{
    for (uint32_t at = start; at < start + (1u << order); at++) {
        CHECK(at < sizeof content / sizeof *content);
        content[at] = mark + at;
    }
}

static void verify(uint32_t start, uint32_t order, uint64_t mark)
{
    for (uint32_t at = start; at < start + (1u << order); at++) {
        CHECK(content[at] == mark + at);
        content[at] = 0;
    }
}

/* A block with the mark that its frames were filled with. */
typedef struct held {
    uint32_t start, order;
} held;

static uint64_t mark_of(held block)
{
    return 0x100000000ull + block.order;
}

/* What a slot contains. */
static uint64_t word_of(held block)
{
    return ((uint64_t)block.order << 32 | block.start) + 1;
}

static held block_of(uint64_t word)
{
    return (held){(uint32_t)(word - 1), (uint32_t)((word - 1) >> 32)};
}

static void free_block(eb_cpu *cpu, held block)
{
    verify(block.start, block.order, mark_of(block));
    EXPECT(EB_OK, eb_free(cpu, block.start, block.order));
}

/* Acts as a CPU for a while. */
static void turn(eb_cpu *cpu, held *mine, uint32_t *count, uint64_t *random)
{
    for (uint32_t i = 0; i < TURN; i++) {
        uint32_t choice = below(random, 100);
        if (choice < 50 && *count < HELD) {
            held block = {0, below(random, 4) == 0 ? below(random, 5) : 0};
            eb_status status = eb_allocate(cpu, block.order, below(random, 4) << 1, &block.start);
            if (status == EB_OK) {
                fill(block.start, block.order, mark_of(block));
                mine[(*count)++] = block;
                atomic_fetch_add_explicit(&allocated, 1, memory_order_relaxed);
            } else {
                CHECK(status == EB_ERROR_EXHAUSTED || status == EB_ERROR_BUSY);
            }
        } else if (choice < 75 && *count > 0) {
            free_block(cpu, mine[--*count]);
        } else if (*count > 0) {
            /* Hands a block to whoever comes, and frees the one that lay there. */
            held block = mine[--*count];
            uint64_t word = atomic_exchange(&slots[below(random, SLOTS)], word_of(block));
            if (word > 0) {
                free_block(cpu, block_of(word));
                atomic_fetch_add_explicit(&handed, 1, memory_order_relaxed);
            }
        }
    }
}

static void *run(void *argument)
{
    uint32_t number = *(uint32_t *)argument, count = 0, turns = operations / TURN;
    uint64_t random = number * 0x9e3779b97f4a7c15ull;
    held mine[HELD];
    /* The last turns free what is left. */
    for (uint32_t i = 0; i < turns || count > 0;) {
        uint32_t id = below(&random, CPUS);
        eb_cpu *cpu;
        eb_status status = eb_cpu_claim(machine_system, id, &cpu);
        if (status == EB_ERROR_CLAIMED) {
            sched_yield();
            continue;
        }
        CHECK(status == EB_OK && atomic_exchange_explicit(&holders[id], number, memory_order_relaxed) == 0);
        if (i < turns)
            turn(cpu, mine, &count, &random);
        else
            free_block(cpu, mine[--count]);
        i++;
        CHECK(atomic_exchange_explicit(&holders[id], 0, memory_order_relaxed) == number);
        EXPECT(EB_OK, eb_cpu_release(cpu));
    }
    return NULL;
}

static void test(const char *system)
{
    const eb_range range = {0x400, FRAMES};
    eb_setup setup = eb_setup_new(&range, 1, CPUS);
    pthread_t threads[THREADS];
    uint32_t numbers[THREADS];
    setup.system = system;
    machine built = build(&setup);
    machine_system = built.system;
    memset(content, 0, sizeof content);
    for (uint32_t i = 0; i < THREADS; i++) {
        numbers[i] = i + 1;
        CHECK(pthread_create(&threads[i], NULL, run, &numbers[i]) == 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(atomic_exchange(&allocated, 0) > 0 && atomic_exchange(&handed, 0) > 0);
    eb_cpu *cpu;
    EXPECT(EB_OK, eb_cpu_claim(built.system, 0, &cpu));
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint64_t word = atomic_exchange(&slots[i], 0);
        if (word > 0)
            free_block(cpu, block_of(word));
    }
    eb_census census;
    eb_error error;
    EXPECT(EB_OK, eb_quiesce(cpu));
    EXPECT(EB_OK, eb_check(cpu, &census, &error));
    CHECK(census.allocated == 0 && census.free == FRAMES);
    EXPECT(EB_OK, eb_cpu_release(cpu));
    destroy(built);
}

int main(int argc, char **argv)
{
    operations = argc > 1 ? (uint32_t)atoi(argv[1]) : 20000;
    size_t systems = argc > 2 ? (size_t)argc - 2 : eb_system_count();
    CHECK(operations >= TURN && systems > 0);
    eb_set_pause(give_way);
    for (size_t i = 0; i < systems; i++) {
        subject = argc > 2 ? argv[i + 2] : eb_system_name(i);
        test(subject);
    }
    printf("threads: %zu systems, %d threads of %" PRIu32 " operations\n", systems, THREADS, operations);
    return 0;
}
