#include "policy/restrict.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "policy/trifecta.h"
#include "policy/url_grant.h"

namespace membrane::policy {
namespace {

namespace stdfs = std::filesystem;

template <typename T>
void lower(T& amount, const T& ceiling) {
  amount = std::min(amount, ceiling);
}

void lower(Limits& limits, const Limits& ceiling) {
#define LIMIT(member, name, kind, least, most, words) lower(limits.member, ceiling.member);
#include "policy/limits.def"
#undef LIMIT
}

// Patterns end in "*" or are whole URLs; a host with "*." is covered only by the same host text, or by its paths.
bool url_covers(std::string_view wide, std::string_view narrow) {
  if (wide == narrow) return true;
  if (!wide.ends_with('*')) return false;
  wide.remove_suffix(1);
  const size_t authority = wide.find("://");
  const bool has_path =
      authority != std::string_view::npos && wide.find('/', authority + 3) != std::string_view::npos;
  return has_path && narrow.starts_with(wide);
}

// Whether a URL can match both patterns.
bool may_overlap(const UrlGrant& one, const UrlGrant& other) {
  const Url &first = one.url(), &second = other.url();
  if (first.scheme != second.scheme || first.port != second.port) return false;
  const bool same_host = first.host == second.host && one.any_subdomain() == other.any_subdomain();
  const bool one_below = other.any_subdomain() && other.allows_host(first);
  const bool other_below = one.any_subdomain() && one.allows_host(second);
  if (!same_host && !one_below && !other_below) return false;
  const auto goes_on = [](const UrlGrant& grant) { return grant.prefix() && !grant.url().query; };
  return first.path == second.path || (goes_on(one) && second.path.starts_with(first.path)) ||
         (goes_on(other) && first.path.starts_with(second.path));
}

// The mark holds if either sets it; it is cleared only if both clear it.
void strictest(std::optional<bool>& mark, std::optional<bool> ceiling) {
  if (mark == true || ceiling == true) mark = true;
  else if (mark != ceiling) mark = std::nullopt;
}
void strictest(Marks& marks, const Marks& ceiling) {
  strictest(marks.is_private, ceiling.is_private);
  strictest(marks.is_untrusted, ceiling.is_untrusted);
}

std::optional<HttpGrant> covered(const HttpGrant& given, const HttpGrant& ceiling) {
  if (!url_covers(ceiling.url, given.url) || given.headers != ceiling.headers) return std::nullopt;
  HttpGrant grant = given;
  std::erase_if(grant.methods, [&](const std::string& method) {
    return std::ranges::find(ceiling.methods, method) == ceiling.methods.end();
  });
  std::erase_if(grant.addresses, [&](const std::string& address) {
    return std::ranges::find(ceiling.addresses, address) == ceiling.addresses.end();
  });
  if (grant.methods.empty()) return std::nullopt;
  lower(grant.max_request_bytes, ceiling.max_request_bytes);
  lower(grant.max_response_bytes, ceiling.max_response_bytes);
  lower(grant.timeout_ms, ceiling.timeout_ms);
  lower(grant.max_redirects, ceiling.max_redirects);
  strictest(grant.marks, ceiling.marks);
  grant.traceparent = grant.traceparent && ceiling.traceparent;
  return grant;
}

bool path_covers(const std::string& wide, const std::string& narrow) {
  std::error_code error;
  const stdfs::path from = stdfs::weakly_canonical(stdfs::absolute(wide, error), error);
  if (error) return false;
  const stdfs::path to = stdfs::weakly_canonical(stdfs::absolute(narrow, error), error);
  if (error) return false;
  const auto [at, rest] = std::mismatch(from.begin(), from.end(), to.begin(), to.end());
  return at == from.end();
}

std::optional<FsGrant> covered(const FsGrant& given, const FsGrant& ceiling) {
  if (!path_covers(ceiling.host, given.host)) return std::nullopt;
  FsGrant grant = given;
  if (ceiling.mode == FsMode::kRead) grant.mode = FsMode::kRead;
  grant.links = given.links && ceiling.links;
  lower(grant.max_file_bytes, ceiling.max_file_bytes);
  lower(grant.max_total_bytes, ceiling.max_total_bytes);
  lower(grant.max_files, ceiling.max_files);
  strictest(grant.marks, ceiling.marks);
  return grant;
}

std::optional<SqlGrant> covered(const SqlGrant& given, const SqlGrant& ceiling) {
  if (given.name != ceiling.name || !path_covers(ceiling.path, given.path) ||
      !path_covers(given.path, ceiling.path))
    return std::nullopt;
  SqlGrant grant = given;
  lower(grant.max_rows, ceiling.max_rows);
  lower(grant.max_result_bytes, ceiling.max_result_bytes);
  lower(grant.timeout_ms, ceiling.timeout_ms);
  strictest(grant.marks, ceiling.marks);
  return grant;
}

std::optional<KvGrant> covered(const KvGrant& given, const KvGrant& ceiling) {
  if (given.path.empty() != ceiling.path.empty() || !given.prefix.starts_with(ceiling.prefix))
    return std::nullopt;
  if (!given.path.empty() &&
      !(path_covers(ceiling.path, given.path) && path_covers(given.path, ceiling.path)))
    return std::nullopt;
  KvGrant grant = given;
  grant.writable = given.writable && ceiling.writable;
  lower(grant.max_keys, ceiling.max_keys);
  lower(grant.max_key_bytes, ceiling.max_key_bytes);
  lower(grant.max_value_bytes, ceiling.max_value_bytes);
  lower(grant.max_total_bytes, ceiling.max_total_bytes);
  strictest(grant.marks, ceiling.marks);
  return grant;
}

std::optional<AiGrant> covered(const AiGrant& given, const AiGrant& ceiling) {
  AiGrant grant = given;
  lower(grant.max_tokens_per_call, ceiling.max_tokens_per_call);
  lower(grant.timeout_ms, ceiling.timeout_ms);
  grant.embed = given.embed && ceiling.embed;
  return grant;
}

std::string name_of(const HttpGrant& grant) {
  std::string methods;
  for (const std::string& method : grant.methods) methods += (methods.empty() ? "" : ",") + method;
  return "http " + methods + " " + grant.url;
}
std::string name_of(const FsGrant& grant) {
  return std::string(grant.mode == FsMode::kWrite ? "fs write" : "fs read") +
         (grant.links ? ",links " : " ") + grant.host + " as " + grant.guest;
}
std::string name_of(const SqlGrant& grant) { return "sql " + grant.name + " of " + grant.path; }
std::string name_of(const KvGrant& grant) { return "kv" + (grant.path.empty() ? "" : " in " + grant.path); }
std::string name_of(const AiGrant&) { return "ai"; }

class Restriction {
  using MethodAndUrl = std::pair<std::string, std::string>;
  struct Ruled {
    const HttpGrant* grant;
    UrlGrant url;
    [[nodiscard]] bool has(const std::string& method) const {
      return std::ranges::find(grant->methods, method) != grant->methods.end();
    }
  };

