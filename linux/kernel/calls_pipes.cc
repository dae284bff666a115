// Pipes: pipe, pipe2.
#include <fcntl.h>

#include <array>

#include "linux/files/pipe.h"
#include "linux/kernel/file_calls.h"

namespace membrane::linux {
namespace {

// Stores two new descriptors in guest memory as ints; when one cannot be created, neither stays.
int64_t give_both(Call& call, const FileRef& first, const FileRef& second, bool closes_on_exec, uint64_t to) {
  Descriptors& table = *call.process().descriptors;
  CALL_ASSIGN(const int a, add_file(call, first, closes_on_exec));
  const auto b = add_file(call, second, closes_on_exec);
  const Done told = b ? call.put(to, std::array<int, 2>{a, *b}) : Done(err(b.error()));
  if (told) return 0;
  static_cast<void>(table.remove(a));
  if (b) static_cast<void>(table.remove(*b));
  return -told.error();
}

int64_t open_pipe(Call& call, uint64_t to, int flags) {
  CALL_ASSIGN(const PipePair pair, make_pipe(who(call), flags & ~O_CLOEXEC));
  return give_both(call, pair.reader, pair.writer, (flags & O_CLOEXEC) != 0, to);
}

}  // namespace

int64_t sys_pipe(Call& call) { return open_pipe(call, call.arg(0), 0); }
int64_t sys_pipe2(Call& call) { return open_pipe(call, call.arg(0), call.int_arg(1)); }

}  // namespace membrane::linux
