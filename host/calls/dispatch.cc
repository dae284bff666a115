#include "host/calls/dispatch.h"

#include <algorithm>
#include <exception>
#include <new>

#include "base/freed_memory.h"
#include "base/text.h"
#include "base/utf8.h"
#include "policy/credentials.h"

namespace membrane::host {
namespace {

using std::chrono::steady_clock;

std::string bounded(std::string text, size_t most_bytes) {
  if (text.size() > most_bytes) {
    text.resize(utf8_cut(text, most_bytes));
    text += "…";
  }
  return utf8_repair(text);
}

// As a summary shows it, as far as it has room: without credentials.
std::string shown(const FunctionSpec& function, const Param& param, std::string_view text) {
  constexpr size_t kMost = kMaxSummaryBytes + 1;
  const bool has_headers = param.name == "headers" || param.name == "requests";
  if (function.module != "http" || !(has_headers || param.name == "url"))
    return std::string(text.substr(0, kMost));
  const std::string without =
      has_headers ? policy::json_without_credentials(text, kMost) : policy::without_credentials(text);
  return without.substr(0, kMost);
}

// "GET, https://example.org/": enough for a person to recognise the call.
std::string summary_of(const FunctionSpec& function, const Call& call) {
  std::string summary;
  for (size_t i = 0; i < function.params.size() && summary.size() < kMaxSummaryBytes; ++i) {
    if (i != 0) summary += ", ";
    switch (function.params[i].type) {
      case Type::kText:
      case Type::kBytes: summary += shown(function, function.params[i], call.text(i)); break;
      case Type::kI32: summary += std::to_string(call.i32(i)); break;
      case Type::kI64: summary += std::to_string(call.i64(i)); break;
      case Type::kF64: summary += std::to_string(call.f64(i)); break;
    }
  }
  return bounded_summary(std::move(summary));
}

}  // namespace

bool was_refused(const HostError& error) {
  return !error.acted && (error.is_unsent || error.code == Errno::kAccess || error.code == Errno::kBudget ||
                          error.code == Errno::kInvalid || error.code == Errno::kUnsupported);
}

std::string bounded_summary(std::string summary) { return bounded(std::move(summary), kMaxSummaryBytes); }

// Reasons and grants quote a program's data, which may be long, and may cut it inside a character.
std::string bounded_reason(std::string text) { return bounded(std::move(text), kMaxReasonBytes); }

HostResult<void> Call::check_size(uint64_t bytes) const {
  const uint64_t most = std::min(kMaxResultBytes, guest.host_memory().left_for_call() / 2);
  if (bytes <= most) return {};
  return refuse(Errno::kNoMemory, "the result would have " + count_of(bytes, "byte") +
                                      "; there is room for " + std::to_string(most));
}

HostResult<Value> Call::copy_of(std::string_view text) const {
  MEMBRANE_TRY(check_size(text.size()));
  return std::string(text);
}

CallOutcome Dispatcher::call(const FunctionSpec& function, std::span<const uint64_t> arguments,
                             std::span<uint64_t> results) {
  Call call(guest_, broker_, history_.state);
  Account account{decode(function, arguments, call)};
  ValueOutcome acted = act(function, call, account);
  if (acted.end != CallEnd::kReturn)
    return {acted.end, acted.value ? HostError{} : std::move(acted.value).error()};
  const HostResult<void> done =
      acted.value ? give(function, *acted.value, results) : std::unexpected(std::move(acted.value).error());
  acted.value = Value();
  if (account.bytes_in >= HostMemory::kLargeBytes) return_freed_memory();
  settle(function, done ? nullptr : &done.error(), std::move(account));
  return finish(function, done, results);
}

ValueOutcome Dispatcher::call(const FunctionSpec& function, const HostResult<Arguments>& arguments) {
  Call call(guest_, broker_, history_.state);
  Account account{0};
  if (arguments) {
    call.strings = arguments->strings;
    call.bits = arguments->bits;
    for (const std::string_view string : call.strings) *account.bytes_out += string.size();
  } else {
    account.bytes_out = std::unexpected(arguments.error());
  }
  ValueOutcome acted = act(function, call, account);
  if (acted.end != CallEnd::kReturn) return acted;
  settle(function, acted.value ? nullptr : &acted.value.error(), std::move(account));
  if (!acted.value) acted.value = std::unexpected(history_.last_error);
  return acted;
}

// Charges, calls the handler, and charges afterwards for what it did and returned.
ValueOutcome Dispatcher::act(const FunctionSpec& function, Call& call, Account& account) {
  const uint64_t bytes_out = account.bytes_out.value_or(0);
  const uint64_t price = function.cost.base + function.cost.per_byte * bytes_out;
  if (!guest_.charge(price))
    return {CallEnd::kOutOfFuel, refuse(Errno::kBudget, "there is no fuel left for the call")};
  call.work.most = guest_.fuel_left();
  if (function.effect == Effect::kWorld) {
    // The summary is made now: the arguments may be where the result will be written.
    if (account.bytes_out) account.summary = summary_of(function, call);
    account.start = steady_clock::now();
  }
  HostResult<Value> value =
      account.bytes_out ? perform(function, call) : std::unexpected(account.bytes_out.error());
  account.parts = std::move(call.parts);
  account.redirects = std::move(call.redirects);
  // A function that reads no byte of its arguments allocated nothing for them.
  if (bytes_out >= HostMemory::kLargeBytes && function.cost.per_byte != 0) return_freed_memory();
  if (call.work.is_too_much()) {
    // The call will be repeated. What it has done so far remains done.
    if (account.parts) record_parts(function, account);
    guest_.fall_short(price);
    return {CallEnd::kOutOfFuel, refuse(Errno::kBudget, "there is no fuel left for what the call does")};
  }
  if (call.end == CallEnd::kOutOfOutput)
    return {call.end, refuse(Errno::kQuota, "the output limit is reached")};
  if (call.end == CallEnd::kExit) return {call.end, Value()};
  if (const std::string* text = value ? std::get_if<std::string>(&*value) : nullptr)
    account.bytes_in = text->size();
  guest_.owe(call.work.done);
  guest_.owe(function.cost.per_byte * account.bytes_in);
  return {CallEnd::kReturn, std::move(value)};
}

// Records why the call failed (null: it did not), and its effects.
void Dispatcher::settle(const FunctionSpec& function, const HostError* error, Account account) {
  history_.last_error = error != nullptr ? *error : HostError{Errno::kOk, {}, {}};
  history_.last_error.reason = bounded_reason(std::move(history_.last_error.reason));
  history_.last_error.grant = bounded_reason(std::move(history_.last_error.grant));
  if (function.effect != Effect::kWorld) return;
  const auto latency =
      std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - account.start);
  const HostError& kept = history_.last_error;
  const std::string name = std::string(function.module) + "." + std::string(function.name);
  if (account.parts && (error == nullptr || !account.parts->empty())) return record_parts(function, account);
  record({name, kept.code, kept.reason, kept.grant, std::move(account.summary), account.bytes_in,
          was_refused(kept) ? 0 : account.bytes_out.value_or(0), static_cast<uint64_t>(latency.count())});
  record_redirects(std::move(account.redirects));
}

