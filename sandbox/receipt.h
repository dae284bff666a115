// A receipt: what a run, a turn of a session or an agent's task was made of and ended in, as hashes that are signed. The format
// is docs/receipts.md; tools/verify-receipt reads it, too.
//
// A receipt is two texts. The public one (NAME.receipt) has an item for each thing that the run was made of, each host call
// and each part of the output, with the SHA-256 of a line of the private one (NAME.receipt.private). Each line of that begins
// with a salt, so that its hash tells nothing of what is in it; any of the lines, or all, can be taken away, and the public
// text still verifies.
//
// What is read here comes from anybody: it is bounded, read without recursion, and refused unless it is what was written.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sandbox/receipt_keys.h"

namespace membrane::sandbox {

inline constexpr int kReceiptVersion = 1;
inline constexpr std::string_view kPrivateEnding = ".private";  // after the public file's name
inline constexpr uint64_t kMaxReceiptBytes = 256u << 20;
inline constexpr uint64_t kMaxPrivateBytes = 1u << 30;

enum class ReceiptKind : uint8_t { kRun, kTurn, kTask };
std::string_view name_of(ReceiptKind kind);  // "run", "turn", "task"

using Facts = std::vector<std::pair<std::string, std::string>>;

struct ReceiptItem {
  std::string name;    // "program", "call", "stdout", …
  std::string sealed;  // SHA-256 of its private line, without the line's end
  Facts facts;         // what everybody may see of it, by name: "sha256", "function", …

  [[nodiscard]] std::string_view fact(std::string_view fact) const;  // by its name; "" when it is not there
};

// How it ended.
struct ReceiptEnd {
  std::string outcome;  // of a task: agent::name_of(Stop)
  std::optional<int64_t> exit_code;
  uint64_t fuel = 0;
  uint64_t cost_version = 0;
};

struct ReceiptHead {
  ReceiptKind kind = ReceiptKind::kRun;
  std::string membrane;  // the version that made it
  std::string made_at;   // "2026-01-31T12:00:00Z", of the clock of the machine that made it
  std::string session;   // 32 hex digits, of a turn and a task; else ""
  uint64_t turn = 0;     // of a turn: from 1
  std::string previous;  // digest of the receipt of the turn before; "" of the first
};

struct Receipt {
  static constexpr size_t kMaxFacts = 8;

  ReceiptHead head;
  std::vector<ReceiptItem> items;
  ReceiptEnd end;
  std::string key;        // the id of the key that signed it
  std::string signature;  // 64 bytes
  std::string digest;     // SHA-256 of all before the line of the signature, as hex digits

  // Errors: kInvalidInput for what seal() did not write, kTooLong, kUnavailable without libcrypto.
  static Result<Receipt> parse(std::string_view text);
  // The first item of that name; null when there is none.
  [[nodiscard]] const ReceiptItem* find(std::string_view name) const;
};

// Whether a key of the ring signed it, and could then. Errors: kDenied, with what is wrong; kNotFound for a key that is not in
// the ring; kUnavailable without libcrypto.
Status verify(const Receipt& receipt, const KeyRing& keys);

// The private text, of which each line that is there is the receipt's.
class PrivatePart {
 public:
  // Checks each line, and what the receipt says of it in plain. Errors: kDenied for a line that is not the receipt's;
  // kInvalidInput, kTooLong.
  static Result<PrivatePart> parse(std::string text, const Receipt& receipt);

  // The content of an item by its place: JSON. Nothing when the line was taken away.
  [[nodiscard]] std::optional<std::string_view> content(size_t place) const;
  // Of the first item of that name.
  [[nodiscard]] std::optional<std::string_view> content(const Receipt& receipt, std::string_view name) const;
  [[nodiscard]] size_t missing() const;  // lines that were taken away

 private:
  struct Place {
    size_t begin = 0, size = 0;  // in text_; 0: taken away
  };
  std::string text_;
  std::vector<Place> places_;
};

// Items in their order, and their private lines.
class ReceiptSheet {
 public:
  // `content` is JSON. Errors: kUnavailable without libcrypto or randomness.
  Status add(std::string_view name, const Facts& facts, std::string_view content);
  // Forgets what was added last. Not twice for one.
  void drop_last();
  void append(const ReceiptSheet& other);
  // What items() and lines() of another sheet gave.
  void assign(std::string items, std::string lines);
  void clear() { *this = {}; }
  [[nodiscard]] uint64_t bytes() const { return items_.size() + lines_.size(); }

  [[nodiscard]] const std::string& items() const { return items_; }
  [[nodiscard]] const std::string& lines() const { return lines_; }

 private:
  std::string items_, lines_;
  size_t last_item_ = 0, last_line_ = 0;
};

struct SealedReceipt {
  std::string text, private_text;
  std::string digest;
};
// Errors: kExhausted for what is larger than a receipt can be; those of ed25519_sign().
Result<SealedReceipt> seal(const ReceiptHead& head, const ReceiptSheet& sheet, const ReceiptEnd& end,
                           const ReceiptKey& key);

// Of this program, for ReceiptHead.
std::string_view membrane_version();
// The time, to a second, as receipts and keys have it.
std::string receipt_time_now();
bool is_receipt_time(std::string_view text);
bool is_hex_digits(std::string_view text, size_t count);

}  // namespace membrane::sandbox
