#include "engine/execution/backtrace.h"

#include "engine/code/translate.h"
#include "engine/instance/machine.h"
#include "engine/interpreter/interpreter.h"
#include "engine/native/runtime.h"

namespace membrane::engine {
namespace {

// What making one function again has found.
struct Found {
  bool found = false;
  uint32_t code_offset = 0;
  uint32_t unspent = 0;
};

std::vector<Found> find_interpreted(const FunctionCode& function, std::span<const FrameStop* const> stops) {
  std::vector<Found> found(stops.size());
  const Word* const code = function.code.load(std::memory_order_acquire);
  if (code == nullptr) return found;
  std::vector<Recorder> recorders(stops.size());
  for (size_t i = 0; i < stops.size(); ++i) recorders[i].wanted = static_cast<uint32_t>(stops[i]->at - code);
  std::vector<Word> again;
  translate(*function.module, function.index, again, recorders);
  for (size_t i = 0; i < stops.size(); ++i) {
    const Recorder& r = recorders[i];
    if (!r.found) continue;
    const HeaderWord& header = again[r.header].header;
    const bool is_next = stops[i]->is_unpaid && r.header == r.wanted;
    found[i] = {true, is_next ? header.code_offset : r.code_offset, header.cost - r.cost_to_here};
  }
  return found;
}

std::vector<Found> find_compiled(std::span<const FrameStop* const> stops) {
  std::vector<Found> found(stops.size());
  std::vector<native::Watch> watches(stops.size());
  std::optional<native::CodeAddress> code;
  for (size_t i = 0; i < stops.size(); ++i) {
    code = native::find_code(stops[i]->native_at);
    if (code) watches[i].wanted_pc = code->pc;
  }
  if (code) native::watch(*code, watches);
  for (size_t i = 0; i < stops.size(); ++i)
    if (watches[i].found)
      found[i] = {true, watches[i].code_offset, watches[i].cost - watches[i].cost_to_here};
  return found;
}

CodePlace place_of(const FunctionCode& function, const Found& found) {
  const wasm::Module& module = function.module->module();
  CodePlace place;
  place.function = function.index;
  place.function_name = module.names.function(function.index);
  if (!found.found) return place;
  place.code_offset = module.functions[function.index].code.offset + found.code_offset;
  if (const wasm::SourcePoint* const source = module.source_of(place.code_offset))
    place.text_offset = source->text_offset;
  return place;
}

}  // namespace

FrameWalk::FrameWalk(Run& run)
    : m_(Machine::state(run)), frames_(Machine::frames(run)), instance_(m_.instance) {
  if (m_.where == Where::kNative) {
    depth_ = m_.native->top - m_.native->rsp;
    native_at_ = m_.native->pc;
    fp_ = reinterpret_cast<uint64_t*>(m_.native->registers[native::kFrameRegister]);
    if (native_at_ == m_.native->exit_instance) {  // before a call of the host: the frame is the caller's
      native_at_ = reinterpret_cast<const void*>(m_.native->top[-depth_--]);
      fp_ -= native::AfterCall::frame_advance(native_at_);
    }
  } else {
    depth_ = m_.top - frames_;
    at_ = m_.ip;
    fp_ = m_.fp;
  }
}

bool FrameWalk::next(FrameStop& stop) {
  if (depth_ < 0) return false;
  stop = {nullptr, nullptr, native_at_, nullptr, static_cast<size_t>(depth_), instance_};
  if (native_at_ != nullptr) {
    const auto code = native::find_code(native_at_);
    if (!code) return false;
    stop.function = code->function;
  } else {
    stop.function = frames_[depth_].function;
    stop.at = at_;
  }
  stop.fp = fp_;
  leave();
  return true;
}

void FrameWalk::leave() {
  if (native_at_ != nullptr) {
    const auto* const back = reinterpret_cast<const void*>(m_.native->top[-depth_]);
    if (back == native::return_to_interpreter()) return leave_record();
    native_at_ = back;
    fp_ -= native::AfterCall::frame_advance(back);
    --depth_;
    return;
  }
  leave_record();
}

void FrameWalk::leave_record() {
  const FrameRecord* record = frames_ + depth_;
  if (record->return_ip == kCrossReturnStub) {
    record = frames_ + --depth_;  // the crossing
    instance_ = record->instance;
  }
  native_at_ = nullptr;
  at_ = record->return_ip;
  if (at_ != kReturnToNativeStub) fp_ = record->fp;
  if (at_ == kExitStub) {
    depth_ = -1;
    return;
  }
  if (at_ == kReturnToNativeStub) {
    native_at_ = reinterpret_cast<const void*>(m_.native->top[-depth_]);
    fp_ -= native::AfterCall::frame_advance(native_at_);
  }
  --depth_;
}

std::vector<FrameStop> frame_stops(Run& run, size_t limit) {
  std::vector<FrameStop> stops;
  FrameWalk walk(run);
  for (FrameStop stop{}; stops.size() < limit && walk.next(stop);) stops.push_back(stop);
  const RunState state = Machine::state(run).state;
  if (!stops.empty()) stops[0].is_unpaid = state == RunState::kOutOfFuel || state == RunState::kInterrupted;
  return stops;
}

// A function's code is made again once for all its stops: a deep recursion through a large function
// would otherwise make it once for each frame.
StopPlaces places_of(std::span<const FrameStop> stops) {
  StopPlaces result;
  result.places.resize(stops.size());
  std::vector<bool> done(stops.size());
  for (size_t first = 0; first < stops.size(); ++first) {
    if (done[first]) continue;
    const FunctionCode& function = *stops[first].function;
    const bool compiled = stops[first].native_at != nullptr;
    std::vector<const FrameStop*> same;
    for (size_t i = first; i < stops.size(); ++i)
      if (stops[i].function == &function && (stops[i].native_at != nullptr) == compiled)
        same.push_back(&stops[i]);
    const std::vector<Found> found = compiled ? find_compiled(same) : find_interpreted(function, same);
    for (size_t n = 0; n < same.size(); ++n) {
      const auto i = static_cast<size_t>(same[n] - stops.data());
      done[i] = true;
      result.places[i] = place_of(function, found[n]);
    }
    if (first == 0 && !found.empty()) result.unspent = found[0].unspent;
  }
  return result;
}

}  // namespace membrane::engine
