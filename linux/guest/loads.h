/* SPDX-License-Identifier: GPL-2.0-only */
/* What the programs with loads share. */
#include <stdint.h>

#define PAGE 4096ul

static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}
