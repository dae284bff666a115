// Programs that make arbitrary system calls with arguments drawn from bytes: small numbers, descriptors,
// names of files, and addresses inside, at the edge of and outside of their memory, which contains more of
// the same.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "linux/kernel/scripted_testing.h"

namespace membrane::linux {

// The numbers of all calls that have a handler.
const std::vector<uint64_t>& handled_calls();

class HostileCalls {
 public:
  explicit HostileCalls(std::span<const uint8_t> bytes) : left_(bytes) {}
  [[nodiscard]] bool is_over() const { return left_.empty(); }
  // Makes the thread's next call or fault; at the end, ends its process. The first calls open a descriptor of
  // each kind.
  void next(ScriptedThread& thread);
  // Makes this call with drawn arguments.
  void call(ScriptedThread& thread, uint64_t number);
  // Makes the next of the first calls; false after the last one.
  bool prepare(ScriptedThread& thread);

 private:
  static constexpr uint64_t kNames = ScriptedKernel::kScratch + 8 * kPage;
  uint8_t draw();
  template <typename T>
  T draw_number();
  uint64_t draw_argument(const ScriptedThread& thread);
  void write_memory(ScriptedThread& thread);
  std::span<const uint8_t> left_;
  size_t prepared_ = 0;
};

// Runs the program on a kernel with few resources, until it ends or all of its processes wait for each other.
void run_hostile(const std::function<void(ScriptedThread&)>& script, uint32_t user);

}  // namespace membrane::linux
