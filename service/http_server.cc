#include "service/http_server.h"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/version.hpp>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "base/hex.h"
#include "base/text.h"
#include "service/errors.h"
#include "service/held_bytes.h"

namespace membrane::service {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;
using asio::use_awaitable;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr size_t kPieceBytes = 64u << 10;
constexpr size_t kMostTargetBytes = 8u << 10;
constexpr std::chrono::milliseconds kLookEvery(
    250);  // interval for checking that a client is connected, if requested
constexpr uint64_t kMostDiscardedBytes = 1u << 20;  // of an unwanted body, to keep the connection
constexpr std::chrono::seconds kRefusedLinger(1);   // for a client to read why it was refused
constexpr size_t kMostRefusedAtOnce = 100;

// A completion token for awaitables that returns the error as a value.
auto as_value(error_code& error) { return asio::redirect_error(use_awaitable, error); }

std::string new_request_id() {
  uint8_t bytes[12] = {};
  (void)getrandom(bytes, sizeof bytes, 0);
  return "req" + hex_of(bytes);
}

// The client's mistake that caused a parser error; nothing when no answer makes sense.
std::optional<ApiError> refusal_of(const error_code& error) {
  if (error == http::error::header_limit)
    return ApiError{ApiCode::kHeadersTooLarge, "the request's headers are too large",
                    "Send fewer or shorter headers."};
  if (error == http::error::body_limit)
    return ApiError{ApiCode::kTooLarge, "the request's body is too large", "Send less in one request."};
  if (error == beast::error::timeout)
    return ApiError{ApiCode::kTimeout, "the request was not sent in time", "Send it faster."};
  if (error == http::error::end_of_stream || error == http::error::partial_message) return std::nullopt;
  if (error.category() == http::make_error_code(http::error::bad_method).category())
    return ApiError{ApiCode::kInvalidRequest, "the request is not HTTP/1.1: " + error.message(),
                    "Send a well-formed HTTP/1.1 request."};
  return std::nullopt;
}

// An answer from another thread, for which one coroutine waits; also used for the next piece of a BodySource.
class Signal : public std::enable_shared_from_this<Signal> {
 public:
  explicit Signal(const asio::any_io_executor& executor) : executor_(executor), timer_(executor) {}

  // From any thread.
  void raise() {
    asio::post(executor_, [self = shared_from_this()] {
      self->raised_ = true;
      self->timer_.cancel();
    });
  }
  // Waits until it is raised; false after `most`. Then it can be raised again.
  awaitable<bool> wait(std::optional<Clock::duration> most) {
    if (!raised_) {
      if (most) timer_.expires_after(*most);
      else timer_.expires_at(Clock::time_point::max());
      error_code ignored;
      co_await timer_.async_wait(as_value(ignored));
    }
    co_return std::exchange(raised_, false);
  }

 private:
  asio::any_io_executor executor_;
  asio::steady_timer timer_;
  bool raised_ = false;
};

// Returns when the client has closed its side, whatever it has sent before.
bool has_gone(beast::tcp_stream& stream) {
  pollfd file = {.fd = stream.socket().native_handle(), .events = POLLRDHUP, .revents = 0};
  return poll(&file, 1, 0) > 0;
}

// Like Signal::wait(). Notices a client that goes away meanwhile, if somebody asked.
awaitable<bool> wait_with(Signal& signal, beast::tcp_stream& stream, Presence& presence,
                          std::optional<Clock::duration> most) {
  const auto end = most ? Clock::now() + *most : Clock::time_point::max();
  while (presence.is_asked()) {
    const auto left = end - Clock::now();
    if (left <= Clock::duration::zero()) co_return false;
    if (co_await signal.wait(std::min<Clock::duration>(left, kLookEvery))) co_return true;
    if (has_gone(stream)) {
      presence.leave();
      co_return false;
    }
  }
  if (most) most = std::max(end - Clock::now(), Clock::duration::zero());
  co_return co_await signal.wait(most);
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpServerOptions options, HttpApplication& application)
      : options_(std::move(options)),
        application_(application),
        held_(std::make_shared<HeldBytes>(options_.most_held_bytes)) {}
  ~Impl() { draining_ = false; }

