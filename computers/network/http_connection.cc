#include "computers/network/http_connection.h"

#include <algorithm>
#include <array>
#include <boost/beast/http.hpp>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/text.h"
#include "policy/http_names.h"

namespace membrane::computers {
namespace {

namespace http = boost::beast::http;
using host::Errno;
using host::HostError;
using host::HttpRequest;
using host::HttpResponse;

constexpr uint32_t kMostHeadBytes = 64u << 10;
constexpr size_t kMostUnreadBytes = 128u << 10;  // a piece that the parser needs whole, such as a line
constexpr size_t kPieceBytes = 16u << 10;

// The reason for which a request is not forwarded.
struct Refusal {
  int status = 400;
  std::string reason;
};

// The bytes of bodies that are held, of all connections together.
class Room {
 public:
  explicit Room(std::atomic<uint64_t>* left) : left_(left) {}
  ~Room() {
    if (left_ != nullptr) *left_ += taken_;
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  bool grow_to(uint64_t bytes) { return bytes <= taken_ || add(bytes - taken_); }
  bool add(uint64_t bytes) {
    if (left_ == nullptr) return true;
    uint64_t left = left_->load();
    while (left >= bytes) {
      if (!left_->compare_exchange_weak(left, left - bytes)) continue;
      taken_ += bytes;
      return true;
    }
    return false;
  }

 private:
  std::atomic<uint64_t>* left_;
  uint64_t taken_ = 0;
};

int status_of(const HostError& error) {
  switch (error.code) {
    case Errno::kAccess: return 403;
    case Errno::kInvalid: return 400;
    case Errno::kTooBig: return error.acted ? 502 : 413;
    case Errno::kBudget:
    case Errno::kQuota: return 429;
    case Errno::kTimedOut: return 504;
    default: return 502;
  }
}

std::string reason_of(const HostError& error) {
  std::string text = "membrane: " + error.reason + "\n";
  if (!error.grant.empty()) text += "membrane: to allow it: " + error.grant + "\n";
  return text;
}

class HttpConnection {
 public:
  HttpConnection(Stream& stream, const Origin& origin, const HttpService& service)
      : stream_(stream), origin_(origin), service_(service) {}

  void run() {
    while (serve_one()) {}
    stream_.end();
  }

 private:
  using Parser = http::request_parser<http::string_body>;
  using Message = http::request<http::string_body>;

  bool serve_one();
  // Nothing at the stream's end.
  std::optional<std::expected<void, Refusal>> read_request(Parser& parser, Room& room);
  [[nodiscard]] std::expected<HttpRequest, Refusal> request_of(Message& message) const;
  bool answer(HttpRequest request);
  bool refuse(int status, std::string_view text, bool stays_open);
  bool write_head(const HttpResponse& head, std::optional<size_t> body_bytes);

  Stream& stream_;
  const Origin& origin_;
  const HttpService& service_;
  std::string unread_;
  bool is_head_ = false, is_old_ = false, stays_open_ = true;  // for the request being answered
  bool is_chunked_ = false;                                    // its answer
};

std::optional<std::expected<void, Refusal>> HttpConnection::read_request(Parser& parser, Room& room) {
  parser.header_limit(kMostHeadBytes);
  parser.body_limit(service_.most_body_bytes);
  parser.eager(true);
  bool has_begun = false, has_sent_continue = false;
  for (;;) {
    boost::system::error_code error;
    const size_t used = unread_.empty() ? 0 : parser.put(boost::asio::buffer(unread_), error);
    unread_.erase(0, used);
    has_begun = has_begun || used > 0 || !unread_.empty();
    if (error == http::error::need_more) error = {};
    if (error == http::error::body_limit)
      return std::unexpected(Refusal{413, "The request's body is larger than every grant's max_request."});
    if (error == http::error::header_limit || unread_.size() > kMostUnreadBytes)
      return std::unexpected(Refusal{431, "The request's head is too long."});
    if (error) return std::unexpected(Refusal{400, "The request is not HTTP/1.1: " + error.message() + "."});
    if (!room.grow_to(parser.get().body().size()))
      return std::unexpected(Refusal{503, "Too many bytes of requests are in flight."});
    if (parser.is_done()) return std::expected<void, Refusal>();
    if (parser.is_header_done() && !has_sent_continue && unread_.empty()) {
      has_sent_continue = true;
      if (boost::beast::iequals(parser.get()[http::field::expect], "100-continue") &&
          !stream_.write("HTTP/1.1 100 Continue\r\n\r\n"))
        return {};
    }
    std::array<char, kPieceBytes> piece;
    const size_t got = stream_.read(piece);
    if (got == 0) return {};
    unread_.append(piece.data(), got);
  }
}

// Headers of the connection, which is this one.
bool is_of_connection(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "host",    "connection", "content-length", "transfer-encoding", "keep-alive",     "te",
      "trailer", "upgrade",    "expect",         "accept-encoding",   "http2-settings", "proxy-connection"};
  return std::ranges::find(kNames, policy::folded_header(name)) != std::end(kNames);
}

std::set<std::string> named_by_connection(const auto& message) {
  std::set<std::string> names;
  const auto [first, last] = message.equal_range(http::field::connection);
  for (auto at = first; at != last; ++at)
    for (const auto& token : http::token_list(at->value()))
      names.insert(policy::folded_header(std::string_view(token)));
  return names;
}

std::expected<HttpRequest, Refusal> HttpConnection::request_of(Message& message) const {
  const std::string authority =
      origin_.host.find(':') == std::string::npos ? origin_.host : "[" + origin_.host + "]";
  const std::string with_port = authority + ":" + std::to_string(origin_.port);
  const bool is_usual = origin_.port == (origin_.scheme == "https" ? 443 : 80);
  const auto hosts = message.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && !is_old_)) return std::unexpected(Refusal{400, "A request has one Host."});
  const std::string host = lower_case(std::string_view(message[http::field::host]));
  if (hosts == 1 && host != with_port && (host != authority || !is_usual))
    return std::unexpected(
        Refusal{421, "The connection was made to " + with_port + ", and the request is for another host."});
  const std::string_view target = message.target();
  if (message.method() == http::verb::connect)
    return std::unexpected(Refusal{405, "There is no proxy here: connect to the host itself."});
  if (!target.starts_with('/')) return std::unexpected(Refusal{400, "The request's target is not a path."});
  HttpRequest request;
  request.method = message.method_string();
  request.url = origin_.scheme + "://" + (is_usual ? authority : with_port) + std::string(target);
  const std::set<std::string> dropped = named_by_connection(message);
  for (const auto& field : message) {
    const std::string_view name = field.name_string();
    if (is_of_connection(name) || dropped.contains(policy::folded_header(name))) continue;
    request.headers.emplace_back(name, field.value());
  }
  request.body = std::move(message.body());
  return request;
}

