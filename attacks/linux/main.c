// Runs acts one after another, each in a process of its own, and prints the result of each:
//
//   held NAME | escaped NAME | hung NAME
//
// `acts --list` prints the names; `acts [NAME=VALUE]… [GROUP]` runs those that begin with GROUP. It is the
// first process of its sandbox, so it must end everything that an act leaves running.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attack.h"

enum { kMostCalls = 512 };
static int seconds_of_an_act = 30;  // SECONDS changes it where system calls take long

int act_of_call(long number);  // calls.c

static char** settings;

const char* target(const char* name) {
  const size_t length = strlen(name);
  for (char** each = settings; *each != NULL; ++each)
    if (strncmp(*each, name, length) == 0 && (*each)[length] == '=') return *each + length + 1;
  return "";
}

int escaped(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char text[500];
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  dprintf(2, "escaped: %s (errno %d)\n", text, errno);
  return kEscaped;
}

long call(long number, ...) {
  va_list list;
  va_start(list, number);
  long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long), d = va_arg(list, long),
       e = va_arg(list, long), f = va_arg(list, long);
  va_end(list);
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result = number;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

// Everything that the act has started and not ended. The first process gets no signal of its own.
static void end_all(void) {
  for (int round = 0; round < 200; ++round) {
    kill(-1, SIGKILL);
    int any = 0;
    while (waitpid(-1, NULL, WNOHANG | __WALL) > 0) any = 1;
    if (!any && waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD) return;
    const struct timespec rest = {0, 5000000};
    nanosleep(&rest, NULL);
  }
}

static void run(const char* name, int (*act)(long), long argument) {
  fflush(stdout);
  const pid_t child = fork();
  if (child < 0) {
    printf("hung %s (no process for it: %d)\n", name, errno);
    return;
  }
  if (child == 0) {
    setsid();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 1);
    close(nowhere);
    alarm(seconds_of_an_act * 2);
    _exit(act(argument));
  }
  int status = 0;
  pid_t ended = 0;
  for (int wait_ms = 0; wait_ms < seconds_of_an_act * 1000 && ended == 0; wait_ms += 5) {
    ended = waitpid(child, &status, WNOHANG);
    const struct timespec rest = {0, 5000000};
    if (ended == 0) nanosleep(&rest, NULL);
  }
  end_all();
  const char* const verdict = ended != child                                         ? "hung"
                              : WIFEXITED(status) && WEXITSTATUS(status) == kEscaped ? "escaped"
                                                                                     : "held";
  printf("%s %s\n", verdict, name);
}

static void each(const char* group, void (*visit)(const char*, int (*)(long), long)) {
  static const struct Attack* const kAll[] = {kEscapes, kFloods, kInstructions, kPrograms, kRaces, kStub};
  for (size_t file = 0; file < sizeof kAll / sizeof *kAll; ++file)
    for (const struct Attack* attack = kAll[file]; attack->name != NULL; ++attack)
      if (strncmp(attack->name, group, strlen(group)) == 0)
        visit(attack->name, attack->act, attack->argument);
  for (long number = 0; number < kMostCalls; ++number) {
    char name[40];
    snprintf(name, sizeof name, "call.%03ld", number);
    if (strncmp(name, group, strlen(group)) == 0) visit(name, act_of_call, number);
  }
}

static void list(const char* name, int (*act)(long), long argument) {
  (void)act, (void)argument;
  puts(name);
}

int main(int count, char** words) {
  const char* group = "";
  settings = words;
  if (getenv("SECONDS") != NULL) seconds_of_an_act = atoi(getenv("SECONDS"));
  for (int i = 1; i < count; ++i)
    if (strchr(words[i], '=') == NULL) group = words[i];
  // Signals that acts send to their parent are ignored.
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, NULL);
  if (strcmp(group, "--list") == 0) each("", list);
  else each(group, run);
  puts("over");
  return 0;
}
