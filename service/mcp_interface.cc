#include "service/mcp_interface.h"

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "mcp/http.h"
#include "mcp/message.h"
#include "service/mcp_backend.h"
#include "service/rest.h"
#include "service/times.h"
#include "service/work_pool.h"

namespace membrane::service {
namespace {

// Larger messages are not parsed on the server's thread.
constexpr size_t kMostReadAtOnce = 64u << 10;

Headers headers_of(mcp::HttpHeaders fields) {
  Headers headers;
  for (auto& [name, value] : fields) headers.add(std::move(name), std::move(value));
  return headers;
}

// Lets a browser pass the answer to the page that asked, if that page may ask.
void let_page_read(const mcp::HttpEndpoint& endpoint, const Headers& asked, Response& response) {
  const auto origin = asked.find("Origin");
  if (!origin || !endpoint.lets_in(*origin)) return;
  response.headers.add("Access-Control-Allow-Origin", std::string(*origin));
  response.headers.add("Access-Control-Expose-Headers", "Mcp-Session-Id, X-Request-Id, Retry-After");
  response.headers.add("Vary", "Origin");
}

// A browser's preflight request, which carries no token.
std::optional<Response> preflight(const mcp::HttpEndpoint& endpoint, const RequestHead& head) {
  const auto origin = head.headers.find("Origin");
  if (head.method != "OPTIONS" || !origin || !endpoint.lets_in(*origin)) return std::nullopt;
  return Response{
      .status = 204,
      .headers = {{"Access-Control-Allow-Methods", "POST, DELETE"},
                  {"Access-Control-Allow-Headers",
                   "Authorization, X-API-Key, X-Request-Id, Content-Type, Accept, Mcp-Session-Id, "
                   "MCP-Protocol-Version, Mcp-Method, Mcp-Name, Last-Event-ID"},
                  {"Access-Control-Max-Age", "3600"}}};
}

// The events of one call, between the thread that answers it and the connection. mcp::Server limits how many
// there can be.
class EventPipe final : public BodySource {
 public:
  explicit EventPipe(std::function<void()> when_abandoned) : when_abandoned_(std::move(when_abandoned)) {}

  void add(std::string_view bytes, bool is_end) {
    std::function<void()> wake;
    {
      const std::lock_guard lock(mutex_);
      bytes_ += bytes;
      is_end_ = is_end;
      wake = std::exchange(wake_, nullptr);
    }
    if (wake) wake();
  }

  Piece next(size_t most_bytes, std::function<void()> wake) override {
    const std::lock_guard lock(mutex_);
    Piece piece;
    piece.bytes = bytes_.substr(0, most_bytes);
    bytes_.erase(0, piece.bytes.size());
    piece.is_end = is_end_ && bytes_.empty();
    wake_ = piece.bytes.empty() && !piece.is_end ? std::move(wake) : nullptr;
    return piece;
  }
  [[nodiscard]] std::string keep_alive() const override { return ": nothing yet\n\n"; }
  void abandon() override { when_abandoned_(); }

 private:
  const std::function<void()> when_abandoned_;
  std::mutex mutex_;  // over what follows
  std::string bytes_;
  bool is_end_ = false;
  std::function<void()> wake_;
};

// One request on its way to its answer.
class Job : public std::enable_shared_from_this<Job> {
 public:
  Job(mcp::HttpEndpoint& endpoint, mcp::HttpRequest request, std::string request_id, Reply reply)
      : tenant(request.tenant),
        endpoint_(endpoint),
        request_(std::move(request)),
        request_id_(std::move(request_id)),
        reply_(std::move(reply)) {}

  const std::string tenant;

  // Parses the message: once, before run().
  void receive() {
    auto call = endpoint_.receive(std::move(request_));
    const std::lock_guard lock(mutex_);
    call_ = std::move(call);
    if (is_cancelled_) call_->cancel();
  }
  // Call it after receive().
  [[nodiscard]] bool is_answered() const { return call_->is_answered(); }
  void run() {
    try {
      if (!call_) receive();
      finish(call_->answer([this](std::string_view piece) { stream(piece); }));
    } catch (const std::exception&) {
      refuse(
          {ApiCode::kInternal, "the service failed at this request", "Report this with the request's id."});
      if (pipe_) pipe_->add("", true);
    }
  }
  void refuse(const ApiError& error) const { reply_(error_response(error, request_id_)); }
  // From any thread.
  void cancel() {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    if (call_) call_->cancel();
  }
  [[nodiscard]] std::function<void()> canceller() {
    return [weak = weak_from_this()] {
      if (const auto job = weak.lock()) job->cancel();
    };
  }