// Each has an equal share of the call's time.
void Dispatcher::record_parts(const FunctionSpec& function, Account& account) {
  const auto latency =
      std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - account.start);
  const std::string name = std::string(function.module) + "." + std::string(function.name);
  for (CallPart& part : *account.parts)
    record_part({.name = name, .latency_us = static_cast<uint64_t>(latency.count()) / account.parts->size()},
                std::move(part));
}

void Dispatcher::record_part(CallRecord made, CallPart part) {
  made.code = part.error.code;
  made.bytes_in = part.bytes_in;
  made.bytes_out = was_refused(part.error) ? 0 : part.bytes_out;
  made.reason = bounded_reason(std::move(part.error.reason));
  made.grant = bounded_reason(std::move(part.error.grant));
  made.arguments = bounded_summary(std::move(part.summary));
  record(std::move(made));
  record_redirects(std::move(part.redirects));
}

void Dispatcher::record_redirects(std::vector<std::string> redirects) {
  for (std::string& each : redirects)
    record({.name = std::string(kRedirect), .arguments = bounded_summary(std::move(each))});
}

// Reads only the strings' bounds: their bytes are read once they are paid for.
HostResult<uint64_t> Dispatcher::decode(const FunctionSpec& function, std::span<const uint64_t> arguments,
                                        Call& call) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < function.params.size(); ++i) {
    call.bits[i] = arguments[i];
    if (!is_string(function.params[i].type)) continue;
    const auto string = guest_.read_string(static_cast<uint32_t>(arguments[i]));
    if (!string)
      return refuse(string.error().code, std::string(function.params[i].name) + ": " + string.error().reason);
    call.strings[i] = *string;
    bytes += string->size();
  }
  return bytes;
}

