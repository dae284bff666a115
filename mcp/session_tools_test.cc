// Sessions, their files and forks, as tools. Skipped if a language is not installed (tools/get-languages).

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "base/base64.h"
#include "mcp/server_testing.h"
#include "sandbox/template_testing.h"

namespace membrane::mcp {
namespace {

struct Dialect {
  const char* name;
  const char *sets, *adds, *writes, *loops, *fails, *reads;
};
constexpr Dialect kPython = {"python",
                             "x = 40",
                             "x += 1; x",
                             "_ = open('/tmp/a b.txt', 'w').write('hello')",
                             "while True: print('x')",
                             "1 / 0",
                             "len(open('notes.txt').read())"};
constexpr Dialect kJavaScript = {"js",
                                 "let x = 40",
                                 "x += 1; x",
                                 "require('fs').writeFileSync('/tmp/a b.txt', 'hello')",
                                 "for (;;) console.log('x')",
                                 "null.a",
                                 "require('fs').readFileSync('notes.txt').length"};

class SessionToolsTest : public ServerTest, public ::testing::WithParamInterface<Dialect> {
 protected:
  void SetUp() override {
    const auto opened = sandbox::open_template(GetParam().name);
    if (opened == nullptr) GTEST_SKIP() << GetParam().name << " is not installed, or not for this build";
    LocalOptions options;
    options.languages = {{{GetParam().name, "A language", true}, GetParam().name, ""},
                         {{"wat", "WAT", false}, "", ""}};
    options.policy.limits = policy::language_limits();
    options.policy.limits.wall_ms = 600'000;
    options.open = [opened](const std::string&, std::string_view) { return opened; };
    options.most_sessions = 4;
    options.policy.trifecta = {.input_is_private = true};
    make(std::move(options));
  }
  Json use(const std::string& tool, Json arguments, Json meta = Json::object()) {
    return result_of(stateless(++id_, "tools/call", call_of(tool, std::move(arguments)), std::move(meta)));
  }
  std::string create() {
    return use("create_session", {{"language", GetParam().name}})["structuredContent"]["session"];
  }
  std::string run(const std::string& session, const std::string& code) {
    const Json ran = use("run_in_session", {{"session", session}, {"code", code}});
    EXPECT_EQ(ran["isError"], false) << ran;
    return ran["structuredContent"]["result"];
  }
  int id_ = 0;
};
void PrintTo(const Dialect& dialect, std::ostream* out) { *out << dialect.name; }
INSTANTIATE_TEST_SUITE_P(In, SessionToolsTest, ::testing::Values(kPython, kJavaScript),
                         [](const auto& of) { return std::string(of.param.name); });

TEST_P(SessionToolsTest, AForkAndItsParentShareWhatTheyRead) {
  const std::string session = create();
  const auto reads = [&](const std::string& of, const std::string& input) {
    const Json ran =
        use("run_in_session", {{"session", of}, {"code", "1"}, {"stdin", input}})["structuredContent"];
    return use("get_report",
               {{"report", ran["report"]}})["structuredContent"]["content"]["flows"]["private_reads"]
        .size();
  };
  const std::string fork =
      use("fork_session", {{"session", session}})["structuredContent"]["sessions"][0]["session"];
  EXPECT_EQ(reads(session, ""), 0u);
  EXPECT_EQ(reads(fork, "a letter"), 1u);
  EXPECT_EQ(reads(session, ""), 1u);
}

TEST_P(SessionToolsTest, StateStaysAndForksGoTheirOwnWays) {
  const std::string session = create();
  run(session, GetParam().sets);
  const Json forked =
      use("fork_session", {{"session", session}, {"count", 2}})["structuredContent"]["sessions"];
  ASSERT_EQ(forked.size(), 2);
  EXPECT_EQ(forked[0]["parent"], session);
  EXPECT_EQ(run(session, GetParam().adds), "41");
  EXPECT_EQ(run(session, GetParam().adds), "42");
  EXPECT_EQ(use("explain_policy", {{"session", session}})["isError"], false);
  EXPECT_EQ(use("explain_policy", {{"session", "s-none"}})["isError"], true);
  EXPECT_EQ(run(forked[0]["session"], GetParam().adds), "41");
  EXPECT_EQ(use("close_session", {{"session", session}})["isError"], false);
  EXPECT_EQ(run(forked[1]["session"], GetParam().adds), "41");
  const Json gone = use("run_in_session", {{"session", session}, {"code", "1"}});
  EXPECT_EQ(gone["isError"], true);
  EXPECT_NE(gone["content"][0]["text"].get<std::string>().find(forked[0]["session"]), std::string::npos);
  EXPECT_EQ(use("create_session", {{"language", "wat"}})["isError"], true);
}

TEST_P(SessionToolsTest, SessionsAreBoundedAndAFailedForkTakesNothing) {
  const std::string session = create();
  EXPECT_EQ(use("fork_session", {{"session", session}, {"count", 4}})["isError"], true);
  EXPECT_EQ(use("fork_session", {{"session", session}, {"count", 3}})["isError"], false);
  const Json full = use("create_session", {{"language", GetParam().name}});
  EXPECT_EQ(full["isError"], true);
  EXPECT_NE(full["content"][0]["text"].get<std::string>().find("close_session"), std::string::npos);
  use("close_session", {{"session", session}});
  create();
}

TEST_P(SessionToolsTest, AProgramEndsInItsTimeAndTheSessionIsAsBefore) {
  const std::string session = create();
  run(session, GetParam().sets);
  const Json late =
      use("run_in_session", {{"session", session}, {"code", GetParam().loops}, {"timeout_ms", 50}});
  EXPECT_EQ(late["structuredContent"]["outcome"], "timed_out");
  EXPECT_EQ(run(session, GetParam().adds), "41");
}

TEST_P(SessionToolsTest, AFailureIsAnErrorWithItsTracebackAndTheSessionGoesOn) {
  const std::string session = create();
  run(session, GetParam().sets);
  const Json failed = use("run_in_session", {{"session", session}, {"code", GetParam().fails}});
  EXPECT_EQ(failed["isError"], true);
  EXPECT_EQ(failed["structuredContent"]["outcome"], "raised");
  EXPECT_FALSE(failed["structuredContent"]["error"]["traceback"].get<std::string>().empty());
  EXPECT_EQ(run(session, GetParam().adds), "41");
}

TEST_P(SessionToolsTest, FilesGoInAndOut) {
  const std::string session = create();
  run(session, GetParam().writes);
  const Json files = use("list_files", {{"session", session}})["structuredContent"]["files"];
  ASSERT_EQ(files.size(), 1) << files;
  EXPECT_EQ(files[0], (Json{{"path", "/tmp/a b.txt"}, {"size_bytes", 5}}));
  const auto read = [&](Json arguments) {
    arguments["session"] = session;
    return use("read_file", std::move(arguments));
  };
  EXPECT_EQ(read({{"path", "/tmp/a b.txt"}})["structuredContent"]["content"], "hello");
  const Json part = read({{"path", "/tmp/a b.txt"}, {"offset", 1}, {"max_bytes", 2}})["structuredContent"];
  EXPECT_EQ(part["content"], "el");
  EXPECT_EQ(part["next_offset"], 3);
  EXPECT_EQ(read({{"path", "/tmp/a b.txt"}, {"offset", 6}})["isError"], true);
  EXPECT_EQ(read({{"path", "/tmp/none"}})["isError"], true);

  const std::string png = "\x89PNG\r\n\x1a\n\xff";
  const auto write = [&](const std::string& content, const char* encoding) {
    return use("write_file",
               {{"session", session}, {"path", "/tmp/b"}, {"content", content}, {"encoding", encoding}});
  };
  EXPECT_EQ(write("é", "utf-8")["structuredContent"]["size_bytes"], 2);
  const Json cut = read({{"path", "/tmp/b"}, {"max_bytes", 1}})["structuredContent"];
  EXPECT_EQ(cut["encoding"], "base64");  // less than a character is no text
  EXPECT_EQ(write("!", "base64")["isError"], true);
  EXPECT_EQ(write(base64_encode(png), "base64")["isError"], false);
  const Json image = read({{"path", "/tmp/b"}});
  EXPECT_EQ(image["content"][0]["mimeType"], "image/png");
  EXPECT_EQ(image["structuredContent"]["encoding"], "base64");

  Json resources = result_of(stateless(++id_, "resources/list"))["resources"];
  EXPECT_EQ(resources.back()["size"], 9);
  const Json got = result_of(stateless(++id_, "resources/read", {{"uri", resources.back()["uri"]}}));
  EXPECT_EQ(got["contents"][0]["blob"], base64_encode(png));
  EXPECT_EQ(error_of(stateless(++id_, "resources/read",
                               {{"uri", "membrane://sessions/" + session + "/files/none"}})),
            -32602);
}

TEST_P(SessionToolsTest, ARelativePathBeginsWhereProgramsDo) {
  const std::string session = create();
  for (const char* const path : {"notes.txt", "./notes.txt", "/notes.txt"}) {
    const Json written = use("write_file", {{"session", session}, {"path", path}, {"content", "hello"}});
    EXPECT_EQ(written["isError"], false) << written;
    EXPECT_EQ(written["structuredContent"]["path"], "/notes.txt");
    const Json read = use("read_file", {{"session", session}, {"path", path}});
    EXPECT_EQ(read["structuredContent"]["content"], "hello") << read;
  }
  EXPECT_EQ(run(session, GetParam().reads), "5");
  EXPECT_EQ(use("write_file", {{"session", session}, {"path", ""}, {"content", ""}})["isError"], true);
}

TEST_P(SessionToolsTest, ACallAfterACancelWaitsForTheEndOfWhatWasCancelled) {
  constexpr std::chrono::milliseconds kToBeRefused(200);  // nothing waits for what is answered sooner
  const std::string session = create();
  Envelope from = envelope();
  std::future<Json> next;
  from.notify = [&](std::string_view) {  // while the program runs, in the middle of what it prints
    if (next.valid()) return;
    reply_to(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"run"}})");
    next = std::async(std::launch::async, [&] {
      const Json call =
          stateless(100, "tools/call", call_of("run_in_session", {{"session", session}, {"code", "40 + 2"}}));
      return Json::parse(server_->receive(call.dump(), {.peer = peer_})->answer().json);
    });
    static_cast<void>(next.wait_for(kToBeRefused));
  };
  Json call = stateless(0, "tools/call",
                        call_of("run_in_session", {{"session", session}, {"code", GetParam().loops}}),
                        {{"progressToken", 1}});
  call["id"] = "run";
  EXPECT_EQ(server_->receive(call.dump(), from)->answer().json, "");
  ASSERT_TRUE(next.valid());
  const Json ran = next.get()["result"];
  EXPECT_EQ(ran["structuredContent"]["result"], "42") << ran;
}

