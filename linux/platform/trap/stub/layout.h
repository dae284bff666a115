// What the kernel process and the stubs share: where a stub's own parts are in a guest's address space, the
// control page of each guest thread, and the page of the bell. C and C++.
//
// The stub is the program that runs guests (stub.c). A hostile guest can write all of this memory at any time: the kernel
// process reads each field once and checks it.
#pragma once

#include <stdint.h>

// The stub's addresses start here; the guest's are below.
#define TRAP_LOWEST 0x10000UL
#define TRAP_STUB 0x7ffe00000000UL
#define TRAP_BELL (TRAP_STUB + 0x8000000UL)
#define TRAP_GATES (TRAP_STUB + 0x4000000UL)
#define TRAP_CONTROLS (TRAP_STUB + 0x10000000UL)
#define TRAP_STACKS (TRAP_STUB + 0x20000000UL)
#define TRAP_STACK_SIZE 0x10000UL
#define TRAP_TOP 0x7ffffffff000UL
#define TRAP_PAGE 4096UL

enum {
  kTrapSlots = 1024,        // threads of one process
  kTrapMostThreads = 4096,  // of all processes
  kTrapBatch = 48,          // directed calls at a time
  kTrapDescriptors = 16,    // in a batch
  kTrapSocket = 3,          // the descriptor of a stub's socket
  kTrapNurseryBell = 4,     // and of the bell's memory, in the nursery
  kTrapGates = 512,         // patched call sites of one process
  kTrapGateBytes = 32,
  kTrapDevice = 5,  // for kvm: /dev/kvm, in the nursery and all monitors
};

// TrapControl::state
enum {
  kTrapRunning = 0,
  kTrapStopped = 1,  // the stub waits for an order
  kTrapOrdered = 2,  // the kernel process has given an order
};

// TrapControl::order
enum {
  kTrapRun = 0,          // make the calls, and resume with the registers
  kTrapCalls = 1,        // make the calls, and stop again
  kTrapFork = 2,         // fork the process; two descriptors arrive: the child's control pages and its socket
  kTrapThread = 3,       // a new thread in the slot new_slot
  kTrapExit = 4,         // end this thread
  kTrapSaveVectors = 5,  // for kvm: store the processor's vector state at `vector_state`
  kTrapFrame = 6,        // stop again, by a signal: it came through a gate and has no frame
};

// The order of the registers in a signal frame.
enum { kTrapRegisters = 18 };

// A host call that the stub makes as ordered. descriptor, if not -1, replaces argument 4: an index into the
// descriptors that came with the batch.
struct TrapCall {
  uint32_t number;
  int16_t descriptor;
  uint16_t may_fail;
  uint64_t arguments[6];
};

struct TrapControl {
  uint32_t state;
  uint32_t is_stub_asleep;
  uint32_t spins;
  uint32_t index;    // index among all threads, for the hints
  uint32_t thread;   // nonzero while the host's thread exists
  uint32_t batches;  // batches of calls that were made
  uint32_t order, call_count, descriptor_count, new_slot;
  int64_t result;         // of the order; for calls, the first error or 0
  int32_t signal, code;   // why it stopped; signal 0: a call of a kTrapRun failed
  uint32_t architecture;  // for SIGSYS, AUDIT_ARCH_*
  uint32_t trap_number;
  uint64_t error_code, page_address, fault_address;
  uint64_t registers[kTrapRegisters], fs_base, gs_base;
  uint64_t vector_state;  // the address of the frame's XSAVE area
  uint32_t by_gate;       // it came through a gate: there is no frame
  uint32_t is_kicked;     // SIGUSR1 came while it was the stub's turn
  uint32_t answers[8];    // results of calls that gates answer by themselves (kTrapAnswers)
  // For kvm: the page tables' root, which bits to set in cr4, and whether to load the stored vector state
  // first. Results: why KVM_RUN returned (an exit reason or a negative error), and the processor's privilege
  // level then.
  uint64_t root, more_cr4;
  uint32_t loads_vectors;
  int32_t exit;
  uint32_t level;
  struct TrapCall calls[kTrapBatch];
};

// A gate is the target of a patched call site: the kernel process writes it. Only a process of one thread, in
// slot 0, has gates.
//
//   lea site+7(%rip), %rcx;  mov $number, %eax;  jmp trap_gate_entry        or, for a call that needs no stop:
//   lea site+7(%rip), %rcx;  mov answers[N](%rip), %eax;  jmp *%rcx

// Shared by all stubs. The hints say which threads may have stopped; a guest that clears others' hints delays
// them a little, since the kernel process checks all running threads from time to time.
struct TrapBell {
  uint32_t rings;  // a futex word
  uint32_t is_kernel_asleep;
  uint64_t hinted_words;  // bit N: hints[N] may have bits
  uint64_t hints[kTrapMostThreads / 64];
};

// The kernel process's first message to the nursery.
// inner_user differs from user where the kernel process maps it in the nursery's user namespace; the nursery
// then reports by an int32_t that it has started (or its error), and receives another that lets it continue
// (or an error: it is to map its own user).
struct TrapNurseryStart {
  uint32_t user, group, inner_user, inner_group;
  uint64_t most_processes;
  uint64_t traps_time_stamps;  // 0: guests may read the processor's counter
  uint64_t most_files;
};

// The walls that the nursery raises (nursery.cc names them); its answer has an error number for each.
enum {
  kTrapUserNamespace,
  kTrapPidNamespace,
  kTrapNetNamespace,
  kTrapIpcNamespace,
  kTrapUtsNamespace,
  kTrapCgroupNamespace,
  kTrapMountNamespace,
  kTrapResourceLimits,
  kTrapCapabilities,
  kTrapNoNewPrivileges,
  kTrapWalls,
};
struct TrapNurseryAnswer {
  uint64_t gate_entry;         // where gates lead to
  int32_t init;                // the process id of the namespace's first process, or a negative error
  int32_t errors[kTrapWalls];  // 0: the wall was raised
};

// The only clone flags that a stub may use (the exit signal is that of its parent's child).
#define TRAP_FORK_FLAGS 0x00008000UL    // CLONE_PARENT
#define TRAP_THREAD_FLAGS 0x00250f00UL  // CLONE_VM FS FILES SIGHAND THREAD SYSVSEM CHILD_CLEARTID