HostResult<Value> Dispatcher::perform(const FunctionSpec& function, Call& call) {
  for (size_t i = 0; i < function.params.size(); ++i) {
    if (function.params[i].type != Type::kText) continue;
    if (const size_t at = utf8_valid_prefix(call.text(i)); at != call.text(i).size())
      return refuse(Errno::kInvalid,
                    std::string(function.params[i].name) + " is not UTF-8 at byte " + std::to_string(at));
  }
  // Libraries throw when memory runs out or a value is unexpected; no program may crash the host.
  try {
    return function.handler(call);
  } catch (const std::bad_alloc&) {
    return refuse(Errno::kNoMemory, std::string(kNoMemoryForCall));
  } catch (const std::exception& error) {
    return refuse(Errno::kHost, std::string(kCapabilityFailed) + error.what());
  }
}

HostResult<void> Dispatcher::give(const FunctionSpec& function, const Value& value,
                                  std::span<uint64_t> results) {
  if (!function.result) return {};
  if (const auto* text = std::get_if<std::string>(&value)) {
    const auto pointer = guest_.write_string(*text);
    if (!pointer) return std::unexpected(pointer.error());
    results[0] = *pointer;
  } else if (const auto* i32 = std::get_if<int32_t>(&value)) {
    results[0] = static_cast<uint32_t>(*i32);
  } else if (const auto* i64 = std::get_if<int64_t>(&value)) {
    results[0] = static_cast<uint64_t>(*i64);
  } else if (const auto* f64 = std::get_if<double>(&value)) {
    results[0] = std::bit_cast<uint64_t>(*f64);
  }
  return {};
}

CallOutcome Dispatcher::finish(const FunctionSpec& function, const HostResult<void>& done,
                               std::span<uint64_t> results) {
  if (!function.can_fail) {
    if (done) return {};
    return {done.error().code == Errno::kNoMemory ? CallEnd::kOutOfMemory : CallEnd::kTrap,
            history_.last_error};
  }
  results.back() = done ? 0 : static_cast<uint64_t>(done.error().code);
  if (!done && function.result) {
    // The empty string, so that a program that does not check errno reads nothing, rather than something else.
    results[0] = is_string(*function.result) ? guest_.write_string("").value_or(0) : 0;
  }
  return {};
}

void Dispatcher::go_on_from(History history) {
  history_ = std::move(history);
  history_.record_bytes = 0;
  for (const CallRecord& record : history_.records) history_.record_bytes += record.text_bytes();
}

void Dispatcher::record(CallRecord record) {
  if (!record.allowed()) history_.denial = record;
  list(std::move(record));
}

void Dispatcher::list(CallRecord record) {
  const bool malformed = record.code == Errno::kFault || record.code == Errno::kInvalid;
  const bool has_room =
      history_.records.size() < kMaxRecords && history_.record_bytes + record.text_bytes() <= kMaxRecordBytes;
  if (has_room && (!malformed || history_.malformed < kMaxMalformedRecords)) {
    history_.malformed += malformed ? 1 : 0;
    history_.record_bytes += record.text_bytes();
    history_.records.push_back(std::move(record));
  } else {
    ++history_.records_dropped;
  }
}

}  // namespace membrane::host
