// epoll: epoll_create, epoll_ctl, epoll_wait and their kin.
#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <vector>

#include "linux/files/epoll.h"
#include "linux/kernel/file_calls.h"
#include "linux/kernel/waiting_calls.h"

namespace membrane::linux {
namespace {

constexpr int kMostEventsAsked = INT32_MAX / static_cast<int>(sizeof(epoll_event));
constexpr size_t kMostEventsTold = EpollFile::kMostEntries;  // by one call; the rest by the next

Try<std::shared_ptr<EpollFile>> epoll_file(Call& call, int descriptor) {
  MEMBRANE_ASSIGN(const FileRef file, open_file(call, descriptor));
  auto epoll = std::dynamic_pointer_cast<EpollFile>(file);
  if (epoll == nullptr) return err(EINVAL);
  return epoll;
}

int64_t create(Call& call, int flags) {
  CALL_ASSIGN(FileRef made, make_epoll_file(flags));
  return answer(add_file(call, std::move(made), (flags & EPOLL_CLOEXEC) != 0));
}

int64_t wait_for_events(Call& call, const TimeLimit& limit) {
  const int most = call.int_arg(2);
  if (most <= 0 || most > kMostEventsAsked) return -EINVAL;
  CALL_ASSIGN(const auto epoll, epoll_file(call, call.int_arg(0)));
  std::vector<epoll_event> events(std::min<size_t>(static_cast<size_t>(most), kMostEventsTold));
  const size_t count = epoll->collect(events);
  if (count == 0 && !limit.is_zero && !call.is_late()) {
    call.join(*epoll);
    return wait_within(call, limit);
  }
  CALL_TRY(call.task.write_memory(call.arg(1), std::as_bytes(std::span(events).first(count))));
  return static_cast<int64_t>(count);
}

}  // namespace

int64_t sys_epoll_create(Call& call) { return call.int_arg(0) <= 0 ? -EINVAL : create(call, 0); }
int64_t sys_epoll_create1(Call& call) { return create(call, call.int_arg(0)); }

int64_t sys_epoll_ctl(Call& call) {
  const int operation = call.int_arg(1), descriptor = call.int_arg(2);
  epoll_event event = {};
  if (operation != EPOLL_CTL_DEL) {
    CALL_ASSIGN(event, call.get<epoll_event>(call.arg(3)));
  }
  CALL_ASSIGN(const FileRef file, open_file(call, descriptor));
  CALL_ASSIGN(const auto epoll, epoll_file(call, call.int_arg(0)));
  switch (operation) {
    case EPOLL_CTL_ADD: return answer(epoll->add(descriptor, file, event));
    case EPOLL_CTL_MOD: return answer(epoll->modify(descriptor, file, event));
    case EPOLL_CTL_DEL: return answer(epoll->remove(descriptor, file));
    default: return -EINVAL;
  }
}

int64_t sys_epoll_wait(Call& call) {
  return wait_for_events(call, limit_of_milliseconds(call, call.int_arg(3)));
}

int64_t sys_epoll_pwait(Call& call) {
  CALL_TRY(use_mask_during_call(call, call.arg(4), call.arg(5)));
  return wait_for_events(call, limit_of_milliseconds(call, call.int_arg(3)));
}

int64_t sys_epoll_pwait2(Call& call) {
  CALL_ASSIGN(const TimeLimit limit, limit_at(call, call.arg(3)));
  CALL_TRY(use_mask_during_call(call, call.arg(4), call.arg(5)));
  return wait_for_events(call, limit);
}

}  // namespace membrane::linux
