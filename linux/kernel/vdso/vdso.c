// The vdso of every guest program: a small shared library that reads clocks without a system call. It runs as
// part of the guest, and can do nothing that other code of the guest cannot do.
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "linux/kernel/vdso/layout.h"

typedef int (*ClockGettime)(clockid_t clock, struct timespec* time);

extern const volatile struct VdsoData vdso_data __attribute__((visibility("hidden")));

static long call2(long number, long a, long b) {
  long result;
  asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
  return result;
}

// Those of the machine; clocks of CPU time are the kernel's to answer.
static int is_of_machine(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
         clock == CLOCK_REALTIME_COARSE || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME ||
         clock == CLOCK_TAI;
}

static int is_of_day(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

int __vdso_clock_gettime(clockid_t clock, struct timespec* time) {
  const uint64_t function = vdso_data.clock_gettime;
  if (function == 0 || !is_of_machine(clock)) return (int)call2(SYS_clock_gettime, clock, (long)time);
  const int failed = ((ClockGettime)function)(clock, time);
  const int64_t ahead_ns = vdso_data.ahead_ns;
  if (ahead_ns == 0 || failed != 0 || is_of_day(clock)) return failed;
  const int64_t ns = time->tv_sec * 1000000000 + time->tv_nsec + ahead_ns;
  time->tv_sec = ns / 1000000000;
  time->tv_nsec = ns % 1000000000;
  return 0;
}

int __vdso_clock_getres(clockid_t clock, struct timespec* resolution) {
  if (!is_of_machine(clock)) return (int)call2(SYS_clock_getres, clock, (long)resolution);
  if (resolution != NULL) {
    resolution->tv_sec = 0;
    resolution->tv_nsec = 1;
  }
  return 0;
}

int __vdso_gettimeofday(struct timeval* time, struct timezone* zone) {
  struct timespec now;
  if (time != NULL) {
    const int failed = __vdso_clock_gettime(CLOCK_REALTIME, &now);
    if (failed != 0) return failed;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
  }
  if (zone != NULL) {
    zone->tz_minuteswest = 0;
    zone->tz_dsttime = 0;
  }
  return 0;
}

time_t __vdso_time(time_t* time) {
  struct timespec now;
  if (__vdso_clock_gettime(CLOCK_REALTIME, &now) != 0) return call2(SYS_time, (long)time, 0);
  if (time != NULL) *time = now.tv_sec;
  return now.tv_sec;
}

// Guests see one processor.
long __vdso_getcpu(unsigned* processor, unsigned* node, void* unused) {
  (void)unused;
  if (processor != NULL) *processor = 0;
  if (node != NULL) *node = 0;
  return 0;
}

#define ALSO_AS(name) __attribute__((weak, alias("__vdso_" #name)))
int clock_gettime(clockid_t clock, struct timespec* time) ALSO_AS(clock_gettime);
int clock_getres(clockid_t clock, struct timespec* resolution) ALSO_AS(clock_getres);
int gettimeofday(struct timeval* restrict time, void* restrict zone) ALSO_AS(gettimeofday);
time_t time(time_t* time) ALSO_AS(time);
long getcpu(unsigned* processor, unsigned* node, void* unused) ALSO_AS(getcpu);
