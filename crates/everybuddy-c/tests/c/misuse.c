/* What misuse gets: each code of the header but two, from the call that earns it; and no such call writes a result.
 *
 *   misuse          prints how many codes were seen */
#include "common.h"
#include <stdint.h>

/* Codes up to this one. */
enum { CODES = 66 };

static int seen[CODES];

/* As EXPECT, and counts the code. */
#define SEE(status, call)                                                                          \
    do {                                                                                           \
        EXPECT(status, call);                                                                      \
        seen[status] = 1;                                                                          \
    } while (0)

static const eb_range MEMORY[] = {{0x100100, 0x800}, {0x101000, 0x800}};

static eb_setup two_cpus(const char *system)
{
    eb_setup setup = eb_setup_new(MEMORY, 2, 2);
    setup.system = system;
    return setup;
}

/* A setup is refused by both calls that take one, which write neither a size nor a system. */
static void refuse_setup(eb_status status, eb_setup setup, uint64_t value, const char *text)
{
    static _Alignas(EB_ALIGNMENT) unsigned char memory[1 << 16];
    size_t bytes = 77;
    eb_system *system = NULL;
    eb_error error = {EB_OK, 0, ""};
    SEE(status, eb_metadata_size(&setup, &bytes, &error));
    CHECK(bytes == 77 && error.status == status && error.value == value);
    if (strstr(error.text, text) == NULL) {
        fprintf(stderr, "\"%s\" does not contain \"%s\"\n", error.text, text);
        exit(1);
    }
    EXPECT(status, eb_metadata_size(&setup, &bytes, NULL));
    error.status = EB_OK;
    EXPECT(status, eb_build(&setup, memory, sizeof memory, &system, &error));
    CHECK(system == NULL && error.status == status);
}

static void setups(void)
{
    subject = "setups";
    eb_setup setup = two_cpus("bs");
    setup.version++;
    refuse_setup(EB_ERROR_VERSION, setup, 0, "EB_ABI_VERSION");
    memset(&setup, 0, sizeof setup);
    refuse_setup(EB_ERROR_VERSION, setup, 0, "another version");
    setup = two_cpus("bs");
    setup.flags = 2;
    refuse_setup(EB_ERROR_ARGUMENT, setup, 0, "means nothing");
    setup = two_cpus("bs");
    setup.ranges = NULL;
    refuse_setup(EB_ERROR_NULL, setup, 0, "NULL");
    setup.range_count = 0;
    refuse_setup(EB_ERROR_NO_MEMORY, setup, 0, "empty");
    setup = two_cpus("bs");
    for (uint64_t cpus = 0; cpus <= UINT32_MAX; cpus += cpus == 0 ? 65535 : UINT32_MAX - 65535u) {
        setup.cpus = (uint32_t)cpus;
        refuse_setup(EB_ERROR_CPU_COUNT, setup, 0, "65,534");
        if (cpus == UINT32_MAX)
            break;
    }
    const eb_range swapped[] = {MEMORY[1], MEMORY[0]}, wide[] = {{0, (uint64_t)1 << 32}};
    refuse_setup(EB_ERROR_UNORDERED_RANGES, eb_setup_new(swapped, 2, 1), 1, "range 1");
    refuse_setup(EB_ERROR_SPAN_TOO_LARGE, eb_setup_new(wide, 1, 1), 0, "manages at most");

    refuse_setup(EB_ERROR_UNKNOWN_SYSTEM, two_cpus("bz+order=3"), 0, "`bz`");
    refuse_setup(EB_ERROR_UNKNOWN_SYSTEM, two_cpus(""), 0, "no system");
    refuse_setup(EB_ERROR_UNKNOWN_SYSTEM, two_cpus("\xff\xfe"), 0, "no system");
    /* A text is cut between two letters: here a letter of two bytes would need the place of the NUL. */
    char name[402] = "x";
    for (int letter = 0; letter < 200; letter++)
        memcpy(name + 1 + 2 * letter, "\xc3\xa9", 2);
    refuse_setup(EB_ERROR_UNKNOWN_SYSTEM, two_cpus(name), 0, "`x\xc3\xa9");
    eb_error error;
    setup = two_cpus(name);
    SEE(EB_ERROR_UNKNOWN_SYSTEM, eb_metadata_size(&setup, &(size_t){0}, &error));
    CHECK(strlen(error.text) == EB_ERROR_TEXT - 2 && memcmp(error.text + EB_ERROR_TEXT - 4, "\xc3\xa9", 3) == 0);
    refuse_setup(EB_ERROR_UNKNOWN_OPTION, two_cpus("bs+order=3+colour=red"), 2, "`colour=red`");
    refuse_setup(EB_ERROR_OPTION_NOT_TAKEN, two_cpus("bs+batch=3"), 0, "`batch=3`: `bs` does not take");
    refuse_setup(EB_ERROR_OPTION_MALFORMED, two_cpus("bs+order"), 1, "`order`");
    refuse_setup(EB_ERROR_OPTION_VALUE, two_cpus("bs+order=99"), 0, "`order=99`");
    refuse_setup(EB_ERROR_OPTION_REPEATED, two_cpus("bs+order=3+order=4"), 0, "`order=4`");
    refuse_setup(EB_ERROR_CONTRADICTION, two_cpus("lbs-31+batch=40+high=30"), 0, "`high` takes");
}

