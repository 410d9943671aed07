/* Conformance: random operations on each system, compared with a shadow that has a bit for each frame.
 *
 *   conformance STEPS [SYSTEM...]        the systems named, or all that the library lists
 *
 * No frame is allocated twice or outside the memory map, each misuse has its status, a failed call changes nothing, and
 * at the end all memory is free. */
#include "common.h"

enum { LARGEST_SPAN = 1 << 14, LIVE = 512, BULK = 40, RUNS = 24, CPUS = 3 };

/* Memory of every shape: holes, starts and sizes that are not powers of two. */
static const eb_range SMALL[] = {{3, 1000}};
static const eb_range HOLES[] = {{0x12345, 777}, {0x12700, 1}, {0x13000, 2048}};
static const eb_range LARGE[] = {{0x7ffff, 2}, {0x80001, 8190}};

typedef struct allocation {
    uint32_t start, frames;
    /* The order, or EB_UNKNOWN for a run. */
    uint32_t order;
} allocation;

typedef struct test {
    eb_system *system;
    eb_cpu *cpus[CPUS];
    eb_span span;
    uint32_t current;
    uint64_t total, allocated, reserved;
    uint64_t random;
    /* Frames that the program owns, and frames that exist. */
    uint8_t owned[LARGEST_SPAN / 8], exists[LARGEST_SPAN / 8];
    allocation live[LIVE];
    uint32_t count;
} test;

/* What succeeded, in all systems together: an operation that always fails is not tested. */
enum { BULKS, RUN_LISTS, PLACES, AT, RESERVED, REMOVED, NESTED_FREES, NESTED, EXACT, BLOCKS, KINDS };
static uint64_t successes[KINDS];

static int bit(const uint8_t *bits, uint32_t at)
{
    return bits[at / 8] >> at % 8 & 1;
}

static void flip(uint8_t *bits, uint32_t at)
{
    bits[at / 8] ^= (uint8_t)(1 << at % 8);
}

/* Records an allocation: all its frames exist, and the program owned none of them. */
static void own(test *t, uint32_t start, uint32_t frames, uint32_t order)
{
    for (uint32_t at = start; at < start + frames; at++) {
        CHECK(at < t->span.frames && bit(t->exists, at) && !bit(t->owned, at));
        flip(t->owned, at);
    }
    CHECK(order == EB_UNKNOWN || start % (1u << order) == 0);
    CHECK(t->count < LIVE);
    t->live[t->count++] = (allocation){start, frames, order};
    t->allocated += frames;
}

static void disown(test *t, uint32_t start, uint32_t frames)
{
    for (uint32_t at = start; at < start + frames; at++) {
        CHECK(bit(t->owned, at));
        flip(t->owned, at);
    }
    t->allocated -= frames;
}

/* An allocation may fail only if memory is short, and then as one of these. */
static int is_short(eb_status status)
{
    CHECK(status == EB_OK || status == EB_ERROR_EXHAUSTED || status == EB_ERROR_BUSY);
    return status != EB_OK;
}

static void free_one(test *t, eb_cpu *cpu, uint32_t which)
{
    allocation it = t->live[which];
    t->live[which] = t->live[--t->count];
    disown(t, it.start, it.frames);
    eb_release all = eb_release_frames(it.start, it.frames);
    if (it.order == EB_UNKNOWN) {
        /* In two parts, if it has two frames. */
        uint32_t part = it.frames > 1 ? 1 + below(&t->random, it.frames - 1) : 0;
        if (part > 0) {
            eb_release first = eb_release_frames(it.start, part);
            EXPECT(EB_OK, eb_free_release(cpu, &first));
        }
        all = eb_release_frames(it.start + part, it.frames - part);
        EXPECT(EB_OK, eb_free_release(cpu, &all));
    } else if (below(&t->random, 8) == 0) {
        EXPECT(EB_OK, eb_free_nested(t->system, t->current, &all));
        successes[NESTED_FREES]++;
    } else {
        EXPECT(EB_OK, eb_free(cpu, it.start, it.order));
    }
    /* A second free is refused, and says so. */
    eb_error error;
    all = eb_release_frames(it.start, 1);
    EXPECT(EB_ERROR_NOT_ALLOCATED, eb_free_release(cpu, &all));
    EXPECT(EB_OK, eb_last_error(cpu, &error));
    CHECK(error.status == EB_ERROR_NOT_ALLOCATED && strcmp(error.text, eb_error_message(error.status)) == 0);
}

