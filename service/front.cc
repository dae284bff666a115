#include "service/front.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "service/errors.h"
#include "service/times.h"

namespace membrane::service {
namespace {

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The method and the path, without the ids in it.
std::string route_of(const RequestHead& head) {
  constexpr size_t kMostLetters = 24;  // of a word; ids are longer
  std::string route = head.method + " ";
  for (const std::string& segment : head.segments)
    route += "/" + (segment.size() > kMostLetters ? std::string("{id}") : segment);
  return route;
}

std::string path_of(const RequestHead& head) { return head.target.substr(0, head.target.find('?')); }

}  // namespace

Interface* Front::find(const RequestHead& head) const {
  const auto found =
      std::ranges::find_if(interfaces_, [&](const Interface* each) { return each->serves(head); });
  return found == interfaces_.end() ? nullptr : *found;
}

void Front::note(const RequestHead& head, Response& response, int64_t began_us) const {
  const int status = response.status;
  const int64_t took_us = now_us() - began_us;
  if (metrics_ != nullptr) metrics_->answered(status, static_cast<uint64_t>(took_us));
  log_.write(status >= 500 ? Level::kWarning : Level::kInfo, "request",
             {{"request_id", head.request_id},
              {"method", head.method},
              {"path", path_of(head)},
              {"status", static_cast<int64_t>(status)},
              {"us", took_us},
              {"peer", head.peer}});
  if (traces_ == nullptr) return;
  Span span = head.trace.empty() ? begin_span(head.headers.find("traceparent").value_or(""))
                                 : resume_span(head.trace, head.headers.find("traceparent").value_or(""));
  response.headers.add("traceparent", traceparent(span.context));
  span.name = route_of(head);
  span.began_ms = system_now_ms() - took_us / 1000;
  span.took_us = static_cast<uint64_t>(took_us);
  span.status = status;
  span.request_id = head.request_id;
  traces_->add(std::move(span));
}

HttpApplication::Admission Front::admit(const RequestHead& head) {
  Interface* const interface = find(head);
  Admission admission;
  if (interface == nullptr)
    admission.refusal = error_response(
        {ApiCode::kNotFound, "there is nothing at " + path_of(head), "GET /openapi.json describes the API."},
        head.request_id);
  else admission = interface->admit(head);
  if (admission.refusal) note(head, *admission.refusal, now_us());
  return admission;
}

void Front::handle(Request request, Reply reply) {
  Interface* const interface = find(request);
  if (traces_ != nullptr)
    request.trace = traceparent(begin_span(request.headers.find("traceparent").value_or("")).context);
  const RequestHead head = request;
  const Reply noted([this, head, began_us = now_us(), reply](Response response) {
    note(head, response, began_us);
    reply(std::move(response));
  });
  try {
    interface->handle(std::move(request), noted);
  } catch (const std::exception& error) {
    log_.write(Level::kError, "exception",
               {{"request_id", head.request_id}, {"what", std::string_view(error.what())}});
    noted(error_response(
        {ApiCode::kInternal, "the service failed at this request", "Report this with the request's id."},
        head.request_id));
  }
}

}  // namespace membrane::service