static void memories(void)
{
    subject = "memories";
    eb_setup setup = two_cpus("bs");
    size_t bytes;
    eb_error error;
    eb_system *system = NULL;
    SEE(EB_OK, eb_metadata_size(&setup, &bytes, NULL));
    char *memory = aligned_alloc(EB_ALIGNMENT, bytes + EB_ALIGNMENT);
    CHECK(memory != NULL);
    SEE(EB_ERROR_NULL, eb_metadata_size(NULL, &bytes, &error));
    SEE(EB_ERROR_NULL, eb_metadata_size(&setup, NULL, &error));
    SEE(EB_ERROR_NULL, eb_build(NULL, memory, bytes, &system, &error));
    SEE(EB_ERROR_NULL, eb_build(&setup, NULL, bytes, &system, &error));
    SEE(EB_ERROR_NULL, eb_build(&setup, memory, bytes, NULL, &error));
    for (size_t shift = 1; shift < EB_ALIGNMENT; shift++)
        SEE(EB_ERROR_MISALIGNED, eb_build(&setup, memory + shift, bytes, &system, &error));
    SEE(EB_ERROR_METADATA_TOO_SMALL, eb_build(&setup, memory, bytes - 1, &system, &error));
    CHECK(error.value == bytes && strstr(error.text, "needs") != NULL);
    SEE(EB_ERROR_METADATA_TOO_SMALL, eb_build(&setup, memory, 0, &system, NULL));
    CHECK(system == NULL);
    EXPECT(EB_OK, eb_build(&setup, memory, bytes, &system, NULL));
    EXPECT(EB_OK, eb_destroy(system));
    free(memory);
}

/* Keeps one block, and returns nonsense for the second. */
static uint32_t keep_then_nonsense(void *context, uint32_t frame, uint32_t order)
{
    uint32_t *visits = context;
    (void)order;
    visits[1] = visits[0] == 0 ? frame : visits[1];
    return visits[0]++ == 0 ? EB_VISIT_KEEP : 99;
}

static uint32_t nested_use(void *context, uint32_t frame, uint32_t order)
{
    uint32_t other;
    eb_cpu *cpu = context;
    eb_error error;
    (void)frame;
    (void)order;
    SEE(EB_ERROR_IN_CALL, eb_allocate(cpu, 0, 0, &other));
    SEE(EB_ERROR_IN_CALL, eb_cpu_release(cpu));
    EXPECT(EB_OK, eb_last_error(cpu, &error));
    return 99;
}

