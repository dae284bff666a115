// inotify: notification of file events.
#include <fcntl.h>
#include <sys/inotify.h>

#include "linux/files/inotify.h"
#include "linux/kernel/file_calls.h"
#include "linux/kernel/kernel.h"

namespace membrane::linux {
namespace {

int64_t create(Call& call, int flags) {
  if (call.kernel.watches == nullptr) call.kernel.watches = std::make_shared<Watches>();
  CALL_ASSIGN(FileRef made, make_inotify_file(call.kernel.watches, flags));
  return answer(add_file(call, std::move(made), (flags & IN_CLOEXEC) != 0));
}

Try<std::shared_ptr<InotifyFile>> inotify_file(Call& call, int descriptor) {
  MEMBRANE_ASSIGN(const FileRef file, open_file(call, descriptor));
  auto inotify = std::dynamic_pointer_cast<InotifyFile>(file);
  if (inotify == nullptr) return err(EINVAL);
  return inotify;
}

}  // namespace

int64_t sys_inotify_init(Call& call) { return create(call, 0); }
int64_t sys_inotify_init1(Call& call) { return create(call, call.int_arg(0)); }

int64_t sys_inotify_add_watch(Call& call) {
  const auto mask = static_cast<uint32_t>(call.arg(2));
  CALL_ASSIGN(const auto inotify, inotify_file(call, call.int_arg(0)));
  CALL_ASSIGN(const std::string path, path_at(call, call.arg(1)));
  WalkOptions options;
  options.follows_last = (mask & IN_DONT_FOLLOW) == 0;
  options.wants_directory = (mask & IN_ONLYDIR) != 0;
  CALL_ASSIGN(const LocationRef at, walk_from(call, AT_FDCWD, path, options));
  CALL_TRY(may(who(call), at->node->attributes(), R_OK));
  return answer(inotify->add_watch(at->node, mask));
}

int64_t sys_inotify_rm_watch(Call& call) {
  CALL_ASSIGN(const auto inotify, inotify_file(call, call.int_arg(0)));
  return answer(inotify->remove_watch(call.int_arg(1)));
}

}  // namespace membrane::linux
