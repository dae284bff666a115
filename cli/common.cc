#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cli/cli.h"

namespace membrane::cli {

void PolicyOptions::add_to(CLI::App& command) {
  command.add_option("--policy", file, "Policy file, TOML or JSON (docs/policy.md)")
      ->type_name("FILE")
      ->group("Policy");
  command
      .add_option("--allow", allow_,
                  "Grant, on top of the policy: http:GET:https://example.org/*, fs:read:./data, kv, "
                  "sql:name:file.db, "
                  "ai, time, random, ask")
      ->type_name("GRANT")
      ->expected(1)
      ->take_all()
      ->group("Policy");
  const auto add = [&](const char* flag, const char* name, const char* type, const char* help) {
    limits_.push_back(std::make_unique<Limit>(Limit{name, {}}));
    command.add_option(flag, limits_.back()->value, help)->type_name(type)->group("Limits");
  };
  add("--fuel", "fuel", "N", "Instructions that may run, as 1000000 or 2e9 (default 1e9)");
  add("--memory", "memory", "SIZE", "Linear memory, as 64MiB (default 64MiB)");
  add("--stack", "stack", "SIZE", "Value stack (default 1MiB)");
  add("--wall", "wall", "TIME", "Time on the clock, as 10s or 500ms (default 10s)");
  add("--output", "output", "SIZE", "What it may print (default 1MiB)");
  add("--host-calls", "host_calls", "N", "Calls that reach for the world (default 1000)");
  add("--bytes-in", "bytes_in", "SIZE", "Bytes from the world to the program (default 64MiB)");
  add("--bytes-out", "bytes_out", "SIZE", "Bytes from the program to the world (default 16MiB)");
  add("--tokens", "tokens", "N", "Tokens of models (default 100000)");
}

Result<policy::Policy> PolicyOptions::policy() const {
  policy::Policy policy;
  if (!file.empty()) {
    MEMBRANE_ASSIGN(policy, policy::load_policy(file));
  }
  for (const std::string& grant : allow_) MEMBRANE_TRY(policy::allow(policy, grant));
  for (const auto& limit : limits_)
    if (!limit->value.empty()) MEMBRANE_TRY(policy::set_limit(policy.limits, limit->name, limit->value));
  return policy;
}

Result<engine::Tier> tier_of(const std::string& name) {
  if (const auto tier = engine::find_tier(name)) return *tier;
  return fail(ErrorCode::kInvalidArgument, "there is no tier \"" + name + "\"",
              "Give interpreter, compiler or auto.");
}

Result<std::string> read_input(const std::string& path, uint64_t max_bytes) {
  const bool is_stdin = path == "-";
  std::FILE* const file = is_stdin ? stdin : std::fopen(path.c_str(), "rb");
  if (file == nullptr)
    return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                "cannot open " + path + ": " + std::strerror(errno),
                "Check the path; \"-\" reads standard input.");
  std::string text;
  char buffer[65536];
  for (bool more = true; more && text.size() <= max_bytes;) {
    const size_t got = std::fread(buffer, 1, sizeof buffer, file);
    text.append(buffer, got);
    more = got == sizeof buffer;  // less is the end, or a failure
  }
  const bool failed = std::ferror(file) != 0;
  const int why = errno;
  if (!is_stdin) std::fclose(file);
  if (failed) return fail(ErrorCode::kUnavailable, "cannot read " + path + ": " + std::strerror(why));
  if (text.size() > max_bytes)
    return fail(ErrorCode::kExhausted, path + " has more than " + std::to_string(max_bytes) + " bytes");
  return text;
}

Status write_output(const std::string& path, std::string_view text) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr)
    return fail(ErrorCode::kUnavailable, "cannot write " + path + ": " + std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written)
    return fail(ErrorCode::kUnavailable, "cannot write " + path + ": " + std::strerror(errno));
  return {};
}

void print(std::FILE* to, std::string_view text) { std::fwrite(text.data(), 1, text.size(), to); }

int complain(const Error& error) {
  print(stderr, "membrane: " + error.message + "\n");
  if (!error.hint.empty()) print(stderr, "  hint: " + error.hint + "\n");
  return error.code == ErrorCode::kInternal ? kExitMembrane : kExitRequest;
}

bool is_terminal(std::FILE* file) { return isatty(fileno(file)) != 0; }

bool use_colour(std::FILE* to) {
  const char* const no_colour = std::getenv("NO_COLOR");
  return (no_colour == nullptr || *no_colour == '\0') && is_terminal(to);
}

}  // namespace membrane::cli
