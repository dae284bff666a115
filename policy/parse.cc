// Converts a document's tree to a Policy: a table of fields for each table of the file, so that unknown fields are
// refused.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "policy/document.h"
#include "policy/names.h"
#include "policy/policy.h"
#include "policy/quantity.h"
#include "policy/url_grant.h"

namespace membrane::policy {
namespace {

// A value's location, for messages: "line 12: http[0].url".
struct Where {
  std::string path;
  uint32_t line = 0;

  [[nodiscard]] Where field(std::string_view name, uint32_t at) const {
    return {path.empty() ? std::string(name) : path + "." + std::string(name), at != 0 ? at : line};
  }
  [[nodiscard]] Where item(size_t index, uint32_t at) const {
    return {path + "[" + std::to_string(index) + "]", at != 0 ? at : line};
  }
};

std::unexpected<Error> refuse(const Where& where, const std::string& why, std::string hint = {}) {
  const std::string line = where.line != 0 ? "line " + std::to_string(where.line) + ": " : "";
  const std::string path = where.path.empty() ? "" : where.path + (why.starts_with("is ") ? " " : ": ");
  return fail(ErrorCode::kInvalidInput, line + path + why, std::move(hint));
}

std::unexpected<Error> refuse(const Where& where, Error error) {
  return refuse(where, error.message, std::move(error.hint));
}

std::unexpected<Error> wrong_type(const Where& where, const Node& node, std::string_view expected) {
  return refuse(where, "expected " + std::string(expected) + ", found " + std::string(type_of(node)) + ".");
}

// -- scalars -------------------------------------------------------------------

Status read(std::string& into, const Node& node, const Where& where) {
  const auto* text = std::get_if<std::string>(&node.value);
  if (text == nullptr) return wrong_type(where, node, "a string");
  if (text->find('\0') != std::string::npos) return refuse(where, "contains a NUL character.");
  into = *text;
  return {};
}

Status read(bool& into, const Node& node, const Where& where) {
  const auto* truth = std::get_if<bool>(&node.value);
  if (truth == nullptr) return wrong_type(where, node, "true or false");
  into = *truth;
  return {};
}

constexpr std::string_view kExpected[] = {"a whole number", "a size, such as \"64 MiB\"",
                                          "a duration, such as \"10 s\""};

Result<uint64_t> whole(const Node& node, const Where& where, std::string_view expected) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: above it a double does not represent every integer
  if (const auto* large = std::get_if<uint64_t>(&node.value)) return *large;
  if (const auto* integer = std::get_if<int64_t>(&node.value)) {
    if (*integer < 0) return refuse(where, "is negative.", "write " + std::string(expected));
    return static_cast<uint64_t>(*integer);
  }
  const auto* real = std::get_if<double>(&node.value);
  if (real == nullptr) return wrong_type(where, node, expected);
  if (!(*real >= 0 && *real <= kExact) || *real != std::floor(*real))
    return refuse(where, "is not a whole number from 0 to 2^53.", "write it as an integer");
  return static_cast<uint64_t>(*real);
}

// Accepts a string in the form of its kind, or a number (also 2e9, which is a float in TOML and JSON); but a
// duration needs its unit.
Status read(uint64_t& into, const Node& node, const Where& where, Quantity kind) {
  const std::string_view expected = kExpected[static_cast<size_t>(kind)];
  if (const auto* text = std::get_if<std::string>(&node.value)) {
    auto parsed = parse_quantity(kind, *text);
    if (!parsed) return refuse(where, std::move(parsed.error()));
    into = *parsed;
    return {};
  }
  MEMBRANE_ASSIGN(into, whole(node, where, expected));
  if (kind == Quantity::kDuration)
    return refuse(where, "is a number without a unit.", "write " + std::string(expected));
  return {};
}

Status read_strings(std::vector<std::string>& into, const Node& node, const Where& where) {
  const auto* array = std::get_if<Array>(&node.value);
  if (array == nullptr) return wrong_type(where, node, "an array of strings");
  for (size_t i = 0; i < array->size(); ++i)
    MEMBRANE_TRY(read(into.emplace_back(), (*array)[i], where.item(i, (*array)[i].line)));
  return {};
}

// -- tables --------------------------------------------------------------------

template <typename T>
struct Field {
  std::string_view name;
  Status (*read)(T& into, const Node& node, const Where& where);
  bool required = false;
};

// The names that were present in a table, for rules about contradicting fields.
using Seen = std::vector<std::string_view>;
bool has(const Seen& seen, std::string_view name) {
  return std::find(seen.begin(), seen.end(), name) != seen.end();
}

template <typename T, size_t N>
Result<Seen> read_table(T& into, const Node& node, const Where& where, const Field<T> (&fields)[N]) {
  const auto* table = std::get_if<Table>(&node.value);
  if (table == nullptr) return wrong_type(where, node, "a table");
  Seen seen;
  for (const auto& [name, value] : *table) {
    const auto* field =
        std::find_if(std::begin(fields), std::end(fields), [&](const Field<T>& f) { return f.name == name; });
    if (field == std::end(fields)) {
      std::vector<std::string_view> known;
      for (const Field<T>& f : fields) known.push_back(f.name);
      return refuse(where.field(name, value.line), "unknown field.", suggest(name, known));
    }
    MEMBRANE_TRY(field->read(into, value, where.field(name, value.line)));
    seen.push_back(field->name);
  }
  for (const Field<T>& field : fields)
    if (field.required && !has(seen, field.name))
      return refuse(where, "the field \"" + std::string(field.name) + "\" is missing.");
  return seen;
}

// Refuses the first of `names` that is present together with a field that makes it meaningless.
Status refuse_beside(const Seen& seen, const Where& where, std::initializer_list<std::string_view> names,
                     const std::string& why) {
  for (const std::string_view name : names)
    if (has(seen, name)) return refuse(where.field(name, 0), why, "remove one of the two");
  return {};
}

template <auto Member, typename T>
Status string_field(T& into, const Node& node, const Where& where) {
  return read(into.*Member, node, where);
}
template <auto Member, typename T>
Status strings_field(T& into, const Node& node, const Where& where) {
  return read_strings(into.*Member, node, where);
}
template <auto Member, typename T>
Status bool_field(T& into, const Node& node, const Where& where) {
  return read(into.*Member, node, where);
}
template <auto Member, typename T>
Status count_field(T& into, const Node& node, const Where& where) {
  return read(into.*Member, node, where, Quantity::kCount);
}
template <auto Member, typename T>
Status size_field(T& into, const Node& node, const Where& where) {
  return read(into.*Member, node, where, Quantity::kSize);
}
template <auto Member, typename T>
Status duration_field(T& into, const Node& node, const Where& where) {
  return read(into.*Member, node, where, Quantity::kDuration);
}

Status read(std::optional<bool>& into, const Node& node, const Where& where) {
  return read(into.emplace(), node, where);
}
template <typename T>
Status private_field(T& into, const Node& node, const Where& where) {
  return read(into.marks.is_private, node, where);
}
template <typename T>
Status untrusted_field(T& into, const Node& node, const Where& where) {
  return read(into.marks.is_untrusted, node, where);
}

// -- [limits] ------------------------------------------------------------------

struct LimitRow {
  std::string_view name;
  uint64_t Limits::* member;
  Quantity kind;
};
constexpr LimitRow kLimits[] = {
#define LIMIT(member, name, kind, least, most, words) {name, &Limits::member, Quantity::kind},
#include "policy/limits.def"
#undef LIMIT
};

const LimitRow* find_limit(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kLimits), std::end(kLimits), [&](const LimitRow& r) { return r.name == name; });
  return found == std::end(kLimits) ? nullptr : found;
}

