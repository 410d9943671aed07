// SPDX-License-Identifier: GPL-2.0-only
/*
 * A plugin of QEMU that counts the instructions of a guest, and those of parts of its kernel:
 *
 *   -plugin instructions.so,parts=FILE,output=FILE
 *
 * A line of the parts has the addresses between which code lies, and the name of the part: `START END NAME`. Parts with the
 * same name are counted together. If both addresses are the same, executions of that instruction are counted. Whenever the
 * guest executes the marker that `storm count` contains, a line with all counts so far is written.
 *
 * A block of translated code is counted when it begins, so a page fault in the middle of one counts its rest twice. With
 * `-icount`, one thread executes all CPUs, and all counts are exact otherwise.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* QEMU's header qemu-plugin.h is not packaged by Debian. This is what is used of version 1. */
typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   void (*translated)(qemu_plugin_id_t id, struct qemu_plugin_tb *block));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, enum qemu_plugin_op op, void *counter,
					      uint64_t change);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *instruction,
					    void (*executed)(unsigned int cpu, void *data),
					    enum qemu_plugin_cb_flags flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t at);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *instruction);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *instruction);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *instruction);

int qemu_plugin_version = 1;

/* The marker: nopl 0x65627564(%rax), which does nothing. */
static const unsigned char marker[] = { 0x0f, 0x1f, 0x80, 0x64, 0x75, 0x62, 0x65 };

#define PARTS 64
#define NAMES 32
static struct part {
	uint64_t start, end;
	unsigned int name;
} parts[PARTS];
static unsigned int part_count;
/* These names are not in the file: a string instruction counts once for each repetition. */
enum { ALL, KERNEL, REPETITIONS };
static char names[NAMES][64] = { "all", "kernel", "repetitions" };
static unsigned int name_count = 3;
static uint64_t counts[NAMES];
static FILE *output;

static void mark(unsigned int cpu, void *unused)
{
	unsigned int name;

	for (name = 0; name < name_count; name++)
		fprintf(output, "%s=%" PRIu64 "%c", names[name], counts[name], name + 1 < name_count ? ' ' : '\n');
	fflush(output);
}

/* Whether this is `rep movs`, `rep stos` or the like. */
static bool repeats(const unsigned char *code, size_t length)
{
	size_t at = 1;

	if (length < 2 || (code[0] != 0xf2 && code[0] != 0xf3))
		return false;
	if (length > 2 && (code[1] & 0xf0) == 0x40) /* a REX prefix */
		at = 2;
	return code[at] >= 0xa4 && code[at] <= 0xaf && code[at] != 0xa8 && code[at] != 0xa9;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
	size_t length = qemu_plugin_tb_n_insns(block), at;
	uint64_t found[NAMES] = {};
	unsigned int part, name;

	for (at = 0; at < length; at++) {
		struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, at);
		uint64_t address = qemu_plugin_insn_vaddr(instruction);

		if (qemu_plugin_insn_size(instruction) == sizeof(marker) &&
		    !memcmp(qemu_plugin_insn_data(instruction), marker, sizeof(marker)))
			qemu_plugin_register_vcpu_insn_exec_cb(instruction, mark, QEMU_PLUGIN_CB_NO_REGS, NULL);
		found[ALL]++;
		found[REPETITIONS] += repeats(qemu_plugin_insn_data(instruction), qemu_plugin_insn_size(instruction));
		if (!(address >> 63))
			continue;
		found[KERNEL]++;
		for (part = 0; part < part_count; part++) {
			const struct part *own = &parts[part];

			if (own->start == own->end ? address == own->start : address >= own->start && address < own->end)
				found[own->name]++;
		}
	}
	for (name = 0; name < name_count; name++)
		if (found[name])
			qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &counts[name],
								 found[name]);
}

static bool read_parts(const char *path)
{
	FILE *file = fopen(path, "r");
	struct part *own = parts;
	char name[64];

	if (!file)
		return false;
	for (; own < parts + PARTS && fscanf(file, "%" SCNx64 " %" SCNx64 " %63s", &own->start, &own->end, name) == 3; own++) {
		for (own->name = 0; own->name < name_count && strcmp(names[own->name], name); own->name++)
			;
		if (own->name == NAMES)
			break;
		if (own->name == name_count)
			strcpy(names[name_count++], name);
		part_count++;
	}
	return part_count && feof(file) && !fclose(file);
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int count, char **arguments)
{
	bool has_parts = false;
	int at;

	for (at = 0; at < count; at++) {
		if (!strncmp(arguments[at], "parts=", 6))
			has_parts = read_parts(arguments[at] + 6);
		if (!strncmp(arguments[at], "output=", 7))
			output = fopen(arguments[at] + 7, "w");
	}
	if (!has_parts || !output) {
		fprintf(stderr, "instructions: the parts cannot be read, or the output cannot be written\n");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
