#include "host/gate/broker_gate.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <initializer_list>
#include <utility>

#include "base/sha256.h"
#include "base/text.h"
#include "base/utf8.h"
#include "host/gate/recorded_calls.h"
#include "policy/credentials.h"

namespace membrane::host {
namespace {

using std::chrono::steady_clock;

uint64_t microseconds_since(steady_clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - start).count());
}

constexpr std::string_view kFellShort = "there is no fuel left for what the call does";
constexpr std::string_view kQueriesUsedAll =
    "The run's queries have used all of its fuel (limits.fuel, --fuel).";

// --- answers as JSON and back ------------------------------------------------------------
// A pair for each type of a broker's answers. read() returns false for text not made by write().

void write(JsonWriter& out, const std::string& bytes) { out.bytes(bytes); }
bool read(JsonReader& in, std::string& bytes) { return in.bytes(bytes); }

void write(JsonWriter& out, int64_t value) { out.number(value); }
void write(JsonWriter& out, uint64_t value) { out.number(value); }
bool read(JsonReader& in, int64_t& value) { return in.number(value); }
bool read(JsonReader& in, uint64_t& value) { return in.number(value); }

// As bytes: JSON has no infinity or NaN.
void write(JsonWriter& out, const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) {
    for (unsigned i = 0; i < 4; ++i) bytes += static_cast<char>(std::bit_cast<uint32_t>(value) >> (8 * i));
  }
  out.base64("f32", bytes);
}
bool read(JsonReader& in, std::vector<float>& values) {
  std::string bytes;
  if (!in.base64("f32", bytes) || bytes.size() % 4 != 0) return false;
  for (size_t at = 0; at < bytes.size(); at += 4) {
    uint32_t word = 0;
    for (unsigned i = 0; i < 4; ++i)
      word |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
    values.push_back(std::bit_cast<float>(word));
  }
  return true;
}

// "link" and "id" are present only with an identity: below a grant with links.
void write(JsonWriter& out, const FileInfo& info) {
  out.raw("{\"name\":");
  out.bytes(info.name);
  out.raw(",\"directory\":");
  out.flag(info.is_directory);
  out.raw(",\"size\":");
  out.number(info.size_bytes);
  if (info.file_id != 0) {
    out.raw(",\"link\":");
    out.flag(info.is_link);
    out.raw(",\"id\":");
    out.number(info.file_id);
  }
  out.raw("}");
}
bool read(JsonReader& in, FileInfo& info) {
  if (!in.skip("{\"name\":") || !in.bytes(info.name) || !in.skip(",\"directory\":") ||
      !in.flag(info.is_directory) || !in.skip(",\"size\":") || !in.number(info.size_bytes))
    return false;
  if (in.skip(",\"link\":") && (!in.flag(info.is_link) || !in.skip(",\"id\":") || !in.number(info.file_id)))
    return false;
  return in.skip("}");
}

// For texts and files.
template <typename T>
void write(JsonWriter& out, const std::vector<T>& values) {
  out.list(values, [&](const T& value) { write(out, value); });
}
template <typename T>
bool read(JsonReader& in, std::vector<T>& values) {
  return in.list([&] { return read(in, values.emplace_back()); });
}

// Size and times, then the fields for a grant with links. Other lengths are invalid.
void write(JsonWriter& out, const FileStatus& status) {
  out.raw("[");
  out.flag(status.is_directory);
  out.raw(",");
  out.number(status.size_bytes);
  for (const int64_t ns : {status.accessed_ns, status.modified_ns, status.changed_ns}) {
    out.raw(",");
    out.number(ns);
  }
  if (status.file_id != 0) {
    out.raw(",");
    out.flag(status.is_link);
    for (const uint64_t number : {status.link_count, status.file_id}) {
      out.raw(",");
      out.number(number);
    }
  }
  out.raw("]");
}
bool read(JsonReader& in, FileStatus& status) {
  if (!in.skip("[") || !in.flag(status.is_directory) || !in.skip(",") || !in.number(status.size_bytes))
    return false;
  for (int64_t* const ns : {&status.accessed_ns, &status.modified_ns, &status.changed_ns})
    if (!in.skip(",") || !in.number(*ns)) return false;
  if (in.skip("]")) return true;
  if (!in.skip(",") || !in.flag(status.is_link)) return false;
  for (uint64_t* const number : {&status.link_count, &status.file_id})
    if (!in.skip(",") || !in.number(*number)) return false;
  return in.skip("]");
}