/* Handles and tokens that are none. */
static void handles(void)
{
    subject = "handles";
    eb_setup setup = two_cpus(NULL);
    machine built = build(&setup);
    eb_system *system = built.system;
    eb_cpu *cpu = NULL, *other = NULL;
    uint32_t number = 77, version;
    uint64_t many = 77;
    eb_error error;

    SEE(EB_ERROR_NULL, eb_cpu_claim(NULL, 0, &cpu));
    SEE(EB_ERROR_NULL, eb_cpu_claim(system, 0, NULL));
    SEE(EB_ERROR_NO_SUCH_CPU, eb_cpu_claim(system, 2, &cpu));
    SEE(EB_ERROR_NO_SUCH_CPU, eb_cpu_claim(system, UINT32_MAX, &cpu));
    SEE(EB_ERROR_MISALIGNED, eb_cpu_claim((eb_system *)((char *)system + 8), 0, &cpu));
    CHECK(cpu == NULL);
    EXPECT(EB_OK, eb_cpu_claim(system, 0, &cpu));
    SEE(EB_ERROR_CLAIMED, eb_cpu_claim(system, 0, &other));
    CHECK(other == NULL);
    SEE(EB_ERROR_TOKENS_CLAIMED, eb_destroy(system));

    /* Tokens. */
    SEE(EB_ERROR_NULL, eb_allocate(NULL, 0, 0, &number));
    SEE(EB_ERROR_NULL, eb_free(NULL, 0, 0));
    SEE(EB_ERROR_NULL, eb_last_error(cpu, NULL));
    SEE(EB_ERROR_MISALIGNED, eb_allocate((eb_cpu *)((char *)cpu + 4), 0, 0, &number));
    static _Alignas(EB_ALIGNMENT) unsigned char garbage[64] = "not a token, not a system";
    SEE(EB_ERROR_NOT_A_HANDLE, eb_allocate((eb_cpu *)garbage, 0, 0, &number));
    SEE(EB_ERROR_NOT_A_HANDLE, eb_cpu_claim((eb_system *)garbage, 0, &other));
    SEE(EB_ERROR_NOT_A_HANDLE, eb_allocate((eb_cpu *)system, 0, 0, &number));
    SEE(EB_ERROR_NOT_A_HANDLE, eb_destroy((eb_system *)cpu));

    /* Another version: the words behind the first ones say so. */
    memcpy(&version, (char *)system + 8, sizeof version);
    CHECK(version == EB_ABI_VERSION && eb_abi_version() == EB_ABI_VERSION);
    version++;
    memcpy((char *)system + 8, &version, sizeof version);
    SEE(EB_ERROR_VERSION, eb_cpu_claim(system, 1, &other));
    SEE(EB_ERROR_VERSION, eb_destroy(system));
    SEE(EB_ERROR_VERSION, eb_cpus(system, &number));
    version--;
    memcpy((char *)system + 8, &version, sizeof version);
    memcpy(&version, cpu, sizeof version);
    version ^= 0x300;
    memcpy(cpu, &version, sizeof version);
    SEE(EB_ERROR_VERSION, eb_free(cpu, 0, 0));
    version ^= 0x300;
    memcpy(cpu, &version, sizeof version);

    /* A token that is in a call; the visitor's answer means nothing, so all blocks are free afterwards. */
    SEE(EB_ERROR_NULL, eb_visit_free(cpu, 0, NULL, cpu, &many));
    SEE(EB_ERROR_NULL, eb_visit_free(cpu, 0, nested_use, cpu, NULL));
    CHECK(many == 77);
    SEE(EB_ERROR_ARGUMENT, eb_visit_free(cpu, 0, nested_use, cpu, &many));
    eb_census census;
    EXPECT(EB_OK, eb_check(cpu, &census, &error));
    CHECK(many == 0 && census.allocated == 0);
    /* Such an answer ends the visit, and what was kept before stays allocated. */
    uint32_t visits[2] = {0};
    SEE(EB_ERROR_ARGUMENT, eb_visit_free(cpu, 2, keep_then_nonsense, visits, &many));
    EXPECT(EB_OK, eb_check(cpu, &census, &error));
    CHECK(visits[0] == 2 && many == 1 && census.allocated == 4);
    EXPECT(EB_OK, eb_free(cpu, visits[1], 2));

    /* Reporting. */
    static _Alignas(EB_ALIGNMENT) unsigned char marks[4096];
    eb_reporting *reporting = NULL;
    size_t bytes = 77;
    bool at_end = false;
    SEE(EB_ERROR_NULL, eb_reporting_size(system, 3, NULL));
    SEE(EB_ERROR_ORDER, eb_reporting_size(system, 19, &bytes));
    SEE(EB_ERROR_TOO_LARGE, eb_reporting_size(system, 18, &bytes));
    CHECK(bytes == 77);
    EXPECT(EB_OK, eb_reporting_size(system, 3, &bytes));
    CHECK(bytes <= sizeof marks);
    SEE(EB_ERROR_NULL, eb_reporting_start(system, 3, NULL, bytes, &reporting));
    SEE(EB_ERROR_NULL, eb_reporting_start(system, 3, marks, bytes, NULL));
    SEE(EB_ERROR_MISALIGNED, eb_reporting_start(system, 3, marks + 8, bytes, &reporting));
    SEE(EB_ERROR_TOO_LARGE, eb_reporting_start(system, 18, marks, bytes, &reporting));
    SEE(EB_ERROR_METADATA_TOO_SMALL, eb_reporting_start(system, 3, marks, bytes - 1, &reporting));
    SEE(EB_ERROR_NOT_A_HANDLE, eb_allocated((eb_reporting *)marks, 0, 1, &number));
    CHECK(reporting == NULL);
    EXPECT(EB_OK, eb_reporting_start(system, 3, marks, bytes, &reporting));
    eb_request one = eb_request_order(0);
    SEE(EB_ERROR_NULL, eb_report(cpu, NULL, 9, nested_use, cpu, &at_end));
    SEE(EB_ERROR_NULL, eb_report(cpu, reporting, 9, NULL, cpu, &at_end));
    SEE(EB_ERROR_NULL, eb_report(cpu, reporting, 9, nested_use, cpu, NULL));
    SEE(EB_ERROR_NOT_A_HANDLE, eb_report(cpu, (eb_reporting *)garbage, 9, nested_use, cpu, &at_end));
    SEE(EB_ERROR_MISALIGNED, eb_report(cpu, (eb_reporting *)(marks + 8), 9, nested_use, cpu, &at_end));
    SEE(EB_ERROR_ARGUMENT, eb_report(cpu, reporting, 999, nested_use, cpu, &at_end));
    SEE(EB_ERROR_NULL, eb_allocate_reported(cpu, reporting, NULL, &number));
    SEE(EB_ERROR_NULL, eb_allocate_reported(cpu, reporting, &one, NULL));
    SEE(EB_ERROR_NOT_A_HANDLE, eb_allocate_reported(cpu, (eb_reporting *)garbage, &one, &number));
    EXPECT(EB_OK, eb_allocated(reporting, UINT32_MAX, UINT32_MAX, NULL));
    EXPECT(EB_OK, eb_check(cpu, &census, &error));
    CHECK(census.allocated == 0 && number == 77 && !at_end);

    /* A check that is refused writes its error, like one that finds a violation. */
    memset(&error, 0xa5, sizeof error);
    SEE(EB_ERROR_NULL, eb_check(cpu, NULL, &error));
    CHECK(error.status == EB_ERROR_NULL && error.value == 0 && strcmp(error.text, eb_error_message(error.status)) == 0);
    memset(&error, 0xa5, sizeof error);
    SEE(EB_ERROR_NOT_A_HANDLE, eb_check((eb_cpu *)garbage, &census, &error));
    CHECK(error.status == EB_ERROR_NOT_A_HANDLE);

    /* Calls without results write none. */
    SEE(EB_ERROR_NULL, eb_allocate(cpu, 0, 0, NULL));
    EXPECT(EB_OK, eb_check(cpu, &census, &error));
    CHECK(census.allocated == 0 && number == 77);

    EXPECT(EB_OK, eb_cpu_release(cpu));
    SEE(EB_ERROR_NOT_CLAIMED, eb_allocate(cpu, 0, 0, &number));
    SEE(EB_ERROR_NOT_CLAIMED, eb_cpu_release(cpu));
    SEE(EB_ERROR_NOT_CLAIMED, eb_last_error(cpu, &error));
    EXPECT(EB_OK, eb_cpu_claim(system, 0, &cpu));
    EXPECT(EB_OK, eb_last_error(cpu, &error));
    CHECK(error.status == EB_OK);
    EXPECT(EB_OK, eb_cpu_release(cpu));
    EXPECT(EB_OK, eb_destroy(system));
    SEE(EB_ERROR_DESTROYED, eb_destroy(system));
    SEE(EB_ERROR_DESTROYED, eb_cpu_claim(system, 0, &cpu));
    SEE(EB_ERROR_DESTROYED, eb_allocate(cpu, 0, 0, &number));
    SEE(EB_ERROR_DESTROYED, eb_cpus(system, &number));
    CHECK(number == 77);
    free(built.memory);
}

