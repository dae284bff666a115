// Receipts of execs (sandbox/receipts/receipt.h), sealed with a key of the service's own, and kept as long as their
// sandbox.
//
// Both texts of a receipt are images, named by their content; the database records which exec they belong to.
// When keep() has returned they survive kill -9 and a power cut. They are removed with the sandbox: when it
// is killed or its time to live is over, and not when it is paused, parked, or lost with the service's
// process.
//
// The keys are in `receipt-keys.json` in the state directory, in the format of `membrane keys`. The first one
// is created on first use.
//
// Threads: any.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sandbox/receipts/receipt.h"
#include "sandbox/receipts/receipt_keys.h"
#include "service/durable_files.h"
#include "service/errors.h"
#include "service/images.h"
#include "service/state.h"

namespace membrane::service {

inline constexpr std::string_view kReceiptKeysFile = "receipt-keys.json";

struct ReceiptInfo {
  std::string exec, digest;
  std::string context = {};  // "": the one that exists from the start
  uint64_t turn = 0;         // in its context, from 1; 0 for a run
  uint64_t size_bytes = 0, private_size_bytes = 0;
  int64_t made_at_ms = 0;
};

struct ReceiptBounds {
  uint64_t most_bytes_of_tenant = 1ull << 30;
  size_t most_of_sandbox = 10'000;
};

class Receipts {
 public:
  // Everything except the bounds is borrowed. Takes over the receipts of the previous service; those without
  // a sandbox are removed. Errors: those of State and DurableFiles; kInvalidInput for a damaged key file.
  static Result<std::unique_ptr<Receipts>> open(DurableFiles& files, State& state, Images& images,
                                                ReceiptBounds bounds = {});

  // The current signing key. Errors: kUnavailable without libcrypto, or when the disk refuses; kConflict when
  // the last key was revoked.
  [[nodiscard]] Answer<sandbox::ReceiptKey> signing_key();
  // The document that GET /v1/keys publishes, like `membrane keys publish`. Errors: those of signing_key().
  [[nodiscard]] Answer<std::string> public_keys();
  // Retires the signing key and creates another; returns its id. Errors: those of signing_key(), without
  // kConflict.
  Answer<std::string> rotate();
  // Errors: kNotFound; those of signing_key().
  Answer<void> revoke(std::string_view id);

  // Call it before an exec that will be sealed. Errors: kQuotaExceeded.
  [[nodiscard]] Answer<void> has_room(const std::string& tenant, const std::string& sandbox);
  // Errors: kNoSpace, kUnavailable; then nothing was stored.
  Answer<void> keep(const std::string& tenant, const std::string& sandbox, ReceiptInfo info,
                    const sandbox::SealedReceipt& sealed);
  // A sandbox's receipts, in order of creation. Errors: kNotFound if it has none.
  [[nodiscard]] Answer<std::vector<ReceiptInfo>> list(const std::string& tenant, const std::string& sandbox);
  // The text, or the private one. Errors: kNotFound; kUnavailable for damaged bytes.
  [[nodiscard]] Answer<std::string> text(const std::string& tenant, const std::string& sandbox,
                                         const std::string& exec, bool is_private);
  // The sandbox has ended.
  void forget(const std::string& sandbox);

 private:
  Receipts(DurableFiles& files, State& state, Images& images, ReceiptBounds bounds)
      : files_(files), state_(state), images_(images), bounds_(bounds) {}

  struct Kept {
    ReceiptInfo info;
    std::string image, private_image;
  };
  struct OfSandbox {
    std::string tenant;
    uint64_t bytes = 0;
    std::vector<Kept> receipts;  // in order of creation
  };
  // Under the mutex of keys. Creates the first key if there is none.
  Answer<void> need_keys();
  Answer<void> write_keys(const sandbox::KeyRing& keys);
  void add(const std::string& tenant, const std::string& sandbox, Kept kept);

  DurableFiles& files_;
  State& state_;
  Images& images_;
  const ReceiptBounds bounds_;
  std::mutex keys_mutex_;  // guards the keys and their file
  std::optional<sandbox::KeyRing> keys_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, OfSandbox, std::less<>> of_sandbox_;
  std::map<std::string, uint64_t> bytes_of_tenant_;
};

}  // namespace membrane::service
