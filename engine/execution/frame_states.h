// Frame states: the values in the frames of a stopped run, with their types. Snapshots write them, and the heap finds
// references in them.
//
// At a safepoint a frame means the same in each tier, but its values are not all in its slots: some are constants or in
// another slot, and those of compiled code may be in registers. Where they are is found by making the function's code
// again, watched; their types by walking its body. Each function is made and walked once.
//
// Threads: reads a Run that its thread has stopped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "engine/code/translate.h"
#include "engine/execution/backtrace.h"
#include "wasm/validate.h"

namespace membrane::engine {

inline constexpr uint32_t kWordsOfCall = 3;  // a call is followed by a header

// The types of a frame's slots: locals, then operands.
std::vector<wasm::ValType> locals_of(const wasm::Module& module, uint32_t function);
std::vector<wasm::ValType> types_of(const wasm::Module& module, uint32_t function,
                                    const wasm::StackTypes& stack);

// The type of the function that the instruction before a place calls; null when it is not a call.
const wasm::FuncType* callee_type(const wasm::Module& module, const wasm::StackTypes& stack);

// The places of frames, with the operands that they have there. A frame that waits for a call holds neither the
// call's arguments nor its results. Each place is kept once, however deep a recursion is, and looked for once.
class FramePlaces {
 public:
  explicit FramePlaces(const wasm::Module& module) : module_(module) {}

  void add(uint32_t function, uint32_t code_offset, bool waits) {
    places_.try_emplace({function, code_offset, waits});
  }
  [[nodiscard]] size_t size() const { return places_.size(); }
  // Looks for the places that were added. Stops when they have more than `most_operands` operands
  // together.
  void find(uint64_t most_operands);
  // Null when no frame can be there.
  [[nodiscard]] const wasm::StackTypes* at(uint32_t function, uint32_t code_offset, bool waits) const;

 private:
  using Key = std::tuple<uint32_t, uint32_t, bool>;  // function, offset in its code, whether the frame waits
  struct Place {
    wasm::StackTypes stack;
    bool looked_for = false, found = false;
  };
  bool note(Place& place, bool waits, const wasm::StackTypes& stack);

  const wasm::Module& module_;
  std::map<Key, Place> places_;
  uint64_t left_ = 0;
};

// Words of a function's code, or bytes of its machine code, and what making it again has found there.
template <typename Found>
class Remade {
 public:
  using Key = std::pair<const FunctionCode*, uint32_t>;

  void add(const FunctionCode* function, uint32_t place) { keys_.emplace_back(function, place); }
  // `want` prepares the search at a place; `make` fills in all places of one function.
  template <typename Want, typename Make>
  void find(Want want, Make make) {
    std::ranges::sort(keys_);
    keys_.erase(std::ranges::unique(keys_).begin(), keys_.end());
    found_.resize(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) want(found_[i], keys_[i].second);
    for (size_t first = 0; first < keys_.size();) {
      size_t end = first;
      while (end < keys_.size() && keys_[end].first == keys_[first].first) ++end;
      make(*keys_[first].first, std::span(found_).subspan(first, end - first));
      first = end;
    }
  }
  [[nodiscard]] const Found& at(const FunctionCode* function, uint32_t place) const {
    return found_[static_cast<size_t>(std::ranges::lower_bound(keys_, Key{function, place}) - keys_.begin())];
  }
  // Calls take(key, found) for each.
  void each(auto take) {
    for (size_t i = 0; i < keys_.size(); ++i) take(keys_[i], found_[i]);
  }

 private:
  std::vector<Key> keys_;
  std::vector<Found> found_;
};

void remake(const FunctionCode& function, std::span<Recorder> recorders);

// One frame's state: where all its values are, and the offset in the body where it resumes.
struct FrameState {
  const FunctionCode* function = nullptr;
  uint32_t code_offset = 0;
  bool is_left = false;  // it ends in a call of the host, which waits: there is no place in it
  const uint64_t* fp = nullptr;
  std::vector<PendingSlot> pending;  // values that are not in their slots
  std::vector<std::pair<uint16_t, uint64_t>> in_registers;

  // The values of the frame's first `count` slots.
  [[nodiscard]] std::vector<uint64_t> slots(uint32_t count) const;
};

class KnownFrames;

// Of a run that is paused, or that allocates; innermost first.
std::vector<FrameState> frame_states(Run& run);
// The same, with the places in `known`: so every time but the first is cheap.
std::vector<FrameState> frame_states(Run& run, KnownFrames& known);
// The function of the host that the run calls next; null when it is elsewhere.
const FunctionInstance* awaited_host(Run& run);
// Whether the innermost frame ends in that call.
bool awaits_tail_call(Run& run);
// Where the arguments of such a call are.
const uint64_t* tail_call_arguments(Run& run);

// What was found out about frames by making code again and walking bodies, kept since a run that allocates in a loop
// is at the same places each time. So a collection costs as much as the frames, and not as their functions.
//
// Ownership: of the caller that asks again and again; FunctionCodes must outlive it. Threads: one.
class KnownFrames final : public RootCache {
 public:
  KnownFrames();
  ~KnownFrames() override;

 private:
  friend struct RemadeStops;
  friend std::vector<FrameState> frame_states(Run&, KnownFrames&);
  friend void each_frame_value(Run&, KnownFrames&,
                               const std::function<void(const CompiledModule&, wasm::ValType, uint64_t)>&);
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Calls visit(module, type, bits) for each value of each frame (of a vector with its low half).
void each_frame_value(Run& run, KnownFrames& known,
                      const std::function<void(const CompiledModule&, wasm::ValType, uint64_t)>& visit);

}  // namespace membrane::engine