/* A call fails, stores its value, and the text contains it. */
static void value(eb_cpu *cpu, eb_status status, uint64_t expected, const char *text)
{
    eb_error error;
    EXPECT(EB_OK, eb_last_error(cpu, &error));
    CHECK(error.status == status && error.value == expected && strstr(error.text, text) != NULL);
}

static void operations(void)
{
    subject = "operations";
    eb_setup setup = two_cpus("bs");
    machine built = build(&setup);
    eb_cpu *cpu;
    EXPECT(EB_OK, eb_cpu_claim(built.system, 0, &cpu));
    eb_span span;
    EXPECT(EB_OK, eb_get_span(built.system, &span));
    uint32_t frame = 77, block;
    size_t count = 77;
    bool more = false;
    eb_state state;
    eb_request request = eb_request_frames(0);
    eb_release release = eb_release_frames(0, 0);

    SEE(EB_ERROR_ORDER, eb_allocate(cpu, EB_ORDER_LIMIT + 1, 0, &frame));
    SEE(EB_ERROR_ORDER, eb_free(cpu, 0, 300));
    SEE(EB_ERROR_ARGUMENT, eb_allocate(cpu, 0, 8, &frame));
    SEE(EB_ERROR_TOO_LARGE, eb_allocate(cpu, 11, 0, &frame));
    value(cpu, EB_ERROR_TOO_LARGE, 10, "(order 10)");
    SEE(EB_ERROR_ZERO_FRAMES, eb_allocate_request(cpu, &request, &frame));
    SEE(EB_ERROR_ZERO_FRAMES, eb_free_release(cpu, &release));
    request.unit = release.unit = 2;
    SEE(EB_ERROR_ARGUMENT, eb_allocate_request(cpu, &request, &frame));
    SEE(EB_ERROR_ARGUMENT, eb_free_release(cpu, &release));
    SEE(EB_ERROR_ARGUMENT, eb_free_nested(built.system, 0, &release));
    request = eb_request_order(0);
    SEE(EB_ERROR_NULL, eb_allocate_request(cpu, NULL, &frame));
    SEE(EB_ERROR_NULL, eb_free_release(cpu, NULL));
    SEE(EB_ERROR_NULL, eb_allocate_bulk(cpu, &request, NULL, 1, &count));
    SEE(EB_ERROR_NULL, eb_free_bulk(cpu, NULL, 1, &count));
    SEE(EB_ERROR_NULL, eb_free_bulk(cpu, NULL, 0, NULL));
    CHECK(count == 77);
    EXPECT(EB_OK, eb_free_bulk(cpu, NULL, 0, &count));
    CHECK(count == 0);
    count = 77;
    SEE(EB_ERROR_NULL, eb_allocate_runs(cpu, 1, 0, NULL, 1, &count));
    SEE(EB_ERROR_NO_SUCH_CPU, eb_allocate_nested(built.system, 65536, &request, &frame));
    SEE(EB_ERROR_NO_SUCH_CPU, eb_drain_parked(cpu, 2));
    SEE(EB_ERROR_NO_SUCH_SERVICE, eb_serve(cpu, 0, 1, &more));
    eb_service service;
    SEE(EB_ERROR_NO_SUCH_SERVICE, eb_get_service(built.system, 0, &service));
    eb_place place = eb_place_anywhere();
    place.node_rule = 3;
    SEE(EB_ERROR_ARGUMENT, eb_allocate_in(cpu, &request, &place, &frame));
    place.node_rule = EB_NODE_ONLY;
    place.node = 256;
    SEE(EB_ERROR_ARGUMENT, eb_allocate_in(cpu, &request, &place, &frame));
    place.node = 1;
    SEE(EB_ERROR_EXHAUSTED, eb_allocate_in(cpu, &request, &place, &frame));
    place = eb_place_anywhere();
    place.colour_mask = 0x7f;
    SEE(EB_ERROR_ARGUMENT, eb_allocate_in(cpu, &request, &place, &frame));
    place.colour_mask = 0;
    place.alignment = 19;
    SEE(EB_ERROR_ORDER, eb_allocate_in(cpu, &request, &place, &frame));
    CHECK(frame == 77 && count == 77);

    EXPECT(EB_OK, eb_allocate(cpu, 4, EB_MOVABLE, &block));
    SEE(EB_ERROR_WRONG_ORDER, eb_free(cpu, block, 3));
    value(cpu, EB_ERROR_WRONG_ORDER, 4, "(order 4)");
    SEE(EB_ERROR_INSIDE_BLOCK, eb_free(cpu, block + 1, 0));
    value(cpu, EB_ERROR_INSIDE_BLOCK, 4, "(order 4)");
    eb_range at = {span.base + block, 16}, next = {span.base + block + 16, 16};
    SEE(EB_ERROR_NOT_FREE, eb_reserve(cpu, at));
    char text[32];
    snprintf(text, sizeof text, "(frame 0x%" PRIx64 ")", at.start);
    CHECK(at.start != block);
    value(cpu, EB_ERROR_NOT_FREE, at.start, text);
    SEE(EB_ERROR_NOT_FREE, eb_allocate_at(cpu, at, &frame));
    SEE(EB_ERROR_NOT_FREE, eb_try_allocate_at(cpu, at, &frame));
    SEE(EB_ERROR_ALREADY_MANAGED, eb_add(cpu, at));
    value(cpu, EB_ERROR_ALREADY_MANAGED, at.start, text);
    SEE(EB_ERROR_NOT_RESERVED, eb_unreserve(cpu, at));
    EXPECT(EB_OK, eb_reserve(cpu, next));
    SEE(EB_ERROR_RESERVED, eb_free(cpu, block + 16, 0));
    next.frames = 0;
    SEE(EB_ERROR_EMPTY_RANGE, eb_unreserve(cpu, next));
    next.start = UINT64_MAX;
    next.frames = UINT64_MAX;
    SEE(EB_ERROR_OUTSIDE_SPAN, eb_remove(cpu, next));
    /* What was never memory does not become free. */
    eb_census before, after;
    EXPECT(EB_OK, eb_check(cpu, &before, NULL));
    SEE(EB_ERROR_HOLE, eb_free(cpu, 0x800 + (uint32_t)(0x100100 - span.base), 0));
    SEE(EB_ERROR_FOREIGN, eb_free(cpu, span.frames, 0));
    SEE(EB_ERROR_FOREIGN, eb_free(cpu, UINT32_MAX, 0));
    EXPECT(EB_OK, eb_check(cpu, &after, NULL));
    CHECK(before.free == after.free && before.holes == after.holes && before.allocated == after.allocated);
    SEE(EB_ERROR_FOREIGN, eb_frame_state(built.system, span.frames, &state));
    EXPECT(EB_OK, eb_free(cpu, block, 4));
    SEE(EB_ERROR_NOT_ALLOCATED, eb_free(cpu, block, 4));
    value(cpu, EB_ERROR_NOT_ALLOCATED, 0, "double free");

    /* The second of three releases fails: the first is freed, the third is not. */
    uint32_t frames[2];
    request = eb_request_order(0);
    EXPECT(EB_OK, eb_allocate_bulk(cpu, &request, frames, 2, &count));
    eb_release three[] = {eb_release_order(frames[0], 0), eb_release_order(frames[0], 0),
                          eb_release_order(frames[1], 0)};
    SEE(EB_ERROR_NOT_ALLOCATED, eb_free_bulk(cpu, three, 3, &count));
    CHECK(count == 1);
    three[1].unit = 9;
    SEE(EB_ERROR_ARGUMENT, eb_free_bulk(cpu, three + 1, 2, &count));
    CHECK(count == 0);
    EXPECT(EB_OK, eb_frame_state(built.system, frames[1], &state));
    CHECK(state.usage == EB_USE_ALLOCATED && state.head == frames[1] && state.order == 0 && state.cpu == EB_UNKNOWN);
    EXPECT(EB_OK, eb_free(cpu, frames[1], 0));

    /* A write to the metadata is a violation, found at the frame. One byte at a time, so that nothing else is wrong. */
    size_t bytes;
    eb_census census;
    eb_error error;
    unsigned violations = 0, inside = 0;
    EXPECT(EB_OK, eb_metadata_bytes(built.system, &bytes));
    unsigned char *metadata = (unsigned char *)built.memory + built.bytes - bytes;
    for (size_t byte = 0; byte < 0x1800 * 8; byte += 8 * 61) {
        metadata[byte] ^= 0x5a;
        memset(&error, 0xa5, sizeof error);
        if (eb_check(cpu, &census, &error) == EB_ERROR_VIOLATION) {
            CHECK(error.status == EB_ERROR_VIOLATION && error.value < span.frames && strlen(error.text) > 10);
            snprintf(text, sizeof text, "(index 0x%" PRIx64 ")", error.value);
            value(cpu, EB_ERROR_VIOLATION, error.value, text);
            violations++;
            inside += error.value > 0;
        }
        metadata[byte] ^= 0x5a;
    }
    CHECK(violations > 0 && inside > 0);
    SEE(EB_OK, eb_check(cpu, &census, &error));
    seen[EB_ERROR_VIOLATION] = 1;
    EXPECT(EB_OK, eb_cpu_release(cpu));
    destroy(built);
}