  Status listen();
  void run() {
    asio::co_spawn(context_, accept(), asio::detached);
    context_.run();
  }
  void drain(DrainOptions options) {
    asio::post(context_, [this, options = std::move(options)] { begin_drain(options); });
  }
  void release() {
    asio::post(context_, [this] {
      is_held_ = false;
      end_when_empty();
    });
  }
  void stop() {
    asio::post(context_, [this] { context_.stop(); });
  }
  void every(std::chrono::milliseconds interval, std::function<void()> task) {
    asio::co_spawn(context_, repeat(interval, std::move(task)), asio::detached);
  }
  void on_signal(std::function<void()> then) {
    signals_.add(SIGINT);
    signals_.add(SIGTERM);
    signals_.async_wait([then = std::move(then)](const error_code& error, int) {
      if (!error) then();
    });
  }

  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] bool has_tls() const { return tls_.has_value(); }

 private:
  // The state of a connection, for draining.
  struct Connection {
    beast::tcp_stream* stream = nullptr;
    bool is_idle = true;
  };
  using Connections = std::list<Connection>;
  // A tenant's request in progress, of which it can have only so many.
  struct UnderWay {
    Impl* server;
    std::string tenant;
    ~UnderWay() {
      if (--server->under_way_[tenant] == 0) server->under_way_.erase(tenant);
    }
  };
  // What the head of a request decides, and what is held for the request while it is served.
  struct Admitted {
    HttpApplication::Admission admission;
    HeldBytes::Hold held;
    std::unique_ptr<UnderWay> under_way;
  };

  Status set_up_tls();
  awaitable<void> accept();
  awaitable<void> serve(asio::ip::tcp::socket socket);
  awaitable<void> refuse_connection(asio::ip::tcp::socket socket);
  template <typename Stream>
  awaitable<void> tell_refused(Stream& stream);
  template <typename Stream>
  awaitable<void> serve_requests(Stream& stream, Connection& connection, const std::string& peer);
  template <typename Stream>
  awaitable<bool> serve_request(Stream& stream, beast::flat_buffer& buffer, Connection& connection,
                                const std::string& peer);
  Admitted admit(const RequestHead& head, uint64_t announced_bytes);
  using Parser = http::request_parser<http::string_body>;
  template <typename Stream>
  awaitable<bool> read_head(Stream& stream, beast::flat_buffer& buffer, Connection& connection,
                            Parser& parser);
  template <typename Stream>
  awaitable<bool> read_body(Stream& stream, beast::flat_buffer& buffer, Parser& parser,
                            const RequestHead& head, Admitted& admitted);
  awaitable<Response> answer_to(Request& request, beast::tcp_stream& stream);
  // Arguments of coroutines stay with the caller, in a variable of its own: g++ 12 destroys temporaries among
  // the arguments of an awaited call twice if one of them is conditional.
  template <typename Stream>
  awaitable<bool> write(Stream& stream, Response& response, const RequestHead& head, unsigned version,
                        bool keep_alive, Presence& presence, HeldBytes::Hold& held);
  template <typename Stream>
  awaitable<bool> refuse(Stream& stream, const ApiError& error, const RequestHead& head, unsigned version);
  template <typename Stream>
  awaitable<bool> write_source(Stream& stream, http::response<http::empty_body>& head, BodySource& source,
                               bool is_chunked, Presence& presence, HeldBytes::Hold& held);
  // Null if the tenant has too many.
  std::unique_ptr<UnderWay> begin_request(const std::string& tenant, const std::string& method) {
    const size_t most =
        method == "DELETE" ? options_.most_with_deletes_of_each() : options_.most_requests_of_each();
    if (under_way_[tenant] >= most) return nullptr;
    ++under_way_[tenant];
    return std::make_unique<UnderWay>(this, tenant);
  }
  awaitable<void> repeat(std::chrono::milliseconds interval, std::function<void()> task);
  void begin_drain(const DrainOptions& options);
  void cut_off_after(std::chrono::milliseconds patience);
  void end_when_empty() {
    if (!draining_ || is_held_ || !connections_.empty()) return;
    context_.stop();
  }

  HttpServerOptions options_;
  HttpApplication& application_;
  std::shared_ptr<HeldBytes> held_;
  Connections connections_;  // declared before the context, whose destructor destroys remaining connections
  size_t being_refused_ = 0;
  std::map<std::string, size_t> under_way_;  // requests, by tenant
  bool draining_ = false;
  bool is_held_ = false;  // draining, before release() was called
  asio::io_context context_{1};
  asio::ip::tcp::acceptor acceptor_{context_};
  asio::signal_set signals_{context_};
  asio::steady_timer drain_timer_{context_};
  std::optional<asio::ssl::context> tls_;
  uint16_t port_ = 0;
};

