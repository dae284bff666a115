// A policy as data: what a program may do. An empty policy grants nothing.
//
// Read from TOML, from JSON of the same shape, or from flags. Unknown and unsupported fields are refused, and so is
// a control that could not be enforced. For the grammar with examples, see docs/policy.md.
//
// Errors are kInvalidInput (a file's text), kInvalidArgument (a flag), kNotFound (no such file). Reading a policy
// with http grants needs libcurl, which parses their URLs; no other policy does.
//
// Threads: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace membrane::policy {

struct Limits {  // names, units and bounds: limits.def
  uint64_t fuel = 1'000'000'000;
  uint64_t memory_bytes = 64ull << 20;
  uint64_t stack_bytes = 1ull << 20;  // the guest's value stack
  uint64_t call_depth = 10'000;       // frames
  uint64_t table_elements = 100'000;
  uint64_t output_bytes = 1ull << 20;  // everything that the program outputs (sandbox/run/output_limit.h)
  uint64_t wall_ms = 10'000;
  uint64_t host_calls = 1'000;
  uint64_t bytes_in = 64ull << 20;  // from the world to the program
  uint64_t bytes_out = 16ull << 20;
  uint64_t tokens = 100'000;
  uint64_t module_bytes = 64ull << 20;  // of the program itself
  // -- for a Linux sandbox as a whole, whatever runs in it
  uint64_t disk_bytes = 1ull << 30;
  uint64_t tasks = 512;                 // concurrent processes and threads
  uint64_t cpu_ms = 7ull * 86'400'000;  // of all processes together

  friend bool operator==(const Limits&, const Limits&) = default;
};

// The defaults for a program in a language: interpreters and their libraries use much more than a program in
// WebAssembly's text. Enough to import Python's standard library, read a file of 100 MB and fit a model.
Limits language_limits();

// A header value: plain text, optionally followed by a secret that is looked up at the egress.
struct HeaderValue {
  std::string text;    // the value; before a secret, its prefix ("Bearer ")
  std::string secret;  // name of an environment variable of the host; empty: none

  friend bool operator==(const HeaderValue&, const HeaderValue&) = default;
};

// Declares how the trifecta rule treats what a grant reads; absent: the default of trifecta.h.
struct Marks {
  std::optional<bool> is_private;
  std::optional<bool> is_untrusted;

  friend bool operator==(const Marks&, const Marks&) = default;
};

inline constexpr size_t kMaxGrants = 1'000;  // per kind

struct HttpGrant {
  std::vector<std::string> methods;  // upper case; CONNECT: encrypted by a Linux program itself, unseen
  std::string url;  // https://host[:port]/path, "*" at its end, "*." before the host: url_grant.h
  std::vector<std::pair<std::string, HeaderValue>> headers;  // added at the egress
  std::vector<std::string> addresses;  // CIDR; private addresses are refused unless listed here (address.h)
  uint64_t max_request_bytes = 1ull << 20;
  uint64_t max_response_bytes = 8ull << 20;  // after decompression
  uint64_t timeout_ms = 10'000;
  uint32_t max_redirects = 3;  // each target must be granted, too; 0: the program gets the 3xx response
  Marks marks = {};
  bool traceparent = false;  // requests of a traced exec carry its trace context

  friend bool operator==(const HttpGrant&, const HttpGrant&) = default;
};

enum class FsMode : uint8_t { kRead, kWrite };  // kWrite: read, create, replace, append, remove

struct FsGrant {
  std::string guest;  // "/data"
  std::string host;   // directory (or one file), relative to the working directory
  FsMode mode = FsMode::kRead;
  // Symbolic links are shown as links and followed while they stay beneath the directory; with kWrite, links can be
  // created, and files reached through them can be written. Absolute targets are never followed.
  bool links = false;
  uint64_t max_file_bytes = 256ull << 20;
  uint64_t max_total_bytes = 256ull << 20;  // kWrite: total written by one run
  uint64_t max_files = 1'000;               // kWrite: files created by one run
  Marks marks = {};

  friend bool operator==(const FsGrant&, const FsGrant&) = default;
};

struct KvGrant {
  std::string path;  // SQLite file; empty: in memory, gone with the sandbox
  bool writable = true;
  std::string prefix;  // keys must start with it
  uint64_t max_keys = 10'000;
  uint64_t max_key_bytes = 1024;
  uint64_t max_value_bytes = 1ull << 20;
  uint64_t max_total_bytes = 64ull << 20;
  Marks marks = {};

  friend bool operator==(const KvGrant&, const KvGrant&) = default;
};