std::vector<std::string_view> limit_names() {
  std::vector<std::string_view> names;
  for (const LimitRow& row : kLimits) names.push_back(row.name);
  return names;
}

Status read_limits(Policy& policy, const Node& node, const Where& where) {
  const auto* table = std::get_if<Table>(&node.value);
  if (table == nullptr) return wrong_type(where, node, "a table");
  for (const auto& [name, value] : *table) {
    const Where here = where.field(name, value.line);
    const LimitRow* row = find_limit(name);
    if (row == nullptr) return refuse(here, "unknown limit.", suggest(name, limit_names()));
    MEMBRANE_TRY(read(policy.limits.*(row->member), value, here, row->kind));
  }
  return {};
}

// -- grants --------------------------------------------------------------------

Status read_header(HttpGrant& grant, const Node& node, const Where& where) {
  const auto* table = std::get_if<Table>(&node.value);
  if (table == nullptr) return wrong_type(where, node, "a table of header names and values");
  static constexpr Field<HeaderValue> kFields[] = {
      {"secret", string_field<&HeaderValue::secret, HeaderValue>, true},
      {"prefix", string_field<&HeaderValue::text, HeaderValue>},
  };
  for (const auto& [name, value] : *table) {
    const Where here = where.field(name, value.line);
    HeaderValue header;
    if (std::holds_alternative<std::string>(value.value)) {
      MEMBRANE_TRY(read(header.text, value, here));
    } else if (std::holds_alternative<Table>(value.value)) {
      MEMBRANE_TRY(read_table(header, value, here, kFields));
      if (header.secret.empty()) return refuse(here, "the secret has no name.");
    } else {
      return wrong_type(here, value, "a string, or { secret = \"NAME\" }");
    }
    grant.headers.emplace_back(name, std::move(header));
  }
  std::sort(grant.headers.begin(), grant.headers.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return {};
}

Status read_url(HttpGrant& grant, const Node& node, const Where& where) {
  std::string text;
  MEMBRANE_TRY(read(text, node, where));
  auto parsed = UrlGrant::parse(text);
  if (!parsed) return refuse(where, std::move(parsed.error()));
  grant.url = parsed->text();
  return {};
}

Status read_redirects(HttpGrant& grant, const Node& node, const Where& where) {
  uint64_t count = 0;
  MEMBRANE_TRY(read(count, node, where, Quantity::kCount));
  grant.max_redirects = static_cast<uint32_t>(std::min<uint64_t>(count, UINT32_MAX));  // validate() bounds it
  return {};
}

Status read_http(HttpGrant& grant, const Node& node, const Where& where) {
  static constexpr Field<HttpGrant> kFields[] = {
      {"methods", strings_field<&HttpGrant::methods, HttpGrant>, true},
      {"url", read_url, true},
      {"header", read_header},
      {"addresses", strings_field<&HttpGrant::addresses, HttpGrant>},
      {"max_request", size_field<&HttpGrant::max_request_bytes, HttpGrant>},
      {"max_response", size_field<&HttpGrant::max_response_bytes, HttpGrant>},
      {"timeout", duration_field<&HttpGrant::timeout_ms, HttpGrant>},
      {"max_redirects", read_redirects},
      {"private", private_field<HttpGrant>},
      {"untrusted", untrusted_field<HttpGrant>},
      {"traceparent", bool_field<&HttpGrant::traceparent, HttpGrant>},
  };
  MEMBRANE_TRY(read_table(grant, node, where, kFields));
  return {};
}

Status read_mode(FsGrant& grant, const Node& node, const Where& where) {
  std::string mode;
  MEMBRANE_TRY(read(mode, node, where));
  if (mode != "read" && mode != "write")
    return refuse(where, "\"" + mode + "\" is not a mode.",
                  "write \"read\", or \"write\" (which includes reading)");
  grant.mode = mode == "write" ? FsMode::kWrite : FsMode::kRead;
  return {};
}

Status read_fs(FsGrant& grant, const Node& node, const Where& where) {
  static constexpr Field<FsGrant> kFields[] = {
      {"guest", string_field<&FsGrant::guest, FsGrant>, true},
      {"host", string_field<&FsGrant::host, FsGrant>, true},
      {"mode", read_mode, true},
      {"links", bool_field<&FsGrant::links, FsGrant>},
      {"max_file", size_field<&FsGrant::max_file_bytes, FsGrant>},
      {"max_total", size_field<&FsGrant::max_total_bytes, FsGrant>},
      {"max_files", count_field<&FsGrant::max_files, FsGrant>},
      {"private", private_field<FsGrant>},
      {"untrusted", untrusted_field<FsGrant>},
  };
  MEMBRANE_ASSIGN(const Seen seen, read_table(grant, node, where, kFields));
  if (grant.mode == FsMode::kRead)
    return refuse_beside(seen, where, {"max_total", "max_files"},
                         "bounds what is written, but the mode is \"read\".");
  return {};
}

Status read_kv(Policy& policy, const Node& node, const Where& where) {
  static constexpr Field<KvGrant> kFields[] = {
      {"path", string_field<&KvGrant::path, KvGrant>},
      {"writable", bool_field<&KvGrant::writable, KvGrant>},
      {"prefix", string_field<&KvGrant::prefix, KvGrant>},
      {"max_keys", count_field<&KvGrant::max_keys, KvGrant>},
      {"max_key", size_field<&KvGrant::max_key_bytes, KvGrant>},
      {"max_value", size_field<&KvGrant::max_value_bytes, KvGrant>},
      {"max_total", size_field<&KvGrant::max_total_bytes, KvGrant>},
      {"private", private_field<KvGrant>},
      {"untrusted", untrusted_field<KvGrant>},
  };
  MEMBRANE_ASSIGN(const Seen seen, read_table(policy.kv.emplace(), node, where, kFields));
  if (!policy.kv->writable)
    return refuse_beside(seen, where, {"max_keys", "max_key", "max_value", "max_total"},
                         "bounds what is written, but the store is not writable.");
  return {};
}

Status read_sql(SqlGrant& grant, const Node& node, const Where& where) {
  static constexpr Field<SqlGrant> kFields[] = {
      {"name", string_field<&SqlGrant::name, SqlGrant>, true},
      {"path", string_field<&SqlGrant::path, SqlGrant>, true},
      {"max_rows", count_field<&SqlGrant::max_rows, SqlGrant>},
      {"max_result", size_field<&SqlGrant::max_result_bytes, SqlGrant>},
      {"timeout", duration_field<&SqlGrant::timeout_ms, SqlGrant>},
      {"private", private_field<SqlGrant>},
      {"untrusted", untrusted_field<SqlGrant>},
  };
  MEMBRANE_TRY(read_table(grant, node, where, kFields));
  return {};
}

Status read_ai(Policy& policy, const Node& node, const Where& where) {
  static constexpr Field<AiGrant> kFields[] = {
      {"max_tokens_per_call", count_field<&AiGrant::max_tokens_per_call, AiGrant>},
      {"timeout", duration_field<&AiGrant::timeout_ms, AiGrant>},
      {"embed", bool_field<&AiGrant::embed, AiGrant>},
  };
  MEMBRANE_TRY(read_table(policy.ai.emplace(), node, where, kFields));
  return {};
}

Status read_packages(Policy& policy, const Node& node, const Where& where) {
  static constexpr Field<Packages> kFields[] = {
      {"python", strings_field<&Packages::python, Packages>},
      {"javascript", strings_field<&Packages::javascript, Packages>},
  };
  MEMBRANE_TRY(read_table(policy.packages, node, where, kFields));
  return {};
}

Status read_egress(Trifecta& rule, const Node& node, const Where& where) {
  std::string word;
  MEMBRANE_TRY(read(word, node, where));
  if (word != "close" && word != "ask")
    return refuse(where, "\"" + word + "\" is not a value of egress.",
                  "write \"close\", or \"ask\" (a person decides each request)");
  rule.egress = word == "ask" ? Egress::kAsk : Egress::kClose;
  return {};
}

Status read_trifecta(Policy& policy, const Node& node, const Where& where) {
  static constexpr Field<Trifecta> kFields[] = {
      {"egress", read_egress, true},
      {"input_private", bool_field<&Trifecta::input_is_private, Trifecta>},
      {"input_untrusted", bool_field<&Trifecta::input_is_untrusted, Trifecta>},
  };
  MEMBRANE_TRY(read_table(policy.trifecta.emplace(), node, where, kFields));
  return {};
}

Status read_start(TimeGrant& grant, const Node& node, const Where& where) {
  std::string text;
  MEMBRANE_TRY(read(text, node, where));
  auto parsed = parse_time_ms(text);
  if (!parsed) return refuse(where, std::move(parsed.error()));
  grant.start_ms = *parsed;
  return {};
}

Status read_time(Policy& policy, const Node& node, const Where& where) {
  static constexpr Field<TimeGrant> kFields[] = {
      {"real", bool_field<&TimeGrant::real, TimeGrant>},
      {"start", read_start},
  };
  MEMBRANE_ASSIGN(const Seen seen, read_table(policy.time, node, where, kFields));
  if (policy.time.real)
    return refuse_beside(seen, where, {"start"}, "sets the virtual clock, but the real one is granted.");
  return {};
}

Status read_random(Policy& policy, const Node& node, const Where& where) {
  static constexpr Field<RandomGrant> kFields[] = {
      {"real", bool_field<&RandomGrant::real, RandomGrant>},
      {"seed", count_field<&RandomGrant::seed, RandomGrant>},
  };
  MEMBRANE_ASSIGN(const Seen seen, read_table(policy.random, node, where, kFields));
  if (policy.random.real)
    return refuse_beside(seen, where, {"seed"}, "seeds random numbers, but real ones are granted.");
  return {};
}

template <auto Member, auto Read>
Status list_field(Policy& policy, const Node& node, const Where& where) {
  const auto* array = std::get_if<Array>(&node.value);
  if (array == nullptr) {
    const std::string brackets = "[[" + where.path + "]]";
    return refuse(where, "is a list of grants, found " + std::string(type_of(node)) + ".",
                  "write " + brackets + " above each grant; in JSON, an array of objects");
  }
  for (size_t i = 0; i < array->size(); ++i)
    MEMBRANE_TRY(Read((policy.*Member).emplace_back(), (*array)[i], where.item(i, (*array)[i].line)));
  return {};
}

constexpr Field<Policy> kPolicy[] = {
    {"limits", read_limits},
    {"http", list_field<&Policy::http, read_http>},
    {"fs", list_field<&Policy::fs, read_fs>},
    {"kv", read_kv},
    {"sql", list_field<&Policy::sql, read_sql>},
    {"ai", read_ai},
    {"time", read_time},
    {"random", read_random},
    {"ask", bool_field<&Policy::ask, Policy>},
    {"packages", read_packages},
    {"trifecta", read_trifecta},
    {"platform", string_field<&Policy::platform, Policy>},
};

Result<Policy> read_policy(std::string_view text, bool json, const Limits& unless_given) {
  MEMBRANE_ASSIGN(const Node root, json ? parse_json(text) : parse_toml(text));
  Policy policy;
  policy.limits = unless_given;
  MEMBRANE_TRY(read_table(policy, root, Where{}, kPolicy));
  if (auto valid = validate(policy); !valid) {
    valid.error().code = ErrorCode::kInvalidInput;
    return std::unexpected(std::move(valid.error()));
  }
  return policy;
}

// A program given in place of a policy.
bool is_program(std::string_view text, std::string_view path) {
  if (path.ends_with(".wat") || path.ends_with(".wasm")) return true;
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return false;
  return text.substr(begin).starts_with('(') || text.substr(begin).starts_with(";;") ||
         text.starts_with(std::string_view("\0asm", 4));
}

}  // namespace

