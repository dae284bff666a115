// A running instance as host functions see it: its memory, its heap, its fuel, and its output.
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

// A program's input and output. Outlives the instance: the report is built from it.
struct Conversation {
  std::string input;
  std::vector<std::string> arguments;
  uint64_t output_limit_bytes = 0;  // for stdout, stderr, result and answer together; see output_limit.h
  // Called with output as it is written; may be null.
  std::function<void(std::string_view)> on_stdout, on_stderr;
  bool hears_bytes = false;  // they get the bytes as written, else UTF-8

  std::string stdout_text;
  std::string stderr_text;
  std::string result;
  std::string answer;
  bool submitted = false;
  // Bytes written to stdout and stderr: an invalid UTF-8 byte counts once, and not as the three bytes of U+FFFD.
  uint64_t written_bytes = 0;

  // Appends as many whole characters as fit. False when something did not fit.
  bool add(std::string& to, std::string_view text);
  // The same for a stream: `bytes` were written, and `text` is the part of them (and of earlier ones) that is
  // complete UTF-8.
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
  // Both are borrowed. The heap begins at the exported global __heap_base, else after the data.
  GuestInstance(engine::Instance& instance, Conversation& conversation);

  // Brackets each host call: charges go to the execution that makes it.
  void enter(engine::HostCall& call) { call_ = &call; }

  // The start of the heap, which is the same in every instance of the module.
  [[nodiscard]] uint64_t heap_start() const;
  // The address of the heap's next allocation, which is the heap's entire state.
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
  uint64_t lowered_bytes_ = 0;  // reduction of the instance's memory limit, in whole pages
  engine::HostCall* call_ = nullptr;
};

}  // namespace membrane::sandbox