// [first, second]
template <typename First, typename Second>
void write_pair(JsonWriter& out, const First& first, const Second& second) {
  out.raw("[");
  write(out, first);
  out.raw(",");
  write(out, second);
  out.raw("]");
}
template <typename First, typename Second>
bool read_pair(JsonReader& in, First& first, Second& second) {
  return in.skip("[") && read(in, first) && in.skip(",") && read(in, second) && in.skip("]");
}

void write(JsonWriter& out, const LinkOnPath& link) { write_pair(out, link.path, link.target); }
bool read(JsonReader& in, LinkOnPath& link) { return read_pair(in, link.path, link.target); }
void write(JsonWriter& out, const OpenedFile& opened) { write_pair(out, opened.handle, opened.status); }
bool read(JsonReader& in, OpenedFile& opened) { return read_pair(in, opened.handle, opened.status); }

void write(JsonWriter& out, const HttpResponse& response) {
  out.raw("{\"status\":");
  out.number(int64_t{response.status});
  out.raw(",\"final_url\":");
  out.bytes(response.final_url);
  out.raw(",\"headers\":");
  out.list(response.headers, [&](const auto& header) { write_pair(out, header.first, header.second); });
  out.raw(",\"body\":");
  out.bytes(response.body);
  out.raw("}");
}
bool read(JsonReader& in, HttpResponse& response) {
  int64_t status = 0;
  if (!in.skip("{\"status\":") || !in.number(status) || status < 0 || status > 999 ||
      !in.skip(",\"final_url\":") || !in.bytes(response.final_url) || !in.skip(",\"headers\":"))
    return false;
  response.status = static_cast<int>(status);
  const bool has_headers = in.list([&] {
    auto& [name, value] = response.headers.emplace_back();
    return read_pair(in, name, value);
  });
  return has_headers && in.skip(",\"body\":") && in.bytes(response.body) && in.skip("}");
}

void write(JsonWriter& out, const ChatAnswer& answer) {
  out.raw("{\"text\":");
  out.bytes(answer.text);
  out.raw(",\"tokens_in\":");
  out.number(answer.tokens_in);
  out.raw(",\"tokens_out\":");
  out.number(answer.tokens_out);
  out.raw("}");
}
bool read(JsonReader& in, ChatAnswer& answer) {
  return in.skip("{\"text\":") && in.bytes(answer.text) && in.skip(",\"tokens_in\":") &&
         in.number(answer.tokens_in) && in.skip(",\"tokens_out\":") && in.number(answer.tokens_out) &&
         in.skip("}");
}

// --- the content of an answer ---------------------------------------------------------------

template <typename T>
uint64_t content_bytes(const T& answer) {
  if constexpr (std::is_same_v<T, std::string>) return answer.size();
  else if constexpr (std::is_same_v<T, HttpResponse>) return answer.body.size();
  else if constexpr (std::is_same_v<T, ChatAnswer>) return answer.text.size();
  else return 0;
}

template <typename T>
bool has_content(const T& answer) {
  if constexpr (std::is_same_v<T, LinkOnPath>) return !answer.path.empty();
  else if constexpr (std::is_same_v<T, std::string>) return !answer.empty();
  else return true;
}

template <typename T>
bool is_directory(const T& answer) {
  if constexpr (std::is_same_v<T, FileInfo> || std::is_same_v<T, FileStatus>) return answer.is_directory;
  else return true;
}

