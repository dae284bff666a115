// The types that a worker and its supervisor exchange: the fields of each struct, in order (wire.h).
#pragma once

#include <tuple>

#include "base/result.h"
#include "host/broker/broker.h"
#include "host/sources/sources.h"
#include "host/sources/time_zone.h"
#include "host/world/world.h"
#include "policy/policy.h"
#include "sandbox/report/report.h"
#include "sandbox/run/sandbox.h"
#include "sandbox/session/session.h"
#include "worker/wire.h"

namespace membrane {
constexpr ErrorCode wire_last(ErrorCode) { return ErrorCode::kInternal; }
inline auto wire_fields(Error& e) { return std::tie(e.code, e.message, e.hint); }
}  // namespace membrane

namespace membrane::engine {
constexpr Tier wire_last(Tier) { return Tier::kAuto; }
}  // namespace membrane::engine

namespace membrane::policy {

constexpr FsMode wire_last(FsMode) { return FsMode::kWrite; }
inline auto wire_fields(Limits& l) {
  return std::tie(l.fuel, l.memory_bytes, l.stack_bytes, l.call_depth, l.table_elements, l.output_bytes,
                  l.wall_ms, l.host_calls, l.bytes_in, l.bytes_out, l.tokens, l.module_bytes, l.disk_bytes,
                  l.tasks, l.cpu_ms);
}
constexpr Egress wire_last(Egress) { return Egress::kAsk; }
inline auto wire_fields(Marks& m) { return std::tie(m.is_private, m.is_untrusted); }
inline auto wire_fields(Trifecta& t) { return std::tie(t.egress, t.input_is_private, t.input_is_untrusted); }
inline auto wire_fields(HeaderValue& h) { return std::tie(h.text, h.secret); }
inline auto wire_fields(HttpGrant& g) {
  return std::tie(g.methods, g.url, g.headers, g.addresses, g.max_request_bytes, g.max_response_bytes,
                  g.timeout_ms, g.max_redirects, g.marks, g.traceparent);
}
inline auto wire_fields(FsGrant& g) {
  return std::tie(g.guest, g.host, g.mode, g.links, g.max_file_bytes, g.max_total_bytes, g.max_files,
                  g.marks);
}
inline auto wire_fields(KvGrant& g) {
  return std::tie(g.path, g.writable, g.prefix, g.max_keys, g.max_key_bytes, g.max_value_bytes,
                  g.max_total_bytes, g.marks);
}
inline auto wire_fields(SqlGrant& g) {
  return std::tie(g.name, g.path, g.max_rows, g.max_result_bytes, g.timeout_ms, g.marks);
}
inline auto wire_fields(AiGrant& g) { return std::tie(g.max_tokens_per_call, g.timeout_ms, g.embed); }
inline auto wire_fields(TimeGrant& g) { return std::tie(g.real, g.start_ms); }
inline auto wire_fields(RandomGrant& g) { return std::tie(g.real, g.seed); }
inline auto wire_fields(Packages& p) { return std::tie(p.python, p.javascript); }
inline auto wire_fields(Policy& p) {
  return std::tie(p.limits, p.http, p.fs, p.kv, p.sql, p.ai, p.time, p.random, p.ask, p.packages, p.trifecta,
                  p.platform);
}

}  // namespace membrane::policy

