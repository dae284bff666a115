// A hostile program's acts. Each is a function that runs in a process of its own inside the sandbox, and says whether it got what
// no guest may have. That it is refused, stopped or killed is as it should be: the kernel and the other programs go on.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { kHeld = 0, kEscaped = 1 };

struct Attack {
  const char* name;
  int (*act)(long argument);
  long argument;
};

// Each file's, ended by one without a name.
extern const struct Attack kEscapes[], kFloods[], kInstructions[], kPrograms[], kRaces[], kStub[];

// A call without libc's checks. Gives a value, or -errno.
long call(long number, ...);

// Where the harness has put what no guest may reach, by name ("port", "file", "socket", "process"); "" for what it did not say.
const char* target(const char* name);

// kEscaped, with a line that says why.
int escaped(const char* format, ...);