// -- beginning and end --------------------------------------------------------------------------------------------

Status HttpServer::Impl::set_up_tls() {
  if (options_.tls_certificate_file.empty() && options_.tls_key_file.empty()) return {};
  if (options_.tls_certificate_file.empty() || options_.tls_key_file.empty())
    return fail(ErrorCode::kInvalidArgument,
                "TLS needs a certificate and its key, and one of them is missing",
                "Give both --tls-certificate and --tls-key.");
  error_code error;
  tls_.emplace(asio::ssl::context::tls_server);
  // A service does not ask for a pass phrase at its terminal.
  tls_->set_password_callback([](size_t, asio::ssl::context::password_purpose) { return std::string(); },
                              error);
  tls_->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                    asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                    asio::ssl::context::no_tlsv1_1);
  tls_->use_certificate_chain_file(options_.tls_certificate_file, error);
  if (error)
    return fail(ErrorCode::kInvalidArgument,
                "cannot use the certificate " + options_.tls_certificate_file + ": " + error.message(),
                "Pass a PEM file with the certificate and its chain.");
  tls_->use_private_key_file(options_.tls_key_file, asio::ssl::context::pem, error);
  if (error)
    return fail(ErrorCode::kInvalidArgument,
                "cannot use the key " + options_.tls_key_file + ": " + error.message(),
                "Pass a PEM file with the certificate's private key, without a pass phrase.");
  return {};
}

Status HttpServer::Impl::listen() {
  MEMBRANE_TRY(set_up_tls());
  error_code error;
  const auto address = asio::ip::make_address(options_.address, error);
  if (error)
    return fail(ErrorCode::kInvalidArgument, options_.address + " is not an address",
                "Write it as 127.0.0.1 or ::1.");
  const asio::ip::tcp::endpoint endpoint(address, options_.port);
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    return fail(ErrorCode::kUnavailable,
                "cannot listen on " + options_.address + " port " + std::to_string(options_.port) + ": " +
                    error.message(),
                "Choose another with --port, or stop the program that listens there.");
  port_ = acceptor_.local_endpoint(error).port();
  return {};
}

void HttpServer::Impl::cut_off_after(std::chrono::milliseconds patience) {
  drain_timer_.expires_after(patience);
  drain_timer_.async_wait([this](const error_code& error) {
    if (!error) context_.stop();
  });
}

void HttpServer::Impl::begin_drain(const DrainOptions& options) {
  if (std::exchange(draining_, true)) return;
  is_held_ = options.holds;
  error_code ignored;
  acceptor_.close(ignored);
  for (const Connection& connection : connections_)
    if (connection.is_idle && connection.stream != nullptr) connection.stream->cancel();
  end_when_empty();
  if (!options.hurry) return cut_off_after(options.patience);
  drain_timer_.expires_after(options.patience);
  drain_timer_.async_wait(
      [this, hurry = options.hurry, last_patience = options.last_patience](const error_code& error) {
        if (error) return;
        hurry();
        cut_off_after(last_patience);
      });
}

awaitable<void> HttpServer::Impl::repeat(std::chrono::milliseconds interval, std::function<void()> task) {
  asio::steady_timer timer(context_);
  error_code error;
  while (!error) {
    timer.expires_after(interval);
    co_await timer.async_wait(as_value(error));
    if (!error) task();
  }
}

// -- connections --------------------------------------------------------------------------------------------------

