#include "host/guest/guest_testing.h"

#include <algorithm>

namespace membrane::host {

bool VectorGuest::charge(uint64_t amount) {
  if (amount > fuel) return false;
  fuel -= amount;
  return true;
}

void VectorGuest::owe(uint64_t amount) { fuel -= std::min(fuel, amount); }

bool VectorGuest::keep(std::string& target, std::string_view text) {
  const size_t fits = std::min<uint64_t>(text.size(), output_left);
  target += text.substr(0, fits);
  output_left -= fits;
  return fits == text.size();
}

bool VectorGuest::print(Stream stream, std::string_view text) {
  return keep(stream == Stream::kStdout ? stdout_text : stderr_text, text);
}

bool VectorGuest::set_result(std::string_view text) {
  result.clear();
  return keep(result, text);
}

bool VectorGuest::submit(std::string_view text) {
  submitted = true;
  answer.clear();
  return keep(answer, text);
}

void VectorGuest::poke(uint32_t address, uint32_t value) {
  for (unsigned i = 0; i < 4; ++i) bytes_.at(address + i) = static_cast<uint8_t>(value >> (8 * i));
}

bool VectorGuest::grow_to(uint64_t bytes) {
  const uint64_t wanted = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (wanted > max_bytes_ - lowered_bytes_) return false;
  bytes_.resize(wanted);
  return true;
}

}  // namespace membrane::host
