/* Allocates and frees a frame, again and again: cost SYSTEM PAIRS. ci/c.sh counts the instructions. */
#include "common.h"

int main(int argc, char **argv)
{
    const eb_range range = {0x100, 0x8000};
    eb_setup setup = eb_setup_new(&range, 1, 1);
    eb_cpu *cpu;
    uint32_t frame;
    CHECK(argc == 3);
    setup.system = argv[1];
    machine built = build(&setup);
    EXPECT(EB_OK, eb_cpu_claim(built.system, 0, &cpu));
    for (uint32_t pairs = (uint32_t)atoi(argv[2]); pairs > 0; pairs--)
        if (eb_allocate(cpu, 0, 0, &frame) != EB_OK || eb_free(cpu, frame, 0) != EB_OK)
            return 1;
    EXPECT(EB_OK, eb_cpu_release(cpu));
    destroy(built);
    return 0;
}