awaitable<void> HttpServer::Impl::accept() {
  constexpr std::chrono::milliseconds kPauseWithoutDescriptors(50);
  while (!draining_) {
    error_code error;
    asio::ip::tcp::socket socket(context_);
    co_await acceptor_.async_accept(socket, as_value(error));
    if (error == asio::error::operation_aborted || draining_) co_return;
    if (error) {  // out of descriptors, for the moment
      asio::steady_timer timer(context_, kPauseWithoutDescriptors);
      co_await timer.async_wait(as_value(error));
      continue;
    }
    socket.set_option(asio::ip::tcp::no_delay(true), error);
    if (connections_.size() >= options_.most_connections)
      asio::co_spawn(context_, refuse_connection(std::move(socket)), asio::detached);
    else asio::co_spawn(context_, serve(std::move(socket)), asio::detached);
  }
}

// With an answer, as long as there are few of them at once.
awaitable<void> HttpServer::Impl::refuse_connection(asio::ip::tcp::socket socket) {
  if (being_refused_ == kMostRefusedAtOnce) co_return;
  ++being_refused_;
  struct Leave {
    Impl* server;
    ~Leave() { --server->being_refused_; }
  } leave{this};
  error_code error;
  if (!tls_) {
    beast::tcp_stream stream(std::move(socket));
    co_return co_await tell_refused(stream);
  }
  beast::ssl_stream<beast::tcp_stream> stream(std::move(socket), *tls_);
  beast::get_lowest_layer(stream).expires_after(kRefusedLinger);
  co_await stream.async_handshake(asio::ssl::stream_base::server, as_value(error));
  if (!error) co_await tell_refused(stream);
}

// It then waits, for at most a second, until the client has closed: if this side closed first with unread
// bytes of the client, the system would discard the answer.
template <typename Stream>
awaitable<void> HttpServer::Impl::tell_refused(Stream& stream) {
  RequestHead head;
  head.request_id = new_request_id();
  const ApiError refusal{ApiCode::kOverloaded, "the service has too many connections",
                         "Use one connection for several requests, or try again later."};
  (void)co_await refuse(stream, refusal, head, 11);
  beast::tcp_stream& below = beast::get_lowest_layer(stream);
  error_code error;
  below.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
  below.expires_after(kRefusedLinger);
  char unread[4096];
  for (size_t bytes = 0; !error && bytes < kMostDiscardedBytes;)
    bytes += co_await below.async_read_some(asio::buffer(unread), as_value(error));
}

awaitable<void> HttpServer::Impl::serve(asio::ip::tcp::socket socket) {
  const auto place = connections_.emplace(connections_.end());
  struct Leave {
    Impl* server;
    Connections::iterator place;
    ~Leave() {
      server->connections_.erase(place);
      server->end_when_empty();
    }
  } leave{this, place};
  error_code error;
  const auto remote = socket.remote_endpoint(error);
  if (error) co_return;
  const std::string peer = remote.address().to_string() + ":" + std::to_string(remote.port());
  if (!tls_) {
    beast::tcp_stream stream(std::move(socket));
    place->stream = &stream;
    co_await serve_requests(stream, *place, peer);
    place->stream = nullptr;
    stream.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
    co_return;
  }
  beast::ssl_stream<beast::tcp_stream> stream(std::move(socket), *tls_);
  beast::tcp_stream& below = beast::get_lowest_layer(stream);
  place->stream = &below;
  below.expires_after(options_.header_timeout);
  co_await stream.async_handshake(asio::ssl::stream_base::server, as_value(error));
  if (!error) {
    co_await serve_requests(stream, *place, peer);
    below.expires_after(std::chrono::seconds(1));
    co_await stream.async_shutdown(as_value(error));
  }
  place->stream = nullptr;
}

template <typename Stream>
awaitable<void> HttpServer::Impl::serve_requests(Stream& stream, Connection& connection,
                                                 const std::string& peer) {
  beast::flat_buffer buffer;
  bool goes_on = true;
  while (goes_on) goes_on = co_await serve_request(stream, buffer, connection, peer);
}

RequestHead head_of(const http::request<http::string_body>& message, const std::string& peer) {
  RequestHead head;
  head.method = std::string(message.method_string());
  head.target = std::string(message.target());
  head.peer = peer;
  for (const auto& field : message)
    head.headers.add(std::string(field.name_string()), std::string(field.value()));
  const auto given = head.headers.find("X-Request-Id");
  head.request_id = given && is_request_id(*given) ? std::string(*given) : new_request_id();
  return head;
}