Limits language_limits() {
  Limits limits;
  limits.fuel = 100'000'000'000;
  limits.memory_bytes = 512ull << 20;
  limits.stack_bytes = 64ull << 20;
  limits.call_depth =
      1'000'000;  // CPython frees an object nested a hundred thousand deep by as many nested calls
  limits.wall_ms = 30'000;
  limits.host_calls = 10'000;
  limits.bytes_in = 1ull << 30;
  limits.bytes_out = 256ull << 20;
  return limits;
}

Result<Policy> parse_policy(std::string_view text, std::string_view name, const Limits& unless_given) {
  auto policy = read_policy(text, name.ends_with(".json"), unless_given);
  if (!policy) policy.error().message.insert(0, std::string(name) + ": ");
  return policy;
}

Result<Policy> load_policy(const std::string& path, const Limits& unless_given) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return fail(ErrorCode::kInvalidInput, "The policy " + path + " is a directory.",
                "name a file in it, such as " + path + (path.ends_with('/') ? "" : "/") + "policy.toml");
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kNotFound, "The policy " + path + " cannot be opened.", "check the path");
  // One byte more than the limit, so that parse_policy notices when it is exceeded.
  std::string text(kMaxDocumentBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return fail(ErrorCode::kUnavailable, "The policy " + path + " cannot be read.");
  text.resize(static_cast<size_t>(file.gcount()));
  if (is_program(text, path))
    return fail(ErrorCode::kInvalidInput, "The policy " + path + " is a program, not a policy.",
                "a policy is TOML or JSON (docs/policy.md); a program is run by: membrane run " + path);
  return parse_policy(text, path, unless_given);
}

Status set_limit(Limits& limits, std::string_view name, std::string_view value, std::string where) {
  const LimitRow* row = find_limit(name);
  if (row == nullptr)
    return fail(ErrorCode::kInvalidArgument, "There is no limit \"" + std::string(name) + "\".",
                suggest(name, limit_names()));
  if (where.empty()) where = name;
  auto parsed = parse_quantity(row->kind, value);
  if (!parsed) {
    parsed.error().message.insert(0, where + ": ");
    return std::unexpected(std::move(parsed.error()));
  }
  Limits changed = limits;
  changed.*(row->member) = *parsed;
  MEMBRANE_TRY(validate_limit(changed, name, where, value));
  limits = changed;
  return {};
}

}  // namespace membrane::policy
