#include "host/world/machine_testing.h"

#include <ostream>

#include "host/calls/registry.h"

namespace membrane::host {

void PrintTo(Errno code, std::ostream* out) { *out << name_of(code); }

// --- the world ---------------------------------------------------------------------------

HostResult<HttpResponse> TestWorld::http(const HttpRequest& request) {
  requests.push_back(request);
  const auto reach = [&](const std::string& url) {
    return !request.hear || request.hear({request.method, url});
  };
  const auto failure = failures.find(request.url);
  const auto chain = redirects.find(request.url);
  if (pages.contains(request.url) || chain != redirects.end()) {
    bool follows = reach(request.url);
    if (chain != redirects.end())
      for (const std::string& url : chain->second) {
        if (!follows) return HttpResponse{.status = 302, .headers = {}, .body = "", .final_url = ""};
        follows = reach(url);
      }
  }
  if (failure != failures.end()) return std::unexpected(failure->second);
  const auto found = pages.find(request.url);
  if (found == pages.end())
    return refuse(Errno::kAccess, "no grant allows " + request.url, "--allow http:GET:" + request.url);
  return found->second;
}

HostResult<std::string> TestWorld::file_read(std::string_view path, uint64_t) {
  const auto found = files.find(std::string(path));
  if (found == files.end()) return refuse(Errno::kNotFound, "no such file");
  return found->second;
}

HostResult<void> TestWorld::file_write(std::string_view path, std::string_view bytes, FileMode mode) {
  std::string& file = files[std::string(path)];
  if (mode == FileMode::kCreateOrReplace) file.clear();
  file += bytes;
  return {};
}

HostResult<std::vector<FileInfo>> TestWorld::file_list(std::string_view path) {
  std::vector<FileInfo> entries;
  for (const auto& [name, bytes] : files) {
    if (name.starts_with(path)) entries.push_back({name.substr(path.size() + 1), false, bytes.size()});
  }
  return entries;
}

HostResult<FileInfo> TestWorld::file_stat(std::string_view path) {
  if (path == "/data") return FileInfo{"data", true, 0};
  const auto found = files.find(std::string(path));
  if (found == files.end()) return refuse(Errno::kNotFound, "no such file");
  return FileInfo{found->first, false, found->second.size()};
}

HostResult<void> TestWorld::file_remove(std::string_view path) {
  if (files.erase(std::string(path)) == 0) return refuse(Errno::kNotFound, "no such file");
  return {};
}

HostResult<std::string> TestWorld::sql_query(std::string_view database, std::string_view sql,
                                             std::string_view parameters_json, Work& work) {
  work.add(query_fuel);
  queries.push_back(std::string(database) + "|" + std::string(sql) + "|" + std::string(parameters_json));
  return rows;
}

HostResult<ChatAnswer> TestWorld::ai_complete(const ChatRequest& request) {
  prompts.push_back(request);
  return ChatAnswer{"you said: " + request.prompt, 10, 5};
}

HostResult<std::vector<float>> TestWorld::ai_embed(std::string_view text) {
  const auto found = embeddings.find(std::string(text));
  if (found == embeddings.end()) return refuse(Errno::kUnsupported, "no embedding");
  return found->second;
}

HostResult<std::string> TestWorld::ask(std::string_view question) { return "yes, " + std::string(question); }

// --- calling -----------------------------------------------------------------------------

CallResult Machine::call(std::string_view name, const std::vector<Argument>& arguments) {
  std::vector<uint64_t> slots;
  for (const Argument& argument : arguments) {
    if (const auto* text = std::get_if<std::string>(&argument)) slots.push_back(guest.put(*text));
    if (const auto* i32 = std::get_if<int>(&argument)) slots.push_back(static_cast<uint32_t>(*i32));
    if (const auto* i64 = std::get_if<int64_t>(&argument)) slots.push_back(static_cast<uint64_t>(*i64));
    if (const auto* f64 = std::get_if<double>(&argument)) slots.push_back(std::bit_cast<uint64_t>(*f64));
  }
  return call_raw(name, slots);
}

CallResult Machine::call_raw(std::string_view name, const std::vector<uint64_t>& slots) {
  const size_t dot = name.find('.');
  const FunctionSpec* function = find_function(name.substr(0, dot), name.substr(dot + 1));
  if (function == nullptr || slots.size() != function->params.size()) {
    ADD_FAILURE() << "no such function, or another number of parameters: " << name;
    return {};
  }
  std::vector<uint64_t> results(wasm_signature_of(*function).results.size(), 0xDEAD);
  const CallOutcome outcome = dispatcher.call(*function, slots, results);
  CallResult seen{.end = outcome.end, .error = outcome.error, .code = {}, .text = {}};
  if (outcome.end != CallEnd::kReturn) return seen;
  if (function->can_fail) seen.code = static_cast<Errno>(results.back());
  if (!function->result) return seen;
  switch (*function->result) {
    case Type::kText:
    case Type::kBytes: seen.text = guest.get(static_cast<uint32_t>(results[0])); break;
    case Type::kI32: seen.number = static_cast<int32_t>(results[0]); break;
    case Type::kI64: seen.number = static_cast<int64_t>(results[0]); break;
    case Type::kF64: seen.real = std::bit_cast<double>(results[0]); break;
  }
  return seen;
}

namespace {

CallResult expect_success(std::string_view name, CallResult outcome) {
  EXPECT_EQ(outcome.end, CallEnd::kReturn) << name << ": " << outcome.error.reason;
  EXPECT_EQ(outcome.code, Errno::kOk) << name;
  return outcome;
}

}  // namespace

std::string Machine::text(std::string_view name, const std::vector<Argument>& arguments) {
  return expect_success(name, call(name, arguments)).text;
}
int64_t Machine::number(std::string_view name, const std::vector<Argument>& arguments) {
  return expect_success(name, call(name, arguments)).number;
}
double Machine::real(std::string_view name, const std::vector<Argument>& arguments) {
  return expect_success(name, call(name, arguments)).real;
}

Errno Machine::fails(std::string_view name, const std::vector<Argument>& arguments) {
  const CallResult outcome = call(name, arguments);
  EXPECT_EQ(outcome.end, CallEnd::kReturn) << name << ": " << outcome.error.reason;
  EXPECT_EQ(outcome.text, "") << name;
  EXPECT_EQ(outcome.number, 0) << name;
  EXPECT_EQ(outcome.real, 0) << name;
  return outcome.code;
}

}  // namespace membrane::host