 public:
  Restriction(const Policy& given, const Policy& ceiling) : given_(given), ceiling_(ceiling) {}

  Restricted run() {
    Policy& policy = result_.policy;
    policy = given_;
    lower(policy.limits, ceiling_.limits);
    policy.http = list(given_.http, ceiling_.http);
    policy.fs = list(given_.fs, ceiling_.fs);
    policy.sql = list(given_.sql, ceiling_.sql);
    policy.kv = only(given_.kv, ceiling_.kv);
    policy.ai = only(given_.ai, ceiling_.ai);
    clocks(policy);
    policy.packages.python = packages(given_.packages.python, ceiling_.packages.python);
    policy.packages.javascript = packages(given_.packages.javascript, ceiling_.packages.javascript);
    flag("ask", given_.ask, ceiling_.ask);
    policy.ask = given_.ask && ceiling_.ask;
    platform(policy);
    rule(policy);
    if (ceiling_.trifecta) keep_marks(policy);
    return std::move(result_);
  }

 private:
  void too_much(const std::string& name) {
    result_.differences.push_back(name + " was not granted when the run was recorded: it is not granted now");
  }
  void missing(const std::string& name) {
    result_.differences.push_back(name + " was granted when the run was recorded, and is not now");
  }
  void flag(const std::string& name, bool given, bool ceiling) {
    if (given && !ceiling) too_much(name);
    if (ceiling && !given) missing(name);
  }

  template <typename Grant>
  std::vector<Grant> list(const std::vector<Grant>& given, const std::vector<Grant>& ceiling) {
    std::vector<Grant> kept;
    std::vector<bool> used(ceiling.size());
    for (const Grant& grant : given) {
      // Prefers a covering grant that leaves it unchanged, else the first.
      std::optional<Grant> fit;
      for (size_t i = 0; i < ceiling.size(); ++i) {
        auto made = covered(grant, ceiling[i]);
        if (!made || (fit && *made != grant)) continue;
        fit = std::move(made);
        used[i] = true;
      }
      if (!fit) {
        too_much(name_of(grant));
        continue;
      }
      if (name_of(*fit) != name_of(grant)) too_much(name_of(grant) + " beyond " + name_of(*fit));
      kept.push_back(std::move(*fit));
    }
    for (size_t i = 0; i < ceiling.size(); ++i)
      if (!used[i]) missing(name_of(ceiling[i]));
    return kept;
  }

  template <typename Grant>
  std::optional<Grant> only(const std::optional<Grant>& given, const std::optional<Grant>& ceiling) {
    const auto all = [](const std::optional<Grant>& grant) {
      return grant ? std::vector<Grant>{*grant} : std::vector<Grant>{};
    };
    std::vector<Grant> kept = list(all(given), all(ceiling));
    return kept.empty() ? std::nullopt : std::optional<Grant>(std::move(kept.front()));
  }

