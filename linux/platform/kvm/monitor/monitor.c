// The monitor runs guest threads on the platform `kvm`. It is a freestanding program at a high address, in a
// process that is jailed like trap's stubs (linux/platform/trap/stub/jail.c). The process's memory below it
// is the guest's; a virtual machine has that memory, and a processor for each guest thread. The monitor runs
// the processor, passes its registers to the kernel process, and obeys orders as a stub does. It makes no
// decisions, and guests cannot reach it.
//
// It has no writable data: its state is in the thread's control page and stack, and in the numbers of its
// descriptors.
#define _GNU_SOURCE
#include <cpuid.h>
#include <linux/kvm.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "linux/platform/kvm/monitor/layout.h"
#include "linux/platform/trap/stub/exchange.h"

// clang-format off
asm(".text\n"
    ".globl trap_call, trap_call_end, trap_restorer, trap_begin, monitor_thread_entry\n"
    ".hidden trap_call, trap_call_end, trap_restorer, trap_begin, monitor_thread_entry\n"
    "trap_call: mov %rdi,%rax\n mov %rsi,%rdi\n mov %rdx,%rsi\n mov %rcx,%rdx\n mov %r8,%r10\n mov %r9,%r8\n"
    " mov 8(%rsp),%r9\n"
    "trap_call_instruction: syscall\n"
    "trap_call_end: ret\n"
    "trap_restorer: mov $15,%eax\n jmp trap_call_instruction\n"  // rt_sigreturn
    // The first thread leaves the nursery's stack for its own.
    "trap_begin: movabs $0x7ffe20010000,%rsp\n call monitor_first\n hlt\n"
    "monitor_thread_entry: pop %rdi\n and $-16,%rsp\n call monitor_thread\n hlt\n"
    ".globl _start\n"
    "_start: and $-16,%rsp\n call trap_nursery\n hlt\n");
// clang-format on
_Static_assert(TRAP_STACKS + TRAP_STACK_SIZE == 0x7ffe20010000UL, "the first stack's end");
__attribute__((visibility("hidden"))) extern char monitor_thread_entry[];

static __attribute__((noreturn)) void end_process(void) {
  for (;;) CALL1(SYS_exit, 1);
}

static struct kvm_run* run_of(unsigned long slot) {
  return (struct kvm_run*)(KVM_RUNS + slot * KVM_RUN_BYTES);
}
static int processor_of(unsigned long slot) { return kKvmProcessors + (int)slot; }
static char* vectors_of(unsigned long slot) { return (char*)(TRAP_STACKS + slot * TRAP_STACK_SIZE); }

// Shared by a thread and its signal handler: a fork has no processor yet when the first signal can arrive.
struct Kick {
  volatile uint32_t has_processor, was_asked;
};
static struct Kick* kick_of(unsigned long slot) {
  return (struct Kick*)(vectors_of(slot) + kKvmVectorRoom - sizeof(struct Kick));
}
static void ask_to_exit(unsigned long slot) {
  __atomic_store_n(&run_of(slot)->immediate_exit, 1, __ATOMIC_SEQ_CST);
}
static void note_processor(unsigned long slot) {
  struct Kick* const kick = kick_of(slot);
  kick->has_processor = 1;
  if (kick->was_asked == 0) return;
  kick->was_asked = 0;
  ask_to_exit(slot);
}

static long make_call(const struct TrapCall* call, long descriptor) {
  if (call->number == SYS_ioctl) {
    struct kvm_userspace_memory_region region = {
        .slot = (uint32_t)call->arguments[0],
        .guest_phys_addr = call->arguments[1],
        .memory_size = call->arguments[2],
        .userspace_addr = call->arguments[3],
    };
    return CALL3(SYS_ioctl, kKvmVm, KVM_SET_USER_MEMORY_REGION, &region);
  }
  return trap_call(call->number, (long)call->arguments[0], (long)call->arguments[1], (long)call->arguments[2],
                   (long)call->arguments[3], descriptor, (long)call->arguments[5]);
}

