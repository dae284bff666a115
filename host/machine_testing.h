// Calls host functions as a program does, without an engine: through the dispatcher, with strings in a linear
// memory. The world is in memory, and tests add what should be found in it.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "host/clock.h"
#include "host/dispatch.h"
#include "host/guest_testing.h"
#include "host/kv/kv_store.h"
#include "host/random.h"

namespace membrane::host {

class TestWorld : public Broker {
 public:
  HostResult<HttpResponse> http(const HttpRequest& request) override;
  HostResult<std::string> file_read(std::string_view path, uint64_t most_bytes) override;
  HostResult<void> file_write(std::string_view path, std::string_view bytes, FileMode mode) override;
  HostResult<std::vector<FileInfo>> file_list(std::string_view path) override;
  HostResult<FileInfo> file_stat(std::string_view path) override;
  HostResult<void> file_remove(std::string_view path) override;
  HostResult<std::string> kv_get(std::string_view key) override { return kv->get(key); }
  HostResult<void> kv_set(std::string_view key, std::string_view value) override {
    return kv->set(key, value);
  }
  HostResult<void> kv_remove(std::string_view key) override { return kv->remove(key); }
  HostResult<std::vector<std::string>> kv_keys(std::string_view prefix) override { return kv->keys(prefix); }
  HostResult<std::string> sql_query(std::string_view database, std::string_view sql,
                                    std::string_view parameters_json, Work& work) override;
  HostResult<ChatAnswer> ai_complete(const ChatRequest& request) override;
  HostResult<std::vector<float>> ai_embed(std::string_view text) override;
  HostResult<int64_t> clock_ms() override { return clock.now_ms(); }
  HostResult<std::string> random_bytes(uint32_t count) override { return random.bytes(count); }
  HostResult<std::string> ask(std::string_view question) override;

  std::map<std::string, HttpResponse> pages;  // by URL; others are denied
  // By URL: the redirects of a request for it, in order, and how it ends if it has no page.
  std::map<std::string, std::vector<std::string>> redirects;
  std::map<std::string, HostError> failures;
  std::vector<HttpRequest> requests;
  std::map<std::string, std::string> files;  // by path
  std::string rows = "[]";                   // the result of each query
  std::vector<std::string> queries;          // "database|sql|parameters"
  uint64_t query_fuel = 0;                   // the work of each query
  std::vector<ChatRequest> prompts;
  std::map<std::string, std::vector<float>> embeddings;
  policy::Budget budget;
  Deadline deadline{budget};
  std::unique_ptr<KvStore> kv = std::move(*KvStore::open({}, deadline));
  Clock clock{{}};
  RandomSource random{{}};
};

// The result of a call.
struct Outcome {
  CallEnd end = CallEnd::kReturn;
  HostError error;     // if it did not return
  Errno code{};        // the errno that the program sees
  std::string text;    // the result, by its type
  int64_t number = 0;  // i32 (sign-extended) or i64
  double real = 0;
};

class Machine {
 public:
  using Argument = std::variant<std::string, int, int64_t, double>;

  Machine() : Machine(nullptr) {}
  // Through another broker than the world itself: a gate.
  explicit Machine(Broker* broker) : dispatcher(guest, broker ? *broker : world) {}

  // "kv.set", with strings where it takes strings and int, int64_t or double elsewhere.
  Outcome call(std::string_view name, const std::vector<Argument>& arguments = {});
  // With the given slots, including pointers.
  Outcome call_raw(std::string_view name, const std::vector<uint64_t>& slots);

  // Shorthands for common cases.
  std::string text(std::string_view name, const std::vector<Argument>& arguments = {});
  int64_t number(std::string_view name, const std::vector<Argument>& arguments = {});
  double real(std::string_view name, const std::vector<Argument>& arguments = {});
  // The errno of a call that fails; checks that the other result is the empty string, or 0.
  Errno fails(std::string_view name, const std::vector<Argument>& arguments = {});

  VectorGuest guest;
  TestWorld world;
  Dispatcher dispatcher;
};

// gtest prints the name.
void PrintTo(Errno code, std::ostream* out);

}  // namespace membrane::host
