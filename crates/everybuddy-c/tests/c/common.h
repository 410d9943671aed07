/* What the tests share: checks that name their place, random numbers, and a system in memory of its own. */
#ifndef COMMON_H
#define COMMON_H

#include <everybuddy.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a message about a failure begins with. */
static const char *subject = "";

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: %s does not hold\n", __FILE__, __LINE__, subject, #condition); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A call has this status. */
#define EXPECT(status, call) expect(status, call, __FILE__, __LINE__, #call)

static inline void expect(eb_status expected, eb_status found, const char *file, int line, const char *call)
{
    if (found != expected) {
        fprintf(stderr, "%s:%d: %s: %s is %d (%s), not %d\n", file, line, subject, call, (int)found,
                eb_error_message(found), (int)expected);
        exit(1);
    }
}

/* Random numbers, the same in each run. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1dull;
}

static inline uint32_t below(uint64_t *state, uint32_t limit)
{
    return (uint32_t)((next_random(state) >> 32) * limit >> 32);
}

/* A system, and its memory. */
typedef struct machine {
    eb_system *system;
    void *memory;
    size_t bytes;
} machine;

static inline machine build(const eb_setup *setup)
{
    machine built = {NULL, NULL, 0};
    eb_error error;
    if (eb_metadata_size(setup, &built.bytes, &error) != EB_OK) {
        fprintf(stderr, "%s: %s\n", subject, error.text);
        exit(1);
    }
    /* Exactly as much as was asked for, so that a sanitizer sees an access behind it. */
    built.memory = aligned_alloc(EB_ALIGNMENT, built.bytes);
    CHECK(built.memory != NULL);
    memset(built.memory, 0xa5, built.bytes);
    if (eb_build(setup, built.memory, built.bytes, &built.system, &error) != EB_OK) {
        fprintf(stderr, "%s: %s\n", subject, error.text);
        exit(1);
    }
    return built;
}

static inline void destroy(machine built)
{
    EXPECT(EB_OK, eb_destroy(built.system));
    free(built.memory);
}

#endif
