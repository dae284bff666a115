// System V IPC: shared memory segments, semaphore sets and message queues, which programs know by keys and
// ids. They exist until a program removes them. Threads: the kernel's thread.
#pragma once

#include <sys/ipc.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "linux/abi/answer.h"
#include "linux/files/wait_queue.h"
#include "linux/kernel/shared_memory.h"

namespace membrane::linux {

class Call;
class Kernel;
struct Process;

struct IpcOwner {
  int key = 0;
  uint32_t uid = 0, gid = 0, creator_uid = 0, creator_gid = 0;
  uint32_t mode = 0;  // permissions
};

// The objects of one kind, each of which has an `owner`. An id combines the object's place with the number of
// times that place was used before.
template <typename T>
class IpcTable {
 public:
  static constexpr int kMost = 1024;
  static constexpr int kPlaces = 32768, kRounds = 65536;
  struct Entry {
    int round = 0;
    std::shared_ptr<T> object;
  };

  // nullptr: none.
  [[nodiscard]] std::shared_ptr<T> find(int id) const {
    const auto found = entries_.find(id % kPlaces);
    return id < 0 || found == entries_.end() || id_of(found->first) != id ? nullptr : found->second.object;
  }
  // Returns the id; -1: none.
  [[nodiscard]] int find_key(int key) const {
    for (const auto& [place, entry] : entries_)
      if (entry.object->owner.key == key) return id_of(place);
    return -1;
  }
  // Returns the id. Errors: ENOSPC.
  Try<int> add(std::shared_ptr<T> object) {
    if (entries_.size() >= kMost) return err(ENOSPC);
    int place = 0;
    while (entries_.contains(place)) ++place;
    entries_[place] = {std::exchange(rounds_, (rounds_ + 1) % kRounds), std::move(object)};
    return id_of(place);
  }
  void remove(int id) { entries_.erase(id % kPlaces); }
  // The id of the object at a place, for SHM_STAT; -1: none.
  [[nodiscard]] int id_at(int place) const { return entries_.contains(place) ? id_of(place) : -1; }
  [[nodiscard]] int last_place() const { return entries_.empty() ? 0 : entries_.rbegin()->first; }
  [[nodiscard]] const std::map<int, Entry>& entries() const { return entries_; }

  // -- of a sandbox that was kept. False for what cannot be.
  bool put(int place, int round, std::shared_ptr<T> object) {
    const bool is_sound = place >= 0 && place < kPlaces && round >= 0 && round < kRounds;
    return is_sound && entries_.emplace(place, Entry{round, std::move(object)}).second;
  }
  [[nodiscard]] int rounds() const { return rounds_; }
  bool set_rounds(int rounds) {
    rounds_ = rounds;
    return rounds >= 0 && rounds < kRounds;
  }

 private:
  [[nodiscard]] int id_of(int place) const { return entries_.at(place).round * kPlaces + place; }
  std::map<int, Entry> entries_;  // by place
  int rounds_ = 0;
};

struct SharedSegment {
  IpcOwner owner;
  uint64_t size = 0;
  std::shared_ptr<SharedMemory> memory;  // nullptr: it was removed, and lives while attached
  std::weak_ptr<SharedMemory> attached;
  int64_t attached_at = 0, detached_at = 0, changed_at = 0;
  int creator = 0, last = 0;  // processes
};

struct SemaphoreSet {
  struct Semaphore {
    int value = 0, process = 0;  // the last process that changed it
  };
  struct Waiting {
    uint16_t semaphore = 0;
    bool is_for_zero = false;
  };
  IpcOwner owner;
  std::vector<Semaphore> semaphores;
  std::map<int, Waiting> waiting;  // tasks, by id; some may no longer wait
  int64_t operated_at = 0, changed_at = 0;
  WaitQueue changed;
};

struct MessageQueue {
  struct Message {
    int64_t type = 0;
    std::vector<std::byte> bytes;
  };
  IpcOwner owner;
  std::deque<Message> messages;
  uint64_t bytes = 0, most_bytes = 16384;
  int64_t sent_at = 0, received_at = 0, changed_at = 0;
  int last_sender = 0, last_receiver = 0;
  WaitQueue changed;
};

struct SystemV {
  IpcTable<SharedSegment> segments;
  IpcTable<SemaphoreSet> semaphores;
  IpcTable<MessageQueue> queues;
};

// Created by the first call.
SystemV& system_v(Call& call);

// Undoes the SEM_UNDO operations of a process that ends.
void undo_semaphores(Kernel& kernel, Process& process);

// -- for the handlers of each kind

// Whether the caller may read (4) or write (2). Errors: EACCES.
Done may_use(const Call& call, const IpcOwner& owner, uint32_t wanted);
// Whether the caller may change and remove it. Errors: EPERM.
Done may_control(const Call& call, const IpcOwner& owner);
[[nodiscard]] IpcOwner new_owner(const Call& call, int key, int flags);
[[nodiscard]] ipc_perm reported_owner(const IpcOwner& owner, int id);
void take_owner(IpcOwner& owner, const ipc_perm& shown);
[[nodiscard]] int64_t ipc_time(const Call& call);

// shmget(), semget(), msgget(): finds an object by key, or creates one. `check` validates an existing one.
template <typename T>
Try<int> get_object(Call& call, IpcTable<T>& table, int key, int flags,
                    const std::function<Done(const T&)>& check,
                    const std::function<Try<std::shared_ptr<T>>()>& make) {
  const int id = key == IPC_PRIVATE ? -1 : table.find_key(key);
  if (id < 0) {
    if (key != IPC_PRIVATE && (flags & IPC_CREAT) == 0) return err(ENOENT);
    if (table.entries().size() >= IpcTable<T>::kMost) return err(ENOSPC);
    MEMBRANE_ASSIGN(std::shared_ptr<T> made, make());
    made->owner = new_owner(call, key, flags);
    made->changed_at = ipc_time(call);
    return table.add(std::move(made));
  }
  if ((flags & IPC_CREAT) != 0 && (flags & IPC_EXCL) != 0) return err(EEXIST);
  const T& found = *table.find(id);
  MEMBRANE_TRY(check(found));
  const auto asked = static_cast<uint32_t>(flags);
  MEMBRANE_TRY(may_use(call, found.owner, (asked >> 6 | asked >> 3 | asked) & 7));
  return id;
}

}  // namespace membrane::linux
