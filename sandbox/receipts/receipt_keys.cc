#include "sandbox/receipts/receipt_keys.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/ed25519.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/private_file.h"
#include "base/sha256.h"
#include "base/user_directory.h"
#include "sandbox/receipts/receipt.h"

namespace membrane::sandbox {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kOwn = "membrane_receipt_keys", *kPublished = "membrane_public_keys";
constexpr int kVersion = 1;
constexpr size_t kIdDigits = 32, kKeyDigits = 2 * kEd25519KeyBytes;

std::unexpected<Error> wrong(std::string_view name, std::string_view what) {
  return fail(ErrorCode::kInvalidInput, std::string(name) + " " + std::string(what),
              "Give a file that membrane keys publish printed.");
}

// "" when it is absent; nothing when it is not a string.
std::optional<std::string> text_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return "";
  if (!found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::string bytes_of_hex(std::string_view digits) {
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(value(digits[i]) * 16 + value(digits[i + 1]));
  return bytes;
}

Result<ReceiptKey> read_key(const Json& object, std::string_view name) {
  if (!object.is_object()) return wrong(name, "has a key that is not an object");
  const auto id = text_at(object, "id"), algorithm = text_at(object, "algorithm"),
             public_key = text_at(object, "public_key"), private_key = text_at(object, "private_key"),
             created = text_at(object, "created"), retired = text_at(object, "retired"),
             revoked = text_at(object, "revoked");
  const auto is_time = [](const std::string& text) { return text.empty() || is_receipt_time(text); };
  const bool is_whole = id && algorithm && public_key && private_key && created && retired && revoked &&
                        *algorithm == "ed25519" && is_hex_digits(*public_key, kKeyDigits) &&
                        (private_key->empty() || is_hex_digits(*private_key, kKeyDigits)) &&
                        is_receipt_time(*created) && is_time(*retired) && is_time(*revoked);
  if (!is_whole) return wrong(name, "has a key that is not one of Membrane's");
  ReceiptKey key{*id, bytes_of_hex(*public_key), bytes_of_hex(*private_key), *created, *retired, *revoked};
  MEMBRANE_ASSIGN(const std::string own_id, id_of_public_key(key.public_key));
  if (key.id != own_id) return wrong(name, "has a key " + *id + " whose id should be " + own_id);
  return key;
}

}  // namespace

std::string_view ReceiptKey::state() const {
  return !revoked.empty() ? "revoked" : !retired.empty() ? "retired" : "signs";
}

Result<std::string> id_of_public_key(std::string_view public_key) {
  MEMBRANE_ASSIGN(const std::string digest, sha256_hex(public_key));
  return digest.substr(0, kIdDigits);
}

Result<KeyRing> KeyRing::parse(std::string_view text, std::string_view name) {
  MEMBRANE_ASSIGN(const Json document, read_ordered_json(text, name, {.bytes = kMaxBytes}));
  if (!document.is_object()) return wrong(name, "is not a JSON object");
  const char* const kind = document.contains(kOwn) ? kOwn : kPublished;
  const auto version = document.find(kind), keys = document.find("keys");
  if (version == document.end() || *version != kVersion) return wrong(name, "is not a document of keys");
  if (keys == document.end() || !keys->is_array() || keys->size() > kMaxKeys)
    return wrong(name, "has no list of keys");
  KeyRing ring;
  for (const Json& each : *keys) {
    MEMBRANE_ASSIGN(ReceiptKey key, read_key(each, name));
    if (ring.find(key.id) != nullptr) return wrong(name, "has the key " + key.id + " twice");
    ring.keys_.push_back(std::move(key));
  }
  return ring;
}

std::string KeyRing::to_json(bool with_private_keys) const {
  Json document;
  document[with_private_keys ? kOwn : kPublished] = kVersion;
  document["keys"] = Json::array();
  for (const ReceiptKey& key : keys_) {
    Json object = {{"id", key.id}, {"algorithm", "ed25519"}, {"public_key", hex_of(key.public_key)}};
    if (with_private_keys && !key.private_key.empty()) object["private_key"] = hex_of(key.private_key);
    object["created"] = key.created;
    if (!key.retired.empty()) object["retired"] = key.retired;
    if (!key.revoked.empty()) object["revoked"] = key.revoked;
    document["keys"].push_back(std::move(object));
  }
  return document.dump(2) + "\n";
}

const ReceiptKey* KeyRing::find(std::string_view id) const {
  const auto found = std::ranges::find(keys_, id, &ReceiptKey::id);
  return found == keys_.end() ? nullptr : &*found;
}

const ReceiptKey* KeyRing::signing() const {
  const auto found = std::ranges::find_if(keys_, [](const ReceiptKey& key) {
    return !key.private_key.empty() && key.retired.empty() && key.revoked.empty();
  });
  return found == keys_.end() ? nullptr : &*found;
}

void KeyRing::add(const KeyRing& other) {
  const auto earlier = [](const std::string& a, const std::string& b) {
    return a.empty() || (!b.empty() && b < a) ? b : a;
  };
  for (const ReceiptKey& key : other.keys_) {
    const auto known = std::ranges::find(keys_, key.id, &ReceiptKey::id);
    if (known == keys_.end()) {
      keys_.push_back(key);
      continue;
    }
    known->retired = earlier(known->retired, key.retired);
    known->revoked = earlier(known->revoked, key.revoked);
  }
}

Status KeyRing::rotate(const std::string& now) {
  if (keys_.size() == kMaxKeys)
    return fail(ErrorCode::kExhausted, "there are " + std::to_string(kMaxKeys) + " keys already");
  MEMBRANE_ASSIGN(const Ed25519Pair pair, ed25519_generate());
  MEMBRANE_ASSIGN(std::string id, id_of_public_key(pair.public_key));
  for (ReceiptKey& key : keys_) {
    if (!std::exchange(key.private_key, {}).empty() && key.retired.empty()) key.retired = now;
  }
  keys_.push_back({std::move(id), pair.public_key, pair.private_key, now, {}, {}});
  return {};
}

Status KeyRing::revoke(std::string_view id, const std::string& now) {
  const auto found = std::ranges::find(keys_, id, &ReceiptKey::id);
  if (found == keys_.end())
    return fail(ErrorCode::kNotFound, "there is no key " + std::string(id),
                "membrane keys list has them all.");
  if (found->revoked.empty()) found->revoked = now;
  if (found->retired.empty()) found->retired = now;
  found->private_key.clear();
  return {};
}

std::string default_key_file() { return user_path(UserDirectory::kConfig, "receipt-keys.json"); }

Result<KeyRing> load_own_keys(const std::string& path) {
  struct stat status{};
  if (path.empty() || stat(path.c_str(), &status) != 0)
    return fail(ErrorCode::kNotFound, "there are no keys to sign receipts with", "membrane keys generate");
  const PrivateFile file(path);
  constexpr mode_t kOthers = S_IRWXG | S_IRWXO;
  if (!file.usable() || fstat(file.number(), &status) != 0 || (status.st_mode & kOthers) != 0)
    return fail(
        ErrorCode::kDenied,
        path + " is accessible to other users, which a file with a private key must not be",
        "If no one else has read it: chmod 600 " + path + ". Otherwise run membrane keys rotate as well.");
  if (file.bytes() > KeyRing::kMaxBytes) return fail(ErrorCode::kTooLong, path + " is too large for keys");
  std::string text(file.bytes(), '\0');
  if (pread(file.number(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return refused_by_system("read", path);
  return KeyRing::parse(text, path);
}

Result<ReceiptKey> load_signing_key(const std::string& path) {
  MEMBRANE_ASSIGN(const KeyRing keys, load_own_keys(path));
  if (const ReceiptKey* const key = keys.signing()) return *key;
  return fail(ErrorCode::kNotFound, "no key signs receipts any more: the last one was revoked",
              "membrane keys rotate");
}

Status save_own_keys(const KeyRing& keys, const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  if (path.empty())
    return fail(ErrorCode::kInvalidArgument, "there is no directory for keys",
                "Set HOME or XDG_CONFIG_HOME.");
  if (!make_directory(directory)) return refused_by_system("make", directory);
  MEMBRANE_TRY(check_private_directory(directory, "a key"));
  MEMBRANE_ASSIGN(NewFile file, NewFile::create(path));  // its mode is 0600
  const std::string text = keys.to_json(true);
  MEMBRANE_TRY(file.write(0, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  return file.publish();
}

}  // namespace membrane::sandbox
