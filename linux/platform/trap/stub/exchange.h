// The exchange of a process that runs guests with the kernel process. The platform `trap`'s stub and the
// platform `kvm`'s monitor each include this once.
#pragma once

#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "linux/platform/trap/stub/calls.h"
#include "linux/platform/trap/stub/layout.h"

// The program's own implementation of one ordered host call.
static long make_call(const struct TrapCall* call, long descriptor);

static unsigned long slot_at(const void* on_stack) {
  return ((unsigned long)on_stack - TRAP_STACKS) / TRAP_STACK_SIZE;
}
static struct TrapControl* control_of(unsigned long slot) {
  return (struct TrapControl*)(TRAP_CONTROLS + slot * TRAP_PAGE);
}

// ---- the exchange with the kernel process ----

static void ring(const struct TrapControl* control) {
  struct TrapBell* bell = (struct TrapBell*)TRAP_BELL;
  const unsigned index = control->index % kTrapMostThreads;
  __atomic_fetch_or(&bell->hints[index / 64], 1ul << index % 64, __ATOMIC_SEQ_CST);
  __atomic_fetch_or(&bell->hinted_words, 1ul << index / 64, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&bell->is_kernel_asleep, __ATOMIC_SEQ_CST) == 0) return;
  if (__atomic_exchange_n(&bell->is_kernel_asleep, 0, __ATOMIC_SEQ_CST) == 0) return;
  __atomic_fetch_add(&bell->rings, 1, __ATOMIC_SEQ_CST);
  CALL3(SYS_futex, &bell->rings, FUTEX_WAKE, 0x7fffffff);  // a guest may sleep there, too
}

static void await_order(struct TrapControl* control) {
  for (unsigned left = control->spins; left != 0; --left) {
    if (__atomic_load_n(&control->state, __ATOMIC_ACQUIRE) == kTrapOrdered) return;
    __builtin_ia32_pause();
  }
  __atomic_store_n(&control->is_stub_asleep, 1, __ATOMIC_SEQ_CST);
  for (;;) {
    const unsigned state = __atomic_load_n(&control->state, __ATOMIC_SEQ_CST);
    if (state == kTrapOrdered) break;
    CALL4(SYS_futex, &control->state, FUTEX_WAIT, state, 0);
  }
  __atomic_store_n(&control->is_stub_asleep, 0, __ATOMIC_SEQ_CST);
}

// ---- orders ----

static void receive(int* descriptors, unsigned count) {
  char control[CMSG_SPACE(kTrapDescriptors * sizeof(int))], byte;
  struct iovec bytes = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  const long got = CALL3(SYS_recvmsg, kTrapSocket, &message, 0);
  const unsigned length = got == 1 && message.msg_controllen >= CMSG_LEN(0)
                              ? (unsigned)(((struct cmsghdr*)control)->cmsg_len - CMSG_LEN(0))
                              : 0;
  for (unsigned i = 0; i < count; ++i)
    descriptors[i] = i < length / sizeof(int) ? ((int*)CMSG_DATA((struct cmsghdr*)control))[i] : -1;
}

static int is_error(long result) { return result < 0 && result >= -4095; }

static long make_calls(struct TrapControl* control) {
  int descriptors[kTrapDescriptors];
  const unsigned received = control->descriptor_count <= kTrapDescriptors ? control->descriptor_count : 0;
  const unsigned count = control->call_count <= kTrapBatch ? control->call_count : 0;
  if (received != 0) receive(descriptors, received);
  long first_error = 0;
  for (unsigned i = 0; i < count; ++i) {
    const struct TrapCall* call = &control->calls[i];
    const unsigned chosen = (unsigned)(int)call->descriptor;
    const long result = make_call(call, chosen < received ? descriptors[chosen] : (long)call->arguments[4]);
    if (is_error(result) && first_error == 0 && !call->may_fail) first_error = result;
  }
  for (unsigned i = 0; i < received; ++i) CALL1(SYS_close, descriptors[i]);
  __atomic_fetch_add(&control->batches, 1, __ATOMIC_SEQ_CST);
  return first_error;
}
