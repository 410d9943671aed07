/* What the other programs do not use: the parts of a setup, services, promises about zeros, page blocks, and waits.
 *
 *   rest          prints how many systems have services */
#include "common.h"

enum { FRAMES = 1 << 12 };

static const eb_range MEMORY = {0x400, FRAMES};

static eb_setup one_cpu(const char *system)
{
    eb_setup setup = eb_setup_new(&MEMORY, 1, 1);
    setup.system = system;
    return setup;
}

static machine build_and_claim(eb_setup setup, eb_cpu **cpu)
{
    machine built = build(&setup);
    EXPECT(EB_OK, eb_cpu_claim(built.system, 0, cpu));
    return built;
}

static eb_census check(eb_cpu *cpu)
{
    eb_census census;
    eb_error error;
    if (eb_check(cpu, &census, &error) != EB_OK) {
        fprintf(stderr, "%s: %s\n", subject, error.text);
        exit(1);
    }
    return census;
}

static void end(machine built, eb_cpu *cpu)
{
    EXPECT(EB_OK, eb_cpu_release(cpu));
    destroy(built);
}

/* The largest block can be allocated, and none that is larger. */
static void largest(const char *system, uint32_t expected)
{
    eb_cpu *cpu;
    machine built = build_and_claim(one_cpu(system), &cpu);
    uint32_t order = 77, frame;
    EXPECT(EB_OK, eb_max_order(built.system, &order));
    CHECK(order == expected);
    EXPECT(EB_OK, eb_allocate(cpu, order, 0, &frame));
    EXPECT(EB_OK, eb_free(cpu, frame, order));
    EXPECT(EB_ERROR_TOO_LARGE, eb_allocate(cpu, order + 1, 0, &frame));
    end(built, cpu);
}

/* Memory that is promised to be zero is not written where zero is the first value, so the promise must be true. */
static void zeroed_memory(const char *system)
{
    eb_setup setup = one_cpu(system);
    machine built = {NULL, NULL, 0};
    eb_cpu *cpu;
    setup.flags = EB_MEMORY_IS_ZEROED;
    EXPECT(EB_OK, eb_metadata_size(&setup, &built.bytes, NULL));
    built.memory = aligned_alloc(EB_ALIGNMENT, built.bytes);
    CHECK(built.memory != NULL);
    memset(built.memory, 0, built.bytes);
    EXPECT(EB_OK, eb_build(&setup, built.memory, built.bytes, &built.system, NULL));
    EXPECT(EB_OK, eb_cpu_claim(built.system, 0, &cpu));
    eb_census census = check(cpu);
    CHECK(census.free == FRAMES && census.allocated == 0);
    end(built, cpu);
}

/* Frees with the promise of zeros, which no system of this library stores. */
static void zeroed_frames(const char *system)
{
    eb_cpu *cpu;
    machine built = build_and_claim(one_cpu(system), &cpu);
    uint32_t frame;
    EXPECT(EB_OK, eb_allocate(cpu, 3, 0, &frame));
    eb_release release = eb_release_order(frame, 3);
    EXPECT(EB_OK, eb_free_zeroed(cpu, &release));
    CHECK(check(cpu).allocated == 0);
    EXPECT(EB_ERROR_NOT_ALLOCATED, eb_free_zeroed(cpu, &release));
    EXPECT(EB_ERROR_NULL, eb_free_zeroed(cpu, NULL));
    EXPECT(EB_OK, eb_allocate(cpu, 3, 0, &frame));
    bool zeroed = true;
    EXPECT(EB_OK, eb_is_zeroed(built.system, frame, 8, &zeroed));
    CHECK(!zeroed);
    EXPECT(EB_ERROR_NULL, eb_is_zeroed(built.system, frame, 8, NULL));
    EXPECT(EB_OK, eb_free(cpu, frame, 3));
    end(built, cpu);
}

/* A span with room before and behind the memory that is there at first. */
static void reach(const char *system)
{
    eb_cpu *cpu;
    eb_setup setup = one_cpu(system);
    setup.reach.start = 0;
    setup.reach.frames = 0x400 + 2 * FRAMES;
    machine built = build_and_claim(setup, &cpu);
    eb_span span;
    eb_range before = {0x100, 0x200}, behind = {0x400 + FRAMES, FRAMES}, outside = {0x400 + 2 * FRAMES, 1};
    EXPECT(EB_OK, eb_get_span(built.system, &span));
    CHECK(span.base == 0 && span.frames == setup.reach.frames);
    eb_census census = check(cpu);
    CHECK(census.free == FRAMES && census.holes == span.frames - FRAMES);
    EXPECT(EB_OK, eb_add(cpu, before));
    EXPECT(EB_OK, eb_add(cpu, behind));
    EXPECT(EB_ERROR_OUTSIDE_SPAN, eb_add(cpu, outside));
    EXPECT(EB_OK, eb_quiesce(cpu));
    census = check(cpu);
    CHECK(census.free == before.frames + 2 * FRAMES && census.holes == span.frames - census.free);
    uint32_t frame;
    EXPECT(EB_OK, eb_allocate_at(cpu, before, &frame));
    CHECK(frame == before.start);
    eb_release release = eb_release_frames(frame, (uint32_t)before.frames);
    EXPECT(EB_OK, eb_free_release(cpu, &release));
    end(built, cpu);
}

