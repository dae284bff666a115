// File requests as JSON, however malformed.
#include "sandbox/file_requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/guest_testing.h"

namespace membrane::sandbox {
namespace {

using nlohmann::json;

class FileRequests : public ::testing::Test {
 protected:
  json ask_text(std::string_view request) {
    const auto answer = answer_files(*system_, guest_, request);
    EXPECT_EQ(answer.end, host::CallEnd::kReturn) << request;
    return json::parse(answer.json);
  }
  json value(const json& request) { return ask_text(request.dump())["value"]; }
  std::string fails(const json& request) { return ask_text(request.dump())["error"]["errno"]; }

  host::VectorGuest guest_{1};
  std::unique_ptr<wasi::System> system_ = *wasi::System::create({});
};

TEST_F(FileRequests, DoWhatTheySay) {
  EXPECT_EQ(value({{"files", "open"}, {"path", "/x"}, {"write", true}, {"create", true}}), 4);
  EXPECT_EQ(value({{"files", "write"}, {"descriptor", 4}, {"bytes", {{"base64", "/wA="}}}}), 2);
  EXPECT_EQ(value({{"files", "read"}, {"descriptor", 4}, {"count", 9}, {"offset", 0}})["base64"], "/wA=");
  const json stat = value({{"files", "stat"}, {"path", "/x"}, {"follow", true}});
  EXPECT_EQ(stat["type"], "file");
  EXPECT_EQ(stat["size"], 2);
  EXPECT_TRUE(stat["inode"].is_string());
  EXPECT_EQ(value({{"files", "close"}, {"descriptor", 4}}), nullptr);
  const json names = value({{"files", "list"}, {"path", "/"}});
  EXPECT_NE(std::ranges::find(names, json({"x", "file"})), names.end());
}

TEST_F(FileRequests, ThatAreMalformedAreErrorsAndDoNothing) {
  EXPECT_EQ(fails({{"files", "none"}}), "EINVAL");
  EXPECT_EQ(fails({{"files", 5}}), "EINVAL");
  EXPECT_EQ(fails({{"files", "open"}}), "ENOENT");
  for (const json& wrong :
       {json(-1), json(1.5), json("4"), json(nullptr), json(1ull << 40), json::array({4})})
    EXPECT_EQ(fails({{"files", "read"}, {"descriptor", wrong}, {"count", 5}}), "EBADF") << wrong;
  for (const json& wrong : {json("text"), json{{"base64", "!"}}, json{{"base64", 5}}, json::array()})
    EXPECT_EQ(fails({{"files", "write"}, {"descriptor", 1}, {"bytes", wrong}}), "EINVAL") << wrong;
  for (const char* const text : {"", "{", "[]", "5", R"({"files":{"files":{"files":{"files":1}}}})", "\xff"})
    EXPECT_EQ(ask_text(text)["error"]["errno"], "EINVAL") << text;
  EXPECT_EQ(guest_.stdout_text, "");
}

TEST_F(FileRequests, AreHeldToTheMemoryThatACallMayUse) {
  ASSERT_EQ(value({{"files", "open"}, {"path", "/dev/zero"}}), 4);
  const json read = value({{"files", "read"}, {"descriptor", 4}, {"count", UINT32_MAX}});
  EXPECT_LE(read["base64"].get_ref<const std::string&>().size(), guest_.host_memory().left_for_call());
}

TEST_F(FileRequests, SayWhatGrantIsMissing) {
  const json error = ask_text(R"({"files":"stat","path":"/data/x","follow":true})")["error"];
  EXPECT_EQ(error["errno"], "ENOENT");
  EXPECT_EQ(error["grant"], "--allow fs:read:HOST_DIRECTORY:/data");
}

TEST_F(FileRequests, WithoutFuelHaveNoAnswer) {
  guest_.fuel = 5;
  const auto answer = answer_files(*system_, guest_, R"({"files":"make_directory","path":"/d"})");
  EXPECT_EQ(answer.end, host::CallEnd::kOutOfFuel);
  EXPECT_EQ(answer.json, "");
  guest_.fuel = 1'000'000;
  EXPECT_EQ(fails({{"files", "stat"}, {"path", "/d"}}), "ENOENT");
}

}  // namespace
}  // namespace membrane::sandbox