 private:
  void stream(std::string_view piece) {
    if (!pipe_) {
      pipe_ = std::make_shared<EventPipe>(canceller());
      reply_({.status = 200, .headers = headers_of(mcp::event_stream_headers()), .source = pipe_});
    }
    pipe_->add(piece, false);
  }
  void finish(mcp::HttpReply answer) {
    if (answer.is_streamed) return pipe_->add(answer.body, true);
    reply_({.status = answer.status,
            .headers = headers_of(std::move(answer.headers)),
            .body = std::move(answer.body)});
  }

  mcp::HttpEndpoint& endpoint_;
  mcp::HttpRequest request_;
  const std::string request_id_;
  const Reply reply_;
  std::shared_ptr<EventPipe> pipe_;  // of a started stream
  std::mutex mutex_;                 // guards what follows; once set, the call stays
  std::unique_ptr<mcp::HttpCall> call_;
  bool is_cancelled_ = false;
};

}  // namespace

struct McpInterface::Impl {
  Impl(Sandboxes& sandboxes, Tokens& of_tokens, McpOptions of)
      : tokens(of_tokens),
        options(std::move(of)),
        server(mcp_backend(sandboxes), {.version = MEMBRANE_VERSION}),
        endpoint(server, {.hosts = options.hosts, .origins = options.origins}),
        pool({.threads = options.most_calls, .queued = options.most_queued}) {}
  ~Impl() {
    const std::lock_guard lock(mutex);
    for (const auto& job : jobs) job->cancel();
  }

  // On a thread of the pool.
  void start(const std::shared_ptr<Job>& job) {
    const auto leave = [this, job] {
      const std::lock_guard lock(mutex);
      jobs.erase(job);
      if (--of_tenant[job->tenant] == 0) of_tenant.erase(job->tenant);
    };
    {
      const std::lock_guard lock(mutex);
      if (const auto held = of_tenant.find(job->tenant);
          held != of_tenant.end() && held->second >= options.most_calls_of_tenant)
        return job->refuse({ApiCode::kTooManyRequests,
                            "the token has " + count_of(held->second, "call") + " under way",
                            "Wait for an answer, or cancel a call."});
      ++of_tenant[job->tenant];
      jobs.insert(job);
    }
    const bool is_posted = pool.post(job->tenant, [job, leave] {
      job->run();
      leave();
    });
    if (is_posted) return;
    leave();
    job->refuse({ApiCode::kOverloaded, "the service has as much to do as it takes", "Try again later."});
  }

  Tokens& tokens;
  const McpOptions options;
  mcp::Server server;
  mcp::HttpEndpoint endpoint;
  std::mutex mutex;  // over what follows
  std::set<std::shared_ptr<Job>> jobs;
  std::map<std::string, size_t, std::less<>> of_tenant;  // number of calls
  WorkPool pool;                                         // last member: its threads use the rest
};

McpInterface::McpInterface(Sandboxes& sandboxes, Tokens& tokens, McpOptions options)
    : impl_(std::make_unique<Impl>(sandboxes, tokens, std::move(options))) {}
McpInterface::~McpInterface() = default;

bool McpInterface::serves(const RequestHead& head) const {
  return head.segments.size() == 1 && head.segments.front() == "mcp";
}

HttpApplication::Admission McpInterface::admit(const RequestHead& head) {
  Admission refused = {.refusal = preflight(impl_->endpoint, head)};
  auto caller = impl_->tokens.find(Rest::token_of(head), system_now_ms());
  if (!refused.refusal && !caller) refused.refusal = error_response(caller.error(), head.request_id);
  if (refused.refusal) {
    let_page_read(impl_->endpoint, head.headers, *refused.refusal);
    return refused;
  }
  return {.most_body_bytes = mcp::kMessageLimits.bytes, .tenant = std::move(caller->tenant)};
}

void McpInterface::handle(Request request, Reply reply) {
  auto caller =
      impl_->tokens.find(Rest::token_of(request), system_now_ms());  // the body may have taken a long time
  if (!caller) return reply(error_response(caller.error(), request.request_id));
  if (request.headers.find("Origin"))
    reply = Reply([this, asked = request.headers, to = reply](Response response) {
      let_page_read(impl_->endpoint, asked, response);
      to(std::move(response));
    });
  const bool is_long = request.body.size() > kMostReadAtOnce;
  const auto job =
      std::make_shared<Job>(impl_->endpoint,
                            mcp::HttpRequest{.method = std::move(request.method),
                                             .headers = request.headers.all(),
                                             .body = std::move(request.body),
                                             .tenant = std::move(caller->tenant),
                                             .scopes = {caller->scopes.begin(), caller->scopes.end()},
                                             .client = std::move(caller->token_id)},
                            request.request_id, std::move(reply));
  if (!is_long) job->receive();
  if (!is_long && job->is_answered()) return job->run();
  if (request.presence) request.presence->when_gone(job->canceller());
  impl_->start(job);
}

}  // namespace membrane::service