static void allocate_bulk(test *t, eb_cpu *cpu, uint32_t order)
{
    uint32_t frames[BULK];
    size_t count = 0;
    eb_request request = eb_request_order(order);
    if (is_short(eb_allocate_bulk(cpu, &request, frames, BULK, &count)))
        return;
    CHECK(count >= 1 && count <= BULK);
    successes[BULKS]++;
    eb_release releases[BULK];
    for (size_t i = 0; i < count; i++) {
        own(t, frames[i], 1u << order, order);
        releases[i] = eb_release_order(frames[i], order);
    }
    if (below(&t->random, 2) == 0)
        return;
    size_t freed = 0;
    EXPECT(EB_OK, eb_free_bulk(cpu, releases, count, &freed));
    CHECK(freed == count);
    for (size_t i = 0; i < count; i++)
        disown(t, frames[i], 1u << order);
    t->count -= (uint32_t)count;
    /* The first of them is freed already. */
    EXPECT(EB_ERROR_NOT_ALLOCATED, eb_free_bulk(cpu, releases, 1, &freed));
    CHECK(freed == 0);
}

static void allocate_runs(test *t, eb_cpu *cpu, uint32_t frames)
{
    eb_run runs[RUNS];
    size_t count;
    if (is_short(eb_allocate_runs(cpu, frames, 0, runs, RUNS, &count)))
        return;
    uint32_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        own(t, runs[i].start, runs[i].frames, EB_UNKNOWN);
        sum += runs[i].frames;
    }
    CHECK(sum == frames);
    successes[RUN_LISTS]++;
}

/* Requests for certain frames, and changes of what is managed. */
static void at_a_place(test *t, eb_cpu *cpu)
{
    uint32_t frame, start = below(&t->random, t->span.frames), frames = 1 + below(&t->random, 9);
    eb_range range = {t->span.base + start, frames};
    int is_free = 1, is_inside = start + frames <= t->span.frames;
    for (uint32_t at = start; is_inside && at < start + frames; at++)
        is_free &= bit(t->exists, at) && !bit(t->owned, at);
    eb_status status;
    switch (below(&t->random, 4)) {
    case 0:
        status = eb_allocate_at(cpu, range, &frame);
        break;
    case 1:
        status = eb_reserve(cpu, range);
        if (status != EB_OK)
            break;
        for (uint32_t at = start; at < start + frames; at++)
            CHECK(bit(t->exists, at) && !bit(t->owned, at));
        EXPECT(EB_OK, eb_unreserve(cpu, range));
        EXPECT(EB_ERROR_NOT_RESERVED, eb_unreserve(cpu, range));
        successes[RESERVED]++;
        return;
    case 2:
        status = eb_remove(cpu, range);
        if (status != EB_OK)
            break;
        eb_state state;
        EXPECT(EB_OK, eb_frame_state(t->system, start, &state));
        CHECK(state.usage == EB_USE_HOLE);
        EXPECT(EB_OK, eb_add(cpu, range));
        EXPECT(EB_ERROR_ALREADY_MANAGED, eb_add(cpu, range));
        successes[REMOVED]++;
        return;
    default: {
        eb_request request = eb_request_order(below(&t->random, 3));
        eb_place place = eb_place_anywhere();
        place.limit = t->span.base + t->span.frames / 2;
        place.alignment = 3;
        if (is_short(eb_allocate_in(cpu, &request, &place, &frame)))
            return;
        CHECK(frame + (1u << request.size) <= t->span.frames / 2 && (t->span.base + frame) % 8 == 0);
        own(t, frame, 1u << request.size, request.size);
        successes[PLACES]++;
        return;
    }
    }
    if (status == EB_OK) {
        CHECK(is_inside && is_free && frame == start);
        own(t, start, frames, EB_UNKNOWN);
        successes[AT]++;
    } else {
        CHECK(status == EB_ERROR_BUSY || status == (is_inside ? EB_ERROR_NOT_FREE : EB_ERROR_OUTSIDE_SPAN));
        CHECK(status == EB_ERROR_BUSY || !is_inside || !is_free);
    }
}

static void step(test *t)
{
    /* One thread acts as all CPUs. The others are parked, so that no call waits for them. */
    if (below(&t->random, 4) == 0) {
        EXPECT(EB_OK, eb_park(t->cpus[t->current]));
        t->current = below(&t->random, CPUS - 1);
    }
    eb_cpu *cpu = t->cpus[t->current];
    uint32_t frame, order = below(&t->random, 6) * below(&t->random, 2), flags = below(&t->random, 4) << 1;
    uint32_t choice = below(&t->random, 100);
    if (t->count > LIVE - BULK - RUNS || (choice < 42 && t->count > 0)) {
        free_one(t, cpu, below(&t->random, t->count));
    } else if (choice < 75) {
        if (!is_short(eb_allocate(cpu, order, flags | (choice < 45), &frame))) {
            own(t, frame, 1u << order, order);
            successes[BLOCKS]++;
        }
    } else if (choice < 83) {
        eb_request request = eb_request_frames(1 + below(&t->random, 50));
        request.task = choice;
        if (!is_short(eb_allocate_request(cpu, &request, &frame))) {
            own(t, frame, request.size, EB_UNKNOWN);
            successes[EXACT]++;
        }
    } else if (choice < 86) {
        allocate_bulk(t, cpu, order);
    } else if (choice < 89) {
        allocate_runs(t, cpu, 1 + below(&t->random, 200));
    } else if (choice < 92) {
        eb_request request = eb_request_order(order);
        if (!is_short(eb_allocate_nested(t->system, t->current, &request, &frame))) {
            own(t, frame, 1u << order, order);
            successes[NESTED]++;
        }
    } else if (choice < 98) {
        at_a_place(t, cpu);
    } else {
        EXPECT(EB_OK, choice == 98 ? eb_park(cpu) : eb_drain(cpu));
    }
}

