#include "sandbox/receipts/receipt.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/ed25519.h"
#include "base/hex.h"
#include "base/json_grammar.h"
#include "base/sha256.h"
#include "base/text.h"
#include "host/journal/journal.h"
#include "policy/quantity.h"
#include "sandbox/receipts/receipt_content.h"

namespace membrane::sandbox {
namespace {

using host::JsonReader;
using host::JsonWriter;

static_assert(kReceiptVersion == 1);
constexpr std::string_view kHeader = "{\"membrane_receipt\":1}";
constexpr std::string_view kPrivateHeader = "{\"membrane_receipt_private\":1}";
constexpr std::string_view kSignedContext = "membrane receipt 1\n";  // precedes the digest in the signed text
constexpr std::string_view kContent = ",\"content\":";
constexpr size_t kSaltBytes = 16, kSha256Digits = 64;

std::unexpected<Error> wrong(size_t line, std::string_view what) {
  return fail(ErrorCode::kInvalidInput,
              "the receipt's line " + std::to_string(line) + " " + std::string(what),
              "A receipt can only be used as Membrane wrote it.");
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 32 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || c == '_' || (c >= '0' && c <= '9');
  });
}

std::string signed_message(std::string_view digest) {
  return std::string(kSignedContext) + std::string(digest);
}

// From lower-case hex digits, which the caller has checked.
std::string bytes_of_hex(std::string_view digits) {
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(value(digits[i]) * 16 + value(digits[i + 1]));
  return bytes;
}

// -- the lines of the public text: a pair of functions writes and reads each

std::string text_of(const ReceiptHead& head) {
  return host::json_of([&](JsonWriter& out) {
    out.raw("{\"kind\":");
    out.text(name_of(head.kind));
    out.raw(",\"membrane\":");
    out.text(head.membrane);
    out.raw(",\"made_at\":");
    out.text(head.made_at);
    out.raw(",\"session\":");
    out.text(head.session);
    out.raw(",\"turn\":");
    out.number(head.turn);
    out.raw(",\"previous\":");
    out.text(head.previous);
    out.raw("}");
  });
}

bool read_kind(JsonReader& in, ReceiptKind& kind) {
  std::string name;
  if (!in.text(name)) return false;
  for (const ReceiptKind each : {ReceiptKind::kRun, ReceiptKind::kTurn, ReceiptKind::kTask}) {
    kind = each;
    if (name_of(each) == name) return true;
  }
  return false;
}

bool read_head(std::string_view line, ReceiptHead& head) {
  JsonReader in(line);
  return in.skip("{\"kind\":") && read_kind(in, head.kind) && in.skip(",\"membrane\":") &&
         in.text(head.membrane) && in.skip(",\"made_at\":") && in.text(head.made_at) &&
         is_receipt_time(head.made_at) && in.skip(",\"session\":") && in.text(head.session) &&
         (head.session.empty() || is_hex_digits(head.session, 2 * kSaltBytes)) && in.skip(",\"turn\":") &&
         in.number(head.turn) && in.skip(",\"previous\":") && in.text(head.previous) &&
         (head.previous.empty() || is_hex_digits(head.previous, kSha256Digits)) && in.skip("}") &&
         in.is_at_end();
}

std::string text_of(std::string_view name, std::string_view sealed, const Facts& facts) {
  return host::json_of([&](JsonWriter& out) {
    out.raw("{\"item\":");
    out.text(name);
    out.raw(",\"sealed\":");
    out.text(sealed);
    for (const auto& [fact, value] : facts) {
      out.raw(",");
      out.text(fact);
      out.raw(":");
      out.text(value);
    }
    out.raw("}");
  });
}

bool read_item(std::string_view line, ReceiptItem& item) {
  JsonReader in(line);
  if (!in.skip("{\"item\":") || !in.text(item.name) || !is_name(item.name) || !in.skip(",\"sealed\":") ||
      !in.text(item.sealed) || !is_hex_digits(item.sealed, kSha256Digits))
    return false;
  while (in.skip(",")) {
    auto& [fact, value] = item.facts.emplace_back();
    if (item.facts.size() > Receipt::kMaxFacts || !in.text(fact) || !is_name(fact) || !in.skip(":") ||
        !in.text(value))
      return false;
  }
  return in.skip("}") && in.is_at_end();
}

