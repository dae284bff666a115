// The stub's calls of the host. Once it is locked up, all of them go through one instruction, which the
// filter knows.
#pragma once

// Makes a call at that instruction; `trap_call_end` is the address after it.
__attribute__((visibility("hidden"))) long trap_call(long number, long a, long b, long c, long d, long e,
                                                     long f);
__attribute__((visibility("hidden"))) extern char trap_call_end[];
// Where the host returns to after a signal handler.
__attribute__((visibility("hidden"))) void trap_restorer(void);
// The handler of all signals.
__attribute__((visibility("hidden"))) void trap_handler(int signal, void* info, void* context);
// Where gates lead to.
__attribute__((visibility("hidden"))) void trap_gate_entry(void);
// Makes the first system call, which stops; never returns.
__attribute__((visibility("hidden"), noreturn)) void trap_begin(void);
// In jail.c: from the program's start.
__attribute__((visibility("hidden"), noreturn)) void trap_nursery(void);

#define CALL6(n, a, b, c, d, e, f)                                                 \
  trap_call((n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define CALL5(n, a, b, c, d, e) CALL6(n, a, b, c, d, e, 0)
#define CALL4(n, a, b, c, d) CALL6(n, a, b, c, d, 0, 0)
#define CALL3(n, a, b, c) CALL6(n, a, b, c, 0, 0, 0)
#define CALL2(n, a, b) CALL6(n, a, b, 0, 0, 0, 0)
#define CALL1(n, a) CALL6(n, a, 0, 0, 0, 0, 0)
