#include "host/broker_gate.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/sha256.h"
#include "base/utf8.h"

namespace membrane::host {
namespace {

using nlohmann::ordered_json;
using std::chrono::steady_clock;

// --- answers as JSON and back ------------------------------------------------------------
// One pair for each type that a broker answers with. read() says false for what write() did
// not make.

ordered_json write(const std::string& bytes) {
  if (is_utf8(bytes)) return bytes;
  return {{"base64", base64_encode(bytes)}};
}
bool read(const ordered_json& json, std::string& bytes) {
  if (json.is_string()) {
    bytes = json.get<std::string>();
    return true;
  }
  if (!json.is_object() || json.size() != 1 || !json.contains("base64") || !json["base64"].is_string())
    return false;
  auto decoded = base64_decode(json["base64"].get_ref<const std::string&>());
  if (decoded) bytes = std::move(*decoded);
  return decoded.has_value();
}

ordered_json write(int64_t value) { return value; }
bool read(const ordered_json& json, int64_t& value) {
  if (!json.is_number_integer()) return false;
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) return false;
  value = json.get<int64_t>();
  return true;
}
bool read(const ordered_json& json, uint64_t& value) {
  if (!json.is_number_unsigned()) return false;
  value = json.get<uint64_t>();
  return true;
}

ordered_json write(const std::vector<std::string>& texts) {
  ordered_json array = ordered_json::array();
  for (const std::string& text : texts) array.push_back(write(text));
  return array;
}
bool read(const ordered_json& json, std::vector<std::string>& texts) {
  if (!json.is_array()) return false;
  return std::ranges::all_of(json,
                             [&](const ordered_json& item) { return read(item, texts.emplace_back()); });
}

// As bytes: JSON has no number for an infinity or a NaN.
ordered_json write(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) {
    for (unsigned i = 0; i < 4; ++i) bytes += static_cast<char>(std::bit_cast<uint32_t>(value) >> (8 * i));
  }
  return {{"f32", base64_encode(bytes)}};
}
bool read(const ordered_json& json, std::vector<float>& values) {
  if (!json.is_object() || json.size() != 1 || !json.contains("f32") || !json["f32"].is_string())
    return false;
  const auto bytes = base64_decode(json["f32"].get_ref<const std::string&>());
  if (!bytes || bytes->size() % 4 != 0) return false;
  for (size_t at = 0; at < bytes->size(); at += 4) {
    uint32_t word = 0;
    for (unsigned i = 0; i < 4; ++i)
      word |= static_cast<uint32_t>(static_cast<uint8_t>((*bytes)[at + i])) << (8 * i);
    values.push_back(std::bit_cast<float>(word));
  }
  return true;
}

ordered_json write(const FileInfo& info) {
  return {{"name", write(info.name)}, {"directory", info.is_directory}, {"size", info.size_bytes}};
}
bool read(const ordered_json& json, FileInfo& info) {
  if (!json.is_object() || json.size() != 3 || !json.contains("name") || !json.contains("directory") ||
      !json.contains("size") || !json["directory"].is_boolean())
    return false;
  info.is_directory = json["directory"].get<bool>();
  return read(json["name"], info.name) && read(json["size"], info.size_bytes);
}

ordered_json write(const std::vector<FileInfo>& entries) {
  ordered_json array = ordered_json::array();
  for (const FileInfo& entry : entries) array.push_back(write(entry));
  return array;
}
bool read(const ordered_json& json, std::vector<FileInfo>& entries) {
  if (!json.is_array()) return false;
  return std::ranges::all_of(json,
                             [&](const ordered_json& item) { return read(item, entries.emplace_back()); });
}

ordered_json write(const HttpResponse& response) {
  ordered_json headers = ordered_json::array();
  for (const auto& [name, value] : response.headers)
    headers.push_back(ordered_json::array({write(name), write(value)}));
  return {{"status", response.status},
          {"final_url", write(response.final_url)},
          {"headers", headers},
          {"body", write(response.body)}};
}
bool read(const ordered_json& json, HttpResponse& response) {
  int64_t status = 0;
  if (!json.is_object() || json.size() != 4 || !json.contains("status") || !json.contains("final_url") ||
      !json.contains("headers") || !json.contains("body") || !json["headers"].is_array() ||
      !read(json["status"], status) || status < 0 || status > 999)
    return false;
  response.status = static_cast<int>(status);
  for (const ordered_json& header : json["headers"]) {
    auto& [name, value] = response.headers.emplace_back();
    if (!header.is_array() || header.size() != 2 || !read(header[0], name) || !read(header[1], value))
      return false;
  }
  return read(json["final_url"], response.final_url) && read(json["body"], response.body);
}

ordered_json write(const ChatAnswer& answer) {
  return {{"text", write(answer.text)}, {"tokens_in", answer.tokens_in}, {"tokens_out", answer.tokens_out}};
}
bool read(const ordered_json& json, ChatAnswer& answer) {
  return json.is_object() && json.size() == 3 && json.contains("text") && json.contains("tokens_in") &&
         json.contains("tokens_out") && read(json["text"], answer.text) &&
         read(json["tokens_in"], answer.tokens_in) && read(json["tokens_out"], answer.tokens_out);
}

}  // namespace

