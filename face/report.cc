#include "face/report.h"

#include <utility>

#include "face/convert.h"
#include "face/hints.h"

namespace membrane::face {
namespace {

std::vector<Report::Part> parts_of(const sandbox::RichValue& value) {
  std::vector<Report::Part> parts;
  for (const sandbox::MimePart& part : value) parts.push_back({part.type, part.data, part.is_base64});
  return parts;
}

Report::Result result_of(const sandbox::ReportValue& value) {
  Report::Result result{value.type, value.value, std::nullopt};
  for (const ValueType type : {ValueType::kI32, ValueType::kI64, ValueType::kF32, ValueType::kF64})
    if (value.type == wasm::name_of(wasm_type_of(type))) result.value = value_of(type, value.bits);
  return result;
}

}  // namespace

Report::Waiting waiting_of(const sandbox::WaitingCall& call) {
  Report::Waiting waiting{.name = call.name,
                          .arguments = call.arguments,
                          .keywords = call.keywords,
                          .object = call.object,
                          .note = call.note};
  for (const sandbox::ReportValue& value : call.values)
    waiting.values.push_back(result_of(value).value.value_or(Value()));
  return waiting;
}

Report report_of(sandbox::Report made, Reader reader) {
  if (reader == Reader::kEmbedder) say_to_embedder(made);
  Report report;
  report.outcome = made.outcome;
  for (const sandbox::ReportError& error : made.errors) report.failures.push_back(failure_of(error));
  for (const sandbox::ReportValue& value : made.results) report.results.push_back(result_of(value));
  report.result = made.result;
  if (made.submitted) report.answer = made.answer;
  report.exit_code = made.exit_code;
  report.stdout_text = made.stdout_text;
  report.stderr_text = made.stderr_text;
  report.fuel_used = made.fuel_used;
  report.cost_version = made.cost_version;
  report.memory_peak_bytes = made.memory_peak_bytes;
  report.compile_us = made.compile_us;
  report.run_us = made.run_us;
  for (const sandbox::HostCallRecord& c : made.host_calls)
    report.host_calls.push_back(
        {c.name, c.allowed, c.error, c.reason, c.grant, c.arguments, c.bytes_in, c.bytes_out, c.latency_us});
  for (sandbox::RichValue& each : made.displays) report.displays.push_back(parts_of(each));
  report.value = parts_of(made.value);
  for (const sandbox::ReportFile& file : made.files) report.files.push_back({file.path, file.size_bytes});
  for (const sandbox::WaitingCall& call : made.waits_for) report.waits_for.push_back(waiting_of(call));
  report.snapshot = std::exchange(made.snapshot, {});
  report.rendered = std::make_shared<const sandbox::Report>(std::move(made));
  return report;
}

Report refused(const Error& error) { return report_of(sandbox::refusal(error)); }

}  // namespace membrane::face