bool HttpConnection::serve_one() {
  Parser parser;
  Room room(service_.room);
  const auto read = read_request(parser, room);
  if (!read) return false;
  if (!*read) return refuse(read->error().status, "membrane: " + read->error().reason + "\n", false);
  Message& message = parser.get();
  is_old_ = message.version() < 11;
  is_head_ = message.method() == http::verb::head;
  stays_open_ = message.keep_alive();
  auto request = request_of(message);
  if (!request)
    return refuse(request.error().status, "membrane: " + request.error().reason + "\n", stays_open_);
  return answer(std::move(*request));
}

bool HttpConnection::answer(HttpRequest request) {
  bool has_begun = false, is_taken = true, has_room = true;
  is_chunked_ = false;
  Room room(service_.answer_room);
  const auto may_hold = [&](uint64_t bytes) { return has_room = room.add(bytes); };
  request.take_piece = [&](const HttpResponse& head, std::string_view piece) {
    if (piece.empty()) return true;
    if (!std::exchange(has_begun, true)) is_taken = write_head(head, std::nullopt);
    if (is_taken && is_chunked_) {
      std::array<char, 20> size;
      const int length = std::snprintf(size.data(), size.size(), "%zx\r\n", piece.size());
      is_taken = stream_.write({size.data(), static_cast<size_t>(length)}) && stream_.write(piece) &&
                 stream_.write("\r\n");
    } else if (is_taken) {
      is_taken = stream_.write(piece);
    }
    return is_taken;
  };
  const auto answer = service_.send(std::move(request), may_hold);
  if (has_begun) return answer && is_taken && (!is_chunked_ || stream_.write("0\r\n\r\n")) && stays_open_;
  if (!has_room) return refuse(503, "membrane: Too many bytes of answers wait for programs.\n", stays_open_);
  if (!answer) return refuse(status_of(answer.error()), reason_of(answer.error()), stays_open_);
  return write_head(*answer, answer->body.size()) && (is_head_ || stream_.write(answer->body)) && stays_open_;
}

// For a streamed answer, the length is the server's, if it sent one that is still true.
bool HttpConnection::write_head(const HttpResponse& head, std::optional<size_t> body_bytes) {
  const std::string_view phrase = http::obsolete_reason(static_cast<http::status>(head.status));
  const bool has_body = !is_head_ && head.status >= 200 && head.status != 204 && head.status != 304;
  std::string text = "HTTP/1.1 " + std::to_string(head.status) + " " + std::string(phrase) + "\r\n";
  bool has_length = false;
  for (const auto& [name, value] : head.headers) {
    const bool is_length = name == "content-length";
    if (is_length && (has_length || (has_body && body_bytes))) continue;
    has_length = has_length || is_length;
    text.append(name).append(": ").append(value).append("\r\n");
  }
  if (has_body && body_bytes) text += "content-length: " + std::to_string(*body_bytes) + "\r\n";
  is_chunked_ = has_body && !body_bytes && !has_length && !is_old_;
  if (is_chunked_) text += "transfer-encoding: chunked\r\n";
  if (has_body && !body_bytes && !has_length && is_old_) stays_open_ = false;
  if (!stays_open_) text += "connection: close\r\n";
  else if (is_old_) text += "connection: keep-alive\r\n";
  return stream_.write(text + "\r\n");
}

bool HttpConnection::refuse(int status, std::string_view text, bool stays_open) {
  stays_open_ = stays_open;
  const HttpResponse head = {.status = status,
                             .headers = {{"content-type", "text/plain; charset=utf-8"}},
                             .body = {},
                             .final_url = {}};
  return write_head(head, text.size()) && (is_head_ || stream_.write(text)) && stays_open_;
}

}  // namespace

void serve_http(Stream& stream, const Origin& origin, const HttpService& service) {
  HttpConnection(stream, origin, service).run();
}

}  // namespace membrane::computers