/* Memory in two parts, 64 TiB apart: each frame has two numbers, and ranges and errors are physical. */
static void parts(const char *system)
{
    const uint64_t far = (uint64_t)64 << 28;
    eb_cpu *cpu;
    eb_setup setup = one_cpu(system);
    setup.reach.start = far;
    setup.reach.frames = FRAMES;
    machine built = build_and_claim(setup, &cpu);
    const eb_range behind = {far, FRAMES}, beyond = {far + FRAMES, 1};
    eb_span span;
    uint64_t physical = 77;
    uint32_t frame = 77, other;
    EXPECT(EB_OK, eb_get_span(built.system, &span));
    EXPECT(EB_ERROR_FOREIGN, eb_physical(built.system, span.frames, &physical));
    EXPECT(EB_ERROR_OUTSIDE_SPAN, eb_index(built.system, beyond.start, &frame));
    EXPECT(EB_ERROR_OUTSIDE_SPAN, eb_index(built.system, far / 2, &frame));
    CHECK(physical == 77 && frame == 77);
    EXPECT(EB_ERROR_OUTSIDE_SPAN, eb_add(cpu, beyond));
    EXPECT(EB_OK, eb_add(cpu, behind));
    EXPECT(EB_OK, eb_allocate_at(cpu, behind, &frame));
    CHECK(frame < span.frames && span.frames - frame == FRAMES);
    EXPECT(EB_OK, eb_physical(built.system, frame + 5, &physical));
    EXPECT(EB_OK, eb_index(built.system, far + 5, &other));
    CHECK(physical == far + 5 && other == frame + 5);
    eb_error error;
    EXPECT(EB_ERROR_NOT_FREE, eb_reserve(cpu, behind));
    EXPECT(EB_OK, eb_last_error(cpu, &error));
    CHECK(error.value == far && strstr(error.text, "0x400000000") != NULL);
    eb_release release = eb_release_frames(frame, FRAMES);
    EXPECT(EB_OK, eb_free_release(cpu, &release));
    end(built, cpu);
}

/* Memory is divided into blocks as the setup says; the rest is in largest blocks. */
static void presplit(void)
{
    subject = "serewa";
    uint32_t blocks[EB_ORDERS] = {8, 0, 4};
    eb_cpu *cpu;
    eb_setup setup = one_cpu("serewa");
    eb_snapshot snapshot;
    machine built = build_and_claim(setup, &cpu);
    EXPECT(EB_OK, eb_take_snapshot(cpu, &snapshot));
    CHECK(snapshot.free_blocks[0] == 0 && snapshot.free_blocks[2] == 0);
    end(built, cpu);
    setup.presplit = blocks;
    built = build_and_claim(setup, &cpu);
    EXPECT(EB_OK, eb_take_snapshot(cpu, &snapshot));
    CHECK(snapshot.free_blocks[0] == 8 && snapshot.free_blocks[2] >= 4 && snapshot.free_frames == FRAMES);
    check(cpu);
    end(built, cpu);
}

/* Services are described, and run until nothing is left to do. Returns whether the system has any. */
static int services(const char *system)
{
    eb_cpu *cpu;
    machine built = build_and_claim(one_cpu(system), &cpu);
    size_t count = 77;
    EXPECT(EB_OK, eb_service_count(built.system, &count));
    CHECK(count < 77);
    eb_service service;
    for (size_t i = 0; i < count; i++) {
        memset(&service, 0xa5, sizeof service);
        EXPECT(EB_OK, eb_get_service(built.system, i, &service));
        CHECK(memchr(service.name, 0, EB_SERVICE_NAME) != NULL && strlen(service.name) > 3);
        if (strcmp(system, "serewa") == 0)
            CHECK(service.own_thread && strcmp(service.name, i == 0 ? "dividing" : "linking") == 0);
    }
    EXPECT(EB_ERROR_NO_SUCH_SERVICE, eb_get_service(built.system, count, &service));
    bool more = false;
    EXPECT(EB_ERROR_NO_SUCH_SERVICE, eb_serve(cpu, count, 1, &more));

    /* Requests leave work behind: remnants to divide, and freed blocks to link. */
    uint32_t frames[FRAMES / 2], steps = 0;
    for (uint32_t i = 0; i < FRAMES / 2; i++)
        EXPECT(EB_OK, eb_allocate(cpu, 0, 0, &frames[i]));
    for (uint32_t i = 0; i < FRAMES / 2; i++)
        EXPECT(EB_OK, eb_free(cpu, frames[i], 0));
    for (size_t i = 0; i < count; i++) {
        more = true;
        while (more) {
            EXPECT(EB_OK, eb_serve(cpu, i, 4, &more));
            CHECK(++steps < 100000);
        }
    }
    if (strcmp(system, "serewa") == 0)
        CHECK(steps > count);
    CHECK(check(cpu).allocated == 0);
    end(built, cpu);
    return count > 0;
}

