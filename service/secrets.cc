#include "service/secrets.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "policy/url_grant.h"

namespace membrane::service {
namespace {

constexpr size_t kNonceBytes = 12, kTagBytes = 16;
constexpr size_t kMostValueBytes = 16u << 10, kMostHosts = 32;

void fill_random(unsigned char* to, size_t size) {
  size_t filled = 0;
  while (filled < size) {
    const ssize_t got = getrandom(to + filled, size - filled, 0);
    if (got > 0) filled += static_cast<size_t>(got);
  }
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

using Cipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;
Cipher new_cipher() { return {EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free}; }

// The identity of a row: no name contains NUL.
std::string about(std::string_view tenant, std::string_view name) {
  return std::string(tenant) + '\0' + std::string(name);
}

bool is_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && name.size() <= 128 && letter(name[0]) &&
         std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

bool is_host(std::string_view host) {
  if (host.starts_with("*.")) host.remove_prefix(2);
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == ':' || c == '[' ||
           c == ']';
  };
  return !host.empty() && host.size() <= 253 && std::ranges::all_of(host, fits);
}

// Both may begin with "*.".
bool covers(std::string_view allowed, std::string_view host) {
  if (allowed == host) return true;
  return allowed.starts_with("*.") && host.size() > allowed.size() - 1 && host.ends_with(allowed.substr(1));
}

bool may_go_to(const SecretInfo& info, std::string_view host) {
  return std::ranges::any_of(info.hosts, [&](const std::string& allowed) { return covers(allowed, host); });
}

Answer<void> check_put(const SecretInfo& info, std::string_view value) {
  if (!is_name(info.name))
    return refuse(ApiCode::kInvalidValue, "the secret has no name",
                  "It has letters, digits and _, and begins with no digit.");
  if (value.size() < host::HttpEgress::kMinSecretBytes || value.size() > kMostValueBytes)
    return refuse(ApiCode::kInvalidValue, "\"value\" is too short to be kept from programs, or too long",
                  "It has 8 to 16384 bytes.");
  if (std::ranges::any_of(value, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }))
    return refuse(ApiCode::kInvalidValue, "\"value\" has control characters, which no header can have", "");
  if (info.hosts.empty() || info.hosts.size() > kMostHosts || !std::ranges::all_of(info.hosts, is_host))
    return refuse(ApiCode::kInvalidValue, "\"hosts\" names no host, or an invalid one",
                  "Name the hosts that the secret may be sent to: \"api.example.com\", \"*.example.com\".");
  return {};
}

}  // namespace

// -- the key ------------------------------------------------------------------------------------------------------

SecretKey::~SecretKey() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

SecretKey SecretKey::random() {
  SecretKey key;
  fill_random(key.bytes_.data(), key.bytes_.size());
  return key;
}

Result<SecretKey> SecretKey::parse(std::string_view text) {
  text = trimmed(text);
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  SecretKey key;
  bool is_right = text.size() == 2 * kBytes;
  for (size_t i = 0; is_right && i < kBytes; ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    is_right = high >= 0 && low >= 0;
    key.bytes_[i] = static_cast<unsigned char>(high * 16 + low);
  }
  if (is_right) return key;
  return fail(ErrorCode::kInvalidInput, "the key of the secrets is not 64 hexadecimal digits",
              "Make one with: openssl rand -hex 32");
}

Result<SecretKey> SecretKey::read(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return fail(ErrorCode::kNotFound, "the file of the secrets' key cannot be read: " + path,
                "Make one with: (umask 077; openssl rand -hex 32 > " + path + ")");
  struct stat about_file{};
  std::array<char, 256> text{};
  const bool is_known = fstat(file, &about_file) == 0;
  const ssize_t size = ::read(file, text.data(), text.size());
  ::close(file);
  if (!is_known || (about_file.st_mode & 077) != 0)
    return fail(ErrorCode::kDenied, "others than its owner may read the file of the secrets' key: " + path,
                "chmod 600 " + path);
  auto key = parse({text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))});
  OPENSSL_cleanse(text.data(), text.size());
  return key;
}

