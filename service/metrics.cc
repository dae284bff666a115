#include "service/metrics.h"

#include <algorithm>
#include <cstdio>

namespace membrane::service {
namespace {

std::string seconds(uint64_t us) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", static_cast<double>(us) / 1e6);
  return text;
}

// A label's value, escaped for the format.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') out += "\\n";
    else if (c == '"' || c == '\\') (out += '\\') += c;
    else out += c;
  }
  return out;
}

std::string label(std::string_view name, std::string_view value) {
  return std::string(name) + "=\"" + escaped(value) + "\"";
}

void head(std::string& to, std::string_view name, std::string_view type, std::string_view help) {
  for (const std::string_view part : {"# HELP ", name.data(), " "}) to += part;
  to += std::string(help) + "\n# TYPE " + std::string(name) + " " + std::string(type) + "\n";
}

void number(std::string& to, std::string_view name, const std::string& labels, uint64_t value) {
  to += name;
  if (!labels.empty()) to += "{" + labels + "}";
  to += " " + std::to_string(value) + "\n";
}

void gauge(std::string& to, std::string_view name, std::string_view help, uint64_t value) {
  head(to, name, "gauge", help);
  number(to, name, "", value);
}

void counter(std::string& to, std::string_view name, std::string_view help, uint64_t value) {
  head(to, name, "counter", help);
  number(to, name, "", value);
}

}  // namespace

void Histogram::add(uint64_t us) {
  const auto* const bound = std::ranges::lower_bound(kBoundsUs, us);
  ++counts_[static_cast<size_t>(bound - kBoundsUs.begin())];
  sum_us_ += us;
}

void Histogram::render(std::string& to, std::string_view name, const std::string& labels) const {
  const std::string bucket = std::string(name) + "_bucket", comma = labels.empty() ? "" : labels + ",";
  uint64_t count = 0;
  for (size_t i = 0; i < kBoundsUs.size(); ++i) {
    count += counts_[i];
    number(to, bucket, comma + label("le", seconds(kBoundsUs[i])), count);
  }
  count += counts_.back();
  number(to, bucket, comma + label("le", "+Inf"), count);
  to +=
      std::string(name) + "_sum" + (labels.empty() ? "" : "{" + labels + "}") + " " + seconds(sum_us_) + "\n";
  number(to, std::string(name) + "_count", labels, count);
}

template <typename T>
T& Metrics::series(std::map<Labels, T>& all, Labels labels) {
  if (all.size() >= kMostSeries && !all.contains(labels)) return all[{"other", "other"}];
  return all[std::move(labels)];
}

void Metrics::created(const std::string& template_name, uint64_t took_us) {
  const std::lock_guard lock(mutex_);
  series(create_, {template_name, ""}).add(took_us);
}

void Metrics::exec_ended(const ExecFacts& facts, const sandbox::Report& report, uint64_t egress_bytes) {
  const std::lock_guard lock(mutex_);
  series(exec_, {facts.template_name, ""}).add(facts.ran_us);
  queued_.add(facts.waited_us);
  ++series(outcomes_, {facts.template_name, std::string(sandbox::name_of(report.outcome))});
  for (const sandbox::HostCallRecord& call : report.host_calls) {
    series(host_calls_, {call.name, ""}).add(call.latency_us);
    if (!call.allowed) ++series(denials_, {call.name, call.error});
  }
  if (report.flows)
    for (const host::FlowEgress& each : report.flows->egress)
      ++series(held_back_, {each.function, std::string(host::name_of(each.decision))});
  fuel_ += report.fuel_used;
  egress_bytes_ += egress_bytes;
}

void Metrics::answered(int status, uint64_t took_us) {
  const std::lock_guard lock(mutex_);
  requests_.add(took_us);
  ++series(statuses_, {std::to_string(status), ""});
}

std::string Metrics::render(const Sandboxes::Counts& counts) const {
  std::string to;
  const std::lock_guard lock(mutex_);
  const auto histograms = [&](std::string_view name, std::string_view help, std::string_view by,
                              const auto& all) {
    head(to, name, "histogram", help);
    for (const auto& [labels, each] : all) each.render(to, name, label(by, labels.first));
  };
  const auto counters = [&](std::string_view name, std::string_view help, std::string_view first,
                            std::string_view second, const auto& all) {
    head(to, name, "counter", help);
    for (const auto& [labels, value] : all)
      number(to, name,
             label(first, labels.first) + (second.empty() ? "" : "," + label(second, labels.second)), value);
  };
  histograms("membrane_create_seconds", "From the request for a sandbox until it is there.", "template",
             create_);
  histograms("membrane_exec_seconds", "How long execs ran.", "template", exec_);
  histograms("membrane_host_call_seconds", "How long calls of programs to the host took.", "call",
             host_calls_);
  head(to, "membrane_exec_wait_seconds", "histogram", "How long execs waited before they began.");
  queued_.render(to, "membrane_exec_wait_seconds", "");
  head(to, "membrane_request_seconds", "histogram", "From a request's head to its answer's.");
  requests_.render(to, "membrane_request_seconds", "");
  counters("membrane_execs_total", "Execs by how they ended.", "template", "outcome", outcomes_);
  counters("membrane_denials_total", "Calls of programs that the policy denied.", "call", "reason", denials_);
  counters("membrane_held_back_total", "Requests that the trifecta rule held back, by what was decided.",
           "call", "decision", held_back_);
  counters("membrane_answers_total", "Answers over HTTP.", "status", "", statuses_);
  counter(to, "membrane_fuel_total", "Fuel that execs have used.", fuel_);
  counter(to, "membrane_egress_bytes_total", "Bytes that programs have sent out.", egress_bytes_);
  head(to, "membrane_sandboxes", "gauge", "Sandboxes by state.");
  number(to, "membrane_sandboxes", label("state", "running"), counts.running);
  number(to, "membrane_sandboxes", label("state", "idle"), counts.sandboxes - counts.running);
  gauge(to, "membrane_sandboxes_resident", "Sandboxes with a process of their own.", counts.resident);
  gauge(to, "membrane_parked_bytes", "What parked sandboxes keep in memory.", counts.parked_bytes);
  gauge(to, "membrane_queue", "Sandboxes that wait for a thread.", counts.queued);
  gauge(to, "membrane_memory_limit_bytes", "What the memory limits of all sandboxes come to.",
        counts.memory_bytes);
  return to;
}

}  // namespace membrane::service
