#include "computers/url_fetch.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/sha256.h"
#include "base/write_at.h"
#include "host/egress/resolver.h"
#include "host/limits/deadline.h"
#include "policy/budget.h"
#include "policy/credentials.h"
#include "policy/url.h"

namespace membrane::computers {
namespace {

using host::Errno;

constexpr int kMostRedirects = 10;
constexpr int kWhole =
    200;  // a part (206), or the answer of another's memory (203), is not what was asked for
constexpr uint64_t kMostHeldBytes = 256u << 20;  // of an answer in which a secret is looked for

std::string without_stop(std::string text) {
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t byte = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      plain += static_cast<char>(byte);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

class Fetching {
 public:
  Fetching(const UrlFetch& fetch, int file, Sha256 digest)
      : fetch_(fetch), file_(file), digest_(std::move(digest)), budget_(fetch.limits), run_(budget_) {}

  Result<FetchedUrl> run() {
    std::vector<policy::HttpGrant> grants = fetch_.grants;
    for (policy::HttpGrant& each : grants) each.max_redirects = 0;  // its body is taken in pieces then
    MEMBRANE_ASSIGN(const auto egress,
                    host::HttpEgress::create(grants, budget_, run_,
                                             fetch_.resolver != nullptr ? *fetch_.resolver : system_resolver_,
                                             fetch_.secrets ? fetch_.secrets : host::environment_secrets()));
    std::string url = fetch_.url;
    for (int hops = 0; hops <= kMostRedirects; ++hops) {
      MEMBRANE_ASSIGN(const host::HttpResponse answer, get(*egress, url));
      if (answer.status / 100 == 3) {
        MEMBRANE_ASSIGN(url, target_of(url, answer));
        continue;
      }
      if (answer.status != kWhole)
        return fail(ErrorCode::kUnavailable,
                    url + ": the server answered with status " + std::to_string(answer.status));
      MEMBRANE_ASSIGN(made_.digest, digest_.finish());
      return std::move(made_);
    }
    return fail(ErrorCode::kUnavailable,
                fetch_.url + " is redirected more than " + std::to_string(kMostRedirects) + " times");
  }

 private:
  Result<host::HttpResponse> get(host::HttpEgress& egress, const std::string& url) {
    sandbox::HostCallRecord record;
    record.name = "http.request";
    record.arguments = "GET, " + policy::without_credentials(url);
    record.decided_by = {"GET", url};
    host::HttpRequest request = {.method = "GET", .url = url, .headers = {}, .body = {}};
    request.take_piece = [&](const host::HttpResponse& head, std::string_view piece) {
      record.bytes_in += piece.size();
      return head.status != kWhole || take(piece);
    };
    if (!budget_.take(policy::Resource::kHostCalls, 1))
      return fail(ErrorCode::kExhausted, std::string(policy::used_up(policy::Resource::kHostCalls)));
    auto answer = egress.send(request, std::min(fetch_.limits.memory_bytes, kMostHeldBytes));
    if (answer) {
      record.bytes_in += answer->body.size();
      if (answer->status == kWhole && !answer->body.empty() && !take(answer->body)) answer->body.clear();
    }
    made_.calls.push_back(std::move(record));
    if (error_) return std::unexpected(*error_);
    if (!answer) return refused(url, answer.error());
    return *std::move(answer);
  }

  bool take(std::string_view piece) {
    if (fetch_.is_cancelled && fetch_.is_cancelled())
      error_ = Error{ErrorCode::kCancelled, "the build was cancelled", ""};
    else if (piece.size() > fetch_.most_bytes - made_.bytes)
      error_ = Error{ErrorCode::kExhausted, fetch_.url + " is larger than the disk of the build", ""};
    else write(piece);
    return !error_;
  }

  void write(std::string_view piece) {
    digest_.add(piece);
    if (write_at(file_, made_.bytes, {reinterpret_cast<const uint8_t*>(piece.data()), piece.size()}))
      made_.bytes += piece.size();
    else
      error_ = Error{ErrorCode::kUnavailable,
                     std::string("what a server sent cannot be written: ") + std::strerror(errno), ""};
  }

  static Result<std::string> target_of(const std::string& from, const host::HttpResponse& answer) {
    const auto location =
        std::ranges::find(answer.headers, "location", [](const auto& header) { return header.first; });
    if (location == answer.headers.end())
      return fail(ErrorCode::kUnavailable, from + ": the server answered with status " +
                                               std::to_string(answer.status) + " and no location");
    MEMBRANE_ASSIGN(const policy::Url base, policy::parse_url(from));
    MEMBRANE_ASSIGN(const policy::Url target, policy::parse_url(location->second, base));
    return target.text();
  }

  [[nodiscard]] std::unexpected<Error> refused(const std::string& url, const host::HostError& error) const {
    const ErrorCode code = error.code == Errno::kAccess ? ErrorCode::kDenied
                           : error.code == Errno::kBudget || error.code == Errno::kTooBig
                               ? ErrorCode::kExhausted
                               : ErrorCode::kUnavailable;
    std::string hint = error.grant.empty() ? "" : "To allow it: " + error.grant;
    if (code == ErrorCode::kExhausted) hint = "Raise the limit, in the policy or as a flag.";
    const std::string where = error.reason.contains(url) ? "" : url + ": ";
    return fail(code, where + without_stop(error.reason), std::move(hint));
  }

  const UrlFetch& fetch_;
  const int file_;
  Sha256 digest_;
  policy::Budget budget_;
  const host::Deadline run_;
  host::SystemResolver system_resolver_;
  FetchedUrl made_;
  std::optional<Error> error_;
};

}  // namespace

bool is_url(std::string_view source) {
  return source.starts_with("http://") || source.starts_with("https://");
}

Result<std::string> file_name_of(const std::string& url) {
  MEMBRANE_ASSIGN(const policy::Url parsed, policy::parse_url(url));
  std::string name = unescaped(parsed.path.substr(parsed.path.rfind('/') + 1));
  if (!name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
      name.find('\0') == name.npos)
    return name;
  return fail(ErrorCode::kInvalidInput, "the path of " + url + " does not end with a file name",
              "Name the file: ADD " + url + " /directory/name.");
}

Result<std::vector<UrlSource>> take_url_sources(std::vector<std::string>& sources, const std::string& to,
                                                const std::optional<std::string>& checksum) {
  constexpr std::string_view kAlgorithm = "sha256:";
  std::vector<UrlSource> urls;
  for (const std::string& each : sources) {
    if (each.starts_with("git@") || each.starts_with("git://") || (is_url(each) && each.ends_with(".git")))
      return fail(ErrorCode::kUnsupported, "\"" + each + "\" is a git repository, which ADD does not clone",
                  "Use RUN git clone, with its host granted.");
    if (!is_url(each)) continue;
    auto name = file_name_of(each);
    if (!name && to.ends_with('/')) return std::unexpected(name.error());
    urls.push_back({.url = each, .name = std::move(name).value_or("")});
  }
  if (!checksum) {
    std::erase_if(sources, is_url);
    return urls;
  }
  if (urls.size() != 1 || sources.size() != 1)
    return fail(ErrorCode::kInvalidInput, "--checksum applies to a single URL", "Write an ADD for each.");
  if (!checksum->starts_with(kAlgorithm) || !is_sha256_hex(checksum->substr(kAlgorithm.size())))
    return fail(ErrorCode::kInvalidInput, "\"" + *checksum + "\" is not a checksum",
                "Write sha256: followed by 64 lower-case hex digits.");
  urls.front().digest = checksum->substr(kAlgorithm.size());
  urls.front().is_pinned = true;
  sources.clear();
  return urls;
}

Status put_fetched(linux::LiveComputer& computer, int file, const std::string& name, const FileCopy& copy) {
  constexpr size_t kPieceBytes = 1u << 20;
  const auto there = computer.stat(copy.to, true);
  const bool is_directory = copy.to.ends_with('/') || (there && S_ISDIR(there->mode));
  const std::string to = !is_directory ? copy.to : copy.to + (copy.to.ends_with('/') ? "" : "/") + name;
  if (is_directory && name.empty())
    return fail(ErrorCode::kInvalidInput,
                copy.to + " is a directory, and the URL does not end with a file name",
                "Name the file: " + to + "name.");
  uint64_t offset = 0;
  const auto next = [&]() -> Result<std::string> {
    if (copy.is_cancelled && copy.is_cancelled())
      return fail(ErrorCode::kCancelled, "the build was cancelled");
    std::string piece(kPieceBytes, '\0');
    const ssize_t got = pread(file, piece.data(), piece.size(), static_cast<off_t>(offset));
    if (got < 0) return fail(ErrorCode::kUnavailable, "the fetched file cannot be read");
    piece.resize(static_cast<size_t>(got));
    offset += piece.size();
    return piece;
  };
  return put_pieces(computer, to, next, copy.mode.value_or(0600), copy.owner);
}

Result<FetchedUrl> fetch_url(const UrlFetch& fetch, int file) {
  MEMBRANE_ASSIGN(Sha256 digest, Sha256::begin());
  return Fetching(fetch, file, std::move(digest)).run();
}

}  // namespace membrane::computers
