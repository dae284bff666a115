// Values that programs may use and never see: each belongs to a tenant, and has a name, which headers of a
// policy refer to, and hosts to which it may be sent. The egress inserts them. In memory and in storage they
// are sealed with AES-256-GCM under the service's key, bound to tenant and name.
//
// Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/egress/http_egress.h"
#include "policy/policy.h"
#include "service/durable_files.h"
#include "service/errors.h"

namespace membrane::service {

// The 32-byte key that seals secrets.
class SecretKey {
 public:
  static constexpr size_t kBytes = 32;

  // Reads it from a file that contains 64 hexadecimal digits and that only its owner may read. Errors:
  // kNotFound, kInvalidInput, kDenied.
  static Result<SecretKey> read(const std::string& path);
  // From text as in the file. Errors: kInvalidInput.
  static Result<SecretKey> parse(std::string_view text);
  // The key in the file `secrets.key` of the service's state, which is created if missing. Errors:
  // kInvalidInput for a file with other contents; those of Disk.
  static constexpr const char* kFile = "secrets.key";
  static Result<SecretKey> kept(DurableFiles& files);
  // A random key that is stored nowhere.
  static SecretKey random();

  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;
  ~SecretKey();

  // A nonce, the encrypted bytes, and a tag. `about` is not included, and must be the same to open it.
  // Errors: kInternal.
  [[nodiscard]] Result<std::string> seal(std::string_view bytes, std::string_view about) const;
  // Errors: kInvalidInput for bytes that were sealed under another key or for another purpose, or are
  // damaged.
  [[nodiscard]] Result<std::string> open(std::string_view sealed, std::string_view about) const;

 private:
  SecretKey() = default;
  std::array<unsigned char, kBytes> bytes_{};
};

struct SecretInfo {
  std::string name;
  std::vector<std::string> hosts;  // "api.example.com", or "*.example.com"
  int64_t updated_at_ms = 0;
};

// The stored form.
struct SealedSecret {
  std::string tenant;
  SecretInfo info;
  std::string sealed;
};

// Called with each row before put() returns, and with the names that were removed; its error is the answer,
// and then nothing changed. Null: secrets are kept only in memory.
struct SecretKeeper {
  std::function<Answer<void>(const SealedSecret& row)> put = {};
  std::function<Answer<void>(const std::string& tenant, const std::string& name)> remove = {};
};

class Secrets {
 public:
  explicit Secrets(SecretKey key, SecretKeeper keeper = {})
      : key_(std::move(key)), keeper_(std::move(keeper)) {}

  // Loads a row from before the service's start. Errors: kInvalidInput for one that was sealed under another
  // key, or is damaged.
  Status load(SealedSecret row);

  // Replaces a secret of this name. Errors: kInvalidValue for an invalid name (letters, digits and _), a
  // value that is shorter than HttpEgress::kMinSecretBytes or could not be in a header, invalid hosts;
  // kQuotaExceeded.
  Answer<SecretInfo> put(const std::string& tenant, SecretInfo info, std::string_view value);
  [[nodiscard]] std::vector<SecretInfo> list(std::string_view tenant) const;
  // Sandboxes cannot send it from then on. Errors: kNotFound.
  Answer<void> remove(const std::string& tenant, const std::string& name);

  // Checks that each secret that the policy names exists, and may be sent to the hosts that it is named for.
  // Errors: kInvalidValue, kForbidden.
  [[nodiscard]] Answer<void> check(const std::string& tenant, const policy::Policy& policy) const;
  // For the egress of a sandbox with this policy: a secret by its name, as long as check() holds for it.
  [[nodiscard]] host::Secrets of(const std::string& tenant, const policy::Policy& policy) const;

 private:
  static constexpr size_t kMostOfTenant = 1'000;
  struct Named {
    std::string name, host;
  };
  static std::vector<Named> named_by(const policy::Policy& policy);
  [[nodiscard]] std::optional<std::string> find(const std::string& tenant, const std::string& name,
                                                const std::vector<Named>& named) const;

  const SecretKey key_;
  const SecretKeeper keeper_;
  mutable std::mutex mutex_;                                                       // guards rows_
  std::map<std::pair<std::string, std::string>, SealedSecret, std::less<>> rows_;  // by tenant and name
};

}  // namespace membrane::service