/* Page blocks have the type of the requests that they serve. */
static void page_blocks(void)
{
    subject = "mobility";
    enum { MOVABLE, UNMOVABLE, RECLAIMABLE, MIXED };
    eb_cpu *cpu;
    machine built = build_and_claim(one_cpu("mobility"), &cpu);
    eb_snapshot first, then;
    uint32_t frame;
    EXPECT(EB_OK, eb_take_snapshot(cpu, &first));
    EXPECT(EB_OK, eb_allocate(cpu, 0, EB_RECLAIMABLE, &frame));
    EXPECT(EB_OK, eb_take_snapshot(cpu, &then));
    CHECK(first.page_blocks[MOVABLE].blocks > 0 && first.page_blocks[MOVABLE].free_frames == FRAMES);
    CHECK(first.page_blocks[RECLAIMABLE].blocks == 0 && first.page_blocks[UNMOVABLE].blocks == 0);
    CHECK(then.page_blocks[RECLAIMABLE].blocks > 0);
    uint64_t sum = 0;
    for (int kind = MOVABLE; kind <= MIXED; kind++)
        sum += then.page_blocks[kind].free_frames;
    CHECK(sum == FRAMES - 1);
    EXPECT(EB_OK, eb_free(cpu, frame, 0));
    end(built, cpu);
    /* A system without types has none. */
    subject = "bs";
    built = build_and_claim(one_cpu("bs"), &cpu);
    EXPECT(EB_OK, eb_take_snapshot(cpu, &first));
    for (int kind = MOVABLE; kind <= MIXED; kind++)
        CHECK(first.page_blocks[kind].blocks == 0 && first.page_blocks[kind].free_frames == 0);
    end(built, cpu);
}

/* What the clock below shows, and how often a CPU paused. */
static uint64_t now_ns;
static unsigned pauses;

static uint64_t read_clock(void)
{
    return now_ns;
}

static void pause_long(uint32_t attempt)
{
    (void)attempt;
    pauses++;
    now_ns += 10000;
}

/* CPU 0 waits for CPU 1, which is in a call: by the clock, if there is one. */
static uint32_t wait_for(void *context, uint32_t start, uint32_t order)
{
    eb_cpu *cpu = context;
    uint32_t frame;
    (void)start;
    (void)order;
    eb_set_pause(pause_long);
    for (int has_clock = 1; has_clock >= 0; has_clock--) {
        eb_set_clock(has_clock ? read_clock : NULL);
        pauses = 0;
        EXPECT(EB_ERROR_BUSY, eb_allocate(cpu, 0, 0, &frame));
        CHECK(has_clock ? pauses >= 200 && pauses <= 64 + 202 : pauses == 512);
    }
    eb_set_pause(NULL);
    return EB_VISIT_KEEP_AND_STOP;
}

static void long_call(const char *system)
{
    eb_setup setup = eb_setup_new(&MEMORY, 1, 2);
    setup.system = system;
    machine built = build(&setup);
    eb_cpu *cpu, *other;
    uint64_t kept;
    uint32_t frame;
    EXPECT(EB_OK, eb_cpu_claim(built.system, 0, &cpu));
    EXPECT(EB_OK, eb_cpu_claim(built.system, 1, &other));
    EXPECT(EB_OK, eb_allocate(other, 0, 0, &frame));
    EXPECT(EB_OK, eb_free(other, frame, 0));
    /* All but one block, for the visit. */
    uint32_t last = 0;
    while (eb_allocate(cpu, 0, 0, &frame) == EB_OK)
        last = frame;
    EXPECT(EB_OK, eb_free(other, last, 0));
    EXPECT(EB_OK, eb_drain(other));
    EXPECT(EB_OK, eb_visit_free(other, 0, wait_for, cpu, &kept));
    CHECK(kept == 1);
    EXPECT(EB_OK, eb_cpu_release(other));
    end(built, cpu);
}

int main(void)
{
    int with_services = 0;
    for (size_t i = 0; i < eb_system_count(); i++) {
        subject = eb_system_name(i);
        zeroed_memory(subject);
        zeroed_frames(subject);
        reach(subject);
        parts(subject);
        with_services += services(subject);
    }
    subject = "bs";
    largest("bs", 10);
    largest("bs+order=5", 5);
    presplit();
    page_blocks();
    const char *waiting[] = {"everybuddy", "lbs-31", "magazines"};
    for (int i = 0; i < 3; i++) {
        subject = waiting[i];
        long_call(subject);
    }
    CHECK(with_services > 0);
    printf("rest: %zu systems, %d of them with services\n", eb_system_count(), with_services);
    return 0;
}
