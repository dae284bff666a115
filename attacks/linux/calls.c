// Every number of a system call, with hostile arguments: pointers to nowhere, to the kernel's half, across
// the end of a mapping; lengths and counts that overflow. A call may have any effect on its own process.
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack.h"

int act_of_call(long number);

static long values[24];
static size_t value_count;

static void prepare(void) {
  char* const pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(pages + 4096, 4096);
  char* const read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(pages, 0x41, 4096);
  const long all[] = {0,
                      1,
                      -1,
                      3,
                      (long)pages,
                      (long)pages + 4090,  // across the end
                      (long)pages + 4096,
                      (long)read_only,
                      (long)(pages + 8192),
                      (long)0x7ffe00000000,  // the stub's
                      (long)0x7ffe10000000,
                      (long)0x7fffffffffff,
                      (long)0x800000000000,  // not canonical
                      (long)0xffff800000000000,
                      (long)0xffffffffff600000,
                      0x7fffffff,
                      (long)0x80000000,
                      0xffffffff,
                      0x7fffffffffffffff,
                      (long)0x8000000000000000,
                      4096,
                      64};
  memcpy(values, all, sizeof all);
  value_count = sizeof all / sizeof *all;
}

// Calls whose only effect is to wait, to end the program, or to fill the machine: other acts of this suite
// make them.
static int is_left_out(long number) {
  return number == SYS_exit || number == SYS_exit_group || number == SYS_fork || number == SYS_vfork ||
         number == SYS_pause;
}

static void try_all(long number) {
  unsigned long seed = (unsigned long)number * 2654435761u + 12345;
  for (int round = 0; round < 40; ++round) {
    long a[6];
    for (int i = 0; i < 6; ++i) {
      seed = seed * 6364136223846793005ul + 1442695040888963407ul;
      a[i] = values[(seed >> 33) % value_count];
    }
    call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  }
}

int act_of_call(long number) {
  if (is_left_out(number)) return kHeld;
  prepare();
  // Those that wait or kill lose one process, and the next continues with other values.
  for (int child = 0; child < 3; ++child) {
    const pid_t process = fork();
    if (process == 0) {
      values[child] = 0x1000 * child;
      alarm(1);
      try_all(number + (child == 2 ? 0x40000000 : 0));  // the third: as of the x32 ABI
      _exit(0);
    }
    waitpid(process, NULL, __WALL);
  }
  return kHeld;
}