/* All metadata are consistent and agree with the shadow. */
static void check(test *t)
{
    eb_census census;
    eb_error error;
    eb_snapshot snapshot;
    if (eb_check(t->cpus[0], &census, &error) != EB_OK) {
        fprintf(stderr, "%s: %s\n", subject, error.text);
        exit(1);
    }
    CHECK(census.allocated == t->allocated && census.reserved == 0);
    CHECK(census.free + census.buffered + census.queued + t->allocated == t->total);
    CHECK(census.holes == t->span.frames - t->total);
    EXPECT(EB_OK, eb_take_snapshot(t->cpus[0], &snapshot));
    CHECK(snapshot.free_frames + snapshot.buffered_frames == t->total - t->allocated);
    uint64_t sum = 0;
    for (uint32_t order = 0; order < EB_ORDERS; order++)
        sum += (uint64_t)snapshot.free_blocks[order] << order;
    CHECK(sum == snapshot.free_frames);
    for (uint32_t at = 0; at < t->span.frames; at++) {
        eb_state state;
        EXPECT(EB_OK, eb_frame_state(t->system, at, &state));
        CHECK((state.usage == EB_USE_HOLE) == !bit(t->exists, at));
        CHECK((state.usage == EB_USE_ALLOCATED) == bit(t->owned, at));
    }
}

static uint32_t keep_two(void *context, uint32_t frame, uint32_t order)
{
    uint32_t *blocks = context;
    CHECK(order == 2 && frame % 4 == 0 && blocks[0] < 3);
    blocks[1 + blocks[0]++] = frame;
    return blocks[0] == 1 ? EB_VISIT_RETURN : blocks[0] == 2 ? EB_VISIT_KEEP : EB_VISIT_KEEP_AND_STOP;
}

/* Counts frames, and refuses the first call. */
static uint32_t give(void *context, uint32_t frame, uint32_t order)
{
    uint64_t *frames = context;
    CHECK(order >= 2 && frame % (1u << order) == 0);
    if (frames[0]++ == 0)
        return EB_REPORT_REFUSED;
    frames[1] += UINT64_C(1) << order;
    return EB_REPORT_GIVEN;
}

/* Reports until the end of memory, and returns the number of frames. */
static uint64_t report_all(eb_cpu *cpu, eb_reporting *reporting, uint64_t calls)
{
    uint64_t frames[2] = {calls, 0};
    bool at_end = false;
    while (!at_end)
        EXPECT(EB_OK, eb_report(cpu, reporting, 100, give, frames, &at_end));
    return frames[1];
}

/* Free blocks are reported once, and again after a frame of them was allocated. */
static void reports(test *t)
{
    eb_cpu *cpu = t->cpus[0];
    eb_reporting *reporting;
    size_t bytes;
    EXPECT(EB_OK, eb_reporting_size(t->system, 2, &bytes));
    void *memory = aligned_alloc(EB_ALIGNMENT, (bytes + EB_ALIGNMENT - 1) / EB_ALIGNMENT * EB_ALIGNMENT);
    CHECK(memory != NULL);
    memset(memory, 0xa5, bytes);
    EXPECT(EB_OK, eb_reporting_start(t->system, 2, memory, bytes, &reporting));
    report_all(cpu, reporting, 0);
    EXPECT(EB_OK, eb_quiesce(cpu));
    report_all(cpu, reporting, 1);
    EXPECT(EB_OK, eb_quiesce(cpu));
    CHECK(report_all(cpu, reporting, 1) == 0);
    eb_request request = eb_request_order(0);
    uint32_t frame, blocks = 77;
    EXPECT(EB_OK, eb_allocate_reported(cpu, reporting, &request, &frame));
    EXPECT(EB_OK, eb_allocated(reporting, frame, 1, &blocks));
    CHECK(blocks == 0);
    EXPECT(EB_OK, eb_free(cpu, frame, 0));
    EXPECT(EB_OK, eb_quiesce(cpu));
    uint64_t again = report_all(cpu, reporting, 1);
    CHECK(again == 4 || again == 0); /* 0 if the frame lies in a block of less than four frames, at the end of a range. */
    EXPECT(EB_OK, eb_allocated(reporting, 0, t->span.frames, &blocks));
    EXPECT(EB_OK, eb_quiesce(cpu));
    CHECK(report_all(cpu, reporting, 1) <= 4 * (uint64_t)blocks);
    CHECK(blocks > 0);
    free(memory);
}

