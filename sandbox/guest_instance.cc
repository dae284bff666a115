#include "sandbox/guest_instance.h"

#include <algorithm>

#include "base/utf8.h"
#include "engine/instance/host_share.h"
#include "lang/wat/preprocessor.h"
#include "wasm/body.h"

namespace membrane::sandbox {
namespace {

// The end of the last active data segment. Offsets that are not a constant number (a global, a sum) were evaluated
// at instantiation and are ignored here: such modules export __heap_base.
uint64_t end_of_data(const wasm::Module& module) {
  uint64_t end = 0;
  for (const wasm::DataSegment& segment : module.datas) {
    if (segment.mode != wasm::SegmentMode::kActive) continue;
    wasm::BodyReader reader(module.view(segment.offset));
    if (!reader.next() || reader.instruction().op != wasm::Opcode::kI32Const) continue;
    const auto offset = static_cast<uint32_t>(reader.instruction().value);
    if (reader.next() && reader.instruction().op == wasm::Opcode::kEnd)
      end = std::max(end, offset + uint64_t{segment.data.size});
  }
  return end;
}

uint64_t heap_start_of(engine::Instance& instance) {
  if (const auto base = instance.find_export("__heap_base"); base && base->global != nullptr)
    return static_cast<uint32_t>(base->global->bits);
  // Low addresses are scratch space for the program (docs/wat.md).
  return std::max<uint64_t>(end_of_data(instance.module()), lang::kScratchBytes);
}

}  // namespace

bool Conversation::add(std::string& to, std::string_view text) {
  const uint64_t room = room_bytes();
  if (text.size() <= room) {
    to += text;
    return true;
  }
  to += text.substr(0, utf8_cut(text, room));
  return false;
}

bool Conversation::write(host::Stream stream, std::string_view bytes, std::string_view text) {
  const uint64_t room = room_bytes();
  const bool fits = bytes.size() <= room;
  if (!fits) {
    bytes = bytes.substr(0, utf8_cut(bytes, room));
    text = text.substr(0, utf8_cut(text, room));
  }
  const bool is_out = stream == host::Stream::kStdout;
  (is_out ? stdout_text : stderr_text) += text;
  written_bytes += bytes.size();
  const auto& hear = is_out ? on_stdout : on_stderr;
  const std::string_view heard = hears_bytes ? bytes : text;
  if (hear && !heard.empty()) hear(heard);
  return fits;
}

GuestInstance::GuestInstance(engine::Instance& instance, Conversation& conversation)
    : instance_(instance), conversation_(conversation), heap_(heap_start_of(instance)) {}

uint64_t GuestInstance::heap_start() const { return host::BumpHeap(heap_start_of(instance_)).next(); }

std::span<uint8_t> GuestInstance::memory() {
  engine::Memory* const memory = instance_.memory();
  return memory == nullptr ? std::span<uint8_t>() : memory->bytes();
}

host::HostResult<uint32_t> GuestInstance::allocate(uint64_t bytes) { return heap_.allocate(*this, bytes); }

uint64_t GuestInstance::size_bytes() const {
  const engine::Memory* const memory = instance_.memory();
  return memory == nullptr ? 0 : memory->size_bytes();
}

bool GuestInstance::grow_to(uint64_t bytes) {
  engine::Memory* const memory = instance_.memory();
  if (memory == nullptr) return false;
  const uint64_t pages = (bytes + wasm::kPageBytes - 1) / wasm::kPageBytes;
  return pages <= memory->pages() || memory->grow(pages - memory->pages()) >= 0;
}

uint64_t GuestInstance::left_bytes() const { return engine::memory_left_bytes(instance_); }

bool GuestInstance::lower_by(uint64_t bytes) {
  const uint64_t pages_bytes = (bytes + wasm::kPageBytes - 1) / wasm::kPageBytes * wasm::kPageBytes;
  if (pages_bytes > lowered_bytes_ &&
      !engine::take_from_memory_limit(instance_, pages_bytes - lowered_bytes_))
    return false;
  if (pages_bytes < lowered_bytes_) engine::give_to_memory_limit(instance_, lowered_bytes_ - pages_bytes);
  lowered_bytes_ = pages_bytes;
  return true;
}

bool GuestInstance::set_result(std::string_view text) {
  conversation_.result.clear();
  return conversation_.add(conversation_.result, text);
}

bool GuestInstance::submit(std::string_view answer) {
  conversation_.answer.clear();
  conversation_.submitted = true;
  return conversation_.add(conversation_.answer, answer);
}

}  // namespace membrane::sandbox
