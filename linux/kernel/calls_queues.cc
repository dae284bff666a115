// System V message queues: msgget, msgsnd, msgrcv, msgctl. MSG_COPY is refused.
#include <sys/msg.h>

#include <algorithm>

#include "linux/kernel/call.h"
#include "linux/kernel/kernel.h"
#include "linux/kernel/system_v.h"

namespace membrane::linux {
namespace {

using Queues = IpcTable<MessageQueue>;
using QueueRef = std::shared_ptr<MessageQueue>;

constexpr uint64_t kMostMessageBytes = 8192, kMostQueueBytes = 16384;  // MSGMAX, MSGMNB
constexpr int kStatAny = 13;                                           // MSG_STAT_ANY
constexpr int kCopy = 040000, kExcept = 020000;                        // MSG_COPY, MSG_EXCEPT

Try<QueueRef> queue_of(Call& call, uint32_t wanted) {
  QueueRef queue = system_v(call).queues.find(call.int_arg(0));
  if (queue == nullptr) return err(call.is_again() ? EIDRM : EINVAL);
  MEMBRANE_TRY(may_use(call, queue->owner, wanted));
  return queue;
}

int64_t wait_for(Call& call, MessageQueue& queue) {
  call.join(queue.changed);
  return call.wait(OnSignal::kInterrupt);
}

// The message that msgrcv() asks for; the end if there is none.
auto find_message(MessageQueue& queue, int64_t type, bool is_except) {
  auto& all = queue.messages;
  if (type == 0) return all.begin();
  if (type > 0)
    return std::ranges::find_if(all, [&](const auto& each) { return (each.type == type) != is_except; });
  const int64_t most = type == INT64_MIN ? INT64_MAX : -type;
  const auto lowest = std::ranges::min_element(all, {}, &MessageQueue::Message::type);
  return lowest != all.end() && lowest->type <= most ? lowest : all.end();
}

msqid_ds shown(const MessageQueue& queue, int id) {
  msqid_ds status = {};
  status.msg_perm = reported_owner(queue.owner, id);
  status.msg_stime = queue.sent_at;
  status.msg_rtime = queue.received_at;
  status.msg_ctime = queue.changed_at;
  status.__msg_cbytes = queue.bytes;
  status.msg_qnum = queue.messages.size();
  status.msg_qbytes = queue.most_bytes;
  status.msg_lspid = queue.last_sender;
  status.msg_lrpid = queue.last_receiver;
  return status;
}

int64_t change(Call& call, MessageQueue& queue) {
  CALL_ASSIGN(const auto wanted, call.get<msqid_ds>(call.arg(2)));
  CALL_TRY(may_control(call, queue.owner));
  if (wanted.msg_qbytes > kMostQueueBytes) return -EPERM;
  queue.most_bytes = wanted.msg_qbytes;
  take_owner(queue.owner, wanted.msg_perm);
  queue.changed_at = ipc_time(call);
  queue.changed.wake();
  return 0;
}

int64_t tell_limits(Call& call, const Queues& all, bool is_usage) {
  msginfo info = {};
  info.msgmni = Queues::kMost;
  info.msgmax = kMostMessageBytes;
  info.msgmnb = kMostQueueBytes;
  info.msgssz = 16;
  info.msgseg = 0xffff;
  if (is_usage) {
    info.msgpool = static_cast<int>(all.entries().size());
    for (const auto& [place, entry] : all.entries()) {
      info.msgmap += static_cast<int>(entry.object->messages.size());
      info.msgtql += static_cast<int>(entry.object->bytes);
    }
  }
  CALL_TRY(call.put(call.arg(2), info));
  return all.last_place();
}

}  // namespace

int64_t sys_msgget(Call& call) {
  const auto any = [](const MessageQueue&) -> Done { return {}; };
  const auto make = []() -> Try<QueueRef> { return std::make_shared<MessageQueue>(); };
  return answer(
      get_object<MessageQueue>(call, system_v(call).queues, call.int_arg(0), call.int_arg(1), any, make));
}

int64_t sys_msgsnd(Call& call) {
  const uint64_t address = call.arg(1), size = call.arg(2);
  if (size > kMostMessageBytes || call.int_arg(0) < 0) return -EINVAL;
  CALL_ASSIGN(const auto type, call.get<int64_t>(address));
  if (type < 1) return -EINVAL;
  CALL_ASSIGN(const QueueRef queue, queue_of(call, 2));
  MessageQueue::Message message = {.type = type, .bytes = std::vector<std::byte>(size)};
  CALL_TRY(call.task.read_memory(address + sizeof type, message.bytes));
  if (queue->bytes + size > queue->most_bytes || queue->messages.size() >= queue->most_bytes)
    return (call.int_arg(3) & IPC_NOWAIT) != 0 ? -EAGAIN : wait_for(call, *queue);
  queue->bytes += size;
  queue->messages.push_back(std::move(message));
  queue->sent_at = ipc_time(call);
  queue->last_sender = call.process().id;
  queue->changed.wake();
  return 0;
}

int64_t sys_msgrcv(Call& call) {
  const uint64_t address = call.arg(1), size = call.arg(2);
  const int flags = call.int_arg(4);
  if (call.int_arg(0) < 0 || static_cast<int64_t>(size) < 0) return -EINVAL;
  if ((flags & kCopy) != 0) return -ENOSYS;
  CALL_ASSIGN(const QueueRef queue, queue_of(call, 4));
  const auto found = find_message(*queue, static_cast<int64_t>(call.arg(3)), (flags & kExcept) != 0);
  if (found == queue->messages.end()) return (flags & IPC_NOWAIT) != 0 ? -ENOMSG : wait_for(call, *queue);
  if (found->bytes.size() > size && (flags & MSG_NOERROR) == 0) return -E2BIG;
  const MessageQueue::Message message = std::move(*found);
  queue->messages.erase(found);
  queue->bytes -= message.bytes.size();
  queue->received_at = ipc_time(call);
  queue->last_receiver = call.process().id;
  queue->changed.wake();
  const auto bytes = std::span(message.bytes).first(std::min<uint64_t>(size, message.bytes.size()));
  CALL_TRY(call.put(address, message.type));
  CALL_TRY(call.task.write_memory(address + sizeof message.type, bytes));
  return static_cast<int64_t>(bytes.size());
}

int64_t sys_msgctl(Call& call) {
  const int command = call.int_arg(1);
  Queues& all = system_v(call).queues;
  if (command == IPC_INFO || command == MSG_INFO) return tell_limits(call, all, command == MSG_INFO);
  const bool is_place = command == MSG_STAT || command == kStatAny;
  const int id = is_place ? all.id_at(call.int_arg(0)) : call.int_arg(0);
  const QueueRef queue = all.find(id);
  if (queue == nullptr) return -EINVAL;
  switch (command) {
    case IPC_STAT:
    case MSG_STAT: CALL_TRY(may_use(call, queue->owner, 4)); [[fallthrough]];
    case kStatAny: CALL_TRY(call.put(call.arg(2), shown(*queue, id))); return is_place ? id : 0;
    case IPC_SET: return change(call, *queue);
    case IPC_RMID:
      CALL_TRY(may_control(call, queue->owner));
      all.remove(id);
      queue->changed.wake();
      return 0;
    default: return -EINVAL;
  }
}

}  // namespace membrane::linux
