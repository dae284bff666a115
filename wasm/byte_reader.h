// A checked cursor over a binary: the decoder's and the name section's view of bytes.
//
// Every read returns false when it fails, and the first failure is kept: what was wrong and where.
// Nothing is ever read past the end. Offsets count from the start of the whole binary.
//
// Threads: belongs to one thread; the bytes must outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "base/leb128.h"
#include "base/utf8.h"
#include "wasm/module.h"

namespace membrane::wasm {

class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes)
      : begin_(bytes.data()), at_(begin_), end_(begin_ + bytes.size()) {}

  [[nodiscard]] uint32_t offset() const { return static_cast<uint32_t>(at_ - begin_); }
  [[nodiscard]] uint32_t end_offset() const { return static_cast<uint32_t>(end_ - begin_); }
  [[nodiscard]] size_t left() const { return static_cast<size_t>(end_ - at_); }
  [[nodiscard]] bool at_end() const { return at_ == end_; }
  [[nodiscard]] std::span<const uint8_t> rest() const { return {at_, left()}; }
  void skip_to(uint32_t offset) { at_ = begin_ + offset; }
  // Moves the end, to a section's end and back; `offset` must be within the bytes.
  void set_end(uint32_t offset) { end_ = begin_ + offset; }

  bool u8(uint8_t& out) {
    if (at_ == end_) [[unlikely]]
      return fail_end();
    out = *at_++;
    return true;
  }

  bool u32(uint32_t& out) {
    const uint8_t* const next = read_leb128<uint32_t>(at_, end_, out);
    if (next == nullptr) [[unlikely]]
      return fail_integer();
    at_ = next;
    return true;
  }

  bool u64(uint64_t& out) {
    const uint8_t* const next = read_leb128<uint64_t>(at_, end_, out);
    if (next == nullptr) [[unlikely]]
      return fail_integer(64);
    at_ = next;
    return true;
  }

  // The count of a vector of which every element takes at least `least_bytes`. A count that the
  // bytes left cannot hold is refused here, so that no caller reserves memory for it.
  bool count(uint32_t& out, size_t least_bytes = 1) {
    const uint32_t start = offset();
    if (!u32(out)) return false;
    if (out > left() / least_bytes) [[unlikely]]
      return fail_length(start, out);
    return true;
  }

  bool range(ByteRange& out) {
    uint32_t size = 0;
    if (!count(size)) return false;
    out = {offset(), size};
    at_ += size;
    return true;
  }

  bool name(std::string_view& out) {
    ByteRange r;
    if (!range(r)) return false;
    out = {reinterpret_cast<const char*>(begin_) + r.offset, r.size};
    return is_utf8(out) || fail_utf8(r.offset);
  }

  // Keeps the failure unless there is one already. Always false.
  bool fail(DiagnosticCode code, uint32_t at, std::string message, std::string found = {},
            std::string expected = {});
  [[nodiscard]] Diagnostic& failure() { return failure_; }

 private:
  bool fail_end();
  bool fail_integer(int bits = 32);
  bool fail_length(uint32_t at, uint32_t claimed);
  bool fail_utf8(uint32_t at);

  const uint8_t* begin_;
  const uint8_t* at_;
  const uint8_t* end_;
  bool failed_ = false;
  Diagnostic failure_;
};

}  // namespace membrane::wasm