// ---- the machine ----

static long place(long descriptor, int number) {
  if (descriptor < 0) return descriptor;
  const long placed = CALL2(SYS_dup2, descriptor, number);
  CALL1(SYS_close, descriptor);
  return placed;
}

static long make_machine(void) {
  const long failed = place(CALL3(SYS_ioctl, kTrapDevice, KVM_CREATE_VM, 0), kKvmVm);
  if (failed < 0) return failed;
  struct kvm_enable_cap exits = {.cap = KVM_CAP_EXIT_ON_EMULATION_FAILURE, .args = {1}};
  struct kvm_userspace_memory_region region = {.memory_size = KVM_MACHINE_BYTES,
                                               .userspace_addr = KVM_MACHINE};
  const long enabled = CALL3(SYS_ioctl, kKvmVm, KVM_ENABLE_CAP, &exits);
  return enabled < 0 ? enabled : CALL3(SYS_ioctl, kKvmVm, KVM_SET_USER_MEMORY_REGION, &region);
}

struct Identity {
  struct kvm_cpuid2 head;
  struct kvm_cpuid_entry2 entries[256];
};

// The vector state that guests may use: x87, SSE, AVX, AVX-512, as the processor has them.
static uint64_t vector_parts(void) {
  unsigned low = 0, b = 0, c = 0, high = 0;
  __cpuid_count(0xd, 0, low, b, c, high);
  return low & 0xe7;
}

// CPUID as guests see it: without features that a guest of this platform cannot use.
static void limit_identity(struct Identity* identity) {
  for (unsigned i = 0; i < identity->head.nent && i < 256; ++i) {
    struct kvm_cpuid_entry2* const entry = &identity->entries[i];
    switch (entry->function) {
      case 1:  // monitor, virtual machines, x2apic, the timer of an apic
        entry->ecx &= ~(1u << 3 | 1u << 5 | 1u << 21 | 1u << 24);
        break;
      case 7:
        if (entry->index == 0) {
          entry->ebx &= ~(1u << 2);                                    // enclaves
          entry->ecx &= ~(1u << 3 | 1u << 4 | 1u << 7);                // protection keys, shadow stacks
          entry->edx &= ~(1u << 20 | 1u << 22 | 1u << 24 | 1u << 25);  // branch tracking, tiles
        }
        break;
      case 0xa: entry->eax = entry->ebx = entry->ecx = entry->edx = 0; break;  // counters
      case 0xd:
        if (entry->index == 0) entry->eax &= (unsigned)vector_parts(), entry->edx = 0;
        if (entry->index == 1) entry->eax &= 7, entry->ecx = entry->edx = 0;  // no supervisor's states
        break;
      case 0x80000001: entry->ecx &= ~(1u << 2); break;  // virtual machines
    }
  }
}

static long identify(unsigned long slot) {
  struct Identity identity;
  identity.head.nent = 256;
  identity.head.padding = 0;
  long failed = CALL3(SYS_ioctl, kTrapDevice, KVM_GET_SUPPORTED_CPUID, &identity);
  if (failed < 0) return failed;
  limit_identity(&identity);
  return CALL3(SYS_ioctl, processor_of(slot), KVM_SET_CPUID2, &identity);
}

static long set_control_registers(unsigned long slot) {
  struct kvm_xcrs controls = {.nr_xcrs = 1};
  controls.xcrs[0].value = vector_parts();
  struct {
    struct kvm_msrs head;
    struct kvm_msr_entry entries[4];
  } registers = {{.nmsrs = 4},
                 {{.index = 0xc0000081, .data = (uint64_t)kKvmKernelCode << 32 | (uint64_t)0x23 << 48},
                  {.index = 0xc0000082, .data = KVM_GATE_CALL},
                  {.index = 0xc0000083, .data = KVM_GATE_OLD_CALL},
                  {.index = 0xc0000084, .data = 0x47700}}};
  const long failed = CALL3(SYS_ioctl, processor_of(slot), KVM_SET_XCRS, &controls);
  if (failed < 0) return failed;
  return CALL3(SYS_ioctl, processor_of(slot), KVM_SET_MSRS, &registers) == 4 ? 0 : -1;
}

