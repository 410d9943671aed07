// The way into Rust with paging, for the first CPU and for the others, and the entries of interrupts.
//
// The first CPU arrives at start at exception level 1 without paging, with the address of the device tree in x0, by
// Linux's protocol (Documentation/arch/arm64/booting.rst): the file begins with its header. The others arrive at
// other_start with their number in x0. All of them map the first 512 GiB to themselves, by pages of 1 GiB: the first
// one, which has the devices of QEMU's machine `virt`, without caches, and the rest as memory.

.section .head, "ax"
.global start
start:
    b first
    .long 0
    .quad 0                 // from a multiple of 2 MiB on
    .quad kernel_bytes
    .quad 2                 // little-endian, pages of 4 KiB, near the start of memory
    .quad 0, 0, 0
    .ascii "ARM"
    .byte 0x64
    .long 0

.section .bss
.balign 16
first_stack: .skip 0x40000
first_stack_end:

.section .rodata
.balign 4096
gigabytes:
    .quad 0x60000000000405  // a page of devices, without code
    .set gigabyte, 1
.rept 511
    .quad gigabyte << 30 | 0x701 // a page of memory that all CPUs share
    .set gigabyte, gigabyte + 1
.endr

.section .text.entry, "ax"
first:
    mov x19, x0
    ldr x0, =bss_start
    ldr x1, =bss_end
1:  cmp x0, x1
    b.hs 2f
    str xzr, [x0], #8
    b 1b
2:  bl enable_paging
    ldr x0, =first_stack_end
    mov sp, x0
    mov x0, x19
    mrs x1, mpidr_el1
    ldr x2, =0xff00ffffff   // without the flags
    and x1, x1, x2
    bl first_cpu
    brk #0

.global other_start
other_start:
    mov x19, x0
    bl enable_paging
    ldr x0, =stack_ends
    ldr x0, [x0, x19, lsl #3]
    mov sp, x0
    mov x0, x19
    bl other_cpu
    brk #0

enable_paging:
    ldr x0, =0x04ff         // pages of kind 0 are memory with caches, of kind 1 devices
    msr mair_el1, x0
    ldr x0, =0x200803519    // addresses of 39 bits from ttbr0, pages of 4 KiB, none from ttbr1
    msr tcr_el1, x0
    ldr x0, =gigabytes
    msr ttbr0_el1, x0
    tlbi vmalle1
    dsb nsh
    isb
    mrs x0, sctlr_el1
    mov x1, #0x1005         // paging, caches of data and of code
    orr x0, x0, x1
    msr sctlr_el1, x0
    isb
    ret

// The entries: with a stack of their own, of this level, of programs. Only the second group is used.
.macro entry target
    .balign 128
    b \target
.endm
.balign 2048
.global vectors
vectors:
.rept 4
    entry fault
.endr
    entry fault
    entry interrupt
.rept 10
    entry fault
.endr

// Saves what a function may change.
interrupt:
    stp x0, x1, [sp, #-160]!
    stp x2, x3, [sp, #16]
    stp x4, x5, [sp, #32]
    stp x6, x7, [sp, #48]
    stp x8, x9, [sp, #64]
    stp x10, x11, [sp, #80]
    stp x12, x13, [sp, #96]
    stp x14, x15, [sp, #112]
    stp x16, x17, [sp, #128]
    stp x18, x30, [sp, #144]
    bl on_interrupt
    ldp x2, x3, [sp, #16]
    ldp x4, x5, [sp, #32]
    ldp x6, x7, [sp, #48]
    ldp x8, x9, [sp, #64]
    ldp x10, x11, [sp, #80]
    ldp x12, x13, [sp, #96]
    ldp x14, x15, [sp, #112]
    ldp x16, x17, [sp, #128]
    ldp x18, x30, [sp, #144]
    ldp x0, x1, [sp], #160
    eret

fault:
    mrs x0, esr_el1
    mrs x1, elr_el1
    mrs x2, far_el1
    bl report_fault
    brk #0
