// The stub runs guest threads. It is a freestanding program at a high address. Every system call of the guest
// becomes SIGSYS, every exception its signal; the handler passes the registers to the kernel process and
// obeys its orders.
//
// It has no writable data: its state is on the thread's trap stack, in the signal frame, and in the thread's
// control page, which it finds by the address of the stack. It uses general registers only; the host keeps
// the others in the frame.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
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
    // A new thread "returns" to here, with the address of its frame on its stack. It starts by leaving that
    // frame.
    "trap_thread_entry: pop %rbx\n mov %rbx,%rdi\n and $-16,%rsp\n call trap_thread\n mov %rbx,%rsp\n jmp trap_restorer\n"
    ".globl _start\n"
    "_start: and $-16,%rsp\n call trap_nursery\n hlt\n");

// A guest arrives through a gate: rcx is where it resumes, eax the number of its call. Until it is on the
// trap stack nothing of it is lost: it can be sent back to its call site. From trap_gate_leave on everything
// is loaded from the control page: it can be sent back to there. In between a signal only leaves a note.
#define CONTROL "__executable_start+0x10000000+"
#define STACK_TOP "__executable_start+0x20010000"
#define EACH_REGISTER(X)                                                                                          \
  X("r8", "88") X("r9", "96") X("r10", "104") X("r12", "120") X("r13", "128") X("r14", "136") X("r15", "144") \
  X("rdi", "152") X("rsi", "160") X("rbp", "168") X("rbx", "176") X("rdx", "184") X("rax", "192") X("rcx", "200") X("rsp", "208")
#define SAVE(name, at) "mov %" name "," CONTROL at "(%rip)\n"
#define LOAD(name, at) "mov " CONTROL at "(%rip),%" name "\n"
asm(".globl trap_gate_entry, trap_gate_saved, trap_gate_leave, trap_gate_again, trap_gate_end\n"
    ".hidden trap_gate_entry, trap_gate_saved, trap_gate_leave, trap_gate_again, trap_gate_end\n"
    "trap_gate_entry:\n" EACH_REGISTER(SAVE) "mov %rcx," CONTROL "216(%rip)\n"
    " lea " STACK_TOP "(%rip),%rsp\n"
    "trap_gate_saved: pushfq\n pop %r11\n mov %r11," CONTROL "224(%rip)\n mov %r11," CONTROL "112(%rip)\n"
    " pushq $0x202\n popfq\n xor %edi,%edi\n"
    "trap_gate_obey: call trap_gate\n test %eax,%eax\n jne trap_gate_frame\n"
    "trap_gate_leave: cmpl $0," CONTROL "260(%rip)\n jne trap_gate_again\n"
    " pushq " CONTROL "224(%rip)\n popfq\n" EACH_REGISTER(LOAD) LOAD("r11", "112") "jmp *" CONTROL "216(%rip)\n"
    "trap_gate_end:\n"
    "trap_gate_again: lea " STACK_TOP "(%rip),%rsp\n pushq $0x202\n popfq\n movl $0," CONTROL "260(%rip)\n mov $1,%edi\n"
    " jmp trap_gate_obey\n"
    "trap_gate_frame: mov $39,%eax\n syscall\n hlt\n");
// clang-format on
_Static_assert(offsetof(struct TrapControl, registers) == 88 &&
                   offsetof(struct TrapControl, is_kicked) == 260,
               "as the code above has them");
_Static_assert(TRAP_CONTROLS == TRAP_STUB + 0x10000000 &&
                   TRAP_STACKS + TRAP_STACK_SIZE == TRAP_STUB + 0x20010000,
               "as the code above has them");
__attribute__((visibility("hidden"))) extern char trap_thread_entry[], trap_gate_saved[], trap_gate_leave[],
    trap_gate_again[], trap_gate_end[];
extern char __executable_start[] __attribute__((visibility("hidden"))),
    etext[] __attribute__((visibility("hidden")));

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

