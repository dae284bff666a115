// A running instance, as host functions see it: its memory, its heap, its fuel, and what
// it says.
//
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/instance/host_share.h"
#include "engine/instance/instance.h"
#include "engine/instance/run.h"
#include "host/guest.h"

namespace membrane::sandbox {

// What the program was given, and what it said. Outlives the instance: the report is made of it.
struct Conversation {
  std::string input;
  std::vector<std::string> arguments;
  uint64_t output_limit_bytes = 0;  // of stdout, stderr, result and answer together; see output_limit.h
  // Each hears what is written as it comes; may be null.
  std::function<void(std::string_view)> on_stdout, on_stderr;
  bool hears_bytes = false;  // they hear the bytes as they were written, else UTF-8

  std::string stdout_text;
  std::string stderr_text;
  std::string result;
  std::string answer;
  bool submitted = false;
  // Of stdout and stderr, as they were written: a byte that is no UTF-8 counts once, and not as the three of U+FFFD.
  uint64_t written_bytes = 0;

  // Adds what fits, whole characters only. False when something did not.
  bool add(std::string& to, std::string_view text);
  // The same for a stream: `bytes` were written, and `text` is what can be said of them (and of those before) as UTF-8.
  bool write(host::Stream stream, std::string_view bytes, std::string_view text);
  [[nodiscard]] uint64_t used_bytes() const { return written_bytes + result.size() + answer.size(); }
  [[nodiscard]] uint64_t room_bytes() const {
    return output_limit_bytes - std::min(output_limit_bytes, used_bytes());
  }
};

class GuestInstance final : public host::Guest,
                            private host::BumpHeap::Space,
                            private host::HostMemory::Limit {
 public:
  // Both are borrowed. The heap begins at the exported global __heap_base, else past the data.
  GuestInstance(engine::Instance& instance, Conversation& conversation);

  // Around each host call: charges go to the execution that makes it.
  void enter(engine::HostCall& call) { call_ = &call; }

  // Where the heap begins, in every instance of the module.
  [[nodiscard]] uint64_t heap_start() const;
  // Where the heap's next allocation will be: all there is to know of it.
  [[nodiscard]] uint64_t heap_next() const { return heap_.next(); }
  void set_heap_next(uint64_t next) { heap_ = host::BumpHeap(next); }

  std::span<uint8_t> memory() override;
  host::HostResult<uint32_t> allocate(uint64_t bytes) override;
  bool charge(uint64_t fuel) override { return call_->charge(fuel); }
  void owe(uint64_t fuel) override { call_->owe(fuel); }
  uint64_t fuel_left() const override { return call_->execution.fuel_left(); }
  void fall_short(uint64_t charged) override { engine::fall_short(*call_, charged); }
  host::HostMemory& host_memory() override { return host_memory_; }
  bool print(host::Stream stream, std::string_view text) override {
    return conversation_.write(stream, text, text);
  }
  bool set_result(std::string_view text) override;
  bool submit(std::string_view answer) override;
  std::string_view input() const override { return conversation_.input; }
  std::span<const std::string> arguments() const override { return conversation_.arguments; }

 private:
  uint64_t size_bytes() const override;
  bool grow_to(uint64_t bytes) override;
  uint64_t left_bytes() const override;
  bool lower_by(uint64_t bytes) override;

  engine::Instance& instance_;
  Conversation& conversation_;
  host::BumpHeap heap_;
  host::HostMemory host_memory_{this};
  uint64_t lowered_bytes_ = 0;  // of the instance's memory limit, in whole pages
  engine::HostCall* call_ = nullptr;
};

}  // namespace membrane::sandbox