template <typename T>
std::string_view final_url(const T& answer) {
  if constexpr (std::is_same_v<T, HttpResponse>) return answer.final_url;
  else return {};
}

template <typename T>
std::optional<uint64_t> opened_handle(const T& answer) {
  if constexpr (std::is_same_v<T, OpenedFile>) return answer.handle;
  else return std::nullopt;
}

// --- redirects -------------------------------------------------------------------------------

constexpr std::string_view kHttpRequest = "http.request";

void add_hop(std::vector<HttpHop>& hops, const HttpHop& hop) {
  if (hops.size() < kMaxHttpHops) hops.push_back(hop);
}

// The first hop is the program's own request.
template <typename T>
void add_redirects(const std::vector<HttpHop>& hops, HostResult<T>& answer) {
  std::vector<std::string>* redirects = answer ? nullptr : &answer.error().redirects;
  if constexpr (std::is_same_v<T, HttpResponse>)
    if (answer) redirects = &answer->redirects;
  for (size_t i = 1; redirects != nullptr && i < hops.size(); ++i)
    redirects->push_back(hops[i].method + ", " + policy::without_credentials(hops[i].url));
}

template <typename T>
std::span<const std::string> redirects_of(const HostResult<T>& answer) {
  if constexpr (std::is_same_v<T, HttpResponse>)
    if (answer) return answer->redirects;
  if (answer) return {};
  return answer.error().redirects;
}

}  // namespace

// --- the common path ------------------------------------------------------------------------

// The request in parts: their lengths distinguish ("ab", "c") from ("a", "bc").
struct BrokerGate::Request {
  Request(std::string_view name, std::initializer_list<std::string_view> parts)
      : function(name), arguments(parts) {}

  std::string_view function;
  std::vector<std::string_view> arguments;

  // "kv.set(a, 1)", for people: bounded, and UTF-8.
  [[nodiscard]] std::string text() const {
    constexpr size_t kMaxArgumentBytes = 60, kMaxArguments = 6;
    std::string out(function);
    out += "(";
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (i != 0) out += ", ";
      if (i == kMaxArguments) {
        out += "…";
        break;
      }
      const std::string argument = shown(i);
      const size_t cut = utf8_cut(argument, kMaxArgumentBytes);
      out += utf8_repair(std::string_view(argument).substr(0, cut));
      if (cut < argument.size()) out += "…";
    }
    return out + ")";
  }

  // Without credentials: of http.request, the arguments are method, URL, body, and names and values of headers.
  [[nodiscard]] std::string shown(size_t i) const {
    if (function != kHttpRequest || i == 0 || i == 2) return std::string(arguments[i]);
    if (i == 1) return policy::without_credentials(arguments[i]);
    const bool is_value = i % 2 == 0;
    return std::string(is_value && policy::is_name_of_credential(arguments[i - 1]) ? policy::kHiddenCredential
                                                                                   : arguments[i]);
  }

  [[nodiscard]] Result<std::string> hash() const {
    MEMBRANE_ASSIGN(Sha256 hash, Sha256::begin());
    for (const std::string_view argument : arguments) {
      hash.add(std::to_string(argument.size()) + ":");
      hash.add(argument);
    }
    return hash.finish();
  }
};

bool BrokerGate::is_made_again(const Request& request) {
  if (!fell_short_) return false;
  if (fell_short_->may_be_made_again && fell_short_->function == request.function &&
      std::ranges::equal(fell_short_->arguments, request.arguments))
    return true;
  give_up_what_fell_short();
  return false;
}

void BrokerGate::give_up_what_fell_short() {
  if (!fell_short_) return;
  query_fuel_used_ += fell_short_->fuel;
  if (fell_short_->is_in_the_replay) ++next_;
  fell_short_.reset();
}

