#include "linux/kept/system_v_state.h"

#include "linux/kernel/system_v.h"

namespace membrane::linux {
namespace {

constexpr size_t kMostSemaphores = 32000, kMostMessages = 16384, kMostMessageBytes = 65536;

template <typename State>
void transfer_owner(State& state, IpcOwner& owner) {
  state(owner.key);
  for (uint32_t* const each : {&owner.uid, &owner.gid, &owner.creator_uid, &owner.creator_gid, &owner.mode})
    state(*each);
}

void write_segment(SandboxWriter& to, SharedSegment& segment, StateWriter& state) {
  const auto attached = segment.memory != nullptr ? segment.memory : segment.attached.lock();
  state(to.file(attached));
  const bool is_removed = segment.memory == nullptr;
  state(is_removed);
  state(segment.size);
  for (const int64_t time : {segment.attached_at, segment.detached_at, segment.changed_at}) state(time);
  state(segment.creator);
  state(segment.last);
}

// A removed segment that is attached nowhere is freed by the next call that looks.
void read_segment(SandboxReader& from, SharedSegment& segment) {
  StateReader& state = from.state;
  const auto memory = std::dynamic_pointer_cast<SharedMemory>(from.take(from.files));
  const bool is_removed = state.get<bool>();
  state.require(is_removed || memory != nullptr);
  segment.attached = memory;
  if (!is_removed) segment.memory = memory;
  state(segment.size);
  for (int64_t* const time : {&segment.attached_at, &segment.detached_at, &segment.changed_at}) state(*time);
  state(segment.creator);
  state(segment.last);
}

void write_set(SemaphoreSet& set, StateWriter& state) {
  state(set.operated_at);
  state(set.changed_at);
  state(static_cast<uint32_t>(set.semaphores.size()));
  for (const auto& each : set.semaphores) {
    state(each.value);
    state(each.process);
  }
}

void read_set(StateReader& state, SemaphoreSet& set) {
  state(set.operated_at);
  state(set.changed_at);
  for (size_t left = state.count(8, kMostSemaphores); left > 0 && state.is_good(); --left) {
    auto& each = set.semaphores.emplace_back();
    state(each.value);
    state(each.process);
    state.require(each.value >= 0 && each.value <= 32767);
  }
}

void write_queue(MessageQueue& queue, StateWriter& state) {
  state(queue.most_bytes);
  for (const int64_t time : {queue.sent_at, queue.received_at, queue.changed_at}) state(time);
  state(queue.last_sender);
  state(queue.last_receiver);
  state(static_cast<uint32_t>(queue.messages.size()));
  for (const auto& each : queue.messages) {
    state(each.type);
    state.blob(each.bytes);
  }
}

void read_queue(StateReader& state, MessageQueue& queue) {
  state(queue.most_bytes);
  for (int64_t* const time : {&queue.sent_at, &queue.received_at, &queue.changed_at}) state(*time);
  state(queue.last_sender);
  state(queue.last_receiver);
  for (size_t left = state.count(12, kMostMessages); left > 0 && state.is_good(); --left) {
    auto& each = queue.messages.emplace_back();
    state(each.type);
    state.blob(each.bytes, kMostMessageBytes);
    queue.bytes += each.bytes.size();
  }
}

template <typename T, typename Write>
void write_table(const IpcTable<T>& table, StateWriter& state, const Write& write) {
  state(table.rounds());
  state(static_cast<uint32_t>(table.entries().size()));
  for (const auto& [place, entry] : table.entries()) {
    state(place);
    state(entry.round);
    transfer_owner(state, entry.object->owner);
    write(*entry.object);
  }
}

template <typename T, typename Read>
void read_table(IpcTable<T>& table, StateReader& state, const Read& read) {
  const auto rounds = state.get<int>();
  for (size_t left = state.count(32, IpcTable<T>::kMost); left > 0 && state.is_good(); --left) {
    const auto place = state.get<int>(), round = state.get<int>();
    auto object = std::make_shared<T>();
    transfer_owner(state, object->owner);
    read(*object);
    state.require(table.put(place, round, std::move(object)));
  }
  state.require(table.set_rounds(rounds));
}

}  // namespace

void SystemVState::write(SandboxWriter& to, const SystemV& all, StateWriter& state) {
  write_table(all.segments, state, [&](SharedSegment& each) { write_segment(to, each, state); });
  write_table(all.semaphores, state, [&](SemaphoreSet& each) { write_set(each, state); });
  write_table(all.queues, state, [&](MessageQueue& each) { write_queue(each, state); });
}

void SystemVState::read(SandboxReader& from, SystemV& all) {
  StateReader& state = from.state;
  read_table(all.segments, state, [&](SharedSegment& each) { read_segment(from, each); });
  read_table(all.semaphores, state, [&](SemaphoreSet& each) { read_set(state, each); });
  read_table(all.queues, state, [&](MessageQueue& each) { read_queue(state, each); });
}

}  // namespace membrane::linux
