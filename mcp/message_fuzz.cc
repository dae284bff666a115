// Whatever a client sends, on a line or over HTTP: there is an answer that is JSON, or none. Programs in it
// run with small limits.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "mcp/http.h"
#include "mcp/lines.h"
#include "mcp/local_backend.h"
#include "mcp/message.h"
#include "mcp/server.h"
#include "mcp/uri.h"

namespace {

using membrane::mcp::Json;

const membrane::mcp::Server& server() {
  static const membrane::mcp::Server kServer = [] {
    membrane::mcp::LocalOptions options;
    options.languages = {{{"wat", "WAT", false}, "", ""}};
    options.limits_of_wat = {.fuel = 1'000, .memory_bytes = 1 << 20, .wall_ms = 100};
    return membrane::mcp::Server(membrane::mcp::local_backend(std::move(options)), {.version = "1"});
  }();
  return kServer;
}

void check_json(std::string_view json) {
  if (!json.empty() && (!Json::accept(json) || json.find('\n') != std::string_view::npos)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  auto peer = std::make_shared<membrane::mcp::Peer>();
  const auto receive = [&](std::string_view text) {
    check_json(server().receive(text, {.peer = peer, .notify = check_json})->answer().json);
  };
  membrane::mcp::LineReader lines(4096);
  lines.add(input, receive, [] {});
  lines.finish(receive, [] {});
  if (const auto name = membrane::mcp::read_uri(input);
      name && membrane::mcp::read_uri(uri_of(*name)) == std::nullopt)
    std::abort();
  static membrane::mcp::HttpEndpoint endpoint(server(), {});
  const size_t first = input.find('\n');
  membrane::mcp::HttpRequest request{.method = "POST",
                                     .headers = {{"Host", "localhost"},
                                                 {"Content-Type", "application/json"},
                                                 {"Accept", "application/json, text/event-stream"},
                                                 {"MCP-Protocol-Version", "2026-07-28"},
                                                 {"Mcp-Method", "tools/call"},
                                                 {"Mcp-Name", std::string(input.substr(0, first))}},
                                     .body = std::string(first < size ? input.substr(first + 1) : input)};
  const auto reply = endpoint.receive(std::move(request))->answer([](std::string_view) {});
  if (!reply.is_streamed) check_json(reply.body);
  return 0;
}