Result<SecretKey> SecretKey::kept(DurableFiles& files) {
  auto text = files.read(kFile, 1'000);
  if (!text && text.error().code == ErrorCode::kNotFound) {
    SecretKey made = random();
    std::string digits;
    digits.reserve(2 * kBytes + 1);  // so that no copy is left in freed memory
    for (const unsigned char byte : made.bytes_) {
      digits += "0123456789abcdef"[byte >> 4];
      digits += "0123456789abcdef"[byte & 15];
    }
    digits += '\n';
    const Status written = files.write(kFile, digits);
    OPENSSL_cleanse(digits.data(), digits.size());
    if (!written) return std::unexpected(written.error());
    return made;
  }
  const bool is_other = !text && text.error().code == ErrorCode::kTooLong;
  if (!text && !is_other) return std::unexpected(text.error());
  if (text) {
    auto key = parse(*text);
    OPENSSL_cleanse(text->data(), text->size());
    if (key) return key;
  }
  return fail(
      ErrorCode::kInvalidInput, std::string("the file ") + kFile + " contains no key",
      "Bring it back from a backup, or remove it: the service then makes a new one, and the secrets that "
      "were sealed under it have to be put again.");
}

Result<std::string> SecretKey::seal(std::string_view bytes, std::string_view about_it) const {
  std::string sealed(kNonceBytes + bytes.size() + kTagBytes, '\0');
  auto* const out = reinterpret_cast<unsigned char*>(sealed.data());
  fill_random(out, kNonceBytes);
  const Cipher cipher = new_cipher();
  int size = 0, rest = 0;
  const bool ok = cipher != nullptr &&
                  EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, bytes_.data(), out) == 1 &&
                  EVP_EncryptUpdate(cipher.get(), nullptr, &size, bytes_of(about_it),
                                    static_cast<int>(about_it.size())) == 1 &&
                  EVP_EncryptUpdate(cipher.get(), out + kNonceBytes, &size, bytes_of(bytes),
                                    static_cast<int>(bytes.size())) == 1 &&
                  EVP_EncryptFinal_ex(cipher.get(), out + kNonceBytes + size, &rest) == 1 &&
                  EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes,
                                      out + kNonceBytes + bytes.size()) == 1;
  if (!ok) return fail(ErrorCode::kInternal, "a secret could not be sealed");
  return sealed;
}

