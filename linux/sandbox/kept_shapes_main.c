// A guest of keeping_test.cc: creates very many of the thing that its argument names, prints "ready", waits
// for a line, and checks that all of them exist.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096L

static char* memory;
static int old_slave, master;
static timer_t timers[1024];

// -- mappings without a touched page; neighbours differ, so that they are not one

static int map_areas(long count) {
  memory = mmap(NULL, (size_t)(count * PAGE), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (long i = 0; i < count; i += 2)
    if (mprotect(memory + i * PAGE, PAGE, PROT_NONE) != 0) return 0;
  return memory != MAP_FAILED;
}

static int has_areas(long count) {
  for (long i = 1; i < count; i += 2)
    if (memory[i * PAGE] != 0) return 0;
  return 1;
}

// -- one page of each sixteen

static int touch_pages(long count) {
  memory = mmap(NULL, (size_t)(count * 16 * PAGE), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return 0;
  for (long i = 0; i < count; ++i) memory[i * 16 * PAGE] = (char)(i % 120 + 1);
  return 1;
}

static int has_pages(long count) {
  for (long i = 0; i < count; ++i)
    if (memory[i * 16 * PAGE] != (char)(i % 120 + 1) || memory[(i * 16 + 8) * PAGE] != 0) return 0;
  return 1;
}

// -- timers

static int make_timers(long count) {
  struct sigevent event = {.sigev_notify = SIGEV_NONE};
  for (long i = 0; i < count; ++i)
    if (timer_create(CLOCK_MONOTONIC, &event, &timers[i]) != 0) return 0;
  return 1;
}

static int has_timers(long count) {
  struct itimerspec left;
  for (long i = 0; i < count; ++i)
    if (timer_gettime(timers[i], &left) != 0) return 0;
  return 1;
}

// -- a terminal whose master is closed, and another one of its number

static int open_terminals(long count) {
  (void)count;
  const int first = posix_openpt(O_RDWR | O_NOCTTY);
  if (grantpt(first) != 0 || unlockpt(first) != 0) return 0;
  const int slave = open(ptsname(first), O_RDWR | O_NOCTTY);
  old_slave = dup2(slave, 100);
  close(slave);
  close(first);
  master = posix_openpt(O_RDWR | O_NOCTTY);
  return old_slave == 100 && grantpt(master) == 0 && unlockpt(master) == 0 &&
         strcmp(ptsname(master), "/dev/pts/0") == 0;
}

static int has_terminals(long count) {
  (void)count;
  char byte;
  const int slave = open("/dev/pts/0", O_RDWR | O_NOCTTY);
  return read(old_slave, &byte, 1) == 0 && write(slave, "x", 1) == 1 && read(master, &byte, 1) == 1 &&
         byte == 'x';
}

// -- children that nobody waits for

static int leave_zombies(long count) {
  for (long i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    if (child < 0) return errno == EAGAIN;  // they count as long as they are there
    siginfo_t told;
    waitid(P_PID, (id_t)child, &told, WEXITED | WNOWAIT);
  }
  return 0;
}

static int has_zombies(long count) {
  long found = 0;
  while (waitpid(-1, NULL, 0) > 0) ++found;
  return found > 0 && found < count;
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    int (*make)(long);
    int (*has)(long);
  } kShapes[] = {{"areas", map_areas, has_areas},
                 {"pages", touch_pages, has_pages},
                 {"timers", make_timers, has_timers},
                 {"terminals", open_terminals, has_terminals},
                 {"zombies", leave_zombies, has_zombies}};
  const long count = argc > 2 ? atol(argv[2]) : 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (size_t i = 0; argc > 1 && i < sizeof kShapes / sizeof kShapes[0]; ++i) {
    if (strcmp(kShapes[i].name, argv[1]) != 0) continue;
    printf(kShapes[i].make(count) ? "ready\n" : "not made\n");
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL)
      printf(kShapes[i].has(count) ? "all there\n" : "not there\n");
    return 0;
  }
  return 2;
}
