#include "computers/network/client_hello.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "base/text.h"

namespace membrane::computers {
namespace {

constexpr uint8_t kChangeCipherRecord = 20, kAlertRecord = 21, kHandshakeRecord = 22, kClientHello = 1;
constexpr int kMostHellos = 2;  // the second after a HelloRetryRequest
constexpr size_t kRecordHeadBytes = 5, kMostRecordBytes = 16u << 10, kMessageHeadBytes = 4;
constexpr uint64_t kServerNameExtension = 0, kHostName = 0;
constexpr uint64_t kHiddenHelloExtensions[] = {0xfe0d, 0xffce};  // encrypted_client_hello, and its draft
constexpr size_t kRandomBytes = 32, kMostNameBytes = 253;

std::unexpected<Error> malformed(const char* what) {
  return fail(ErrorCode::kInvalidInput, std::string("the connection does not begin with TLS: ") + what);
}

// Reads numbers in network order, and parts preceded by their lengths. Missing bytes make is_sound() false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  std::string_view take(size_t count) {
    if (count > rest_.size()) is_sound_ = false;
    const std::string_view part = is_sound_ ? rest_.substr(0, count) : std::string_view();
    rest_.remove_prefix(part.size());
    return part;
  }
  size_t number(size_t bytes) {
    size_t value = 0;
    for (const char each : take(bytes)) value = value << 8 | static_cast<uint8_t>(each);
    return value;
  }
  std::string_view part(size_t length_bytes) { return take(number(length_bytes)); }
  [[nodiscard]] bool is_empty() const { return rest_.empty() || !is_sound_; }
  [[nodiscard]] bool is_sound() const { return is_sound_; }

 private:
  std::string_view rest_;
  bool is_sound_ = true;
};

// The handshake's first message, assembled from its records; nothing while part of it is missing.
Result<std::optional<std::string>> message_of(std::string_view bytes) {
  std::string message;
  for (;;) {
    if (message.size() >= kMessageHeadBytes) {
      Reader head(message);
      if (head.number(1) != kClientHello) return malformed("its first message is not a ClientHello");
      const size_t length = head.number(3);
      if (length > kMostHelloBytes) return malformed("its first message is too long");
      if (message.size() >= kMessageHeadBytes + length) return message.substr(kMessageHeadBytes, length);
    }
    if (!bytes.empty() && static_cast<uint8_t>(bytes[0]) != kHandshakeRecord)
      return malformed("a record is not of a handshake");
    if (bytes.size() < kRecordHeadBytes) return std::optional<std::string>();
    Reader record(bytes);
    record.take(3);
    const size_t length = record.number(2);
    if (length == 0 || length > kMostRecordBytes) return malformed("a record has an invalid length");
    if (bytes.size() < kRecordHeadBytes + length) return std::optional<std::string>();
    message += record.take(length);
    bytes.remove_prefix(kRecordHeadBytes + length);
  }
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

Result<std::string> name_in(std::string_view extension) {
  Reader outer(extension);
  Reader list(outer.part(2));
  std::string name;
  while (!list.is_empty()) {
    const size_t type = list.number(1);
    const std::string_view text = list.part(2);
    // Another kind of name has no agreed meaning, so a server might take it to be its own.
    if (type != kHostName || !name.empty() || text.empty() || text.size() > kMostNameBytes)
      return malformed("its server name is invalid");
    name = lower_case(text);
  }
  if (!outer.is_sound() || !outer.is_empty() || !list.is_sound())
    return malformed("its server name is cut off");
  for (const char each : name)
    if (!is_name_character(each)) return malformed("its server name is invalid");
  return name;
}

// Parses a whole ClientHello, without its message header.
Result<std::string> name_in_hello(std::string_view message) {
  Reader hello(message);
  hello.take(2 + kRandomBytes);
  hello.part(1);  // the session
  hello.part(2);  // cipher suites
  hello.part(1);  // compressions
  if (hello.is_sound() && hello.is_empty()) return "";
  Reader extensions(hello.part(2));
  if (!hello.is_sound() || !hello.is_empty()) return malformed("its first message is cut off");
  std::optional<std::string> name;
  while (!extensions.is_empty()) {
    const size_t type = extensions.number(2);
    const std::string_view extension = extensions.part(2);
    if (!extensions.is_sound()) break;
    if (std::ranges::find(kHiddenHelloExtensions, type) != std::end(kHiddenHelloExtensions))
      return fail(
          ErrorCode::kDenied,
          "the program hides the server's name from everybody but the server (encrypted_client_hello)");
    if (type != kServerNameExtension) continue;
    if (name) return malformed("it names its server twice");
    MEMBRANE_ASSIGN(name, name_in(extension));
  }
  if (!extensions.is_sound()) return malformed("its first message is cut off");
  return name.value_or("");
}

}  // namespace

Result<std::optional<std::string>> server_name_of(std::string_view bytes) {
  MEMBRANE_ASSIGN(const std::optional<std::string> message, message_of(bytes));
  if (message) return name_in_hello(*message);
  if (bytes.size() >= kMostHelloBytes) return malformed("its first message is too long");
  return std::optional<std::string>();
}

Status HelloWatch::take(std::string_view bytes) {
  while (!is_over_ && !bytes.empty()) {
    if (left_in_record_ == 0) {
      const size_t missing = std::min(kRecordHeadBytes - head_.size(), bytes.size());
      head_ += bytes.substr(0, missing);
      bytes.remove_prefix(missing);
      if (head_.size() < kRecordHeadBytes) return {};
      Reader head(std::string_view(head_).substr(3));
      left_in_record_ = head.number(2);
      type_ = static_cast<uint8_t>(head_[0]);
      head_.clear();
      continue;
    }
    const std::string_view part = bytes.substr(0, left_in_record_);
    bytes.remove_prefix(part.size());
    left_in_record_ -= part.size();
    has_changed_cipher_ = has_changed_cipher_ || type_ == kChangeCipherRecord;
    if (type_ == kHandshakeRecord) {
      Status taken = take_handshake(part);
      // In TLS 1.2 it may be encrypted.
      is_over_ = is_over_ || (!taken && has_changed_cipher_ && taken.error().code != ErrorCode::kDenied);
      if (!taken && !is_over_) return taken;
    } else {
      is_over_ = type_ != kChangeCipherRecord && type_ != kAlertRecord;
    }
  }
  return {};
}

// Up to the first message that is not a ClientHello: everything after it is encrypted, or begins no
// connection.
Status HelloWatch::take_handshake(std::string_view part) {
  message_ += part;
  while (!message_.empty()) {
    Reader head(message_);
    is_over_ = head.number(1) != kClientHello;
    if (is_over_) return {};
    const size_t length = head.number(3);
    if (!head.is_sound()) return {};
    if (length > kMostHelloBytes) return malformed("a message is too long");
    if (message_.size() < kMessageHeadBytes + length) return {};
    MEMBRANE_ASSIGN(const std::string name,
                    name_in_hello(std::string_view(message_).substr(kMessageHeadBytes, length)));
    if (name != name_ || ++hellos_ > kMostHellos)
      return fail(ErrorCode::kDenied, "the program names another server in a second ClientHello");
    message_.erase(0, kMessageHeadBytes + length);
  }
  return {};
}

}  // namespace membrane::computers