  // Packages listed in both, as they are written.
  std::vector<std::string> packages(const std::vector<std::string>& given,
                                    const std::vector<std::string>& ceiling) {
    std::vector<std::string> kept;
    for (const std::string& name : given)
      if (std::ranges::find(ceiling, name) != ceiling.end()) kept.push_back(name);
      else too_much("the package " + name);
    for (const std::string& name : ceiling)
      if (std::ranges::find(given, name) == given.end()) missing("the package " + name);
    return kept;
  }

  // Virtual clocks are not a grant: the recorded programs saw what the recording's clock started with.
  void clocks(Policy& policy) {
    flag("the real clock", given_.time.real, ceiling_.time.real);
    flag("real randomness", given_.random.real, ceiling_.random.real);
    if (!ceiling_.time.real) policy.time = ceiling_.time;
    if (!ceiling_.random.real) policy.random = ceiling_.random;
  }

  // A platform required by either holds. Two different ones cannot both hold, and the recorded sandbox was promised
  // the ceiling's.
  void platform(Policy& policy) {
    if (ceiling_.platform.empty() || given_.platform == ceiling_.platform) return;
    policy.platform = ceiling_.platform;
    result_.differences.push_back("the platform " + ceiling_.platform +
                                  " was required when the run was recorded: it is required now, too");
  }

  // The stricter of the two: a rule of either holds, and "close" takes precedence over "ask".
  void rule(Policy& policy) {
    policy.trifecta = given_.trifecta ? given_.trifecta : ceiling_.trifecta;
    if (policy.trifecta && ceiling_.trifecta) {
      Trifecta& made = *policy.trifecta;
      if (ceiling_.trifecta->egress == Egress::kClose) made.egress = Egress::kClose;
      made.input_is_private = made.input_is_private || ceiling_.trifecta->input_is_private;
      made.input_is_untrusted = made.input_is_untrusted || ceiling_.trifecta->input_is_untrusted;
    }
    const auto differs = [&](const std::string& how) { result_.differences.push_back(how); };
    if (ceiling_.trifecta && !given_.trifecta)
      differs("the trifecta rule held when the run was recorded: it holds now, too");
    else if (ceiling_.trifecta && policy.trifecta != given_.trifecta)
      differs("the trifecta rule was stricter when the run was recorded: it is now, too");
    else if (given_.trifecta && !ceiling_.trifecta)
      differs("the trifecta rule holds now, and did not when the run was recorded");
  }

  // Under the ceiling, data read by a grant also had the marks of other grants: one for a parent directory, one for
  // the same place, one that applied to a part of its URLs. Where such a grant is gone, its marks remain.
  void keep_marks(Policy& policy) {
    for (const HttpGrant& grant : ceiling_.http)
      if (auto url = UrlGrant::parse(grant.url)) ruled_.push_back({&grant, *std::move(url)});
    for (FsGrant& grant : policy.fs) keep_mark(policy, grant, marks_of(ceiling_, grant));
    for (SqlGrant& grant : policy.sql) keep_mark(policy, grant, marks_of(ceiling_, grant));
    if (policy.kv && ceiling_.kv) keep_mark(policy, *policy.kv, marks_of(ceiling_, *policy.kv));
    std::set<MethodAndUrl> now;
    for (const HttpGrant& grant : policy.http)
      for (const std::string& method : grant.methods) now.emplace(method, grant.url);
    for (HttpGrant& grant : policy.http) keep_mark(policy, grant, marks_under_ceiling(grant, now));
  }
  template <typename Grant>
  static void keep_mark(const Policy& policy, Grant& grant, ReadMarks before) {
    const ReadMarks now = marks_of(policy, grant);
    if (before.is_private && !now.is_private) grant.marks.is_private = true;
    if (before.is_untrusted && !now.is_untrusted) grant.marks.is_untrusted = true;
  }

  // The marks of requests that `grant` decides now, and another grant decided under the ceiling. `now` is the
  // policy's grants by method and URL.
  [[nodiscard]] ReadMarks marks_under_ceiling(const HttpGrant& grant,
                                              const std::set<MethodAndUrl>& now) const {
    ReadMarks marks;
    const auto url = UrlGrant::parse(grant.url);
    for (const std::string& method : grant.methods) {
      // It decided all requests that less exact grants would have decided.
      const Ruled* best = nullptr;
      for (const Ruled& ruled : ruled_)
        if (ruled.has(method) && url_covers(ruled.grant->url, grant.url) &&
            (best == nullptr || ruled.url.more_exact_than(best->url)))
          best = &ruled;
      for (const Ruled& ruled : ruled_) {
        const bool rules_still = ruled.grant->url != grant.url && now.contains({method, ruled.grant->url});
        const bool ruled_none = best != nullptr && best->url.more_exact_than(ruled.url);
        if (!ruled.has(method) || rules_still || ruled_none || !url || !may_overlap(*url, ruled.url))
          continue;
        marks = marks | marks_of(ceiling_, *ruled.grant);
      }
    }
    return marks;
  }

  const Policy& given_;
  const Policy& ceiling_;
  std::vector<Ruled> ruled_;  // the ceiling's
  Restricted result_;
};

}  // namespace

Restricted restrict(const Policy& given, const Policy& ceiling) { return Restriction(given, ceiling).run(); }

}  // namespace membrane::policy
