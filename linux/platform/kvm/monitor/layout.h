// What the kernel process and a monitor share in addition to trap's layout
// (linux/platform/trap/stub/layout.h): the machine's own memory, which holds descriptor tables, a task
// segment for each processor and the page tables; and where guests see it. C and C++. The kernel process
// writes it; guests see supervisor pages, and never write them.
#pragma once

#include "linux/platform/trap/stub/layout.h"

// In the monitor's address space.
#define KVM_MACHINE (TRAP_STUB + 0x40000000UL)
#define KVM_MACHINE_BYTES 0x2000000UL
#define KVM_RUNS (TRAP_STUB + 0x50000000UL)
#define KVM_RUN_BYTES 0x10000UL

// In a guest's address space: the first pages of the machine's memory, and the unbacked page to which every
// system call and exception jumps. Fetching from it ends KVM_RUN.
#define KVM_SYSTEM TRAP_STUB
#define KVM_GATES (KVM_SYSTEM + 0x100000UL)
#define KVM_GATE_CALL KVM_GATES
#define KVM_GATE_OLD_CALL (KVM_GATES + 4)
#define KVM_GATE_EXCEPTIONS (KVM_GATES + 8)  // eight bytes for each vector

// Physical addresses: the machine's memory starts at 0, with these parts. Guest memory begins at
// KVM_FIRST_WINDOW.
#define KVM_GDT 0x0UL
#define KVM_GDT_BYTES 0x80UL
#define KVM_IDT 0x100UL
#define KVM_VECTORS 20
#define KVM_SEGMENTS 0x1000UL  // of the slots' task segments, and the stacks of one frame
#define KVM_SEGMENT_BYTES 256UL
#define KVM_SYSTEM_PAGES (1 + kTrapSlots * KVM_SEGMENT_BYTES / TRAP_PAGE)
#define KVM_SYSTEM_DIRECTORY 0x50000UL
#define KVM_SYSTEM_TABLE 0x51000UL
#define KVM_TABLES 0x52000UL  // from here on
#define KVM_HOLE 0x38000000UL
#define KVM_FIRST_WINDOW 0x40000000UL

enum {
  kKvmVm = 7,  // descriptors of a monitor
  kKvmProcessors = 64,
  kKvmFiles = kKvmProcessors + kTrapSlots + 16,
  kKvmVectorRoom = 0x4000,  // at the begin of each thread's stack
  kKvmKernelCode = 0x10,    // selectors, as in Linux
  kKvmUserData = 0x2b,
  kKvmUserCode = 0x33,
};