struct SqlGrant {
  std::string name;  // the name that the program uses
  std::string path;  // SQLite file, opened read-only
  uint64_t max_rows = 10'000;
  uint64_t max_result_bytes = 4ull << 20;
  uint64_t timeout_ms = 2'000;
  Marks marks = {};

  friend bool operator==(const SqlGrant&, const SqlGrant&) = default;
};

struct AiGrant {
  uint64_t max_tokens_per_call = 1'024;
  uint64_t timeout_ms = 30'000;
  bool embed = false;

  friend bool operator==(const AiGrant&, const AiGrant&) = default;
};

struct TimeGrant {
  bool real = false;
  int64_t start_ms = 946'684'800'000;  // start of the virtual clock: 2000-01-01T00:00:00Z

  friend bool operator==(const TimeGrant&, const TimeGrant&) = default;
};

struct RandomGrant {
  bool real = false;
  uint64_t seed = 0;

  friend bool operator==(const RandomGrant&, const RandomGrant&) = default;
};

// What programs in a language can import in addition to what is built in, by names of the language's registry, each
// alone or with a version: "rich", "rich==13.7.1" (package_name.h).
struct Packages {
  std::vector<std::string> python, javascript;

  friend bool operator==(const Packages&, const Packages&) = default;
};

// The trifecta rule: once a run has read private data and text of untrusted origin, nothing may leave it unless a
// person approves (trifecta.h).
enum class Egress : uint8_t { kClose, kAsk };
struct Trifecta {
  Egress egress = Egress::kClose;
  bool input_is_private = false;  // the program's input
  bool input_is_untrusted = false;

  friend bool operator==(const Trifecta&, const Trifecta&) = default;
};

struct Policy {
  Limits limits;
  std::vector<HttpGrant> http;
  std::vector<FsGrant> fs;
  std::optional<KvGrant> kv;
  std::vector<SqlGrant> sql;
  std::optional<AiGrant> ai;
  TimeGrant time;      // the virtual clock is always available
  RandomGrant random;  // seeded randomness is always available
  bool ask = false;    // agent.ask
  Packages packages;
  std::optional<Trifecta> trifecta;
  std::string platform;  // of a Linux sandbox: "trap" or "kvm" is required; "": any (docs/linux.md)

  friend bool operator==(const Policy&, const Policy&) = default;
};

// Parses a file's text. `name` is for messages and the format: ".json" is read as JSON, everything else as TOML.
// `unless_given`: the limits that the text does not set.
Result<Policy> parse_policy(std::string_view text, std::string_view name, const Limits& unless_given = {});
Result<Policy> load_policy(const std::string& path, const Limits& unless_given = {});

// What a policy must satisfy however it was made: values in range, no two grants for the same thing, nothing that
// could not be enforced. parse_policy and allow have already checked it.
Status validate(const Policy& policy);
// The same for the limit of this name. Messages begin with `where`, and have the value as `written` where that is given.
Status validate_limit(const Limits& limits, std::string_view name, const std::string& where,
                      std::string_view written = {});

// Adds what one `--allow` flag grants: "http:GET,POST:https://example.org/*", "http:example.org",
// "fs:read:./data", "fs:write:./out:/out", "kv", "kv:./store.db", "sql:name:./file.db",
// "ai", "time", "random", "ask". On failure the policy is unchanged.
Status allow(Policy& policy, std::string_view flag);

// The flag as a person types it into a shell, for hints: "--allow kv", "--allow 'http:GET:https://example.org/*'".
// `grant` may contain text that a program chose: it is quoted, so that nothing in it is special to the shell.
std::string allow_flag(std::string_view grant);

// Sets the limit of this name in the [limits] table to a value as a flag has it ("2e9", "64MiB", "10s"). Messages begin
// with `where`, by which the caller knows the limit ("--fuel"), else with its name. On failure the limits are unchanged.
Status set_limit(Limits& limits, std::string_view name, std::string_view value, std::string where = {});

// Refuses a policy with controls that only a Linux sandbox can enforce: a platform, and limits of disk, tasks and
// CPU time. Errors: kUnsupported.
Status check_for_wasm(const Policy& policy);

// What the policy allows and what it does not, in sentences, one per line.
std::string explain(const Policy& policy);
// The same for a model, which pays for the text at every step: what is granted and what is not, without details that
// the error of a failed call reports anyway.
std::string explain_briefly(const Policy& policy);
// "In a language its usual limits are larger: …": those of `language` that differ from `limits`; "" when none does.
std::string explain_larger_limits(const Limits& limits, const Limits& language);

// The policy as canonical JSON in the shape of the file (for reports, hashes, prompts): sorted keys, no white space,
// every effective value. Parses back to an equal policy.
std::string to_json(const Policy& policy);

}  // namespace membrane::policy
