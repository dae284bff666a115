// The acts of a hostile program. Each is a function that runs in a process of its own inside the sandbox, and
// reports whether it got what no guest may have. It should be refused, stopped or killed: the kernel and the
// other programs continue.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { kHeld = 0, kEscaped = 1 };

struct Attack {
  const char* name;
  int (*act)(long argument);
  long argument;
};

// Each file's acts, ended by one without a name.
extern const struct Attack kEscapes[], kFloods[], kInstructions[], kPrograms[], kRaces[], kStub[];

// A call without libc's checks. Returns a value, or -errno.
long call(long number, ...);

// Where the harness has put what no guest may reach, by name ("port", "file", "socket", "process"); "" if
// unknown.
const char* target(const char* name);

// Returns kEscaped, and prints a line with the reason.
int escaped(const char* format, ...);