std::string text_of(const ReceiptEnd& end) {
  return host::json_of([&](JsonWriter& out) {
    out.raw("{\"outcome\":");
    out.text(end.outcome);
    out.raw(",\"exit_code\":");
    if (end.exit_code) out.number(*end.exit_code);
    else out.raw("null");
    out.raw(",\"fuel\":");
    out.number(end.fuel);
    out.raw(",\"cost_version\":");
    out.number(end.cost_version);
    out.raw("}");
  });
}

bool read_end(std::string_view line, ReceiptEnd& end) {
  JsonReader in(line);
  if (!in.skip("{\"outcome\":") || !in.text(end.outcome) || !is_name(end.outcome) ||
      !in.skip(",\"exit_code\":"))
    return false;
  if (!in.skip("null") && !in.number(end.exit_code.emplace())) return false;
  return in.skip(",\"fuel\":") && in.number(end.fuel) && in.skip(",\"cost_version\":") &&
         in.number(end.cost_version) && in.skip("}") && in.is_at_end();
}

bool read_signature(std::string_view line, Receipt& receipt) {
  JsonReader in(line);
  std::string digits;
  if (!in.skip("{\"key\":") || !in.text(receipt.key) || !is_hex_digits(receipt.key, 32) ||
      !in.skip(",\"signature\":") || !in.text(digits) || !is_hex_digits(digits, 2 * kEd25519SignatureBytes) ||
      !in.skip("}") || !in.is_at_end())
    return false;
  receipt.signature = bytes_of_hex(digits);
  return true;
}

// Takes the next line of a text; returns it without its newline, which is required.
std::optional<std::string_view> take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

// -- the content of a private line, compared with what the receipt says about it in the open

Result<std::string> plain_hash(const ReceiptItem& item, std::string_view content) {
  if (item.name != "program") return sha256_hex(content);
  JsonReader in(content);
  std::string source;
  if (!in.bytes(source) || !in.is_at_end()) return std::string();
  return sha256_hex(source);
}

bool call_matches_facts(const ReceiptItem& item, std::string_view content) {
  const auto call = read_sealed_call(content);
  return call && call->entry.function == item.fact("function") &&
         call->entry.decision() == item.fact("decision") &&
         host::name_of(call->entry.code) == item.fact("errno");
}

Status check_facts(const ReceiptItem& item, std::string_view content, size_t line) {
  const auto differs = [&] {
    return fail(ErrorCode::kDenied, "line " + std::to_string(line) +
                                        " of the private part differs from what the receipt says about its " +
                                        item.name);
  };
  if (item.name == "call" && !call_matches_facts(item, content)) return differs();
  const std::string_view stated = item.fact("sha256");
  if (stated.empty()) return {};
  MEMBRANE_ASSIGN(const std::string found, plain_hash(item, content));
  if (found != stated) return differs();
  return {};
}

}  // namespace

std::string_view name_of(ReceiptKind kind) {
  constexpr std::string_view kNames[] = {"run", "turn", "task"};
  return kNames[static_cast<size_t>(kind)];
}

