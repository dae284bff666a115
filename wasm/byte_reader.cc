#include "wasm/byte_reader.h"

#include "base/text.h"

namespace membrane::wasm {

bool ByteReader::fail(DiagnosticCode code, uint32_t at, std::string message, std::string found,
                      std::string expected) {
  if (failed_) return false;
  failed_ = true;
  failure_.code = code;
  failure_.place.offset = at;
  failure_.message = std::move(message);
  failure_.found = std::move(found);
  failure_.expected = std::move(expected);
  return false;
}

bool ByteReader::fail_end() {
  return fail(DiagnosticCode::kUnexpectedEnd, offset(), "the bytes end where a field should follow");
}

bool ByteReader::fail_integer(int bits) {
  for (const uint8_t* p = at_; p != at_ + (bits + 6) / 7; ++p) {
    if (p == end_) return fail_end();
    if ((*p & 0x80) == 0) break;
  }
  return fail(DiagnosticCode::kMalformedInteger, offset(),
              "an integer is longer or larger than " + std::to_string(bits) + " bits allow");
}

bool ByteReader::fail_length(uint32_t at, uint32_t claimed) {
  return fail(DiagnosticCode::kLengthOutOfBounds, at,
              "a size or count reaches past the end of what contains it", std::to_string(claimed),
              "what " + count_of(left(), "byte") + " can hold");
}

bool ByteReader::fail_utf8(uint32_t at) {
  return fail(DiagnosticCode::kMalformedUtf8, at, "a name is not valid UTF-8");
}

}  // namespace membrane::wasm
