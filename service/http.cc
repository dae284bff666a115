#include "service/http.h"

#include <algorithm>
#include <atomic>

#include "base/text.h"
#include "base/utf8.h"
#include "service/errors.h"

namespace membrane::service {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Nothing when `text` is invalid percent-encoding, or contains what no name should.
std::optional<std::string> decoded(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '+' && plus_is_space) c = ' ';
    if (c == '%') {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high << 4 | low);
      i += 2;
    }
    if (c == '\0') return std::nullopt;
    out += c;
  }
  if (!is_utf8(out)) return std::nullopt;
  return out;
}

bool read_path(std::string_view path, RequestHead& head) {
  if (!path.starts_with('/')) return false;
  path.remove_prefix(1);
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    auto segment = decoded(path.substr(0, end), false);
    if (!segment || head.segments.size() == kMostSegments) return false;
    head.segments.push_back(*std::move(segment));
    path.remove_prefix(end);
    if (path == "/") head.segments.emplace_back();  // "/a/" is not "/a"
    if (!path.empty()) path.remove_prefix(1);
  }
  return true;
}

bool read_query(std::string_view query, RequestHead& head) {
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view part = query.substr(0, end);
    const size_t equals = std::min(part.find('='), part.size());
    query.remove_prefix(std::min(end + 1, query.size()));
    if (part.empty()) continue;
    auto name = decoded(part.substr(0, equals), true);
    auto value = decoded(part.substr(std::min(equals + 1, part.size())), true);
    if (!name || !value || head.query.size() == kMostQuery) return false;
    head.query.emplace_back(*std::move(name), *std::move(value));
  }
  return true;
}

}  // namespace

std::optional<std::string_view> Headers::find(std::string_view name) const {
  const auto is_it = [wanted = lower_case(name)](const auto& field) {
    return field.first.size() == wanted.size() && lower_case(field.first) == wanted;
  };
  const auto found = std::ranges::find_if(fields_, is_it);
  if (found == fields_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string_view> RequestHead::query_value(std::string_view name) const {
  const auto found =
      std::ranges::find(query, name, [](const auto& pair) { return std::string_view(pair.first); });
  if (found == query.end()) return std::nullopt;
  return found->second;
}

void Presence::when_gone(std::function<void()> then) {
  const std::lock_guard lock(mutex_);
  then_ = std::move(then);
}

bool Presence::is_asked() const {
  const std::lock_guard lock(mutex_);
  return then_ != nullptr;
}

void Presence::leave() {
  std::function<void()> then;
  {
    const std::lock_guard lock(mutex_);
    then.swap(then_);
    has_left_ = true;
  }
  if (then) then();
}

bool Presence::has_left() const {
  const std::lock_guard lock(mutex_);
  return has_left_;
}

Response json_response(int status, std::string json) {
  return {.status = status, .headers = {{"Content-Type", "application/json"}}, .body = std::move(json)};
}

struct Reply::Once {
  std::function<void(Response)> send;
  std::atomic<bool> sent = false;

  ~Once() {
    if (!sent)
      send(error_response({.code = ApiCode::kInternal,
                           .message = "the service gave no answer",
                           .hint = "Report this with the request's id."},
                          ""));
  }
};

Reply::Reply(std::function<void(Response)> send) : once_(std::make_shared<Once>()) {
  once_->send = std::move(send);
}

void Reply::operator()(Response response) const {
  if (!once_->sent.exchange(true)) once_->send(std::move(response));
}

bool read_target(RequestHead& head) {
  const std::string_view target = head.target;
  if (target.find('#') != std::string_view::npos) return false;
  const size_t question = std::min(target.find('?'), target.size());
  return read_path(target.substr(0, question), head) &&
         read_query(target.substr(std::min(question + 1, target.size())), head);
}

bool is_request_id(std::string_view text) {
  constexpr size_t kMost = 128;
  constexpr std::string_view kOthers = "._-:@/+=";
  return !text.empty() && text.size() <= kMost && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || kOthers.contains(c);
  });
}

}  // namespace membrane::service