template <typename T, typename Act>
HostResult<T> BrokerGate::pass(const Request& request, Act act, Price price, Work* work) {
  const bool is_again = is_made_again(request);
  if (is_again) {
    const FellShort before = *std::exchange(fell_short_, std::nullopt);
    query_fuel_left_ += before.fuel;
    if (record_ != nullptr && before.is_in_the_journal) record_->drop_last();
    if (ledger_ != nullptr) ledger_->drop_what_fell_short();
    price = Price::kNothing;
  } else if (flows_ != nullptr) {
    flows_->begin_call();
  }
  // A request that the journal refuses was made, too, and nothing was read.
  const auto note_refusal = [&](const HostError& error) {
    if (ledger_ != nullptr) ledger_->note(request.function, request.arguments, &error, 0, std::nullopt);
  };
  auto hash = hash_of(request);
  if (!hash) {
    note_refusal(hash.error());
    return std::unexpected(hash.error());
  }
  const auto start = steady_clock::now();
  Work bounded;
  const auto act_within = [&] {
    if constexpr (std::is_invocable_v<Act, Work&>) return act(bounded);
    else return act();
  };
  if (work != nullptr) bounded.most = std::min(work->most, query_fuel_left_);
  HostResult<T> answer = replay_
                             ? answer_from_journal<T>(request, *hash, work == nullptr ? nullptr : &bounded)
                             : act_on_world<T>(request, act_within, price);
  if (work != nullptr) work->add(bounded.done);
  if (divergence_) {
    note_refusal(answer.error());
    return answer;
  }
  const uint64_t fuel = std::min(bounded.done, query_fuel_left_);
  query_fuel_left_ -= fuel;
  if (bounded.is_too_much()) {
    const bool falls_short = work->is_too_much();
    answer = refuse(Errno::kBudget, std::string(falls_short ? kFellShort : kQueriesUsedAll));
    if (falls_short)
      fell_short_ = {request.function,
                     {request.arguments.begin(), request.arguments.end()},
                     fuel,
                     replay_ != nullptr && had_fallen_short_};
  }
  if (!fell_short_) query_fuel_used_ += fuel;
  note_read(request, answer);
  HostResult<T> kept =
      keep<T>(request, std::move(*hash), std::move(answer), microseconds_since(start), bounded.done);
  note_answer(request, kept);
  return kept;
}

template <typename T>
void BrokerGate::note_answer(const Request& request, const HostResult<T>& answer) {
  if (ledger_ == nullptr) return;
  const HostError* const error = answer ? nullptr : &answer.error();
  uint64_t bytes_in = 0;
  std::optional<uint64_t> handle;
  if constexpr (!std::is_void_v<T>) {
    if (answer) {
      bytes_in = content_bytes(*answer);
      handle = opened_handle(*answer);
    }
  }
  if (fell_short_) ledger_->note_short(request.function, request.arguments, *error);
  else ledger_->note(request.function, request.arguments, error, bytes_in, handle);
  for (const std::string_view redirect : redirects_of(answer))
    ledger_->note(kRedirect, {&redirect, 1}, nullptr, 0, std::nullopt);
}

template <typename T>
void BrokerGate::note_read(const Request& request, const HostResult<T>& answer) {
  if (flows_ == nullptr) return;
  const HostError* const error = answer ? nullptr : &answer.error();
  FlowGuard::Answer read{.error = error};
  if constexpr (!std::is_void_v<T>) {
    if (answer) {
      read.handle = opened_handle(*answer);
      read.has_content = has_content(*answer);
      read.final_url = final_url(*answer);
      read.is_directory = is_directory(*answer);
    }
  }
  if (replay_ != nullptr) flows_->note_decided(request.function, request.arguments, error, was_approved_);
  flows_->note(request.function, request.arguments, read);
}

HostResult<std::string> BrokerGate::hash_of(const Request& request) {
  if (record_ == nullptr && replay_ == nullptr) return std::string();
  auto hash = request.hash();
  if (!hash) return refuse(Errno::kHost, "the call cannot be journaled: " + hash.error().message);
  return std::move(*hash);
}