static void all_of_it(test *t)
{
    eb_cpu *cpu = t->cpus[0];
    reports(t);
    /* A visit of free blocks: one is returned, two stay. */
    uint32_t blocks[4] = {0};
    uint64_t kept;
    EXPECT(EB_OK, eb_quiesce(cpu));
    EXPECT(EB_OK, eb_visit_free(cpu, 2, keep_two, blocks, &kept));
    CHECK(kept == 2 && blocks[0] == 3);
    own(t, blocks[2], 4, 2);
    own(t, blocks[3], 4, 2);
    free_one(t, cpu, 0);
    free_one(t, cpu, 0);
    /* Every frame can be allocated, and then none. Other CPUs are parked, so that their lists are found. */
    EXPECT(EB_OK, eb_park(t->cpus[1]));
    uint64_t allocated = 0;
    uint32_t frame;
    eb_status status;
    uint32_t *frames = malloc(t->total * sizeof *frames);
    while ((status = eb_allocate(cpu, 0, 0, &frame)) == EB_OK) {
        CHECK(allocated < t->total && bit(t->exists, frame) && !bit(t->owned, frame));
        flip(t->owned, frame);
        frames[allocated++] = frame;
    }
    CHECK(status == EB_ERROR_EXHAUSTED && allocated == t->total);
    eb_request request = eb_request_order(0);
    eb_shortage_report report;
    EXPECT(EB_OK, eb_shortage(cpu, &request, &report));
    CHECK(report.reason == EB_REASON_MEMORY && report.largest == EB_UNKNOWN && report.free.free_frames == 0);
    CHECK(report.keeper == EB_UNKNOWN && report.kept == 0);
    for (uint64_t i = 0; i < allocated; i++)
        EXPECT(EB_OK, eb_free(cpu, frames[i], 0));
    free(frames);
}

static void conform(const char *system, const eb_range *ranges, size_t range_count, uint32_t steps, uint64_t seed)
{
    static test t;
    memset(&t, 0, sizeof t);
    t.random = seed * 0x9e3779b97f4a7c15ull + 1;
    eb_setup setup = eb_setup_new(ranges, range_count, CPUS);
    setup.system = system;
    machine built = build(&setup);
    t.system = built.system;
    for (uint32_t cpu = 0; cpu + 1 < CPUS; cpu++)
        EXPECT(EB_OK, eb_cpu_claim(t.system, cpu, &t.cpus[cpu]));
    EXPECT(EB_OK, eb_get_span(t.system, &t.span));
    CHECK(t.span.frames <= LARGEST_SPAN);
    for (size_t i = 0; i < range_count; i++) {
        t.total += ranges[i].frames;
        for (uint64_t at = 0; at < ranges[i].frames; at++)
            flip(t.exists, (uint32_t)(ranges[i].start - t.span.base + at));
    }
    check(&t);
    for (uint32_t i = 0; i < steps; i++) {
        step(&t);
        if (i % (steps / 4 + 1) == 0) {
            EXPECT(EB_OK, eb_park(t.cpus[t.current]));
            t.current = 0;
            check(&t);
        }
    }
    while (t.count > 0)
        free_one(&t, t.cpus[t.count % 2], t.count - 1);
    EXPECT(EB_OK, eb_park(t.cpus[1]));
    EXPECT(EB_OK, eb_quiesce(t.cpus[0]));
    CHECK(t.allocated == 0);
    check(&t);
    all_of_it(&t);
    for (uint32_t cpu = 0; cpu + 1 < CPUS; cpu++)
        EXPECT(EB_OK, eb_cpu_release(t.cpus[cpu]));
    destroy(built);
}

int main(int argc, char **argv)
{
    uint32_t steps = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000;
    size_t systems = argc > 2 ? (size_t)argc - 2 : eb_system_count();
    CHECK(steps > 0 && systems > 0);
    for (size_t i = 0; i < systems; i++) {
        subject = argc > 2 ? argv[i + 2] : eb_system_name(i);
        conform(subject, SMALL, 1, steps, 1);
        conform(subject, HOLES, 3, steps, 2);
        conform(subject, LARGE, 2, steps, 3);
    }
    /* A short run need not reach each of them. */
    for (int kind = 0; steps >= 1000 && kind < KINDS; kind++)
        CHECK(successes[kind] > 0);
    printf("conformance: %zu systems, %" PRIu32 " operations on each of 3 memories\n", systems, steps);
    return 0;
}
