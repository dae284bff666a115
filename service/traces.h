// Traces: a span for each request, sent to a collector as OTLP in JSON over HTTP. A request's traceparent
// (W3C Trace Context) names the trace that it belongs to, and its answer names the span.
//
// Spans wait in a bounded queue, and a separate thread sends them: no request waits for a collector, and one
// that does not answer costs the oldest spans.
//
// Threads: any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "host/egress/egress_watch.h"
#include "service/log.h"

namespace membrane::service {

struct TraceContext {
  std::string trace_id;  // 32 hex digits
  std::string span_id;   // 16
  bool is_sampled = true;
};

// Nothing for an invalid text; then the trace begins here.
std::optional<TraceContext> read_traceparent(std::string_view text);
std::string traceparent(const TraceContext& context);

struct Span {
  TraceContext context;
  std::string parent_id;  // "": the root of a trace
  std::string name;       // "POST /v1/sandboxes"
  int64_t began_ms = 0;   // since 1970
  uint64_t took_us = 0;
  int status = 0;  // of the answer; 0: none
  std::string request_id;
  // For a request that a program sent, as its policy names them; "" for one that the service answered.
  std::string sent_method = {}, sent_host = {};
};

// A span in the request's trace, or in a new one, with an id of its own. `given` is the request's
// traceparent, or "".
Span begin_span(std::string_view given);
// The span that begin_span() started for a request with `given`, by its own traceparent.
Span resume_span(std::string_view own, std::string_view given);

class Traces;
// Traces the http requests of one exec as children of the span with this traceparent; null for an invalid
// one. At most a thousand requests may be open. `traces` is borrowed.
std::shared_ptr<host::EgressWatch> trace_egress(Traces& traces, const std::string& parent);

class Traces {
 public:
  static constexpr size_t kMostWaiting = 2'000, kMostInOne = 500;

  // Borrows the log. Errors: kUnsupported without libcurl; kInvalidArgument for anything but an HTTP URL.
  static Result<std::unique_ptr<Traces>> start(const std::string& endpoint, Log& log);
  // Sends the waiting spans, within some seconds.
  ~Traces();

  void add(Span span);

  // The request body for spans of this service.
  static std::string json_of(const std::deque<Span>& spans);

 private:
  Traces(std::string endpoint, Log& log) : endpoint_(std::move(endpoint)), log_(log) {}
  void work();
  bool send(const std::deque<Span>& spans);

  const std::string endpoint_;
  Log& log_;
  bool has_failed_ = false;  // of the thread
  std::mutex mutex_;         // guards what follows
  std::condition_variable wake_;
  std::deque<Span> waiting_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace membrane::service
