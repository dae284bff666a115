// The stub: what runs guest threads. A freestanding program at a high address. Every system call of the guest becomes
// SIGSYS, every exception its signal; the handler hands the registers to the kernel process and obeys its orders.
//
// It has no writable data: all that it knows is on the thread's trap stack, in the frame of the signal, and in the
// thread's control page, which it finds by the address of the stack. It uses general registers only; the host keeps the
// others in the frame.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "linux/platform/trap/stub/calls.h"
#include "linux/platform/trap/stub/exchange.h"
#include "linux/platform/trap/stub/layout.h"

// clang-format off
asm(".text\n"
    ".globl trap_call, trap_call_end, trap_restorer, trap_begin, trap_thread_entry\n"
    ".hidden trap_call, trap_call_end, trap_restorer, trap_begin, trap_thread_entry\n"
    "trap_call: mov %rdi,%rax\n mov %rsi,%rdi\n mov %rdx,%rsi\n mov %rcx,%rdx\n mov %r8,%r10\n mov %r9,%r8\n"
    " mov 8(%rsp),%r9\n"
    "trap_call_instruction: syscall\n"
    "trap_call_end: ret\n"
    "trap_restorer: mov $15,%eax\n jmp trap_call_instruction\n"  // rt_sigreturn
    "trap_begin: mov $39,%eax\n syscall\n hlt\n"
    // A new thread "returns" to here; the address of its frame is on its stack. It starts by leaving that frame.
    "trap_thread_entry: pop %rbx\n mov %rbx,%rdi\n and $-16,%rsp\n call trap_thread\n mov %rbx,%rsp\n jmp trap_restorer\n"
    ".globl _start\n"
    "_start: and $-16,%rsp\n call trap_nursery\n hlt\n");
// clang-format on
__attribute__((visibility("hidden"))) extern char trap_thread_entry[];

// ---- orders ----

static long make_call(const struct TrapCall* call, long descriptor) {
  return trap_call(call->number, (long)call->arguments[0], (long)call->arguments[1], (long)call->arguments[2],
                   (long)call->arguments[3], descriptor, (long)call->arguments[5]);
}

// In the child; its own control pages were not copied.
static void settle_child(const int* descriptors) {
  const long size = kTrapSlots * TRAP_PAGE;
  const long mapped =
      CALL6(SYS_mmap, TRAP_CONTROLS, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptors[0], 0);
  if (mapped != (long)TRAP_CONTROLS || CALL3(SYS_madvise, TRAP_CONTROLS, size, MADV_DONTFORK) != 0 ||
      CALL2(SYS_dup2, descriptors[1], kTrapSocket) != kTrapSocket)
    CALL1(SYS_exit, 1);
}

// Whether this is the child.
static int fork_process(struct TrapControl* control) {
  int descriptors[2];
  receive(descriptors, 2);
  const long result = CALL5(SYS_clone, TRAP_FORK_FLAGS, 0, 0, 0, 0);
  if (result == 0) settle_child(descriptors);
  CALL1(SYS_close, descriptors[0]);
  CALL1(SYS_close, descriptors[1]);
  if (result != 0) control->result = result;
  return result == 0;
}

// The new thread has a copy of this one's frame on its own trap stack.
static long start_thread(ucontext_t* context, unsigned slot) {
  const unsigned long from = slot_at(context);
  const long distance = ((long)slot - (long)from) * (long)TRAP_STACK_SIZE;
  const char* const end = (const char*)(TRAP_STACKS + (from + 1) * TRAP_STACK_SIZE);
  for (char* at = (char*)context - 8; at < end; at += 8) *(long*)(at + distance) = *(long*)at;
  ucontext_t* const copy = (ucontext_t*)((char*)context + distance);
  if (copy->uc_mcontext.fpregs)
    copy->uc_mcontext.fpregs = (fpregset_t)((char*)copy->uc_mcontext.fpregs + distance);
  copy->uc_stack.ss_sp = (void*)(TRAP_STACKS + slot * TRAP_STACK_SIZE);
  unsigned long* const stack = (unsigned long*)((char*)copy - 32);
  stack[0] = (unsigned long)trap_thread_entry;
  stack[1] = (unsigned long)copy;
  return CALL5(SYS_clone, TRAP_THREAD_FLAGS, stack, 0, &control_of(slot)->thread, 0);
}

// Until it is told to run the guest. A thread that was just made has nothing to report.
static void obey(struct TrapControl* control, ucontext_t* context, int is_new) {
  for (;;) {
    if (!is_new) {
      __atomic_store_n(&control->state, kTrapStopped, __ATOMIC_SEQ_CST);
      ring(control);
    }
    await_order(control);
    is_new = 0;
    switch (control->order) {
      case kTrapRun:
        if (control->call_count == 0) return;
        control->result = make_calls(control);
        if (control->result == 0) return;
        control->signal = 0;
        break;
      case kTrapCalls: control->result = make_calls(control); break;
      case kTrapFork: is_new = fork_process(control); break;
      case kTrapThread: control->result = start_thread(context, control->new_slot % kTrapSlots); break;
      case kTrapExit: CALL1(SYS_exit, 0); break;
    }
  }
}

// ---- from the guest, and back ----

static void leave(struct TrapControl* control, ucontext_t* context) {
  for (int i = 0; i < kTrapRegisters; ++i) context->uc_mcontext.gregs[i] = (greg_t)control->registers[i];
  asm volatile("wrgsbase %0" : : "r"(control->gs_base));
  asm volatile("wrfsbase %0" : : "r"(control->fs_base));
}

void trap_handler(int signal, void* info_of, void* context_of) {
  ucontext_t* const context = context_of;
  const siginfo_t* const info = info_of;
  const greg_t* const registers = context->uc_mcontext.gregs;
  struct TrapControl* const control = control_of(slot_at(context));
  for (int i = 0; i < kTrapRegisters; ++i) control->registers[i] = (uint64_t)registers[i];
  unsigned long base;
  asm volatile("rdfsbase %0" : "=r"(base));
  control->fs_base = base;
  asm volatile("rdgsbase %0" : "=r"(base));
  control->gs_base = base;
  control->signal = signal;
  control->code = info->si_code;
  control->architecture = signal == SIGSYS ? info->si_arch : 0;
  control->fault_address = (uint64_t)info->si_addr;
  control->trap_number = (uint32_t)registers[REG_TRAPNO];
  control->error_code = (uint64_t)registers[REG_ERR];
  control->page_address = (uint64_t)registers[REG_CR2];
  control->vector_state = (uint64_t)context->uc_mcontext.fpregs;
  obey(control, context, 0);
  leave(control, context);
}

__attribute__((used, visibility("hidden"))) void trap_thread(ucontext_t* context) {
  struct TrapControl* const control = control_of(slot_at(context));
  obey(control, context, 1);
  leave(control, context);
}