template <typename T>
HostResult<T> BrokerGate::keep(const Request& request, std::string arguments_sha256, HostResult<T> answer,
                               uint64_t latency_us, uint64_t fuel) {
  if (record_ == nullptr) return answer;
  JournalEntry entry;
  entry.function = request.function;
  entry.arguments_sha256 = std::move(arguments_sha256);
  entry.latency_us = latency_us;
  entry.fuel = fuel;
  entry.is_approved = flows_ != nullptr && flows_->was_approved();
  if (flows_ != nullptr) entry.heard = flows_->heard_besides(request.arguments);
  else if (request.function == kHttpRequest && hops_.size() > 1) entry.heard = hops_;
  const size_t deciding = std::min(deciding_arguments(request.function), request.arguments.size());
  entry.decided_by.assign(request.arguments.begin(),
                          request.arguments.begin() + static_cast<std::ptrdiff_t>(deciding));
  if (!answer) {
    entry.code = answer.error().code;
    entry.reason = answer.error().reason;
    entry.grant = answer.error().grant;
  }
  const auto write_result = [&](JsonWriter& out) {
    if constexpr (std::is_void_v<T>) out.raw("null");
    else if (answer) write(out, *answer);
    else out.raw("null");
  };
  auto written = record_->append(std::move(entry), write_result);
  if (!written && fell_short_) fell_short_->is_in_the_journal = false;
  if (!written) return refuse(Errno::kHost, "the call cannot be journaled: " + written.error().message);
  return answer;
}

HostResult<void> BrokerGate::pay(Price price) {
  const bool pays =
      price == Price::kHostCall || (price == Price::kPartOfOne && ++parts_ % kPartsOfHostCall == 0);
  if (pays && budget_ != nullptr && !budget_->take(policy::Resource::kHostCalls, 1))
    return refuse(Errno::kBudget, std::string(policy::used_up(policy::Resource::kHostCalls)));
  return {};
}

template <typename T, typename Act>
HostResult<T> BrokerGate::act_on_world(const Request& request, Act act, Price price) {
  if (auto paid = pay(price); !paid) return std::unexpected(paid.error());
  if (flows_ != nullptr)
    if (auto may = flows_->may_leave(request.function, request.arguments); !may)
      return std::unexpected(may.error());
  return act();
}

template <typename T>
HostResult<T> BrokerGate::answer_from_journal(const Request& request, const std::string& arguments_sha256,
                                              Work* work) {
  if (divergence_) return refuse(Errno::kHost, *divergence_);
  const auto leave = [&](const std::string& how) {
    return diverge("call " + std::to_string(next_ + 1) + " is " + request.text() + ", and " + how);
  };
  if (next_ == replay_->size()) return leave("the journal has ended, after " + count_of(next_, "call"));
  const JournalEntry* const found = replay_->entry(next_);
  if (found == nullptr) return leave("the journal cannot be read any more");
  const JournalEntry& entry = *found;
  was_approved_ = entry.is_approved;
  if (entry.function != request.function) return leave("the journal has " + entry.function);
  if (entry.arguments_sha256 != arguments_sha256)
    return leave("the journal has " + entry.function + " with other arguments");
  if (work != nullptr) {
    work->add(entry.fuel);
    had_fallen_short_ = entry.code == Errno::kBudget && entry.reason == kFellShort;
    if (work->is_too_much()) return refuse(Errno::kBudget, "");
    if (had_fallen_short_) return leave("in the journal its fuel ended before the call did");
  }
  if (flows_ != nullptr)
    for (const HttpHop& hop : entry.heard) flows_->hear(hop);
  if (entry.code != Errno::kOk) {
    ++next_;
    HostResult<T> failure = refuse(entry.code, entry.reason, entry.grant);
    add_redirects(entry.heard, failure);
    return failure;
  }
  if constexpr (std::is_void_v<T>) {
    ++next_;
    return {};
  } else {
    T answer{};
    JsonReader in(entry.result);
    if (!read(in, answer) || !in.is_at_end()) return leave("the journal's result is not one of it");
    ++next_;
    HostResult<T> success = std::move(answer);
    add_redirects(entry.heard, success);
    return success;
  }
}