TEST_P(SessionToolsTest, OneCallAtATimeUsesASessionAndACancelIsOfOneCall) {
  const std::string session = create();
  Envelope from = envelope();
  int busy = 0;
  from.notify = [&](std::string_view) {  // while the program runs, in the middle of what it prints
    if (busy++ > 0) return;
    const Json refused = use("run_in_session", {{"session", session}, {"code", "1"}});
    EXPECT_EQ(refused["isError"], true);
    EXPECT_NE(refused["content"][0]["text"].get<std::string>().find("another call"), std::string::npos);
    EXPECT_EQ(use("close_session", {{"session", session}})["isError"], true);
    reply_to(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"run"}})");
  };
  Json call = stateless(0, "tools/call",
                        call_of("run_in_session", {{"session", session}, {"code", GetParam().loops}}),
                        {{"progressToken", 1}});
  call["id"] = "run";
  EXPECT_EQ(server_->receive(call.dump(), from)->answer().json, "");
  EXPECT_EQ(run(session, "40 + 2"), "42");
}

TEST_P(SessionToolsTest, ProgramsOfTheirOwnRunConcurrently) {
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      const Json call = stateless(
          100 + i, "tools/call",
          call_of("run_code", {{"language", GetParam().name}, {"code", std::to_string(i) + " + 1"}}));
      const Json answer = Json::parse(server_->receive(call.dump(), {.peer = peer_})->answer().json);
      right += answer["result"]["structuredContent"]["result"] == std::to_string(i + 1) ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 4);
}

}  // namespace
}  // namespace membrane::mcp