/* Frames in the list of another CPU that neither parked nor calls. */
static void busy(void)
{
    subject = "busy";
    eb_setup setup = two_cpus("lbs-31");
    machine built = build(&setup);
    eb_cpu *cpus[2];
    uint32_t frame, taken = 0;
    eb_request request = eb_request_order(0);
    for (uint32_t cpu = 0; cpu < 2; cpu++)
        EXPECT(EB_OK, eb_cpu_claim(built.system, cpu, &cpus[cpu]));
    EXPECT(EB_OK, eb_allocate(cpus[1], 0, 0, &frame));
    SEE(EB_ERROR_BUSY, eb_drain_parked(cpus[0], 1));
    eb_status status;
    while ((status = eb_allocate(cpus[0], 0, EB_NO_WAIT, &frame)) == EB_OK)
        taken++;
    SEE(EB_ERROR_BUSY, status);
    uint64_t buffered, own;
    EXPECT(EB_OK, eb_buffered_frames(built.system, 1, &buffered));
    EXPECT(EB_OK, eb_buffered_frames(built.system, 0, &own));
    CHECK(buffered > 0 && own == 0 && taken + buffered + 1 == 0x1000);
    eb_shortage_report report;
    EXPECT(EB_OK, eb_shortage(cpus[0], &request, &report));
    CHECK(report.reason == EB_REASON_LISTS && report.free.buffered_frames == buffered);
    CHECK(report.keeper == 1 && report.kept == buffered);
    /* A CPU whose token is released is parked. */
    EXPECT(EB_OK, eb_cpu_release(cpus[1]));
    EXPECT(EB_OK, eb_drain_parked(cpus[0], 1));
    EXPECT(EB_OK, eb_allocate(cpus[0], 0, EB_NO_WAIT, &frame));
    while (eb_allocate(cpus[0], 0, 0, &frame) == EB_OK)
        ;
    SEE(EB_ERROR_EXHAUSTED, eb_allocate(cpus[0], 0, 0, &frame));
    EXPECT(EB_OK, eb_cpu_release(cpus[0]));
    destroy(built);
}

