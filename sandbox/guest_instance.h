// A running instance, as host functions see it: its memory, its heap, its fuel, and what
// it says.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/instance.h"
#include "host/guest.h"

namespace membrane::sandbox {

// What the program was given, and what it said. Outlives the instance: the report is made of it.
struct Conversation {
  std::string input;
  std::vector<std::string> arguments;
  uint64_t output_limit_bytes = 0;  // of stdout, stderr, result and answer together
  std::function<void(std::string_view)> on_stdout;

  std::string stdout_text;
  std::string stderr_text;
  std::string result;
  std::string answer;
  bool submitted = false;

  // Adds what fits, whole characters only. False when something did not.
  bool add(std::string& to, std::string_view text);
  [[nodiscard]] uint64_t used_bytes() const {
    return stdout_text.size() + stderr_text.size() + result.size() + answer.size();
  }
};

class GuestInstance final : public host::Guest, private host::BumpHeap::Space {
 public:
  // Both are borrowed. The heap begins at the exported global __heap_base, else past the data.
  GuestInstance(engine::Instance& instance, Conversation& conversation);

  // Around each host call: charges go to the execution that makes it.
  void enter(engine::HostCall& call) { call_ = &call; }

  // Where the heap's next allocation will be: all there is to know of it.
  [[nodiscard]] uint64_t heap_next() const { return heap_.next(); }
  void set_heap_next(uint64_t next) { heap_ = host::BumpHeap(next); }

  std::span<uint8_t> memory() override;
  host::HostResult<uint32_t> allocate(uint64_t bytes) override;
  bool charge(uint64_t fuel) override { return call_->charge(fuel); }
  void owe(uint64_t fuel) override { call_->owe(fuel); }
  bool print(host::Stream stream, std::string_view text) override;
  bool set_result(std::string_view text) override;
  bool submit(std::string_view answer) override;
  std::string_view input() const override { return conversation_.input; }
  std::span<const std::string> arguments() const override { return conversation_.arguments; }

 private:
  uint64_t size_bytes() const override;
  bool grow_to(uint64_t bytes) override;

  engine::Instance& instance_;
  Conversation& conversation_;
  host::BumpHeap heap_;
  engine::HostCall* call_ = nullptr;
};

}  // namespace membrane::sandbox