// Returns when ordered to run the guest, or (not 0) to stop again with a frame. A thread that was just
// created has nothing to report.
static int obey(struct TrapControl* control, ucontext_t* context, int is_new) {
  for (;;) {
    if (!is_new) {
      __atomic_store_n(&control->state, kTrapStopped, __ATOMIC_SEQ_CST);
      ring(control);
    }
    await_order(control);
    is_new = 0;
    switch (control->order) {
      case kTrapRun:
        if (control->call_count == 0) return 0;
        control->result = make_calls(control);
        if (control->result == 0) return 0;
        control->signal = 0;
        break;
      case kTrapCalls: control->result = make_calls(control); break;
      case kTrapFork: is_new = fork_process(control); break;
      case kTrapThread:
        control->result = context ? start_thread(context, control->new_slot % kTrapSlots) : -EINVAL;
        break;
      case kTrapFrame:
        if (!context) return 1;
        break;
      case kTrapExit: CALL1(SYS_exit, 0); break;
    }
  }
}

// ---- from the guest, and back ----

static void take_bases(struct TrapControl* control) {
  unsigned long base;
  asm volatile("rdfsbase %0" : "=r"(base));
  control->fs_base = base;
  asm volatile("rdgsbase %0" : "=r"(base));
  control->gs_base = base;
}

static void put_bases(const struct TrapControl* control) {
  asm volatile("wrgsbase %0" : : "r"(control->gs_base));
  asm volatile("wrfsbase %0" : : "r"(control->fs_base));
}

static void leave(struct TrapControl* control, ucontext_t* context) {
  // A signal that came while a gate had its frame is reported now; none comes in a handler.
  while (control->is_kicked != 0) {
    control->is_kicked = 0;
    control->signal = SIGUSR1;
    obey(control, context, 0);
  }
  for (int i = 0; i < kTrapRegisters; ++i) context->uc_mcontext.gregs[i] = (greg_t)control->registers[i];
  put_bases(control);
}

// Whether to report the signal later: the guest has come through a gate, and it is the stub's turn.
static int postpone(struct TrapControl* control, greg_t* registers) {
  const char* const at = (const char*)registers[REG_RIP];
  if (at < __executable_start || at >= etext) return 0;
  if (at >= (const char*)trap_gate_entry && at < trap_gate_saved) {
    registers[REG_RIP] = registers[REG_RCX] - 7;  // to the call site
    return 0;
  }
  if (at >= trap_gate_leave && at < trap_gate_end) registers[REG_RIP] = (greg_t)trap_gate_again;
  else control->is_kicked = 1;
  return 1;
}

void trap_handler(int signal, void* info_of, void* context_of) {
  ucontext_t* const context = context_of;
  const siginfo_t* const info = info_of;
  greg_t* const registers = context->uc_mcontext.gregs;
  struct TrapControl* const control = control_of(slot_at(context));
  if (signal == SIGUSR1 && postpone(control, registers)) return;
  for (int i = 0; i < kTrapRegisters; ++i) control->registers[i] = (uint64_t)registers[i];
  take_bases(control);
  control->signal = signal;
  control->code = info->si_code;
  control->architecture = signal == SIGSYS ? info->si_arch : 0;
  control->fault_address = (uint64_t)info->si_addr;
  control->trap_number = (uint32_t)registers[REG_TRAPNO];
  control->error_code = (uint64_t)registers[REG_ERR];
  control->page_address = (uint64_t)registers[REG_CR2];
  control->vector_state = (uint64_t)context->uc_mcontext.fpregs;
  control->by_gate = 0;
  obey(control, context, 0);
  leave(control, context);
}

// For a guest that has come through a gate, with its registers saved: acts like the handler.
__attribute__((used, visibility("hidden"))) int trap_gate(int is_kicked) {
  struct TrapControl* const control = control_of(0);
  if (!is_kicked) take_bases(control);
  control->signal = is_kicked ? SIGUSR1 : SIGSYS;
  control->architecture = AUDIT_ARCH_X86_64;
  control->vector_state = 0;
  control->by_gate = 1;
  if (obey(control, 0, 0)) return 1;
  put_bases(control);
  return 0;
}

__attribute__((used, visibility("hidden"))) void trap_thread(ucontext_t* context) {
  struct TrapControl* const control = control_of(slot_at(context));
  obey(control, context, 1);
  leave(control, context);
}