// What is wrong with a head, independently of its target.
std::optional<ApiError> check_head(RequestHead& head, unsigned version) {
  if (head.target.size() > kMostTargetBytes)
    return ApiError{ApiCode::kTargetTooLong, "the request's target is too long",
                    "Send long values in the body."};
  if (!read_target(head))
    return ApiError{ApiCode::kInvalidRequest, "the request's target is malformed",
                    "Write it as /path?name=value, with UTF-8 and % escapes."};
  const auto hosts = std::ranges::count_if(
      head.headers.all(), [](const auto& field) { return beast::iequals(field.first, "Host"); });
  if (hosts > 1 || (version == 11 && hosts == 0))
    return ApiError{ApiCode::kInvalidRequest, "the request has no Host header, or several",
                    "HTTP/1.1 demands one."};
  for (const auto& [name, value] : head.headers.all())
    if (beast::iequals(name, "Transfer-Encoding") && (version != 11 || !beast::iequals(value, "chunked")))
      return ApiError{ApiCode::kInvalidRequest, "the body has an unsupported transfer coding",
                      "Send it uncoded with its Content-Length, or in HTTP/1.1 as chunked."};
  return std::nullopt;
}

// Waits for the next request, and reads its head. Returns false if the connection ends without one.
template <typename Stream>
awaitable<bool> HttpServer::Impl::read_head(Stream& stream, beast::flat_buffer& buffer,
                                            Connection& connection, Parser& parser) {
  beast::tcp_stream& below = beast::get_lowest_layer(stream);
  error_code error;
  connection.is_idle = true;
  if (draining_) co_return false;
  if (buffer.size() == 0) {  // waits for the first byte
    below.expires_after(options_.idle_timeout);
    const size_t got = co_await stream.async_read_some(buffer.prepare(kPieceBytes), as_value(error));
    if (error) co_return false;
    buffer.commit(got);
  }
  connection.is_idle = false;
  below.expires_after(options_.header_timeout);
  co_await http::async_read_header(stream, buffer, parser, as_value(error));
  if (!error) co_return true;
  const RequestHead head = head_of(parser.get(), "");
  const auto refusal = refusal_of(error);
  if (refusal) (void)co_await refuse(stream, *refusal, head, 11);
  co_return false;
}

HttpServer::Impl::Admitted HttpServer::Impl::admit(const RequestHead& head, uint64_t announced_bytes) {
  Admitted admitted{.admission = application_.admit(head), .held = {}, .under_way = nullptr};
  HttpApplication::Admission& admission = admitted.admission;
  if (!admission.refusal && announced_bytes > admission.most_body_bytes)
    admission.refusal = error_response({ApiCode::kTooLarge,
                                        "the body has " + count_of(announced_bytes, "byte") +
                                            ", and the limit is " + std::to_string(admission.most_body_bytes),
                                        "Send less in one request."},
                                       head.request_id);
  if (!admission.tenant.empty()) admitted.held = HeldBytes::Hold(held_, admission.tenant);
  if (!admission.refusal)
    if (const auto room = admitted.held.try_grow(announced_bytes); !room)
      admission.refusal = error_response(room.error(), head.request_id);
  if (admission.tenant.empty()) return admitted;
  admitted.under_way = begin_request(admission.tenant, head.method);
  if (!admission.refusal && admitted.under_way == nullptr)
    admission.refusal = error_response(
        {ApiCode::kTooManyRequests,
         "the token has " + count_of(options_.most_requests_of_each(), "request") + " under way",
         "Wait for an answer, or end the sandboxes that keep them waiting."},
        head.request_id);
  return admitted;
}

