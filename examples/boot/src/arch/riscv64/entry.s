# The way into Rust, for the first CPU and for the others, and the entry of interrupts.
#
# All CPUs arrive at start in supervisor mode without paging: the first one with its number in a0 and the address of the
# device tree in a1. Each takes the kernel's number, and with it its stack. OpenSBI 1.1 was seen to start CPUs here even if
# another address was passed, when they had just arrived in the firmware. Without paging, all memory is at its own address.

.option arch, +a

.section .bss
.balign 16
first_stack: .skip 0x40000
first_stack_end:

.section .data
.balign 4
arrived_cpus: .word 0

.section .head, "ax"
.global start
start:
    la t0, arrived_cpus
    li t1, 1
    amoadd.w.aq t1, t1, (t0)
    bnez t1, 1f
    mv t0, a0
    la sp, first_stack_end
    mv a0, a1
    mv a1, t0
    call first_cpu
    unimp
1:  la t0, stack_ends
    slli t2, t1, 3
    add t0, t0, t2
    ld sp, 0(t0)
    mv a0, t1
    call other_cpu
    unimp

.section .text.entry, "ax"
# Saves what a function may change.
.balign 4
.global vectors
vectors:
    addi sp, sp, -128
    sd ra, 0(sp)
    sd t0, 8(sp)
    sd t1, 16(sp)
    sd t2, 24(sp)
    sd t3, 32(sp)
    sd t4, 40(sp)
    sd t5, 48(sp)
    sd t6, 56(sp)
    sd a0, 64(sp)
    sd a1, 72(sp)
    sd a2, 80(sp)
    sd a3, 88(sp)
    sd a4, 96(sp)
    sd a5, 104(sp)
    sd a6, 112(sp)
    sd a7, 120(sp)
    csrr a0, scause
    csrr a1, sepc
    csrr a2, stval
    call on_trap
    ld ra, 0(sp)
    ld t0, 8(sp)
    ld t1, 16(sp)
    ld t2, 24(sp)
    ld t3, 32(sp)
    ld t4, 40(sp)
    ld t5, 48(sp)
    ld t6, 56(sp)
    ld a0, 64(sp)
    ld a1, 72(sp)
    ld a2, 80(sp)
    ld a3, 88(sp)
    ld a4, 96(sp)
    ld a5, 104(sp)
    ld a6, 112(sp)
    ld a7, 120(sp)
    addi sp, sp, 128
    sret
