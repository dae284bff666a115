// What the service stores on disk besides images: tokens, sandboxes, snapshots, named templates, secrets,
// idempotency keys, and each tenant's usage. A SQLite database, `state.db`, that one service uses at a time.
//
// Each call is one transaction: all of it, or nothing. When it returns, its changes have the requested
// durability. Rows that are written after an image's file (image_files.h) may name it.
//
// Errors of all: kUnavailable for what the system refuses, kExhausted for a full disk, kInvalidInput for a
// damaged database.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace membrane::service {

// What a change survives. The first costs microseconds, the second waits for the disk.
enum class Hold : uint8_t {
  kCrash,     // the end of this process, in any way
  kPowerCut,  // a power failure
};

struct SandboxRow {
  std::string id, tenant, template_name;
  std::string policy_json = "{}";
  std::map<std::string, std::string> metadata = {};
  std::vector<std::string> labels = {};
  std::map<std::string, std::string> environment = {};
  int64_t created_at_ms = 0, last_used_at_ms = 0, expires_at_ms = 0;
  std::optional<uint64_t> idle_timeout_s = {};
  // "live": in a process's memory; "paused" by its owner, and "parked" at the end of a service: in `images`;
  // "lost": gone, for `reason`.
  std::string state = "live";
  std::string reason = {};
  std::string kept = {};                 // if in images: its record, in its writer's format
  std::vector<std::string> images = {};  // hashes of the images in `kept`
};

struct SnapshotRow {
  std::string id, tenant, template_name;
  std::string sandbox;  // the sandbox that it was taken of
  std::string policy_json = "{}";
  std::map<std::string, std::string> metadata = {};
  int64_t created_at_ms = 0;
  std::string kept = {};
  std::vector<std::string> images = {};
};

struct TemplateRow {
  std::string tenant, name, snapshot;
  int64_t created_at_ms = 0;
};

struct TokenRow {
  std::string hash, id, tenant, name;
  std::vector<std::string> scopes;
  std::map<std::string, uint64_t> quotas = {};  // by the names in quotas.def
  int64_t created_at_ms = 0;
  std::optional<int64_t> expires_at_ms = {};
};

struct UsageRow {
  std::string tenant;
  int64_t day = 0;  // since 1970-01-01, UTC
  uint64_t fuel = 0, egress_bytes = 0, execs = 0;
};

struct SecretRow {
  std::string tenant, name, ciphertext;
  std::vector<std::string> hosts;
  int64_t updated_at_ms = 0;
};

// A stored answer that the same request gets again.
struct AnswerRow {
  std::string tenant, key;
  std::string request_hash;  // of the request, so that a key belongs to one request
  int64_t created_at_ms = 0;
  uint64_t size_bytes = 0;  // of the answer
  std::string answer = {};  // in its writer's format; "": not kept
};

// A receipt of an exec; both of its texts are images.
struct ReceiptRow {
  std::string sandbox, exec, tenant;
  std::string digest;
  std::string image, private_image;  // hashes
  uint64_t size_bytes = 0, private_size_bytes = 0;
  std::string context = {};  // "": the one that exists from the start
  uint64_t turn = 0;         // in its context, from 1; 0 for a run
  int64_t made_at_ms = 0;
};

class State {
 public:
  // The directory must exist. `vfs`: SQLite's, null for the default. Errors: also kInvalidArgument when
  // another service uses it; kUnsupported when a later version of Membrane wrote it.
  static Result<std::unique_ptr<State>> open(const std::string& directory, const char* vfs = nullptr);
  ~State();

  // Inserts a row, or replaces the one with the same id or name; removing a missing one is not an error.
  Status put(const SandboxRow& row, Hold hold);
  // Does not insert missing rows. Changes everything except the tenant, the template and the creation time.
  Status update(const SandboxRow& row, Hold hold);
  // Changes only its labels, metadata and times.
  Status update_facts(const SandboxRow& row, Hold hold);
  // "live", or "lost" for a reason: it is no longer in images.
  Status settle_sandbox(const std::string& id, const std::string& state, const std::string& reason,
                        Hold hold);
  Status remove_sandbox(const std::string& id, Hold hold);
  [[nodiscard]] Result<std::vector<SandboxRow>> sandboxes();
  // Marks live sandboxes as lost; removes those whose time is over. For the start of a service.
  Status settle_sandboxes(int64_t now_ms, const std::string& reason);

  Status put(const SnapshotRow& row);
  // Errors: kDenied while a template is made of it.
  Status remove_snapshot(const std::string& id);
  [[nodiscard]] Result<std::vector<SnapshotRow>> snapshots();
  // The snapshot must exist: kNotFound.
  Status put(const TemplateRow& row);
  Status remove_template(const std::string& tenant, const std::string& name);
  [[nodiscard]] Result<std::vector<TemplateRow>> templates();

  Status put(const TokenRow& row);
  Status remove_token(const std::string& id);
  [[nodiscard]] Result<std::vector<TokenRow>> tokens();

  Status put(const ReceiptRow& row);
  Status remove_receipts(const std::string& sandbox);
  // Removes those of sandboxes that no longer exist.
  Status settle_receipts();
  // All rows, in insertion order.
  [[nodiscard]] Result<std::vector<ReceiptRow>> receipts();

  Status put(const SecretRow& row);
  Status remove_secret(const std::string& tenant, const std::string& name);
  [[nodiscard]] Result<std::vector<SecretRow>> secrets();

  // Adds to the stored values.
  Status add(const std::vector<UsageRow>& used);
  [[nodiscard]] Result<std::vector<UsageRow>> usage(int64_t from_day);

  Status put(const AnswerRow& row, Hold hold);
  Status remove_answer(const std::string& tenant, const std::string& key);
  // All, oldest first, without the answers themselves.
  [[nodiscard]] Result<std::vector<AnswerRow>> answers();
  // Errors: kNotFound.
  [[nodiscard]] Result<AnswerRow> answer(const std::string& tenant, const std::string& key);

 private:
  class Database;
  explicit State(std::unique_ptr<Database> database);
  std::unique_ptr<Database> database_;
};

}  // namespace membrane::service
