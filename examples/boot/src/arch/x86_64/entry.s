# The way into long mode, for the first CPU and for the others.
#
# The first CPU arrives at start in protected mode without paging, with the address of the start information in ebx.
# The others arrive at the copy of `trampoline`, in real mode. All of them map the first 512 GiB to themselves, by pages
# of 1 GiB, and continue in Rust.

.section .note.pvh, "a", @note
.balign 4
    .long 4                 # length of the name
    .long 4                 # length of the address
    .long 18                # XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long start

.section .bss
.balign 4096
top_table: .skip 4096
gigabytes: .skip 4096
first_stack: .skip 0x40000
first_stack_end:

.section .rodata
.balign 8
descriptors:
    .quad 0
    .quad 0x00af9b000000ffff # 0x08: code, 64 bits
    .quad 0x00cf93000000ffff # 0x10: data
    .quad 0x00cf9b000000ffff # 0x18: code, 32 bits
descriptors_end:
descriptors_pointer:
    .word descriptors_end - descriptors - 1
    .quad descriptors
first_long: .long first_in_long_mode
    .word 0x08
other_long: .long other_in_long_mode
    .word 0x08

.section .text.entry, "ax"
.code32
.global start
start:
    cli
    cld
    mov esp, offset first_stack_end
    mov dword ptr [top_table], offset gigabytes + 3
    mov edi, offset gigabytes
    mov eax, 0x83           # present, writable, 1 GiB
    xor edx, edx
    mov ecx, 512
1:  mov [edi], eax
    mov [edi + 4], edx
    add eax, 0x40000000
    adc edx, 0
    add edi, 8
    dec ecx
    jnz 1b
    mov ebp, offset first_long

# Expects the far address of 64-bit code in ebp, and keeps ebx.
enter_long_mode:
    mov eax, cr4
    or eax, 0x20            # PAE
    mov cr4, eax
    mov eax, offset top_table
    mov cr3, eax
    mov ecx, 0xc0000080     # EFER
    rdmsr
    or eax, 0x100           # LME
    wrmsr
    mov eax, cr0
    or eax, 0x80010000      # PG, WP
    mov cr0, eax
    lgdt [descriptors_pointer]
    .byte 0xff, 0x6d, 0     # ljmp [ebp]

.code64
first_in_long_mode:
    mov eax, 0x10
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov rsp, offset first_stack_end
    mov edi, ebx
    xor esi, esi
    xor ebp, ebp
    call first_cpu
    ud2

# A CPU takes the next number, and with it its stack.
other_in_long_mode:
    mov eax, 0x10
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov edi, 1
    lock xadd [arrived_cpus], edi
    cmp edi, [expected_cpus]
    jae 2f
    mov rsp, [stack_ends + rdi * 8]
    xor ebp, ebp
    call other_cpu
    ud2
2:  hlt
    jmp 2b

.code32
other_in_protected_mode:
    mov eax, 0x10
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov ebp, offset other_long
    jmp enter_long_mode

# Copied to TRAMPOLINE, below 1 MiB.
.code16
.global trampoline
trampoline:
    cli
    cld
    mov ax, cs
    mov ds, ax
    .byte 0x66, 0x0f, 0x01, 0x16 # lgdt [trampoline_pointer], with an address of 32 bits there
    .word trampoline_pointer - trampoline
    mov eax, cr0
    or eax, 1
    mov cr0, eax
    .byte 0x66, 0xea        # ljmp 0x18:other_in_protected_mode
    .long other_in_protected_mode
    .word 0x18
trampoline_pointer:
    .word descriptors_end - descriptors - 1
    .long descriptors
.global trampoline_end
trampoline_end:
.code64