// --- the one path ------------------------------------------------------------------------

// What is asked, in parts: their lengths keep ("ab", "c") and ("a", "bc") apart.
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
      const std::string_view argument = arguments[i];
      size_t cut = std::min(argument.size(), kMaxArgumentBytes);
      while (cut > 0 && cut < argument.size() && (static_cast<uint8_t>(argument[cut]) & 0xC0) == 0x80) --cut;
      out += utf8_repair(argument.substr(0, cut));
      if (cut < argument.size()) out += "…";
    }
    return out + ")";
  }

  [[nodiscard]] Result<std::string> hash() const {
    std::string bytes;
    for (const std::string_view argument : arguments)
      bytes.append(std::to_string(argument.size())).append(":").append(argument);
    return sha256_hex(bytes);
  }
};

template <typename T, typename Act>
HostResult<T> BrokerGate::pass(const Request& request, Act act) {
  std::string arguments_sha256;
  if (record_ != nullptr || replay_ != nullptr) {
    auto hash = request.hash();
    if (!hash) return refuse(Errno::kHost, "the call cannot be journaled: " + hash.error().message);
    arguments_sha256 = std::move(*hash);
  }
  const auto start = steady_clock::now();
  HostResult<T> answer = replay_ ? answer_from_journal<T>(request, arguments_sha256) : act_on_world<T>(act);
  if (record_ == nullptr || divergence_) return answer;

  JournalEntry entry;
  entry.function = request.function;
  entry.arguments_sha256 = std::move(arguments_sha256);
  entry.latency_us = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - start).count());
  if (!answer) {
    entry.code = answer.error().code;
    entry.reason = answer.error().reason;
    entry.grant = answer.error().grant;
  } else if constexpr (!std::is_void_v<T>) {
    entry.result = write(*answer).dump();
  }
  if (auto written = record_->append(std::move(entry)); !written)
    return refuse(Errno::kHost, "the call cannot be journaled: " + written.error().message);
  return answer;
}

template <typename T, typename Act>
HostResult<T> BrokerGate::act_on_world(Act act) {
  if (budget_ != nullptr && !budget_->take(policy::Resource::kHostCalls, 1))
    return refuse(Errno::kBudget, "the run's budget of host calls is used up");
  return act();
}

template <typename T>
HostResult<T> BrokerGate::answer_from_journal(const Request& request, const std::string& arguments_sha256) {
  if (divergence_) return refuse(Errno::kHost, *divergence_);
  const auto leave = [&](const std::string& how) {
    return diverge("call " + std::to_string(next_ + 1) + " is " + request.text() + ", and " + how);
  };
  if (next_ == replay_->entries().size())
    return leave("the journal has ended, after " + std::to_string(next_) + " calls");
  const JournalEntry& entry = replay_->entries()[next_];
  if (entry.function != request.function) return leave("the journal has " + entry.function);
  if (entry.arguments_sha256 != arguments_sha256)
    return leave("the journal has " + entry.function + " with other arguments");
  if (entry.code != Errno::kOk) {
    ++next_;
    return refuse(entry.code, entry.reason, entry.grant);
  }
  if constexpr (std::is_void_v<T>) {
    ++next_;
    return {};
  } else {
    T answer{};
    if (!read(ordered_json::parse(entry.result, nullptr, false), answer))
      return leave("the journal's result is not one of it");
    ++next_;
    return answer;
  }
}

std::unexpected<HostError> BrokerGate::diverge(std::string what) {
  divergence_ = "the run has left its journal: " + std::move(what);
  return refuse(Errno::kHost, *divergence_);
}

// --- each request ------------------------------------------------------------------------

HostResult<HttpResponse> BrokerGate::http(const HttpRequest& request) {
  Request asked("http.request", {request.method, request.url, request.body});
  for (const auto& [name, value] : request.headers) {
    asked.arguments.push_back(name);
    asked.arguments.push_back(value);
  }
  return pass<HttpResponse>(asked, [&] { return world_->http(request); });
}
HostResult<std::string> BrokerGate::file_read(std::string_view path) {
  return pass<std::string>({"fs.read", {path}}, [&] { return world_->file_read(path); });
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
                                              std::string_view parameters_json) {
  return pass<std::string>({"sql.query", {database, sql, parameters_json}},
                           [&] { return world_->sql_query(database, sql, parameters_json); });
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
HostResult<std::string> BrokerGate::random_bytes(uint32_t count) {
  const std::string text = std::to_string(count);
  return pass<std::string>({"random.bytes", {text}}, [&] { return world_->random_bytes(count); });
}
HostResult<std::string> BrokerGate::ask(std::string_view question) {
  return pass<std::string>({"agent.ask", {question}}, [&] { return world_->ask(question); });
}

}  // namespace membrane::host
