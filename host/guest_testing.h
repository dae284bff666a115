// A Guest over a vector, for tests and fuzzers: no engine needed.
#pragma once

#include <string>
#include <vector>

#include "host/guest.h"

namespace membrane::host {

class VectorGuest : public Guest, private BumpHeap::Space, private HostMemory::Limit {
 public:
  static constexpr uint64_t kPageBytes = 65'536;

  explicit VectorGuest(uint64_t pages = 1, uint64_t max_pages = 1'024)
      : bytes_(pages * kPageBytes), max_bytes_(max_pages * kPageBytes), heap_(64) {}

  std::span<uint8_t> memory() override { return bytes_; }
  HostResult<uint32_t> allocate(uint64_t bytes) override { return heap_.allocate(*this, bytes); }
  bool charge(uint64_t fuel) override;
  void owe(uint64_t fuel) override;
  [[nodiscard]] uint64_t fuel_left() const override { return fuel; }
  void fall_short(uint64_t charged) override {
    fuel += charged;
    fell_short = true;
  }
  HostMemory& host_memory() override { return host_memory_; }
  bool print(Stream stream, std::string_view text) override;
  bool set_result(std::string_view text) override;
  bool submit(std::string_view answer) override;
  std::string_view input() const override { return input_text; }
  std::span<const std::string> arguments() const override { return argument_texts; }

  // The address of a new string, as a program's (string "…") returns it.
  uint32_t put(std::string_view text) { return write_string(text).value(); }
  std::string get(uint32_t pointer) { return std::string(read_string(pointer).value()); }
  // Writes four bytes at any address inside the memory.
  void poke(uint32_t address, uint32_t value);

  uint64_t fuel = 1'000'000'000;
  bool fell_short = false;
  uint64_t output_left = 1 << 20;
  std::string input_text;
  std::vector<std::string> argument_texts;
  std::string stdout_text;
  std::string stderr_text;
  std::string result;
  std::string answer;
  bool submitted = false;

 private:
  [[nodiscard]] uint64_t size_bytes() const override { return bytes_.size(); }
  [[nodiscard]] bool grow_to(uint64_t bytes) override;
  [[nodiscard]] uint64_t left_bytes() const override { return max_bytes_ - bytes_.size() - lowered_bytes_; }
  [[nodiscard]] bool lower_by(uint64_t bytes) override {
    if (bytes > max_bytes_ - bytes_.size()) return false;
    lowered_bytes_ = bytes;
    return true;
  }
  bool keep(std::string& target, std::string_view text);

  std::vector<uint8_t> bytes_;
  uint64_t max_bytes_;
  uint64_t lowered_bytes_ = 0;
  BumpHeap heap_;
  HostMemory host_memory_{this};
};

}  // namespace membrane::host
