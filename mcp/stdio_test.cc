// The transport over the test's own pipes and sockets.

#include "mcp/stdio.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "mcp/server_testing.h"

namespace membrane::mcp {
namespace {

// A client at the other end of two pairs of descriptors.
class StdioThreadTest : public ServerTest, public ::testing::WithParamInterface<bool> {
 protected:
  void begin(size_t most_line_bytes = 16u << 20) {
    std::signal(SIGPIPE, SIG_IGN);
    open(to_server_);
    open(from_server_);
    options_.in = to_server_[0];
    options_.out = from_server_[1];
    options_.stop = &stop_;
    options_.most_line_bytes = most_line_bytes;
    serving_ = std::thread([this] {
      serve_stdio(*server_, options_);
      close(options_.out);
    });
  }
  void TearDown() override {
    end_input();
    if (serving_.joinable()) serving_.join();
    for (const int file : {to_server_[0], from_server_[0]}) close(file);
  }
  void open(int (&pair)[2]) const {
    const bool is_socket = GetParam();
    EXPECT_EQ(is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, pair) : pipe(pair), 0);
  }
  void end_input() {
    if (to_server_[1] >= 0) close(std::exchange(to_server_[1], -1));
  }
  void send(const Json& message) { send_text(message.dump() + "\n"); }
  void send_text(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = write(to_server_[1], text.data(), text.size());
      ASSERT_GT(written, 0);
      text.remove_prefix(static_cast<size_t>(written));
    }
  }
  // The next message; null at the end.
  Json next() {
    for (size_t end; (end = begun_.find('\n')) == std::string::npos;) {
      char bytes[4096];
      const ssize_t got = read(from_server_[0], bytes, sizeof bytes);
      if (got <= 0) return {};
      begun_.append(bytes, static_cast<size_t>(got));
    }
    const Json message = Json::parse(begun_.substr(0, begun_.find('\n')));
    begun_.erase(0, begun_.find('\n') + 1);
    return message;
  }

  StdioOptions options_;
  std::atomic<bool> stop_ = false;
  int to_server_[2] = {-1, -1}, from_server_[2] = {-1, -1};
  std::string begun_;
  std::thread serving_;
};
INSTANTIATE_TEST_SUITE_P(Over, StdioThreadTest, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "Sockets" : "Pipes"; });

const std::string kForever = "(loop $more (call $io.print \"x\") (br $more))";

TEST_P(StdioThreadTest, RequestsAreAnsweredAndTheEndIsTheEnd) {
  begin();
  send(initialize("2025-11-25"));
  EXPECT_EQ(next()["id"], 0);
  send(request(1, "tools/call", wat_program("(call $io.print \"hello\")")));
  end_input();  // what was asked is answered
  EXPECT_EQ(next()["result"]["structuredContent"]["stdout"], "hello");
  EXPECT_TRUE(next().is_null());
}

TEST_P(StdioThreadTest, WhileAProgramRunsItCanBeCancelledAndOthersAnswered) {
  begin();
  send(stateless(1, "tools/call", wat_program(kForever), {{"progressToken", 1}}));
  EXPECT_EQ(next()["method"], "notifications/progress");  // it runs
  send(stateless(2, "tools/list"));
  Json answer = next();
  while (answer.contains("method")) answer = next();
  EXPECT_EQ(answer["id"], 2);
  send({{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", 1}}}});
  send(stateless(3, "tools/call", wat_program("(nop)")));
  answer = next();
  while (answer.contains("method")) answer = next();
  EXPECT_EQ(answer["id"], 3);
  end_input();
  EXPECT_TRUE(next().is_null());  // 1 is never answered
}

TEST_P(StdioThreadTest, AReaderThatHasGoneEndsEverything) {
  begin();
  send(stateless(1, "tools/call", wat_program(kForever), {{"progressToken", 1}}));
  EXPECT_EQ(next()["method"], "notifications/progress");
  close(std::exchange(from_server_[0], -1));
  serving_.join();
}

TEST_P(StdioThreadTest, AStopEndsWhatRunsAlsoWhenNobodyReads) {
  begin();
  send(stateless(1, "tools/call", wat_program(kForever), {{"progressToken", 1}}));
  EXPECT_EQ(next()["method"], "notifications/progress");
  const std::string flood = stateless(2, "tools/list").dump() + "\n";
  for (int i = 0; i < 20; ++i) send_text(flood);
  stop_ = true;
  serving_.join();
}

TEST_P(StdioThreadTest, ALineThatIsTooLongIsSkipped) {
  begin(1'000);
  send_text(std::string(5'000, 'x') + "\n");
  EXPECT_EQ(next()["error"]["code"], -32600);
  send_text("\n \r\n{\n");
  EXPECT_EQ(next()["error"]["code"], -32700);
  send(stateless(1, "server/discover"));
  EXPECT_EQ(next()["id"], 1);
}

}  // namespace
}  // namespace membrane::mcp
