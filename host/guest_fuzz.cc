// A memory with any contents, and calls of host functions with any numbers as arguments: no crash, no access
// outside, and every answer inside the memory.
//
// Input: a byte per call that selects the function, then 16-bit arguments; the whole input is also the start of the
// memory, so that pointers meet lengths of every kind.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "host/broker_gate.h"
#include "host/dispatch.h"

using namespace membrane::host;

namespace {

// One page that may grow to four; unlimited output and fuel.
class FuzzGuest : public Guest, private BumpHeap::Space {
 public:
  FuzzGuest(const uint8_t* data, size_t size) : bytes_(65'536), heap_(32'768) {
    std::memcpy(bytes_.data(), data, std::min(size, bytes_.size()));
  }
  std::span<uint8_t> memory() override { return bytes_; }
  HostResult<uint32_t> allocate(uint64_t bytes) override { return heap_.allocate(*this, bytes); }
  bool charge(uint64_t) override { return true; }
  void owe(uint64_t) override {}
  uint64_t fuel_left() const override { return UINT64_MAX; }
  void fall_short(uint64_t) override {}
  bool print(Stream, std::string_view text) override { return take(text.size()); }
  bool set_result(std::string_view text) override { return take(text.size()); }
  bool submit(std::string_view answer) override { return take(answer.size()); }
  std::string_view input() const override { return "input"; }
  std::span<const std::string> arguments() const override { return arguments_; }

 private:
  [[nodiscard]] uint64_t size_bytes() const override { return bytes_.size(); }
  [[nodiscard]] bool grow_to(uint64_t bytes) override {
    if (bytes > 4 * 65'536) return false;
    bytes_.resize((bytes + 65'535) / 65'536 * 65'536);
    return true;
  }
  bool take(size_t bytes) {
    output_ += bytes;
    return output_ < 100'000;
  }

  std::vector<uint8_t> bytes_;
  BumpHeap heap_;
  size_t output_ = 0;
  std::vector<std::string> arguments_ = {"a", "b"};
};

std::vector<const FunctionSpec*> all_functions() {
  std::vector<const FunctionSpec*> functions;
  for (const Capability& capability : capabilities()) {
    for (const FunctionSpec& function : capability.functions) functions.push_back(&function);
  }
  return functions;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<const FunctionSpec*> functions = all_functions();
  static const Journal nothing;  // a world that answers nothing: requests that reach it fail
  FuzzGuest guest(data, size);
  BrokerGate gate = BrokerGate::to_journal(nothing);
  Dispatcher dispatcher(guest, gate);

  size_t at = 0;
  const auto next = [&]() -> uint8_t { return at < size ? data[at++] : 0; };
  for (int calls = 0; calls < 8 && at < size; ++calls) {
    const FunctionSpec& function = *functions[next() % functions.size()];
    std::vector<uint64_t> slots;
    for (const Param& param : function.params) {
      uint64_t value = next();
      value |= static_cast<uint64_t>(next()) << 8;
      // Numbers can be large; pointers stay near the input, or are far outside.
      if (!is_string(param.type)) value = value << 48 | value;
      if (is_string(param.type) && value > 0xF000) value |= 0xFFFF'0000;
      slots.push_back(value);
    }
    const auto type = membrane::host::wasm_signature_of(function);
    std::vector<uint64_t> results(type.results.size());
    const CallOutcome outcome = dispatcher.call(function, slots, results);
    if (outcome.end == CallEnd::kOutOfMemory || outcome.end == CallEnd::kOutOfOutput) break;
    if (outcome.end != CallEnd::kReturn || !function.result || !is_string(*function.result)) continue;
    // When there is no memory even for the empty string, the pointer is 0.
    if (results[0] != 0 && !guest.read_string(static_cast<uint32_t>(results[0]))) std::abort();
  }
  return 0;
}
