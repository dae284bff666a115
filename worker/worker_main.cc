// membrane-worker: the program that libmembrane starts for sessions in separate processes (worker/program.h).

#include <cstdio>
#include <cstring>

#include "worker/program.h"

int main(int count, char** arguments) {
  if (count == 2 && std::strcmp(arguments[1], "--version") == 0) {
    std::puts("membrane-worker " MEMBRANE_VERSION);
    return 0;
  }
  if (count != 1 || !membrane::worker::is_started_by_library()) {
    std::fputs("membrane-worker is started by libmembrane, for sessions in separate processes.\n", stderr);
    return 2;
  }
  membrane::worker::be_program();
}
