/* A frame allocator in C: build it, allocate, free, see what misuse gets, and end it. README.md explains each step. */
#include <everybuddy.h>
#include <stdio.h>
#include <stdlib.h>

/* Prints what failed, and ends the program. */
static void require(eb_status status, const char *call)
{
    if (status != EB_OK) {
        fprintf(stderr, "%s: %s\n", call, eb_error_message(status));
        exit(1);
    }
}

int main(void)
{
    /* The machine: 256 MiB of memory in frames of 4 KiB, with a hole, and two CPUs. Ranges are physical frames. */
    const eb_range ranges[] = {{0x100, 0x8000}, {0x10000, 0x8000}};
    eb_setup setup = eb_setup_new(ranges, 2, 2);

    /* Memory for the allocator itself. The managed frames are never accessed. */
    eb_error error = {.status = EB_OK};
    size_t bytes;
    eb_system *system;
    void *memory = NULL;
    if (eb_metadata_size(&setup, &bytes, &error) != EB_OK ||
        (memory = aligned_alloc(EB_ALIGNMENT, bytes)) == NULL ||
        eb_build(&setup, memory, bytes, &system, &error) != EB_OK) {
        fprintf(stderr, "cannot build: %s\n", error.status == EB_OK ? "no memory" : error.text);
        return 1;
    }
    printf("Everybuddy %s: %zu bytes of metadata\n", eb_version(), bytes);

    /* A kernel claims all tokens at boot. This thread acts as CPU 0, and once as CPU 1. */
    eb_cpu *cpu, *other;
    require(eb_cpu_claim(system, 0, &cpu), "eb_cpu_claim");
    require(eb_cpu_claim(system, 1, &other), "eb_cpu_claim");

    /* A frame, a block of 512 frames for memory that can be moved, and a run of exactly 260 frames. */
    uint32_t frame, block, run;
    eb_request request = eb_request_frames(260);
    require(eb_allocate(cpu, 0, 0, &frame), "eb_allocate");
    require(eb_allocate(cpu, 9, EB_MOVABLE, &block), "eb_allocate");
    require(eb_allocate_request(cpu, &request, &run), "eb_allocate_request");

    /* Frames are counted from the start of the span. */
    uint64_t physical;
    require(eb_physical(system, block, &physical), "eb_physical");
    printf("the block starts at address 0x%llx\n", (unsigned long long)physical * 4096);

    /* CPU 0 keeps low memory for its next calls. It is in no call now, so it lends that to CPU 1: 64 KiB below 16 MiB,
       for a device. */
    uint32_t ring;
    eb_request frames = eb_request_frames(16);
    eb_place low = eb_place_anywhere();
    low.limit = 0x1000;
    require(eb_allocate_in(other, &frames, &low, &ring), "eb_allocate_in");
    eb_release device = eb_release_frames(ring, 16);
    require(eb_free_release(other, &device), "eb_free_release");

    /* Misuse is an error that changes nothing. */
    require(eb_free(cpu, frame, 0), "eb_free");
    printf("freed twice: %s\n", eb_error_message(eb_free(cpu, frame, 0)));

    /* The run is freed in two parts. */
    eb_release part = eb_release_frames(run, 100), rest = eb_release_frames(run + 100, 160);
    require(eb_free_release(cpu, &part), "eb_free_release");
    require(eb_free_release(cpu, &rest), "eb_free_release");
    require(eb_free(cpu, block, 9), "eb_free");

    /* Everything is free again, in the zone or in the list of this CPU. */
    eb_snapshot snapshot;
    require(eb_take_snapshot(cpu, &snapshot), "eb_take_snapshot");
    printf("free: %llu frames\n", (unsigned long long)(snapshot.free_frames + snapshot.buffered_frames));

    require(eb_cpu_release(cpu), "eb_cpu_release");
    require(eb_cpu_release(other), "eb_cpu_release");
    require(eb_destroy(system), "eb_destroy");
    free(memory);
    return 0;
}
