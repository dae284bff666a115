// Requests and responses of HTTP as plain values: what a handler sees and gives. The server that reads and writes them
// is http_server.h.
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

// In the order of the message. Names are compared without regard to case.
class Headers {
 public:
  Headers() = default;
  Headers(std::initializer_list<std::pair<std::string, std::string>> fields) : fields_(fields) {}

  // The first of this name; nothing when there is none.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const;
  void add(std::string name, std::string value) { fields_.emplace_back(std::move(name), std::move(value)); }
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& all() const { return fields_; }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

// A request before its body is read.
struct RequestHead {
  std::string method;                                      // "GET", as it was written
  std::string target;                                      // as it was written: "/v1/sandboxes?limit=2"
  std::vector<std::string> segments;                       // of the path, decoded: {"v1", "sandboxes"}
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in the order of the target
  Headers headers;
  std::string peer;        // "127.0.0.1:40000"
  std::string request_id;  // the client's X-Request-Id, or one of the server's
  std::string trace = {};  // the traceparent of the service's own span for it; "": it is not traced

  [[nodiscard]] std::optional<std::string_view> query_value(std::string_view name) const;
};

// Whether the client of a request is still there. Who handles the request can ask to hear of it.
//
// Threads: any.
class Presence {
 public:
  // Calls `then`, soon after the client has closed its side of the connection, and at most once; on a thread of the server's,
  // which must not wait. A body that comes piece by piece ends then. To be asked within HttpApplication::handle(). Who has not asked
  // hears nothing, and a client that only reads on is answered.
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
  std::shared_ptr<Presence> presence = {};  // null where there is no connection
};

// A body that comes piece by piece, for as long as it takes. The connection asks for the next piece when the one before
// was written, so a slow reader costs no more memory than the source keeps by itself.
//
// Threads: next() and abandon() are called by one thread at a time; `wake` may be called by any, also within next().
class BodySource {
 public:
  virtual ~BodySource() = default;

  struct Piece {
    std::string bytes;
    bool is_end = false;
  };
  // What is there by now, at most about `most_bytes`. With neither bytes nor the end nothing is there yet, and `wake` is
  // called once when that has changed. A `wake` that was given before is forgotten.
  virtual Piece next(size_t most_bytes, std::function<void()> wake) = 0;
  // What is sent when nothing came for a while, so that a client that went away is noticed; "" for nothing.
  [[nodiscard]] virtual std::string keep_alive() const { return {}; }
  // The client is gone; no call comes after it.
  virtual void abandon() {}
};

struct Response {
  int status = 200;
  Headers headers = {};  // Content-Length, Connection, Date and X-Request-Id are the server's
  std::string body = {};
  std::shared_ptr<BodySource> source = {};  // when set, it is the body
};

// A JSON body with this status.
Response json_response(int status, std::string json);

// Where the answer to one request goes. Copies are of the same reply. The first answer counts; when the last copy goes
// and there was none, the answer is an internal error, so no client waits for nothing.
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

// What serves requests. Both functions are called on a thread of the server's, which serves other connections, too: what
// takes longer than a moment goes to another thread.
class HttpApplication {
 public:
  virtual ~HttpApplication() = default;

  struct Admission {
    uint64_t most_body_bytes = 0;
    std::string tenant = {};               // whose memory the body counts in; "": nobody's
    std::optional<Response> refusal = {};  // sent at once; the body is not read
  };
  virtual Admission admit(const RequestHead& head) = 0;
  virtual void handle(Request request, Reply reply) = 0;
};

// Splits and decodes a request's target. False for one that is none: no leading "/", a "%" without two hex digits, NUL,
// a fragment, bytes that are no UTF-8, more than kMostSegments segments or kMostQuery names. `head.target` is read.
inline constexpr size_t kMostSegments = 32, kMostQuery = 64;
bool read_target(RequestHead& head);

// A client's own name for its request: 1 to 128 of A-Z a-z 0-9 . _ - : @ / + =
bool is_request_id(std::string_view text);

}  // namespace membrane::service
