// HTTP requests and responses as plain values, as handlers see them. For the server that reads and writes
// them see http_server.h.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace membrane::service {

// In the order of the message. Names are case-insensitive.
class Headers {
 public:
  Headers() = default;
  Headers(std::initializer_list<std::pair<std::string, std::string>> fields) : fields_(fields) {}

  // The first header of this name; nothing when there is none.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const;
  void add(std::string name, std::string value) { fields_.emplace_back(std::move(name), std::move(value)); }
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& all() const { return fields_; }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

// A request before its body is read.
struct RequestHead {
  std::string method;                                      // "GET", as written
  std::string target;                                      // as written: "/v1/sandboxes?limit=2"
  std::vector<std::string> segments;                       // of the path, decoded: {"v1", "sandboxes"}
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in the order of the target
  Headers headers;
  std::string peer;        // "127.0.0.1:40000"
  std::string request_id;  // the client's X-Request-Id, or a generated one
  std::string trace = {};  // the traceparent of the service's span for it; "": not traced

  [[nodiscard]] std::optional<std::string_view> query_value(std::string_view name) const;
};

// Whether the client of a request is still connected. A handler can ask to be notified.
//
// Threads: any.
class Presence {
 public:
  // Calls `then` soon after the client has closed its side of the connection, at most once, on a thread of
  // the server that must not wait. A streamed body ends then. Call it within HttpApplication::handle().
  // Without this call nothing is notified, and a client that has only closed its sending side still gets its
  // answer.
  void when_gone(std::function<void()> then);

  // -- for the server
  [[nodiscard]] bool is_asked() const;
  void leave();
  [[nodiscard]] bool has_left() const;

 private:
  mutable std::mutex mutex_;  // over what follows
  std::function<void()> then_;
  bool has_left_ = false;
};

struct Request : RequestHead {
  std::string body;
  std::shared_ptr<Presence> presence = {};  // null if there is no connection
};

// A streamed body, for as long as it takes. The connection asks for the next piece when the previous one was
// written, so a slow reader costs no more memory than the source itself keeps.
//
// Threads: one thread at a time calls next() and abandon(); any may call `wake`, even within next().
class BodySource {
 public:
  virtual ~BodySource() = default;

  struct Piece {
    std::string bytes;
    bool is_end = false;
  };
  // Returns the bytes so far, at most about `most_bytes`. If there are neither bytes nor the end, `wake` is
  // called once when that has changed. An earlier `wake` is discarded.
  virtual Piece next(size_t most_bytes, std::function<void()> wake) = 0;
  // Sent when nothing came for a while, so that a lost client is noticed; "" for nothing.
  [[nodiscard]] virtual std::string keep_alive() const { return {}; }
  // The client is gone; no further call follows.
  virtual void abandon() {}
};

struct Response {
  int status = 200;
  Headers headers = {};  // the server adds Content-Length, Connection, Date and X-Request-Id
  std::string body = {};
  std::shared_ptr<BodySource> source = {};  // if set, it is the body
};

// A JSON body with this status.
Response json_response(int status, std::string json);

// The destination of one request's answer. Copies refer to the same reply. The first answer counts; when the
// last copy is destroyed without one, the answer is an internal error, so no client waits in vain.
//
// Threads: any.
class Reply {
 public:
  explicit Reply(std::function<void(Response)> send);
  void operator()(Response response) const;

 private:
  struct Once;
  std::shared_ptr<Once> once_;
};

// The request handler. Both functions are called on a thread of the server that serves other connections too,
// so longer work goes to another thread.
class HttpApplication {
 public:
  virtual ~HttpApplication() = default;

  struct Admission {
    uint64_t most_body_bytes = 0;
    std::string tenant = {};               // the tenant that is charged for the body; "": nobody
    std::optional<Response> refusal = {};  // sent at once; the body is not read
  };
  virtual Admission admit(const RequestHead& head) = 0;
  virtual void handle(Request request, Reply reply) = 0;
};

// Splits and decodes a request's target. False for an invalid one: no leading "/", a "%" without two hex
// digits, NUL, a fragment, bytes that are not UTF-8, more than kMostSegments segments or kMostQuery names.
// Reads `head.target`.
inline constexpr size_t kMostSegments = 32, kMostQuery = 64;
bool read_target(RequestHead& head);

// A client's own id for its request: 1 to 128 of A-Z a-z 0-9 . _ - : @ / + =
bool is_request_id(std::string_view text);

}  // namespace membrane::service