// Reads a body, which is discarded if the request is refused. Returns false if the connection must end.
template <typename Stream>
awaitable<bool> HttpServer::Impl::read_body(Stream& stream, beast::flat_buffer& buffer, Parser& parser,
                                            const RequestHead& head, Admitted& admitted) {
  beast::tcp_stream& below = beast::get_lowest_layer(stream);
  const unsigned version = parser.get().version();
  const bool is_refused = admitted.admission.refusal.has_value();
  error_code error;
  if (!is_refused && beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    http::response<http::empty_body> please(http::status::continue_, version);
    co_await http::async_write(stream, please, as_value(error));
  }
  parser.body_limit(is_refused ? kMostDiscardedBytes : admitted.admission.most_body_bytes);
  size_t due = 0;  // the deadline restarts when this much of the body has arrived
  if (is_refused) below.expires_after(options_.refused_body_timeout);
  while (!error && !parser.is_done()) {
    if (const size_t got = parser.get().body().size(); got >= due && !is_refused) {
      due = got + kPieceBytes;
      below.expires_after(options_.body_timeout);
    }
    co_await http::async_read_some(stream, buffer, parser, as_value(error));
    if (const auto room = admitted.held.try_reach(parser.get().body().size());
        !room) {  // chunked: not announced
      (void)co_await refuse(stream, room.error(), head, version);
      co_return false;
    }
  }
  if (!error) co_return true;
  const auto refusal = refusal_of(error);
  if (refusal) (void)co_await refuse(stream, *refusal, head, version);
  co_return false;
}

// The application's answer, from whatever thread it comes.
awaitable<Response> HttpServer::Impl::answer_to(Request& request, beast::tcp_stream& stream) {
  struct Slot {
    std::mutex mutex;
    std::optional<Response> response;
  };
  const auto slot = std::make_shared<Slot>();
  const auto answered = std::make_shared<Signal>(context_.get_executor());
  const auto presence = request.presence;
  application_.handle(std::move(request), Reply([slot, answered](Response response) {
                        {
                          const std::lock_guard lock(slot->mutex);
                          slot->response = std::move(response);
                        }
                        answered->raise();
                      }));
  bool is_answered = false;
  while (!is_answered) is_answered = co_await wait_with(*answered, stream, *presence, std::nullopt);
  const std::lock_guard lock(slot->mutex);
  co_return *std::move(slot->response);
}

// Serves one request. Returns whether another may follow on this connection.
template <typename Stream>
awaitable<bool> HttpServer::Impl::serve_request(Stream& stream, beast::flat_buffer& buffer,
                                                Connection& connection, const std::string& peer) {
  Parser parser;
  parser.header_limit(options_.most_header_bytes);
  parser.body_limit(boost::none);
  if (!co_await read_head(stream, buffer, connection, parser)) co_return false;
  RequestHead head = head_of(parser.get(), peer);
  const unsigned version = parser.get().version();
  if (const auto refusal = check_head(head, version)) {
    (void)co_await refuse(stream, *refusal, head, version);
    co_return false;
  }

  const uint64_t announced_bytes = parser.content_length() ? *parser.content_length() : 0;
  Admitted admitted = admit(head, announced_bytes);
  std::optional<Response>& refusal = admitted.admission.refusal;
  const bool keep_alive = parser.get().keep_alive() && !draining_;
  const auto presence = std::make_shared<Presence>();
  if (refusal && (parser.chunked() || announced_bytes > kMostDiscardedBytes)) {
    (void)co_await write(stream, *refusal, head, version, false, *presence, admitted.held);
    co_return false;
  }
  if (!co_await read_body(stream, buffer, parser, head, admitted)) co_return false;
  if (refusal)
    co_return co_await write(stream, *refusal, head, version, keep_alive, *presence, admitted.held);

  beast::tcp_stream& below = beast::get_lowest_layer(stream);
  below.expires_never();
  Request request{{head}, std::move(parser.get().body()), presence};
  Response response = co_await answer_to(request, below);
  if (const auto room = admitted.held.try_reach(response.body.size()); !room)
    response = error_response(room.error(), head.request_id);
  co_return co_await write(stream, response, head, version, keep_alive && !draining_, *presence,
                           admitted.held);
}

// -- answers ------------------------------------------------------------------------------------------------------

// The connection ends after it.
template <typename Stream>
awaitable<bool> HttpServer::Impl::refuse(Stream& stream, const ApiError& error, const RequestHead& head,
                                         unsigned version) {
  Response response = error_response(error, head.request_id);
  Presence nobody;
  HeldBytes::Hold nobodys;
  co_return co_await write(stream, response, head, version, false, nobody, nobodys);
}