bool is_hex_digits(std::string_view text, size_t count) {
  return text.size() == count &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_receipt_time(std::string_view text) {
  return text.size() == std::string_view("2000-01-01T00:00:00Z").size() &&
         policy::parse_time_ms(text).has_value();
}

std::string receipt_time_now() {
  using namespace std::chrono;
  const auto now = floor<seconds>(system_clock::now()).time_since_epoch();
  return policy::format_time(duration_cast<milliseconds>(now).count());
}

std::string_view membrane_version() { return MEMBRANE_VERSION; }

std::string_view ReceiptItem::fact(std::string_view fact) const {
  const auto found = std::ranges::find(facts, fact, &Facts::value_type::first);
  return found == facts.end() ? std::string_view() : std::string_view(found->second);
}

const ReceiptItem* Receipt::find(std::string_view name) const {
  const auto found = std::ranges::find(items, name, &ReceiptItem::name);
  return found == items.end() ? nullptr : &*found;
}

Result<Receipt> Receipt::parse(std::string_view text) {
  if (text.size() > kMaxReceiptBytes)
    return fail(ErrorCode::kTooLong, "the receipt has " + count_of(text.size(), "byte"));
  Receipt receipt;
  std::string_view left = text;
  enum class Next : uint8_t { kHeader, kHead, kItem, kSignature, kNothing } next = Next::kHeader;
  for (size_t number = 1; !left.empty(); ++number) {
    const std::string_view before = text.substr(0, text.size() - left.size());
    const auto line = take_line(left);
    if (!line) return wrong(number, "does not end");
    switch (next) {
      case Next::kHeader:
        if (*line != kHeader) return wrong(number, "is not " + std::string(kHeader));
        next = Next::kHead;
        break;
      case Next::kHead:
        if (!read_head(*line, receipt.head)) return wrong(number, "does not say what the receipt is for");
        next = Next::kItem;
        break;
      case Next::kItem:
        if (line->starts_with("{\"item\":")) {
          if (!read_item(*line, receipt.items.emplace_back())) return wrong(number, "is not an item");
        } else if (read_end(*line, receipt.end)) {
          next = Next::kSignature;
        } else {
          return wrong(number, "is neither an item nor the end");
        }
        break;
      case Next::kSignature: {
        if (!read_signature(*line, receipt)) return wrong(number, "is not a signature");
        MEMBRANE_ASSIGN(receipt.digest, sha256_hex(before));
        next = Next::kNothing;
        break;
      }
      case Next::kNothing: return wrong(number, "follows the signature");
    }
  }
  if (next == Next::kNothing) return receipt;
  return fail(ErrorCode::kInvalidInput, "the receipt is truncated: it has no signature",
              "A receipt can only be used as Membrane wrote it.");
}

Status verify(const Receipt& receipt, const KeyRing& keys) {
  const ReceiptKey* const key = keys.find(receipt.key);
  if (key == nullptr)
    return fail(ErrorCode::kNotFound,
                "the receipt is signed by the key " + receipt.key + ", which is not known",
                "Give the keys of who signed with --keys FILE: membrane keys publish prints one's own, and "
                "GET /v1/keys "
                "of a service answers with its own.");
  MEMBRANE_ASSIGN(const bool is_signed,
                  ed25519_verify(key->public_key, signed_message(receipt.digest), receipt.signature));
  if (!is_signed)
    return fail(ErrorCode::kDenied,
                "the receipt has been changed: the signature of the key " + key->id + " does not match it");
  if (!key->revoked.empty())
    return fail(ErrorCode::kDenied, "the key " + key->id + " was revoked at " + key->revoked +
                                        ": nothing that it signed can be believed");
  const bool is_late = !key->retired.empty() && receipt.head.made_at > key->retired;
  if (receipt.head.made_at >= key->created && !is_late) return {};
  return fail(ErrorCode::kDenied, "the receipt says that it was made at " + receipt.head.made_at +
                                      ", when the key " + key->id + " did not sign: that was from " +
                                      key->created +
                                      (key->retired.empty() ? " on" : " until " + key->retired));
}

Result<PrivatePart> PrivatePart::parse(std::string text, const Receipt& receipt) {
  if (text.size() > kMaxPrivateBytes)
    return fail(ErrorCode::kTooLong, "the private part has " + count_of(text.size(), "byte"));
  PrivatePart part;
  part.text_ = std::move(text);
  std::string_view left = part.text_;
  if (take_line(left) != kPrivateHeader)
    return fail(ErrorCode::kInvalidInput,
                "the private part does not begin with " + std::string(kPrivateHeader));
  for (size_t i = 0; i < receipt.items.size(); ++i) {
    const size_t number = i + 2;
    const auto line = take_line(left);
    if (!line)
      return fail(ErrorCode::kInvalidInput,
                  "the private part is truncated in line " + std::to_string(number));
    Place& place = part.places_.emplace_back();
    if (line->empty()) continue;
    MEMBRANE_ASSIGN(const std::string found, sha256_hex(*line));
    if (found != receipt.items[i].sealed)
      return fail(ErrorCode::kDenied,
                  "line " + std::to_string(number) + " of the private part is not the receipt's");
    // The line is what was sealed, so it can only be malformed if its signer made it so.
    const size_t at = line->find(kContent);
    if (at == std::string_view::npos || !line->ends_with('}'))
      return fail(ErrorCode::kInvalidInput,
                  "line " + std::to_string(number) + " of the private part is malformed");
    const std::string_view content =
        line->substr(at + kContent.size(), line->size() - at - kContent.size() - 1);
    if (!is_json(content))
      return fail(ErrorCode::kInvalidInput,
                  "line " + std::to_string(number) + " of the private part is not JSON");
    MEMBRANE_TRY(check_facts(receipt.items[i], content, number));
    place = {static_cast<size_t>(content.data() - part.text_.data()), content.size()};
  }
  if (!left.empty())
    return fail(ErrorCode::kInvalidInput, "the private part has more lines than the receipt has items");
  return part;
}

std::optional<std::string_view> PrivatePart::content(size_t place) const {
  if (place >= places_.size() || places_[place].size == 0) return std::nullopt;
  return std::string_view(text_).substr(places_[place].begin, places_[place].size);
}

std::optional<std::string_view> PrivatePart::content(const Receipt& receipt, std::string_view name) const {
  const ReceiptItem* const item = receipt.find(name);
  if (item == nullptr) return std::nullopt;
  return content(static_cast<size_t>(item - receipt.items.data()));
}

size_t PrivatePart::missing() const {
  return static_cast<size_t>(std::ranges::count(places_, size_t{0}, &Place::size));
}

Status ReceiptSheet::add(std::string_view name, const Facts& facts, std::string_view content) {
  MEMBRANE_ASSIGN(const std::string salt, system_random(kSaltBytes));
  std::string line = host::json_of([&](JsonWriter& out) {
    out.raw("{\"item\":");
    out.text(name);
    out.raw(",\"salt\":");
    out.text(hex_of(salt));
    out.raw(kContent);
    out.raw(content);
    out.raw("}");
  });
  MEMBRANE_ASSIGN(const std::string sealed, sha256_hex(line));
  last_item_ = items_.size();
  last_line_ = lines_.size();
  items_ += text_of(name, sealed, facts) + "\n";
  lines_ += line + "\n";
  return {};
}

void ReceiptSheet::drop_last() {
  items_.resize(last_item_);
  lines_.resize(last_line_);
}

void ReceiptSheet::assign(std::string items, std::string lines) {
  items_ = std::move(items);
  lines_ = std::move(lines);
  last_item_ = items_.size();
  last_line_ = lines_.size();
}

void ReceiptSheet::append(const ReceiptSheet& other) {
  items_ += other.items_;
  lines_ += other.lines_;
}

Result<SealedReceipt> seal(const ReceiptHead& head, const ReceiptSheet& sheet, const ReceiptEnd& end,
                           const ReceiptKey& key) {
  if (sheet.items().size() > kMaxReceiptBytes / 2 || sheet.lines().size() > kMaxPrivateBytes / 2)
    return fail(
        ErrorCode::kExhausted,
        "a receipt has no room for what the run was given and did: " + count_of(sheet.bytes(), "byte"),
        "Seal shorter runs: lower limits.host_calls and limits.bytes_in.");
  SealedReceipt sealed;
  sealed.text.append(kHeader).append("\n").append(text_of(head)).append("\n");
  sealed.text += sheet.items();
  sealed.text += text_of(end) + "\n";
  MEMBRANE_ASSIGN(sealed.digest, sha256_hex(sealed.text));
  MEMBRANE_ASSIGN(const std::string signature, ed25519_sign(key.private_key, signed_message(sealed.digest)));
  sealed.text += "{\"key\":\"" + key.id + "\",\"signature\":\"" + hex_of(signature) + "\"}\n";
  sealed.private_text.append(kPrivateHeader).append("\n").append(sheet.lines());
  return sealed;
}

}  // namespace membrane::sandbox
