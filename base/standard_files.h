// The three files that a program is started with.
//
// Threads: none other may run yet.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace membrane {

// Opens /dev/null in the place of standard input, output or error where it is closed. Call it before anything else is
// opened: a socket with number 0 or 1 would be the input or output of the program.
inline void open_standard_files() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number)
    if (fcntl(number, F_GETFD) < 0 && errno == EBADF)  // so that open() returns this number
      static_cast<void>(open("/dev/null", number == STDIN_FILENO ? O_RDONLY : O_WRONLY));
}

}  // namespace membrane