/* Each code has a message of its own; other numbers have one, too. */
static void messages(void)
{
    subject = "messages";
    const char *unknown = eb_error_message(-1);
    CHECK(unknown != NULL && eb_error_message(INT32_MAX) == unknown);
    for (int code = 0; code < CODES; code++) {
        CHECK(strlen(eb_error_message(code)) > 10 && strlen(eb_error_message(code)) < EB_ERROR_TEXT - 24);
        for (int other = 0; other < code; other++)
            CHECK(eb_error_message(code) == unknown || strcmp(eb_error_message(code), eb_error_message(other)) != 0);
        /* Metadata is too large only for targets of 32 bits, and no text names an option that only a type lacks. */
        int is_out_of_reach = code == EB_ERROR_METADATA_TOO_LARGE || code == EB_ERROR_OPTION;
        if (!seen[code] && eb_error_message(code) != unknown && !is_out_of_reach) {
            fprintf(stderr, "no call had code %d: %s\n", code, eb_error_message(code));
            exit(1);
        }
    }
    CHECK(eb_system_name(eb_system_count()) == NULL && strcmp(eb_system_name(0), "bs") == 0);
}

int main(void)
{
    setups();
    memories();
    handles();
    operations();
    busy();
    messages();
    int codes = 0;
    for (int code = 0; code < CODES; code++)
        codes += seen[code];
    printf("misuse: %d codes\n", codes);
    return 0;
}