// The bytes with which Linux records how long a state is. Other parts that kvm returns, such as
// protection-key rights, are not for guests; the second mark goes where they lie.
static void mark_vectors(char* state) {
  const uint64_t parts = vector_parts();
  *(uint64_t*)(state + 512) &= parts;
  unsigned size = 512 + 64;
  for (unsigned part = 2; part < 8; ++part) {
    unsigned length = 0, offset = 0, c = 0, d = 0;
    if ((parts >> part & 1) == 0) continue;
    __cpuid_count(0xd, part, length, offset, c, d);
    if (offset + length > size) size = offset + length;
  }
  *(uint32_t*)(state + 464) = 0x46505853;
  *(uint32_t*)(state + 468) = size + 4;
  *(uint64_t*)(state + 472) = parts;
  *(uint32_t*)(state + 480) = size;
  *(uint32_t*)(state + size) = 0x46505845;
}

static void save_vectors(unsigned long slot) {
  char* const state = vectors_of(slot);
  CALL3(SYS_ioctl, processor_of(slot), KVM_GET_XSAVE, state);
  mark_vectors(state);
}

// Creates the slot's processor if it has none; a processor is kept for the slot's next thread.
static long make_processor(unsigned long slot) {
  struct kvm_run* const run = run_of(slot);
  const long made = place(CALL3(SYS_ioctl, kKvmVm, KVM_CREATE_VCPU, slot), processor_of(slot));
  if (made < 0) return made == -17 /* EEXIST: the slot has had a thread */ ? 0 : made;
  const long size = CALL3(SYS_ioctl, kTrapDevice, KVM_GET_VCPU_MMAP_SIZE, 0);
  if (size < (long)sizeof *run || size > (long)KVM_RUN_BYTES) return -1;
  if (CALL6(SYS_mmap, run, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, processor_of(slot), 0) !=
          (long)run ||
      CALL3(SYS_madvise, run, size, MADV_DONTFORK) != 0)
    return -1;
  const long failed = identify(slot);
  if (failed < 0) return failed;
  run->kvm_valid_regs = KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS;
  const long known = CALL3(SYS_ioctl, processor_of(slot), KVM_GET_SREGS, &run->s.regs.sregs);
  return known < 0 ? known : set_control_registers(slot);
}

// ---- the guest ----

static void set_segments(struct kvm_sregs* to, unsigned long slot) {
  const struct kvm_segment code = {.limit = 0xffffffff,
                                   .selector = kKvmUserCode,
                                   .type = 11,
                                   .present = 1,
                                   .dpl = 3,
                                   .s = 1,
                                   .l = 1,
                                   .g = 1};
  struct kvm_segment data = code;
  data.selector = kKvmUserData;
  data.type = 3;
  data.l = 0;
  data.db = 1;
  to->cs = code;
  to->ss = data;
  data.selector = 0;
  to->ds = to->es = to->fs = to->gs = data;
  to->tr = (struct kvm_segment){.base = KVM_SYSTEM + KVM_SEGMENTS + slot * KVM_SEGMENT_BYTES,
                                .limit = 0x67,
                                .selector = 0x40,
                                .type = 11,
                                .present = 1};
  to->ldt = (struct kvm_segment){.unusable = 1, .type = 2};
  to->gdt.base = KVM_SYSTEM + KVM_GDT;
  to->gdt.limit = KVM_GDT_BYTES - 1;
  to->idt.base = KVM_SYSTEM + KVM_IDT;
  to->idt.limit = KVM_VECTORS * 16 - 1;
}

