#include "linux/network/dns.h"

#include <algorithm>

namespace membrane::linux {
namespace {

constexpr size_t kHeaderBytes = 12, kMostNameBytes = 255, kMostLabelBytes = 63;
constexpr uint16_t kIsAnswer = 0x8000, kOperation = 0x7800, kRecursionDesired = 0x0100,
                   kRecursionHad = 0x0080;
constexpr uint16_t kFormatError = 1, kNoSuchName = 3, kNotImplemented = 4;
constexpr uint16_t kTypeA = 1, kTypeAaaa = 28, kTypeAny = 255, kClassInternet = 1, kClassAny = 255;
constexpr uint16_t kNameOfQuestion = 0xc00c;  // a pointer to the question's name
constexpr uint32_t kLivesSeconds = 60;

uint16_t number_at(std::span<const std::byte> bytes, size_t at) {
  return static_cast<uint16_t>(std::to_integer<unsigned>(bytes[at]) << 8 |
                               std::to_integer<unsigned>(bytes[at + 1]));
}

void put_number(std::string& out, uint32_t value, int bytes) {
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8)
    out += static_cast<char>(value >> static_cast<unsigned>(shift) & 0xff);
}

bool is_plain(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; }

struct Question {
  std::string name;
  bool is_plain = true;  // all characters are valid in host names
  uint16_t type = 0, kind = 0;
  size_t end = 0;  // its end in the query
};

// Names in a question are not compressed, since nothing precedes them.
std::optional<Question> read_question(std::span<const std::byte> query) {
  Question question;
  size_t at = kHeaderBytes;
  for (;;) {
    if (at >= query.size()) return {};
    const size_t length = std::to_integer<size_t>(query[at++]);
    if (length == 0) break;
    if (length > kMostLabelBytes || length > query.size() - at) return {};
    if (at + length - kHeaderBytes > kMostNameBytes) return {};
    if (!question.name.empty()) question.name += '.';
    for (const std::byte byte : query.subspan(at, length)) {
      auto c = std::to_integer<char>(byte);
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
      question.is_plain = question.is_plain && is_plain(c);
      question.name += c;
    }
    at += length;
  }
  if (query.size() - at < 4) return {};
  question.type = number_at(query, at);
  question.kind = number_at(query, at + 2);
  question.end = at + 4;
  return question;
}

std::string header(std::span<const std::byte> query, uint16_t code, bool has_question, uint16_t answers) {
  const auto asked = static_cast<uint16_t>(number_at(query, 2) & (kOperation | kRecursionDesired));
  std::string out;
  put_number(out, number_at(query, 0), 2);
  put_number(out, static_cast<uint32_t>(kIsAnswer | kRecursionHad | asked | code), 2);
  put_number(out, has_question ? 1 : 0, 2);
  put_number(out, answers, 2);
  put_number(out, 0, 4);
  return out;
}

template <size_t kSize>
void put_record(std::string& out, uint16_t type, const std::array<uint8_t, kSize>& address) {
  put_number(out, kNameOfQuestion, 2);
  put_number(out, type, 2);
  put_number(out, kClassInternet, 2);
  put_number(out, kLivesSeconds, 4);
  put_number(out, kSize, 2);
  for (const uint8_t byte : address) out += static_cast<char>(byte);
}

}  // namespace

std::optional<std::string> answer_dns(std::span<const std::byte> query, const FindName& find) {
  if (query.size() < kHeaderBytes || (number_at(query, 2) & kIsAnswer) != 0) return {};
  if ((number_at(query, 2) & kOperation) != 0) return header(query, kNotImplemented, false, 0);
  const auto question = number_at(query, 4) == 1 ? read_question(query) : std::nullopt;
  if (!question) return header(query, kFormatError, false, 0);
  const bool is_internet = question->kind == kClassInternet || question->kind == kClassAny;
  const DnsName found =
      question->is_plain && is_internet && !question->name.empty() ? find(question->name) : DnsName();
  const bool wants_v4 = question->type == kTypeA || question->type == kTypeAny;
  const bool wants_v6 = question->type == kTypeAaaa || question->type == kTypeAny;
  std::string records;
  uint16_t count = 0;
  if (found.exists && wants_v4 && found.v4) put_record(records, kTypeA, *found.v4), ++count;
  if (found.exists && wants_v6 && found.v6) put_record(records, kTypeAaaa, *found.v6), ++count;
  std::string out = header(query, found.exists ? uint16_t{0} : kNoSuchName, true, count);
  for (const std::byte byte : query.subspan(kHeaderBytes, question->end - kHeaderBytes))
    out += std::to_integer<char>(byte);
  return out + records;
}

}  // namespace membrane::linux
