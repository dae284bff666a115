// Clients of the service, as many as wanted, each a thread with one connection that stays open: what a cycle of requests takes,
// how many there are in a second, and whether each was answered, and rightly.
//
//   service_load PORT TOKEN cycle python 64 10000     create, exec, kill: 64 clients, 10,000 cycles in all
//   service_load PORT TOKEN exec wat 2 5000           execs of one sandbox for each client
//   service_load PORT TOKEN cycle python 1 200 25     the same by a client that rests for 25 ms after each
//   service_load PORT TOKEN fork python 1 200         a fork of a warm sandbox, and its first output
//   service_load PORT TOKEN idle python 1 2000        makes them, runs a turn in each, and leaves them
//
// Prints one JSON object: the times, in ms, for the table of docs/benchmarks.md.

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Answer {
  int status = 0;
  std::string body;
};

// The text between `before` and the next quote.
std::string text_after(const std::string& body, const std::string& before) {
  const size_t at = body.find(before);
  if (at == std::string::npos) return {};
  const size_t begin = at + before.size();
  return body.substr(begin, body.find('"', begin) - begin);
}

class Connection {
 public:
  Connection(uint16_t port, std::string token) : port_(port), token_(std::move(token)) {}
  ~Connection() { drop(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  std::optional<Answer> request(const std::string& method, const std::string& path,
                                const std::string& body = {}) {
    if (socket_ < 0 && !connect()) return std::nullopt;
    const std::string text =
        method + " " + path + " HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer " + token_ +
        "\r\ncontent-type: application/json\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n" +
        body;
    if (send(socket_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
      return lost();
    return read_answer();
  }

 private:
  bool connect() {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int one = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port_);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return true;
    drop();
    return false;
  }
  void drop() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
    in_.clear();
  }
  std::nullopt_t lost() {
    drop();
    return std::nullopt;
  }
  bool read_more() {
    char bytes[16384];
    const ssize_t got = recv(socket_, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    in_.append(bytes, static_cast<size_t>(got));
    return true;
  }
  std::optional<Answer> read_answer() {
    size_t head = std::string::npos;
    while ((head = in_.find("\r\n\r\n")) == std::string::npos)
      if (!read_more()) return lost();
    std::string names = in_.substr(0, head);
    std::ranges::transform(names, names.begin(), [](unsigned char c) { return std::tolower(c); });
    const size_t length_at = names.find("content-length: ");
    const size_t length =
        length_at == std::string::npos ? 0 : std::strtoul(names.c_str() + length_at + 16, nullptr, 10);
    while (in_.size() < head + 4 + length)
      if (!read_more()) return lost();
    Answer answer{std::atoi(in_.c_str() + 9), in_.substr(head + 4, length)};
    in_.erase(0, head + 4 + length);
    return answer;
  }

  const uint16_t port_;
  const std::string token_;
  int socket_ = -1;
  std::string in_;
};

struct Load {
  uint16_t port = 0;
  std::string token, mode, language;
  size_t clients = 0, count = 0, rest_ms = 0;

  std::atomic<size_t> begun = 0, wrong = 0, lost = 0, refused = 0;
  std::mutex mutex;  // guards times
  std::vector<double> times;

  [[nodiscard]] std::string code(size_t number) const {
    if (language != "wat") return R"({"code":"print()" + std::to_string(number) + ")\"}";
    return R"({"code":"(func (export \"main\") (result i32) (i32.const )" + std::to_string(number) + "))\"}";
  }
  [[nodiscard]] bool is_right(const Answer& answer, size_t number) const {
    const std::string expected = std::to_string(number);
    if (answer.status != 200) return false;
    return language == "wat" ? answer.body.find("\"value\":" + expected + "}") != std::string::npos
                             : answer.body.find("\"stdout\":\"" + expected + "\\n\"") != std::string::npos;
  }

  // Whether it was answered as it should be. What the service refuses for want of room is tried again, as it says.
  bool is_good(const std::optional<Answer>& answer, int status) {
    if (!answer) return ++lost, false;
    if (answer->status == status) return true;
    answer->status == 503 || answer->status == 429 ? ++refused : ++wrong;
    return false;
  }

  std::string create(Connection& to) {
    while (true) {
      const auto made = to.request("POST", "/v1/sandboxes", R"({"template":")" + language + "\"}");
      if (is_good(made, 201)) return text_after(made->body, "\"id\":\"");
      if (!made || (made->status != 503 && made->status != 429)) return {};
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  bool exec(Connection& to, const std::string& id, size_t number) {
    while (true) {
      const auto ran = to.request("POST", "/v1/sandboxes/" + id + "/exec", code(number));
      if (ran && (ran->status == 503 || ran->status == 429)) {
        ++refused;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      if (!ran) return ++lost, false;
      if (is_right(*ran, number)) return true;
      if (wrong++ == 0) std::fprintf(stderr, "wrong: %d %s\n", ran->status, ran->body.substr(0, 600).c_str());
      return false;
    }
  }

  void work() {
    Connection to(port, token);
    std::vector<double> mine;
    std::string kept;
    if (mode == "exec" || mode == "fork") {
      kept = create(to);
      exec(to, kept, 0);
    }
    for (size_t number = ++begun; number <= count; number = ++begun) {
      const auto start = Clock::now();
      if (mode == "exec") {
        if (exec(to, kept, number)) mine.push_back(ms_since(start));
        continue;
      }
      std::string id;
      if (mode == "fork") {
        const auto forked = to.request("POST", "/v1/sandboxes/" + kept + "/fork", R"({"count":1})");
        if (is_good(forked, 201)) id = text_after(forked->body, "\"id\":\"");
      } else {
        id = create(to);
      }
      if (id.empty() || !exec(to, id, number)) continue;
      mine.push_back(ms_since(start));
      if (mode != "idle") is_good(to.request("DELETE", "/v1/sandboxes/" + id), 204);
      if (rest_ms != 0) std::this_thread::sleep_for(std::chrono::milliseconds(rest_ms));
    }
    const std::lock_guard lock(mutex);
    times.insert(times.end(), mine.begin(), mine.end());
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7 && argc != 8) {
    std::fprintf(stderr,
                 "usage: service_load PORT TOKEN cycle|exec|fork|idle TEMPLATE CLIENTS COUNT [REST_MS]\n");
    return 2;
  }
  Load load;
  load.port = static_cast<uint16_t>(std::atoi(argv[1]));
  load.token = argv[2];
  load.mode = argv[3];
  load.language = argv[4];
  load.clients = std::strtoul(argv[5], nullptr, 10);
  load.count = std::strtoul(argv[6], nullptr, 10);
  if (argc == 8) load.rest_ms = std::strtoul(argv[7], nullptr, 10);
  const auto start = Clock::now();
  std::vector<std::thread> threads;
  for (size_t i = 0; i < load.clients; ++i) threads.emplace_back([&] { load.work(); });
  for (std::thread& thread : threads) thread.join();
  const double seconds = ms_since(start) / 1000;
  std::ranges::sort(load.times);
  const auto at = [&](double part) {
    return load.times.empty()
               ? 0.0
               : load.times[static_cast<size_t>(part * static_cast<double>(load.times.size() - 1))];
  };
  std::printf(
      "{\"mode\":\"%s\",\"template\":\"%s\",\"clients\":%zu,\"asked\":%zu,\"right\":%zu,\"wrong\":%zu,"
      "\"lost\":%zu,"
      "\"refused_for_now\":%zu,\"a_second\":%.0f,\"min_ms\":%.3f,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%"
      ".3f}\n",
      load.mode.c_str(), load.language.c_str(), load.clients, load.count, load.times.size(),
      load.wrong.load(), load.lost.load(), load.refused.load(),
      static_cast<double>(load.times.size()) / seconds, at(0), at(0.5), at(0.99), at(1));
  return load.wrong == 0 && load.lost == 0 && load.times.size() == load.count ? 0 : 1;
}