static void load_registers(struct kvm_run* run, const struct TrapControl* control, unsigned long slot) {
  struct kvm_sregs* const system = &run->s.regs.sregs;
  set_segments(system, slot);
  system->fs.base = control->fs_base;
  system->gs.base = control->gs_base;
  system->cr0 = 0x80050033;
  system->cr3 = control->root;
  system->cr4 = 1u << 5 | 1u << 9 | 1u << 10 | 1u << 16 | 1u << 18 | control->more_cr4;
  system->cr8 = 0;
  system->efer = 0xd01;  // system calls, long mode, no execution where pages say so
  for (unsigned i = 0; i < sizeof system->interrupt_bitmap / sizeof *system->interrupt_bitmap; ++i)
    system->interrupt_bitmap[i] = 0;
  const uint64_t* const from = control->registers;
  run->s.regs.regs = (struct kvm_regs){.r8 = from[0],
                                       .r9 = from[1],
                                       .r10 = from[2],
                                       .r11 = from[3],
                                       .r12 = from[4],
                                       .r13 = from[5],
                                       .r14 = from[6],
                                       .r15 = from[7],
                                       .rdi = from[8],
                                       .rsi = from[9],
                                       .rbp = from[10],
                                       .rbx = from[11],
                                       .rdx = from[12],
                                       .rax = from[13],
                                       .rcx = from[14],
                                       .rsp = from[15],
                                       .rip = from[16],
                                       .rflags = from[17]};
  run->kvm_dirty_regs = KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS;
}

static void store_registers(const struct kvm_run* run, struct TrapControl* control) {
  const struct kvm_regs* const r = &run->s.regs.regs;
  const uint64_t all[kTrapRegisters] = {r->r8,  r->r9,  r->r10, r->r11, r->r12, r->r13,
                                        r->r14, r->r15, r->rdi, r->rsi, r->rbp, r->rbx,
                                        r->rdx, r->rax, r->rcx, r->rsp, r->rip, r->rflags};
  for (int i = 0; i < kTrapRegisters; ++i) control->registers[i] = all[i];
  control->fs_base = run->s.regs.sregs.fs.base;
  control->gs_base = run->s.regs.sregs.gs.base;
  control->page_address = run->s.regs.sregs.cr2;
  control->level = run->s.regs.sregs.cs.dpl;
}

// Returns when the guest leaves the machine.
static void run_guest(struct TrapControl* control, unsigned long slot) {
  struct kvm_run* const run = run_of(slot);
  if (control->loads_vectors != 0) {
    control->loads_vectors = 0;
    CALL3(SYS_ioctl, processor_of(slot), KVM_SET_XSAVE, vectors_of(slot));
  }
  load_registers(run, control, slot);
  const long failed = CALL3(SYS_ioctl, processor_of(slot), KVM_RUN, 0);
  store_registers(run, control);
  control->vector_state = (uint64_t)vectors_of(slot);
  control->exit = failed < 0 ? (int32_t)failed : (int32_t)run->exit_reason;
  control->fault_address = run->exit_reason == KVM_EXIT_MMIO ? run->mmio.phys_addr : 0;
  control->signal = SIGSEGV;
  if (failed != -4) return;  // EINTR
  __atomic_store_n(&run->immediate_exit, 0, __ATOMIC_SEQ_CST);
  control->signal = SIGUSR1;
}

// The only handled signal makes the processor of its thread leave the guest: now, or as soon as it enters it.
void trap_handler(int signal, void* info, void* context) {
  (void)signal, (void)info;
  const unsigned long slot = slot_at(context);
  if (kick_of(slot)->has_processor != 0) ask_to_exit(slot);
  else kick_of(slot)->was_asked = 1;
}

// ---- orders ----