namespace membrane::host {

constexpr FileMode wire_last(FileMode) { return FileMode::kAppend; }
inline auto wire_fields(HostError& e) {
  return std::tie(e.code, e.reason, e.grant, e.acted, e.is_unsent, e.redirects);
}
inline auto wire_fields(HttpRequest& r) { return std::tie(r.method, r.url, r.headers, r.body); }
inline auto wire_fields(HttpResponse& r) {
  return std::tie(r.status, r.headers, r.body, r.final_url, r.redirects);
}
inline auto wire_fields(FileInfo& f) {
  return std::tie(f.name, f.is_directory, f.size_bytes, f.is_link, f.file_id);
}
inline auto wire_fields(FileOpening& o) { return std::tie(o.write, o.create, o.exclusive, o.truncate); }
inline auto wire_fields(FileStatus& s) {
  return std::tie(s.is_directory, s.size_bytes, s.accessed_ns, s.modified_ns, s.changed_ns, s.is_link,
                  s.link_count, s.file_id);
}
inline auto wire_fields(LinkOnPath& l) { return std::tie(l.path, l.target); }
inline auto wire_fields(OpenedFile& f) { return std::tie(f.handle, f.status); }
inline auto wire_fields(FileTimes& t) { return std::tie(t.accessed_ns, t.modified_ns); }
inline auto wire_fields(ChatRequest& r) { return std::tie(r.system, r.prompt, r.max_tokens); }
inline auto wire_fields(ChatAnswer& a) { return std::tie(a.text, a.tokens_in, a.tokens_out); }
inline auto wire_fields(Work& w) { return std::tie(w.most, w.done); }
constexpr Sources::Sleep wire_last(Sources::Sleep) { return Sources::Sleep::kAsked; }
inline auto wire_fields(TimeZone& z) { return std::tie(z.name, z.tzif); }
inline auto wire_fields(World::Position& p) { return std::tie(p.random_bytes, p.clock_readings); }
inline auto wire_fields(World::Amounts& a) {
  return std::tie(a.host_calls, a.bytes_in, a.bytes_out, a.tokens);
}

}  // namespace membrane::host

namespace membrane::lang {

constexpr SourceFormat wire_last(SourceFormat) { return SourceFormat::kWasm; }

}  // namespace membrane::lang

namespace membrane {

constexpr Outcome wire_last(Outcome) { return Outcome::kWaiting; }

}  // namespace membrane

namespace membrane::sandbox {

constexpr PackagesBy wire_last(PackagesBy) { return PackagesBy::kFlag; }
inline auto wire_fields(ReportPlace& p) { return std::tie(p.function, p.offset, p.line, p.column, p.file); }
inline auto wire_fields(ReportError& e) {
  return std::tie(e.code, e.message, e.place, e.hint, e.backtrace, e.traceback);
}
inline auto wire_fields(MimePart& p) { return std::tie(p.type, p.data, p.is_base64); }
inline auto wire_fields(ReportFile& f) { return std::tie(f.path, f.size_bytes); }
inline auto wire_fields(HostCallRecord& r) {
  return std::tie(r.name, r.allowed, r.error, r.reason, r.grant, r.arguments, r.bytes_in, r.bytes_out,
                  r.latency_us);
}
inline auto wire_fields(WaitingCall& c) {
  return std::tie(c.name, c.arguments, c.keywords, c.object, c.values, c.note);
}
constexpr FunctionAnswer::Kind wire_last(FunctionAnswer::Kind) { return FunctionAnswer::Kind::kLater; }
inline auto wire_fields(FunctionCall& c) { return std::tie(c.name, c.arguments, c.keywords, c.object); }
inline auto wire_fields(FunctionAnswer& a) { return std::tie(a.kind, a.value, a.type, a.message); }
inline auto wire_fields(ReportValue& v) { return std::tie(v.type, v.value, v.bits); }
inline auto wire_fields(Report& r) {
  return std::tie(r.outcome, r.errors, r.results, r.result, r.value, r.displays, r.files, r.kept, r.exit_code,
                  r.answer, r.submitted, r.stdout_text, r.stderr_text, r.fuel_used, r.cost_version,
                  r.memory_peak_bytes, r.tokens_used, r.compile_us, r.run_us, r.host_calls,
                  r.output_bytes_cut, r.host_calls_dropped, r.snapshot, r.snapshot_bytes, r.platform,
                  r.waits_for);
}
inline auto wire_fields(Program& p) {
  return std::tie(p.source, p.name, p.format, p.entry, p.arguments, p.input, p.environment);
}
inline auto wire_fields(Turn& t) {
  return std::tie(t.code, t.name, t.is_script, t.only_checks, t.declares_calls, t.arguments, t.input,
                  t.inputs, t.pause_at_fuel);
}
inline auto wire_fields(InputPiece& p) { return std::tie(p.bytes, p.is_end); }

}  // namespace membrane::sandbox
