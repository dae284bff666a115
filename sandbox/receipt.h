// A receipt: the inputs and results of a run, a turn of a session or an agent's task, as signed hashes. For the
// format see docs/receipts.md; tools/verify-receipt reads it, too.
//
// A receipt is two texts. The public one (NAME.receipt) has an item for each input of the run, each host call and
// each part of the output, with the SHA-256 of a line of the private one (NAME.receipt.private). Each line of the
// private text begins with a salt, so that its hash reveals nothing of its content; any or all of the lines can be
// removed, and the public text still verifies.
//
// The texts are untrusted: reading is bounded, does not recurse, and refuses everything that was not written by
// seal().
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
  std::string sealed;  // SHA-256 of its private line, without the newline
  Facts facts;         // its public facts, by name: "sha256", "function", …

  [[nodiscard]] std::string_view fact(std::string_view fact) const;  // by name; "" when absent
};

// How it ended.
struct ReceiptEnd {
  std::string outcome;  // for a task: agent::name_of(Stop)
  std::optional<int64_t> exit_code;
  uint64_t fuel = 0;
  uint64_t cost_version = 0;
};

struct ReceiptHead {
  ReceiptKind kind = ReceiptKind::kRun;
  std::string membrane;  // the version that made it
  std::string made_at;   // "2026-01-31T12:00:00Z", by the clock of the machine that made it
  std::string session;   // 32 hex digits, for a turn and a task; else ""
  uint64_t turn = 0;     // for a turn: from 1
  std::string previous;  // digest of the receipt of the turn before; "" for the first
};

struct Receipt {
  static constexpr size_t kMaxFacts = 8;

  ReceiptHead head;
  std::vector<ReceiptItem> items;
  ReceiptEnd end;
  std::string key;        // id of the signing key
  std::string signature;  // 64 bytes
  std::string digest;     // SHA-256 of everything before the signature's line, as hex digits

  // Errors: kInvalidInput for text not written by seal(), kTooLong, kUnavailable without libcrypto.
  static Result<Receipt> parse(std::string_view text);
  // The first item of that name; null when there is none.
  [[nodiscard]] const ReceiptItem* find(std::string_view name) const;
};

// Checks that a key of the ring signed it, and was allowed to at that time. Errors: kDenied, with the reason;
// kNotFound for a key that is not in the ring; kUnavailable without libcrypto.
Status verify(const Receipt& receipt, const KeyRing& keys);

// The private text, each of whose lines belongs to the receipt.
class PrivatePart {
 public:
  // Checks each line, and the public facts about it. Errors: kDenied for a line that does not belong to the receipt;
  // kInvalidInput, kTooLong.
  static Result<PrivatePart> parse(std::string text, const Receipt& receipt);

  // The content of an item by its index: JSON. Nothing when the line was removed.
  [[nodiscard]] std::optional<std::string_view> content(size_t place) const;
  // For the first item of that name.
  [[nodiscard]] std::optional<std::string_view> content(const Receipt& receipt, std::string_view name) const;
  [[nodiscard]] size_t missing() const;  // number of removed lines

 private:
  struct Place {
    size_t begin = 0, size = 0;  // in text_; 0: removed
  };
  std::string text_;
  std::vector<Place> places_;
};

// Items in order, and their private lines.
class ReceiptSheet {
 public:
  // `content` is JSON. Errors: kUnavailable without libcrypto or randomness.
  Status add(std::string_view name, const Facts& facts, std::string_view content);
  // Removes the last item that was added. At most once per item.
  void drop_last();
  void append(const ReceiptSheet& other);
  // Restores the items() and lines() of another sheet.
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
// Errors: kExhausted if the result is larger than a receipt can be; those of ed25519_sign().
Result<SealedReceipt> seal(const ReceiptHead& head, const ReceiptSheet& sheet, const ReceiptEnd& end,
                           const ReceiptKey& key);

// The version of this program, for ReceiptHead.
std::string_view membrane_version();
// The current time to the second, in the format of receipts and keys.
std::string receipt_time_now();
bool is_receipt_time(std::string_view text);
bool is_hex_digits(std::string_view text, size_t count);

}  // namespace membrane::sandbox
