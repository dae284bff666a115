// A scripted model server: the other side of the tests, in a process of its own, over real HTTP on loopback.
//
//   model_server < script.json
//
// prints the port it listens on, then one JSON line for each request it got
// ({"method","path","headers","body"}) and {"event":"hang-up"} when a client leaves
// while the server stalls. It ends with its parent.
//
// The script is {"answers":[…]}; the nth request gets the nth answer. An answer:
//   "status": 200, "headers": {…}
//   the body, one of
//     "events": [object or string, …]   "data: …\n\n" each; chunked
//     "json": value                     application/json
//     "body": "text"                    as it is
//     "body_hex": "1f8b…"               bytes
//   "fill": [count, "text"]  appends the text that many times
//   "split": n               sends pieces of n bytes
//   "chunked": bool          else Content-Length
//   "raw": "…"               these bytes instead of all the above
//   "end": "close"           as HTTP wants it (the default; the connection is kept)
//          "cut"             closes before the body is over
//          "reset"           the same, by a TCP reset
//          "stall"           sends no more, until the client hangs up
//   "repeat": n              answers n requests so
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

using nlohmann::json;

std::mutex g_mutex;  // over all that follows, and over stdout
std::vector<json> g_answers;
size_t g_next = 0;
std::vector<int> g_stalled;  // sockets whose hang-up is still to be logged

void print_line(const json& line) {
  std::cout << line.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
}

bool has_hung_up(int socket) {
  pollfd peer{socket, POLLRDHUP, 0};
  return poll(&peer, 1, 0) == 1;
}

// A client that left one connection and then used another did so in this order, whichever of the two threads
// notices first.
void log_request(const json& request) {
  const std::scoped_lock lock(g_mutex);
  std::erase_if(g_stalled, [](int socket) {
    const bool gone = has_hung_up(socket);
    if (gone) print_line({{"event", "hang-up"}});
    return gone;
  });
  print_line(request);
}

json next_answer() {
  const std::scoped_lock lock(g_mutex);
  if (g_next == g_answers.size())
    return {{"status", 500}, {"json", {{"error", {{"message", "the script is over"}}}}}};
  return g_answers[g_next++];
}

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool send_split(int socket, std::string_view bytes, size_t piece) {
  if (piece == 0) return send_all(socket, bytes);
  for (size_t at = 0; at < bytes.size(); at += piece)
    if (!send_all(socket, bytes.substr(at, piece))) return false;
  return true;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

json parse_head(const std::string& head) {
  json request{{"headers", json::object()}};
  const size_t first_end = head.find("\r\n");
  const std::string first = head.substr(0, first_end);
  const size_t space = first.find(' ');
  request["method"] = first.substr(0, space);
  request["path"] = first.substr(space + 1, first.rfind(' ') - space - 1);
  for (size_t at = first_end + 2; at < head.size();) {
    const size_t end = std::min(head.find("\r\n", at), head.size());
    const std::string line = head.substr(at, end - at);
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) request["headers"][lower(line.substr(0, colon))] = line.substr(colon + 2);
    at = end + 2;
  }
  return request;
}

// The next request on the connection; nothing when the client has closed it.
std::optional<json> read_request(int socket, std::string& buffer) {
  const auto more = [&] {
    char piece[4096];
    const ssize_t got = recv(socket, piece, sizeof piece, 0);
    if (got > 0) buffer.append(piece, static_cast<size_t>(got));
    return got > 0;
  };
  while (buffer.find("\r\n\r\n") == std::string::npos)
    if (!more()) return {};
  const size_t head_end = buffer.find("\r\n\r\n") + 4;
  json request = parse_head(buffer.substr(0, head_end - 2));
  const json& headers = request["headers"];
  const size_t length =
      headers.contains("content-length") ? std::stoul(headers["content-length"].get<std::string>()) : 0;
  while (buffer.size() < head_end + length)
    if (!more()) return {};
  const std::string body = buffer.substr(head_end, length);
  buffer.erase(0, head_end + length);
  const json parsed = json::parse(body, nullptr, false);
  request["body"] = parsed.is_discarded() ? json(body) : parsed;
  return request;
}

std::string body_of(const json& answer) {
  std::string body;
  if (answer.contains("json")) body = answer["json"].dump();
  if (answer.contains("body")) body = answer["body"].get<std::string>();
  if (answer.contains("body_hex")) {
    const auto hex = answer["body_hex"].get<std::string>();
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
      body += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  if (answer.contains("events"))
    for (const json& event : answer["events"])
      body += "data: " + (event.is_string() ? event.get<std::string>() : event.dump()) + "\n\n";
  if (answer.contains("fill"))
    for (size_t i = answer["fill"][0].get<size_t>(); i > 0; --i) body += answer["fill"][1].get<std::string>();
  return body;
}

// The answer's bytes; without their end if the answer is to be cut.
std::string bytes_of(const json& answer) {
  if (answer.contains("raw")) return answer["raw"].get<std::string>();
  const std::string body = body_of(answer);
  const bool whole = answer.value("end", "close") == "close";
  const bool chunked = answer.value("chunked", answer.contains("events"));
  json headers{{"Content-Type", answer.contains("events") ? "text/event-stream" : "application/json"}};
  if (answer.contains("headers")) headers.update(answer["headers"]);
  std::string out = "HTTP/1.1 " + std::to_string(answer.value("status", 200)) + " Scripted\r\n";
  for (const auto& [name, value] : headers.items()) out += name + ": " + value.get<std::string>() + "\r\n";
  if (!chunked)
    return out + "Content-Length: " + std::to_string(body.size() + (whole ? 0 : 1)) + "\r\n\r\n" + body;
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", body.size());
  out += "Transfer-Encoding: chunked\r\n\r\n";
  if (!body.empty()) out += size + body + "\r\n";
  return whole ? out + "0\r\n\r\n" : out;
}

void begin_stall(int socket) {
  const std::scoped_lock lock(g_mutex);
  g_stalled.push_back(socket);
}

void wait_for_hang_up(int socket) {
  char piece[256];
  while (recv(socket, piece, sizeof piece, 0) > 0) {}
  const std::scoped_lock lock(g_mutex);
  if (std::erase(g_stalled, socket) != 0) print_line({{"event", "hang-up"}});
}

void serve(int socket) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  std::string buffer;
  while (auto request = read_request(socket, buffer)) {
    const json answer = next_answer();
    log_request(*request);
    const std::string end = answer.value("end", "close");
    if (end == "stall") begin_stall(socket);
    const bool sent = send_split(socket, bytes_of(answer), answer.value("split", size_t{0}));
    if (end == "stall") wait_for_hang_up(socket);
    if (!sent) break;
    if (end == "reset") {
      const linger now{1, 0};
      setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    if (end != "close" || answer.contains("raw")) break;
  }
  close(socket);
}

}  // namespace

int main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  const json script = json::parse(text, nullptr, false);
  if (!script.is_object() || !script.contains("answers")) {
    std::cerr << "model_server: stdin holds no script\n";
    return 2;
  }
  for (const json& answer : script["answers"])
    for (int i = answer.value("repeat", 1); i > 0; --i) g_answers.push_back(answer);

  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener, 64) != 0 || getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::perror("model_server");
    return 2;
  }
  std::cout << ntohs(address.sin_port) << std::endl;
  for (;;) {
    const int client = accept(listener, nullptr, nullptr);
    if (client >= 0) std::thread(serve, client).detach();
  }
}