std::unexpected<HostError> BrokerGate::diverge(std::string what) {
  divergence_ = "the run has left its journal: " + std::move(what);
  return refuse(Errno::kHost, *divergence_);
}

void BrokerGate::end_replay() {
  give_up_what_fell_short();
  if (divergence_ || entries_left() == 0) return;
  const JournalEntry* const next = replay_->entry(next_);
  const std::string calls = std::to_string(next_) + " of the journal's " + std::to_string(replay_->size());
  divergence_ = "the run has left its journal: it ended after " + calls + " calls" +
                (next == nullptr ? "" : ", and the next is " + next->function);
}

HostResult<std::vector<std::string>> BrokerGate::directories(const std::vector<std::string>& granted) {
  constexpr std::string_view kName = "fs.directories";
  const JournalEntry* const next =
      replay_ != nullptr && next_ < replay_->size() ? replay_->entry(next_) : nullptr;
  const bool is_next = next != nullptr && next->function == kName;
  if (replay_ != nullptr ? !is_next : granted.empty()) return granted;
  const Price price = std::exchange(has_listed_directories_, true) ? Price::kHostCall : Price::kNothing;
  return pass<std::vector<std::string>>(
      {kName, {}}, [&] { return HostResult<std::vector<std::string>>(granted); }, price);
}

// --- each request ------------------------------------------------------------------------

BrokerGate::Request BrokerGate::request_of(const HttpRequest& request) {
  Request asked(kHttpRequest, {request.method, request.url, request.body});
  for (const auto& [name, value] : request.headers) {
    asked.arguments.push_back(name);
    asked.arguments.push_back(value);
  }
  return asked;
}

HostResult<HttpResponse> BrokerGate::http(const HttpRequest& request) {
  hops_.clear();
  return pass<HttpResponse>(request_of(request), [&] {
    HttpRequest here = request;
    here.hear = [this](const HttpHop& hop) {
      add_hop(hops_, hop);
      return flows_ == nullptr || flows_->hear(hop);
    };
    auto answer = world_->http(here);
    add_redirects(hops_, answer);
    return answer;
  });
}

std::vector<HostResult<HttpResponse>> BrokerGate::http_many(std::span<const HttpRequest> requests) {
  // By the trifecta rule, one answer can close egress for the next request.
  if (replay_ != nullptr || flows_ != nullptr) return Broker::http_many(requests);
  give_up_what_fell_short();
  const auto start = steady_clock::now();
  std::vector<HostResult<HttpResponse>> answers;
  std::vector<HttpRequest> paid;
  for (const HttpRequest& request : requests) {
    if (auto done = pay(Price::kHostCall); !done) {
      answers.emplace_back(std::unexpected(done.error()));
    } else {
      answers.emplace_back();
      paid.push_back(request);
    }
  }
  std::vector<std::vector<HttpHop>> hops(paid.size());
  for (size_t i = 0; i < paid.size(); ++i)
    paid[i].hear = [&of = hops[i]](const HttpHop& hop) { return add_hop(of, hop), true; };
  std::vector<HostResult<HttpResponse>> came = world_->http_many(paid);
  size_t next = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    hops_.clear();
    if (answers[i]) {
      hops_ = std::move(hops[next]);
      answers[i] = std::move(came[next++]);
      add_redirects(hops_, answers[i]);
    }
    const Request asked = request_of(requests[i]);
    auto hash = hash_of(asked);
    if (!hash) answers[i] = std::unexpected(hash.error());
    else answers[i] = keep(asked, std::move(*hash), std::move(answers[i]), microseconds_since(start), 0);
    note_answer(asked, answers[i]);
  }
  return answers;
}