template <typename Stream>
awaitable<bool> HttpServer::Impl::write(Stream& stream, Response& response, const RequestHead& head,
                                        unsigned version, bool keep_alive, Presence& presence,
                                        HeldBytes::Hold& held) {
  beast::tcp_stream& below = beast::get_lowest_layer(stream);
  http::response<http::string_body> message(static_cast<http::status>(response.status), version);
  for (const auto& [name, value] : response.headers.all()) message.insert(name, value);
  if (!head.request_id.empty()) message.set("X-Request-Id", head.request_id);
  if (response.source) {
    const bool is_chunked = version >= 11;
    http::response<http::empty_body> only_head(std::move(message.base()));
    only_head.keep_alive(keep_alive && is_chunked);
    if (is_chunked) only_head.chunked(true);
    const std::shared_ptr<BodySource> source = std::move(response.source);
    const bool whole = co_await write_source(stream, only_head, *source, is_chunked, presence, held);
    co_return whole&& keep_alive&& is_chunked;
  }
  message.keep_alive(keep_alive);
  if (response.status != 204 && response.status != 304) message.content_length(response.body.size());
  const bool is_head = head.method == "HEAD";
  if (!is_head) message.body() = std::move(response.body);
  http::response_serializer<http::string_body> serializer(message);
  serializer.limit(kPieceBytes);
  error_code error;
  while (!error && !serializer.is_done()) {
    below.expires_after(options_.write_timeout);
    co_await http::async_write_some(stream, serializer, as_value(error));
  }
  co_return !error && keep_alive;
}

template <typename Stream>
awaitable<bool> HttpServer::Impl::write_source(Stream& stream, http::response<http::empty_body>& head,
                                               BodySource& source, bool is_chunked, Presence& presence,
                                               HeldBytes::Hold& held) {
  beast::tcp_stream& below = beast::get_lowest_layer(stream);
  http::response_serializer<http::empty_body> serializer(head);
  error_code error;
  below.expires_after(options_.write_timeout);
  co_await http::async_write_header(stream, serializer, as_value(error));
  const auto more = std::make_shared<Signal>(context_.get_executor());
  bool is_over = false;
  while (!error && !is_over) {
    BodySource::Piece piece = source.next(kPieceBytes, [more] { more->raise(); });
    is_over = piece.is_end;
    if (piece.bytes.empty() && !is_over) {
      below.expires_never();
      bool came = false;
      if (!presence.has_left()) came = co_await wait_with(*more, below, presence, options_.keep_alive_every);
      if (presence.has_left()) {
        error = asio::error::connection_reset;
        break;
      }
      if (came) continue;
      piece.bytes = source.keep_alive();
    }
    if (piece.bytes.empty()) continue;
    if (!held.try_reach(piece.bytes.size())) {
      error = asio::error::no_memory;  // other readers of the tenant hold it; this one can retry
      break;
    }
    below.expires_after(options_.write_timeout);
    if (is_chunked)
      co_await asio::async_write(stream, http::make_chunk(asio::buffer(piece.bytes)), as_value(error));
    else co_await asio::async_write(stream, asio::buffer(piece.bytes), as_value(error));
    held.shrink_to(kPieceBytes);
  }
  if (error) {
    source.abandon();
    co_return false;
  }
  below.expires_after(options_.write_timeout);
  if (is_chunked) co_await asio::async_write(stream, http::make_chunk_last(), as_value(error));
  co_return !error;
}

// -- the face -----------------------------------------------------------------------------------------------------

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::listen(HttpServerOptions options,
                                                       HttpApplication& application) {
  auto impl = std::make_unique<Impl>(std::move(options), application);
  MEMBRANE_TRY(impl->listen());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

uint16_t HttpServer::port() const { return impl_->port(); }
bool HttpServer::has_tls() const { return impl_->has_tls(); }
void HttpServer::run() { impl_->run(); }
void HttpServer::drain(DrainOptions options) { impl_->drain(std::move(options)); }
void HttpServer::release() { impl_->release(); }
void HttpServer::stop() { impl_->stop(); }
void HttpServer::every(std::chrono::milliseconds interval, std::function<void()> task) {
  impl_->every(interval, std::move(task));
}
void HttpServer::on_signal(std::function<void()> then) { impl_->on_signal(std::move(then)); }

}  // namespace membrane::service