Result<std::string> SecretKey::open(std::string_view sealed, std::string_view about_it) const {
  const auto refused = [] {
    return fail(ErrorCode::kInvalidInput,
                "a secret cannot be opened: it is damaged, or was sealed under another key",
                "Start the service with the key that it had: that of --secrets-key, or without one "
                "secrets.key of its state's directory.");
  };
  if (sealed.size() < kNonceBytes + kTagBytes) return refused();
  const std::string_view text = sealed.substr(kNonceBytes, sealed.size() - kNonceBytes - kTagBytes);
  std::string tag(sealed.substr(sealed.size() - kTagBytes));
  std::string bytes(text.size(), '\0');
  auto* const out = reinterpret_cast<unsigned char*>(bytes.data());
  const Cipher cipher = new_cipher();
  int size = 0, rest = 0;
  const bool ok =
      cipher != nullptr &&
      EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, bytes_.data(), bytes_of(sealed)) == 1 &&
      EVP_DecryptUpdate(cipher.get(), nullptr, &size, bytes_of(about_it),
                        static_cast<int>(about_it.size())) == 1 &&
      EVP_DecryptUpdate(cipher.get(), out, &size, bytes_of(text), static_cast<int>(text.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1 &&
      EVP_DecryptFinal_ex(cipher.get(), out + size, &rest) == 1;
  if (ok) return bytes;
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return refused();
}

// -- the table ----------------------------------------------------------------------------------------------------

Status Secrets::load(SealedSecret row) {
  MEMBRANE_ASSIGN(std::string value, key_.open(row.sealed, about(row.tenant, row.info.name)));
  OPENSSL_cleanse(value.data(), value.size());
  const std::lock_guard lock(mutex_);
  std::pair name(row.tenant, row.info.name);
  rows_.insert_or_assign(std::move(name), std::move(row));
  return {};
}

Answer<SecretInfo> Secrets::put(const std::string& tenant, SecretInfo info, std::string_view value) {
  if (const auto checked = check_put(info, value); !checked) return std::unexpected(checked.error());
  auto sealed = key_.seal(value, about(tenant, info.name));
  if (!sealed) return std::unexpected(api_error(sealed.error()));
  SealedSecret row{tenant, info, *std::move(sealed)};
  const std::lock_guard lock(mutex_);
  const auto of_tenant =
      std::ranges::count_if(rows_, [&](const auto& each) { return each.first.first == tenant; });
  const std::pair name(tenant, info.name);
  if (static_cast<size_t>(of_tenant) >= kMostOfTenant && !rows_.contains(name))
    return refuse(ApiCode::kQuotaExceeded, "the token has too many secrets",
                  "Remove those that are not needed.");
  if (keeper_.put)
    if (const auto kept = keeper_.put(row); !kept) return std::unexpected(kept.error());
  rows_.insert_or_assign(name, std::move(row));
  return info;
}

std::vector<SecretInfo> Secrets::list(std::string_view tenant) const {
  const std::lock_guard lock(mutex_);
  std::vector<SecretInfo> all;
  for (const auto& [name, row] : rows_)
    if (name.first == tenant) all.push_back(row.info);
  return all;
}

Answer<void> Secrets::remove(const std::string& tenant, const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = rows_.find(std::pair(tenant, name));
  if (found == rows_.end())
    return refuse(ApiCode::kNotFound, "there is no secret " + name, "GET /v1/secrets lists their names.");
  if (keeper_.remove)
    if (const auto gone = keeper_.remove(tenant, name); !gone) return gone;
  rows_.erase(found);
  return {};
}

// -- at the egress ------------------------------------------------------------------------------------------------

std::vector<Secrets::Named> Secrets::named_by(const policy::Policy& policy) {
  std::vector<Named> named;
  for (const policy::HttpGrant& grant : policy.http)
    for (const auto& [header, value] : grant.headers) {
      if (value.secret.empty()) continue;
      const auto url = policy::UrlGrant::parse(grant.url);
      named.push_back(
          {value.secret, url ? (url->any_subdomain() ? "*." : "") + url->url().host : std::string()});
    }
  return named;
}

Answer<void> Secrets::check(const std::string& tenant, const policy::Policy& policy) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, host] : named_by(policy)) {
    const auto found = rows_.find(std::pair(tenant, name));
    if (found == rows_.end())
      return refuse(ApiCode::kInvalidValue, "the policy names a secret that does not exist: " + name,
                    "Put it first: PUT /v1/secrets/" + name + ".");
    if (!may_go_to(found->second.info, host))
      return refuse(ApiCode::kForbidden, "the secret " + name + " may not be sent to " + host,
                    "Its hosts say where it may go; PUT /v1/secrets/" + name + " changes them.");
  }
  return {};
}

std::optional<std::string> Secrets::find(const std::string& tenant, const std::string& name,
                                         const std::vector<Named>& named) const {
  SealedSecret row;
  {
    const std::lock_guard lock(mutex_);
    const auto found = rows_.find(std::pair(tenant, name));
    if (found == rows_.end()) return std::nullopt;
    row = found->second;
  }
  for (const Named& each : named)
    if (each.name == name && !may_go_to(row.info, each.host)) return std::nullopt;
  auto value = key_.open(row.sealed, about(tenant, name));
  if (!value) return std::nullopt;
  return *std::move(value);
}

host::Secrets Secrets::of(const std::string& tenant, const policy::Policy& policy) const {
  return
      [this, tenant, named = named_by(policy)](const std::string& name) { return find(tenant, name, named); };
}

}  // namespace membrane::service