HostResult<std::string> BrokerGate::file_read(std::string_view path, uint64_t most_bytes) {
  return pass<std::string>({"fs.read", {path}}, [&] { return world_->file_read(path, most_bytes); });
}
HostResult<void> BrokerGate::file_write(std::string_view path, std::string_view bytes, FileMode mode) {
  return pass<void>({mode == FileMode::kAppend ? "fs.append" : "fs.write", {path, bytes}},
                    [&] { return world_->file_write(path, bytes, mode); });
}
HostResult<std::vector<FileInfo>> BrokerGate::file_list(std::string_view path) {
  return pass<std::vector<FileInfo>>({"fs.list", {path}}, [&] { return world_->file_list(path); });
}
HostResult<FileInfo> BrokerGate::file_stat(std::string_view path) {
  return pass<FileInfo>({"fs.stat", {path}}, [&] { return world_->file_stat(path); });
}
HostResult<void> BrokerGate::file_remove(std::string_view path) {
  return pass<void>({"fs.remove", {path}}, [&] { return world_->file_remove(path); });
}
HostResult<OpenedFile> BrokerGate::file_open(std::string_view path, const FileOpening& how) {
  const std::string text = std::string(how.write ? "w" : "") + (how.create ? "c" : "") +
                           (how.exclusive ? "x" : "") + (how.truncate ? "t" : "");
  auto opened = pass<OpenedFile>({"fs.open", {path, text}}, [&] { return world_->file_open(path, how); });
  open_files_ += opened ? 1 : 0;
  return opened;
}
HostResult<std::string> BrokerGate::file_read_at(FileHandle file, uint64_t offset, uint32_t count) {
  const std::string number = std::to_string(file), at = std::to_string(offset), most = std::to_string(count);
  return pass<std::string>(
      {"fs.read_at", {number, at, most}}, [&] { return world_->file_read_at(file, offset, count); },
      Price::kPartOfOne);
}
HostResult<void> BrokerGate::file_write_at(FileHandle file, uint64_t offset, std::string_view bytes) {
  const std::string number = std::to_string(file), at = std::to_string(offset);
  return pass<void>(
      {"fs.write_at", {number, at, bytes}}, [&] { return world_->file_write_at(file, offset, bytes); },
      Price::kPartOfOne);
}
HostResult<void> BrokerGate::file_resize(FileHandle file, uint64_t size) {
  const std::string number = std::to_string(file), bytes = std::to_string(size);
  return pass<void>(
      {"fs.resize", {number, bytes}}, [&] { return world_->file_resize(file, size); }, Price::kPartOfOne);
}
HostResult<FileStatus> BrokerGate::file_status(FileHandle file) {
  const std::string number = std::to_string(file);
  return pass<FileStatus>(
      {"fs.status_of", {number}}, [&] { return world_->file_status(file); }, Price::kPartOfOne);
}
HostResult<void> BrokerGate::file_sync(FileHandle file) {
  const std::string number = std::to_string(file);
  return pass<void>({"fs.sync", {number}}, [&] { return world_->file_sync(file); });
}
HostResult<void> BrokerGate::file_close(FileHandle file) {
  const std::string number = std::to_string(file);
  const Price price = open_files_ != 0 ? Price::kNothing : Price::kPartOfOne;
  open_files_ -= open_files_ != 0 ? 1 : 0;
  return pass<void>({"fs.close", {number}}, [&] { return world_->file_close(file); }, price);
}
HostResult<FileStatus> BrokerGate::path_status(std::string_view path) {
  return pass<FileStatus>({"fs.status", {path}}, [&] { return world_->path_status(path); });
}
HostResult<LinkOnPath> BrokerGate::path_find_link(std::string_view path) {
  return pass<LinkOnPath>({"fs.find_link", {path}}, [&] { return world_->path_find_link(path); });
}
HostResult<void> BrokerGate::link_make_symbolic(std::string_view target, std::string_view path) {
  return pass<void>({"fs.symlink", {target, path}}, [&] { return world_->link_make_symbolic(target, path); });
}
HostResult<void> BrokerGate::link_make_hard(std::string_view from, std::string_view to) {
  return pass<void>({"fs.link", {from, to}}, [&] { return world_->link_make_hard(from, to); });
}
HostResult<void> BrokerGate::path_set_times(std::string_view path, const FileTimes& times) {
  const auto text = [](const std::optional<int64_t>& ns) { return ns ? std::to_string(*ns) : std::string(); };
  const std::string accessed = text(times.accessed_ns), modified = text(times.modified_ns);
  return pass<void>({"fs.set_times", {path, accessed, modified}},
                    [&] { return world_->path_set_times(path, times); });
}
HostResult<void> BrokerGate::path_unlink(std::string_view path) {
  return pass<void>({"fs.unlink", {path}}, [&] { return world_->path_unlink(path); });
}
HostResult<void> BrokerGate::path_rename(std::string_view from, std::string_view to) {
  return pass<void>({"fs.rename", {from, to}}, [&] { return world_->path_rename(from, to); });
}
HostResult<void> BrokerGate::directory_make(std::string_view path) {
  return pass<void>({"fs.make_directory", {path}}, [&] { return world_->directory_make(path); });
}
HostResult<void> BrokerGate::directory_remove(std::string_view path) {
  return pass<void>({"fs.remove_directory", {path}}, [&] { return world_->directory_remove(path); });
}
HostResult<std::string> BrokerGate::kv_get(std::string_view key) {
  return pass<std::string>({"kv.get", {key}}, [&] { return world_->kv_get(key); });
}
HostResult<void> BrokerGate::kv_set(std::string_view key, std::string_view value) {
  return pass<void>({"kv.set", {key, value}}, [&] { return world_->kv_set(key, value); });
}
HostResult<void> BrokerGate::kv_remove(std::string_view key) {
  return pass<void>({"kv.delete", {key}}, [&] { return world_->kv_remove(key); });
}
HostResult<std::vector<std::string>> BrokerGate::kv_keys(std::string_view prefix) {
  return pass<std::vector<std::string>>({"kv.keys", {prefix}}, [&] { return world_->kv_keys(prefix); });
}
HostResult<std::string> BrokerGate::sql_query(std::string_view database, std::string_view sql,
                                              std::string_view parameters_json, Work& work) {
  return pass<std::string>(
      {"sql.query", {database, sql, parameters_json}},
      [&](Work& bounded) { return world_->sql_query(database, sql, parameters_json, bounded); },
      Price::kHostCall, &work);
}
HostResult<ChatAnswer> BrokerGate::ai_complete(const ChatRequest& request) {
  const std::string max_tokens = std::to_string(request.max_tokens);
  auto answer = pass<ChatAnswer>({"ai.complete", {request.system, request.prompt, max_tokens}},
                                 [&] { return world_->ai_complete(request); });
  if (answer) tokens_used_ += answer->tokens_in + answer->tokens_out;
  return answer;
}
HostResult<std::vector<float>> BrokerGate::ai_embed(std::string_view text) {
  return pass<std::vector<float>>({"ai.embed", {text}}, [&] { return world_->ai_embed(text); });
}
HostResult<int64_t> BrokerGate::clock_ms() {
  return pass<int64_t>({"time.now_ms", {}}, [&] { return world_->clock_ms(); });
}
HostResult<int64_t> BrokerGate::clock_ns() {
  return pass<int64_t>({"time.now_ns", {}}, [&] { return world_->clock_ns(); }, Price::kPartOfOne);
}
HostResult<std::string> BrokerGate::random_bytes(uint32_t count) {
  const std::string text = std::to_string(count);
  return pass<std::string>({"random.bytes", {text}}, [&] { return world_->random_bytes(count); });
}
HostResult<std::string> BrokerGate::ask(std::string_view question) {
  return pass<std::string>({"agent.ask", {question}}, [&] { return world_->ask(question); });
}

}  // namespace membrane::host
