// Values that programs may use and never see: each is a tenant's, has a name that headers of a policy name, and the hosts
// that it may be sent to. They enter at the egress. In memory, and wherever rows of them are kept, they are sealed: by
// AES-256-GCM under the service's key, bound to tenant and name.
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

// 32 bytes that seal secrets.
class SecretKey {
 public:
  static constexpr size_t kBytes = 32;

  // From a file, whose text is 64 hexadecimal digits, and which only its owner may read. Errors: kNotFound, kInvalidInput,
  // kDenied.
  static Result<SecretKey> read(const std::string& path);
  // Of text as in the file. Errors: kInvalidInput.
  static Result<SecretKey> parse(std::string_view text);
  // That of the file `secrets.key` of the service's state, which is made when it is not there. Errors: kInvalidInput for a
  // file that holds something else; as Disk.
  static constexpr const char* kFile = "secrets.key";
  static Result<SecretKey> kept(DurableFiles& files);
  // One that is nowhere else.
  static SecretKey random();

  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;
  ~SecretKey();

  // A nonce, the bytes under the key, and a tag. `about` is not in it, and must be the same to open it. Errors: kInternal.
  [[nodiscard]] Result<std::string> seal(std::string_view bytes, std::string_view about) const;
  // Errors: kInvalidInput for what was sealed under another key or about something else, or is damaged.
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

// As it is kept.
struct SealedSecret {
  std::string tenant;
  SecretInfo info;
  std::string sealed;
};

// Hears each row that was put before put() returns, and the names that were removed; an error is the answer, and then
// nothing changed. Null: they are kept in memory alone.
struct SecretKeeper {
  std::function<Answer<void>(const SealedSecret& row)> put = {};
  std::function<Answer<void>(const std::string& tenant, const std::string& name)> remove = {};
};

class Secrets {
 public:
  explicit Secrets(SecretKey key, SecretKeeper keeper = {})
      : key_(std::move(key)), keeper_(std::move(keeper)) {}

  // Of before the service's start. Errors: kInvalidInput for one that was sealed under another key, or is damaged.
  Status load(SealedSecret row);

  // Replaces one of this name. Errors: kInvalidValue for a name that is none (letters, digits and _), a value that is
  // shorter than HttpEgress::kMinSecretBytes or could not stand in a header, hosts that are none; kQuotaExceeded.
  Answer<SecretInfo> put(const std::string& tenant, SecretInfo info, std::string_view value);
  [[nodiscard]] std::vector<SecretInfo> list(std::string_view tenant) const;
  // Sandboxes cannot send it from then on. Errors: kNotFound.
  Answer<void> remove(const std::string& tenant, const std::string& name);

  // Whether each secret that the policy names is there, and may go to the hosts that it is named for. Errors:
  // kInvalidValue, kForbidden.
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