// In the child: creates a machine of its own, with the memory of this process.
static void settle_child(const int* descriptors, unsigned long slot) {
  const long size = kTrapSlots * TRAP_PAGE;
  if (CALL6(SYS_mmap, TRAP_CONTROLS, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptors[0],
            0) != (long)TRAP_CONTROLS ||
      CALL3(SYS_madvise, TRAP_CONTROLS, size, MADV_DONTFORK) != 0 ||
      CALL6(SYS_mmap, KVM_MACHINE, KVM_MACHINE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
            descriptors[2], 0) != (long)KVM_MACHINE ||
      CALL3(SYS_madvise, KVM_MACHINE, KVM_MACHINE_BYTES, MADV_DONTFORK) != 0 ||
      CALL2(SYS_dup2, descriptors[1], kTrapSocket) != kTrapSocket)
    end_process();
  CALL3(SYS_close_range, kKvmProcessors, kKvmProcessors + kTrapSlots - 1, 0);
  if (make_machine() < 0 || make_processor(slot) < 0) end_process();
  note_processor(slot);
  control_of(slot)->loads_vectors = 1;
}

static int fork_process(struct TrapControl* control, unsigned long slot) {
  int descriptors[3];
  receive(descriptors, 3);
  save_vectors(slot);
  kick_of(slot)->has_processor = 0;
  const long result = CALL5(SYS_clone, TRAP_FORK_FLAGS, 0, 0, 0, 0);
  if (result == 0) settle_child(descriptors, slot);
  else note_processor(slot);
  for (int i = 0; i < 3; ++i) CALL1(SYS_close, descriptors[i]);
  if (result != 0) control->result = result;
  return result == 0;
}

// The new thread starts with a copy of this one's vector state.
static long start_thread(unsigned long from, unsigned long slot) {
  const long failed = make_processor(slot);
  if (failed < 0) return failed;
  save_vectors(from);
  const long* const source = (const long*)vectors_of(from);
  long* const target = (long*)vectors_of(slot);
  for (unsigned i = 0; i < 4096 / sizeof(long); ++i) target[i] = source[i];
  control_of(slot)->loads_vectors = 1;
  kick_of(slot)->was_asked = 0;
  note_processor(slot);
  unsigned long* const stack = (unsigned long*)(TRAP_STACKS + (slot + 1) * TRAP_STACK_SIZE - 64);
  stack[0] = (unsigned long)monitor_thread_entry;
  stack[1] = slot;
  return CALL5(SYS_clone, TRAP_THREAD_FLAGS, stack, 0, &control_of(slot)->thread, 0);
}

// Runs the guest and obeys, forever.
static __attribute__((noreturn)) void serve(unsigned long slot, int is_new) {
  struct TrapControl* const control = control_of(slot);
  for (;;) {
    if (!is_new) {
      __atomic_store_n(&control->state, kTrapStopped, __ATOMIC_SEQ_CST);
      ring(control);
    }
    await_order(control);
    is_new = 0;
    switch (control->order) {
      case kTrapRun:
        control->result = control->call_count == 0 ? 0 : make_calls(control);
        if (control->result == 0) run_guest(control, slot);
        else control->signal = 0;
        break;
      case kTrapCalls: control->result = make_calls(control); break;
      case kTrapFork: is_new = fork_process(control, slot); break;
      case kTrapThread: control->result = start_thread(slot, control->new_slot % kTrapSlots); break;
      case kTrapExit: CALL1(SYS_exit, 0); break;
      case kTrapSaveVectors: save_vectors(slot); break;
    }
  }
}

__attribute__((used, visibility("hidden"), noreturn)) void monitor_thread(unsigned long slot) {
  serve(slot, 1);
}

__attribute__((used, visibility("hidden"), noreturn)) void monitor_first(void) {
  if (make_machine() < 0 || make_processor(0) < 0) end_process();
  note_processor(0);
  struct TrapControl* const control = control_of(0);
  control->vector_state = (uint64_t)vectors_of(0);
  control->signal = SIGSYS;
  save_vectors(0);
  serve(0, 0);
}
