#include "policy/policy.h"
#include "policy/directory_flag.h"
#include "policy/linux_words.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace membrane::policy {
namespace {

Policy parse(std::string_view text, std::string_view name = "p.toml") {
  auto policy = parse_policy(text, name);
  EXPECT_TRUE(policy) << policy.error().to_string();
  return policy.value_or(Policy{});
}

std::string error(std::string_view text, std::string_view name = "p.toml") {
  const auto policy = parse_policy(text, name);
  return policy ? "accepted" : policy.error().to_string();
}

std::string flag_error(std::string_view flag) {
  Policy policy;
  const auto status = allow(policy, flag);
  EXPECT_EQ(policy, Policy{}) << flag;
  return status ? "accepted" : status.error().to_string();
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

constexpr std::string_view kFull = R"(
ask = true

[limits]
fuel = 50_000_000
memory = "64 MiB"
wall = "10 s"
output = "1 MiB"
host_calls = 1000
tokens = 2e5

[[http]]
methods = ["GET", "POST"]
url = "https://api.example.org/v1/*"
header = { Authorization = { prefix = "Bearer ", secret = "EXAMPLE_KEY" }, Accept = "application/json" }
addresses = ["10.0.0.0/8", "fd00::/8"]
max_request = "10 KiB"
max_response = 1024
timeout = "5 s"
max_redirects = 0

[[fs]]
guest = "/data"
host = "./data"
mode = "read"

[[fs]]
guest = "/out"
host = "./out"
mode = "write"
links = true
max_file = "1 MiB"
max_total = "2 MiB"
max_files = 10

[kv]
path = "./store.db"
prefix = "run:"

[[sql]]
name = "papers"
path = "./papers.db"
max_rows = 5

[ai]
max_tokens_per_call = 100
embed = true

[time]
start = "2020-02-29T00:00:00Z"
[random]
seed = 7
[packages]
python = ["rich==13.7.1", "httpx"]
javascript = ["lodash"]
)";

TEST(Policy, AnEmptyFileGrantsNothing) {
  EXPECT_EQ(parse(""), Policy{});
  EXPECT_EQ(parse("{}", "p.json"), Policy{});
  const Policy none;
  EXPECT_TRUE(none.http.empty() && none.fs.empty() && !none.kv && none.sql.empty() && !none.ai && !none.ask);
  EXPECT_FALSE(none.time.real || none.random.real);
}

TEST(Policy, AByteOrderMarkIsNotPartOfIt) {
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_EQ(parse(mark + std::string(kFull)), parse(kFull));
  EXPECT_EQ(parse(mark + "{}", "p.json"), Policy{});
}

TEST(Policy, ReadsEveryField) {
  const Policy policy = parse(kFull);
  EXPECT_EQ(policy.limits.fuel, 50'000'000u);
  EXPECT_EQ(policy.limits.memory_bytes, 64u << 20);
  EXPECT_EQ(policy.limits.wall_ms, 10'000u);
  EXPECT_EQ(policy.limits.tokens, 200'000u);
  ASSERT_EQ(policy.http.size(), 1u);
  const HttpGrant& http = policy.http[0];
  EXPECT_EQ(http.methods, (std::vector<std::string>{"GET", "POST"}));
  EXPECT_EQ(http.url, "https://api.example.org/v1/*");
  ASSERT_EQ(http.headers.size(), 2u);
  EXPECT_EQ(http.headers[0].first, "Accept");
  EXPECT_EQ(http.headers[0].second.text, "application/json");
  EXPECT_EQ(http.headers[1].second, (HeaderValue{"Bearer ", "EXAMPLE_KEY"}));
  EXPECT_EQ(http.addresses.size(), 2u);
  EXPECT_EQ(http.max_request_bytes, 10'240u);
  EXPECT_EQ(http.max_response_bytes, 1024u);
  EXPECT_EQ(http.timeout_ms, 5'000u);
  EXPECT_EQ(http.max_redirects, 0u);
  ASSERT_EQ(policy.fs.size(), 2u);
  EXPECT_EQ(policy.fs[0].mode, FsMode::kRead);
  EXPECT_EQ(policy.fs[1].mode, FsMode::kWrite);
  EXPECT_EQ(policy.fs[1].max_files, 10u);
  EXPECT_FALSE(policy.fs[0].links);
  EXPECT_TRUE(policy.fs[1].links);
  EXPECT_EQ(policy.kv->prefix, "run:");
  EXPECT_EQ(policy.sql.at(0).max_rows, 5u);
  EXPECT_TRUE(policy.ai->embed);
  EXPECT_EQ(policy.time.start_ms, 1'582'934'400'000);
  EXPECT_EQ(policy.random.seed, 7u);
  EXPECT_TRUE(policy.ask);
  EXPECT_EQ(policy.packages.python, (std::vector<std::string>{"rich==13.7.1", "httpx"}));
  EXPECT_EQ(policy.packages.javascript, std::vector<std::string>{"lodash"});
}

TEST(Policy, PackagesAreNamesAndNothingElse) {
  for (const char* name : {"--pre", "git+https://example.org/x", "./x.whl", "rich>=1", "x @ file:///x"})
    EXPECT_TRUE(contains(error("[packages]\npython = [\"" + std::string(name) + "\"]\n"), "is not a package"))
        << name;
  EXPECT_TRUE(contains(error("[packages]\npython = [\"Rich\", \"rich==1.0\"]\n"),
                       "packages.python: the package rich"));
  EXPECT_TRUE(contains(error("[packages]\nruby = [\"x\"]\n"), "packages.ruby: unknown field"));
  EXPECT_TRUE(contains(error("[packages]\npython = \"rich\"\n"), "an array of strings"));
}

TEST(Policy, ItsJsonReadsBackToTheSamePolicy) {
  const Policy policy = parse(kFull);
  const std::string json = to_json(policy);
  EXPECT_EQ(parse(json, "p.json"), policy);
  EXPECT_EQ(to_json(parse(json, "p.json")), json);
  EXPECT_EQ(parse(to_json(Policy{}), "p.json"), Policy{});
  EXPECT_TRUE(contains(json, R"("Authorization":{"prefix":"Bearer ","secret":"EXAMPLE_KEY"})")) << json;
}

TEST(Policy, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(error("[limits]\nfule = 3\n"),
            "p.toml: line 2: limits.fule: unknown limit. (did you mean fuel?)");
  EXPECT_EQ(error("[[htp]]\n"), "p.toml: line 1: htp: unknown field. (did you mean http?)");
  EXPECT_EQ(error("[[http]]\nmethods = [\"GET\"]\nurl = \"https://h.org/*\"\ntimout = \"1 s\"\n"),
            "p.toml: line 4: http[0].timout: unknown field. (did you mean timeout?)");
  EXPECT_EQ(error("[limits]\nmemory = true\n"),
            "p.toml: line 2: limits.memory: expected a size, such as \"64 MiB\", found true or false.");
  EXPECT_EQ(error("[limits]\nwall = 10\n"),
            "p.toml: line 2: limits.wall is a number without a unit. (write a duration, such as \"10 s\")");
  EXPECT_EQ(error("[http]\nurl = \"x\"\n"),
            "p.toml: line 1: http is a list of grants, found a table. "
            "(write [[http]] above each grant; in JSON, an array of objects)");
  EXPECT_EQ(error(R"({"http":[{"methods":["GET"]}]})", "p.json"),
            "p.json: http[0]: the field \"url\" is missing.");
}

struct Refusal {
  const char* text;
  const char* part;  // of the message
};

TEST(Policy, RefusesMalformedText) {
  const Refusal kCases[] = {
      {"[limits", "line 1"},
      {"[limits]\nfuel = 1\nfuel = 2\n", "line 3"},
      {"[limits]\nmemory = 64 MiB\n", "strings need quotes"},
      {"ask = 1979-05-27T07:32:00Z\n", "quotes"},
      {"[limits]\nfuel = -1\n", "negative"},
      {"[limits]\nfuel = 1.5\n", "whole number"},
      {"[limits]\nfuel = inf\n", "whole number"},
      {"[limits]\nfuel = nan\n", "whole number"},
      {"[limits]\nfuel = 1e30\n", "whole number"},
      {"[limits]\nmemory = \"5 GiB\"\n", "out of range"},
      {"[limits]\nmemory = \"5 GB\"\n", "out of range"},
      {"[limits]\nwall = \"0 s\"\n", "out of range"},
      {"\xc7\x9a", "outside \"…\""},
      {"# \xc7\x9a ' \" fine\n\xc7\x9a = 1\n", "line 2"},
      {"[kv]\nprefix = \"\\\"\" \xc7\x9a\n", "outside \"…\""},
      {"[kv]\nprefix = \"\"\"a\"\"\"\n", "Multi-line strings"},
      {"[kv]\nprefix = '\n'\n", "line 2"},
      {"[kv]\nprefix = '\xc7\x9a'\n", "double quotes"},
      {"[kv]\nprefix = \"\xc7\"\n", "not UTF-8"},
      {"[kv]\nprefix = \"\\\xc7\x9a\"\n", "line 2"},
      {"ask = \"yes\"\n", "expected true or false"},
      {"a = [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]\n", "deep"},
  };
  for (const auto& [text, part] : kCases)
    EXPECT_TRUE(contains(error(text), part)) << text << "\n" << error(text);
  EXPECT_EQ(parse("[kv]\nprefix = \"\xc7\x9a#\" # \xc7\x9a\n").kv->prefix, "\xc7\x9a#");
  for (const char* text :
       {"", "[", "[]", "null", "{\"ask\":null}", "{\"ask\":true,\"ask\":true}", "{\"ask\":true}}",
        "{\"limits\":{\"fuel\":1e999}}", "{\"ask\":\"\\u0000\"}", "{\"a\":[[[[[[[[[[[[[[[[[1]"})
    EXPECT_NE(error(text, "p.json"), "accepted") << text;
  EXPECT_TRUE(contains(error("{\"ask\":true,\"ask\":true}", "p.json"), "repeated"));
  EXPECT_NE(error(std::string(2 << 20, ' ')), "accepted");
}

// Deeper than the stack allows: toml++ reads and frees by recursion.
TEST(Policy, RefusesTomlThatNestsBeforeItIsRead) {
  const auto times = [](std::string_view piece, size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += piece;
    return text;
  };
  constexpr size_t kCount = 400'000;
  for (const std::string& text :
       {"http = " + times("[", kCount), "a = " + times("{a=", 300'000), times("a.", kCount) + "a = 1",
        "[" + times("a.", kCount) + "a]", "[[" + times("a.", kCount) + "a]]",
        "a = {" + times("a.", kCount) + "a = 1}", "a = [\n" + times("[\n", kCount),
        times("a . ", 200'000) + "a = 1", "# comment\n" + times("a.", kCount) + "a = 1"}) {
    const auto policy = parse_policy(text, "a.toml");
    ASSERT_FALSE(policy) << text.substr(0, 20);
    EXPECT_NE(policy.error().message.find("nested too deeply"), std::string::npos) << policy.error().message;
  }
  const std::string dots(1'000, '.');
  EXPECT_TRUE(parse_policy("# " + dots + "\n[limits]\nfuel = 1\n", "a.toml"));
  EXPECT_TRUE(parse_policy("[kv]\nprefix = \"" + dots + "[[[[{{{{\"\n", "a.toml"));
}

TEST(Policy, AFlagGrantsAWholeHost) {
  Policy policy;
  ASSERT_TRUE(allow(policy, "http:*.example.org"));
  ASSERT_TRUE(allow(policy, "http:localhost:8000"));
  ASSERT_EQ(policy.http.size(), 4u);
  EXPECT_EQ(policy.http[0].url, "https://*.example.org/*");
  EXPECT_EQ(policy.http[0].methods.back(), "CONNECT");
  EXPECT_EQ(policy.http[1].url, "http://*.example.org/*");
  EXPECT_NE(policy.http[1].methods.back(), "CONNECT");
  EXPECT_EQ(policy.http[2].url, "https://localhost:8000/*");
  EXPECT_EQ(policy.http[2].addresses, (std::vector<std::string>{"127.0.0.1", "::1"}));
  EXPECT_TRUE(validate(policy));
  EXPECT_FALSE(allow(policy, "http:example.org/path"));
  EXPECT_FALSE(allow(policy, "http:example.org:port"));
}

TEST(Policy, RefusesHttpGrantsThatCannotBeKept) {
  const auto http = [](const std::string& fields) { return error("[[http]]\n" + fields); };
  const std::string get = "methods = [\"GET\"]\n", url = "url = \"https://h.org/*\"\n";
  EXPECT_EQ(http(get + url), "accepted");
  const std::pair<std::string, const char*> kCases[] = {
      {"methods = []\n" + url, "no method"},
      {"methods = [\"get\"]\n" + url, "did you mean GET?"},
      {"methods = [\"TRACE\"]\n" + url, "not a method that can be granted"},
      {"methods = [\"CONNECT\"]\nurl = \"https://h.org/v1/*\"\n", "granted for a whole host"},
      {"methods = [\"CONNECT\"]\nurl = \"http://h.org/*\"\n", "granted for a whole host"},
      {"methods = [\"CONNECT\"]\n" + url + "header = { A = \"x\" }\n", "no header can be added"},
      {"methods = [\"GET\", \"GET\"]\n" + url, "repeated"},
      {"methods = [\"GET /x HTTP/1.1\\r\\n\"]\n" + url, "not a method"},
      {"methods = \"GET\"\n" + url, "expected an array"},
      {get + "url = \"h.org/*\"\n", "write https://h.org/*"},
      {get + "url = \"https://h.org\"\n", "https://h.org/*"},
      {get + "url = \"https://u:p@h.org/*\"\n", "user information"},
      {get + "url = \"file:///etc/*\"\n", "http"},
      {get + url + "header = { Host = \"x\" }\n", "belongs to the connection"},
      {get + url + "header = { X-HTTP-Method-Override = \"DELETE\" }\n", "belongs to the connection"},
      {get + url + "header = { proxy_authorization = \"x\" }\n", "belongs to the connection"},
      {get + url + "header = { \"a b\" = \"x\" }\n", "not a header name"},
      {get + url + "header = { A = \"x\\r\\nB: y\" }\n", "control character"},
      {get + url + "header = { A = \"x\", a = \"y\" }\n", "repeated"},
      {get + url + "header = { A = { secret = \"\" } }\n", "no name"},
      {get + url + "header = { A = { secret = \"sk-12345\" } }\n", "environment variable"},
      {get + url + "header = { A = { text = \"x\" } }\n", "unknown field"},
      {get + url + "header = { A = 3 }\n", "expected a string"},
      {get + "url = \"http://h.org/*\"\nheader = { A = { secret = \"KEY\" } }\n", "unencrypted"},
      {get + url + "addresses = [\"10.0.0.1/8\"]\n", "beyond its prefix"},
      {get + url + "addresses = [\"localhost\"]\n", "not an IP address"},
      {get + "url = \"http://127.0.0.1/*\"\naddresses = [\"10.0.0.0/8\"]\n", "not among them"},
      {get + url + "timeout = \"0 s\"\n", "out of range"},
      {get + url + "timeout = \"2 h\"\n", "out of range"},
      {get + url + "max_response = \"2 GiB\"\n", "out of range"},
      {get + url + "max_redirects = 21\n", "out of range"},
      {get + url + "max_redirects = 4294967297\n", "out of range"},
      {get + url + "[[http]]\n" + get + "url = \"https://H.org:443/*\"\n", "granted twice"},
  };
  for (const auto& [fields, part] : kCases)
    EXPECT_TRUE(contains(http(fields), part)) << fields << http(fields);
  EXPECT_EQ(http(get + url + "[[http]]\nmethods = [\"POST\"]\n" + url), "accepted");
  EXPECT_EQ(http(get + "url = \"http://127.0.0.1:1/*\"\nheader = { A = { secret = \"KEY\" } }\n"),
            "accepted");
}

TEST(Policy, HasSoManyGrantsAndNoMore) {
  Policy policy;
  for (size_t i = 0; i < kMaxGrants; ++i)
    policy.fs.push_back({.guest = "/" + std::to_string(i), .host = "/srv"});
  EXPECT_TRUE(validate(policy));
  policy.fs.push_back({.guest = "/more", .host = "/srv"});
  EXPECT_FALSE(validate(policy));
}

TEST(Policy, RefusesOtherGrantsThatCannotBeKept) {
  const Refusal kCases[] = {
      {"[[fs]]\nguest = \"data\"\nhost = \".\"\nmode = \"read\"\n", "not absolute"},
      {"[[fs]]\nguest = \"/a/../b\"\nhost = \".\"\nmode = \"read\"\n", "dot component"},
      {"[[fs]]\nguest = \"/a/\"\nhost = \".\"\nmode = \"read\"\n", "empty component"},
      {"[[fs]]\nguest = \"//\"\nhost = \".\"\nmode = \"read\"\n", "empty component"},
      {"[[fs]]\nguest = \"/a\"\nhost = \"\"\nmode = \"read\"\n", "no directory"},
      {"[[fs]]\nguest = \"/a\"\nhost = \".\"\nmode = \"rw\"\n", "not a mode"},
      {"[[fs]]\nguest = \"/a\"\nhost = \".\"\n", "\"mode\" is missing"},
      {"[[fs]]\nguest = \"/a\"\nhost = \".\"\nmode = \"read\"\nmax_total = 1\n", "bounds what is written"},
      {"[[fs]]\nguest = \"/a\"\nhost = \".\"\nmode = \"read\"\n[[fs]]\nguest = \"/a\"\nhost = \"b\"\nmode = "
       "\"read\"\n",
       "twice"},
      {"[[kv]]\n", "expected a table"},
      {"[kv]\nwritable = false\n", "always empty"},
      {"[kv]\npath = \"x\"\nwritable = false\nmax_keys = 1\n", "not writable"},
      {"[kv]\npath = \":memory:\"\n", "plain path"},
      {"[kv]\npath = \"file:x?mode=rw\"\n", "plain path"},
      {"[kv]\nprefix = \"abc\"\nmax_key = 2\n", "longer than max_key"},
      {"[[sql]]\nname = \"a b\"\npath = \"x\"\n", "not a name"},
      {"[[sql]]\nname = \"a\"\npath = \"\"\n", "no file"},
      {"[[sql]]\nname = \"a\"\npath = \"x\"\n[[sql]]\nname = \"a\"\npath = \"y\"\n", "twice"},
      {"[ai]\nmax_tokens_per_call = 0\n", "out of range"},
      {"[time]\nreal = true\nstart = \"2000-01-01T00:00:00Z\"\n", "real one is granted"},
      {"[time]\nstart = \"yesterday\"\n", "not a time"},
      {"[random]\nreal = true\nseed = 1\n", "real ones are granted"},
  };
  for (const auto& [text, part] : kCases) EXPECT_TRUE(contains(error(text), part)) << text << error(text);
}

TEST(Policy, LoadsFilesAndSaysWhenThereIsNone) {
  char path[] = "/tmp/membrane_policy_XXXXXX.json";
  const int fd = mkstemps(path, 5);
  ASSERT_GE(fd, 0);
  close(fd);
  std::ofstream(path) << R"({"ask": true})";
  const auto policy = load_policy(path);
  ASSERT_TRUE(policy) << policy.error().to_string();
  EXPECT_TRUE(policy->ask);
  unlink(path);
  EXPECT_EQ(load_policy(path).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(load_policy("/tmp"));
}

TEST(Allow, GrantsWhatEachFlagSays) {
  Policy policy;
  for (const char* flag :
       {"http:GET,POST:https://example.org:8443/*", "fs:read:./data", "fs:write:./out/:/a/b",
        "fs:write,links:./linked", "kv", "sql:papers:./a:b.db", "ai", "time", "random", "ask"}) {
    const auto status = allow(policy, flag);
    EXPECT_TRUE(status) << flag << " " << status.error().to_string();
  }
  EXPECT_EQ(policy.http.at(0).url, "https://example.org:8443/*");
  EXPECT_EQ(policy.http.at(0).methods, (std::vector<std::string>{"GET", "POST"}));
  EXPECT_EQ(policy.fs.at(0).guest, "/data");
  EXPECT_EQ(policy.fs.at(0).host, "./data");
  EXPECT_EQ(policy.fs.at(1).guest, "/a/b");
  EXPECT_EQ(policy.fs.at(1).host, "./out/");
  EXPECT_EQ(policy.fs.at(1).mode, FsMode::kWrite);
  EXPECT_FALSE(policy.fs.at(1).links);
  EXPECT_EQ(policy.fs.at(2).guest, "/linked");
  EXPECT_EQ(policy.fs.at(2).mode, FsMode::kWrite);
  EXPECT_TRUE(policy.fs.at(2).links);
  EXPECT_EQ(policy.kv->path, "");
  EXPECT_EQ(policy.sql.at(0).path, "./a:b.db");
  EXPECT_TRUE(policy.ai && policy.time.real && policy.random.real && policy.ask);
}

TEST(Allow, SaysHowToMendAFlag) {
  const Refusal kCases[] = {
      {"http", "--allow http:example.org for a whole host, or --allow 'http:GET:https://example.org/*'"},
      {"http:", "--allow http:example.org for a whole host"},
      {"http:https://h.org/*", "'http:GET:https://h.org/*'"},
      {"http://127.0.0.1:24801/",
       "the method is missing. (write --allow 'http:GET:http://127.0.0.1:24801/*'"},
      {"http:http://localhost", "'http:GET:http://localhost/*'"},
      {"https://example.org", "'http:GET:https://example.org/*'"},
      {"https://example.org/*", "write --allow 'http:GET:https://example.org/*'"},
      {"https:example.org", "--allow http:example.org"},
      {"HTTPS://user:x@h.org/a?b#c", "'http:GET:https://h.org/a?b'"},
      {"http:GET:h.org/*", "'http:GET:https://h.org/*'"},
      {"http:GET:127.0.0.1:24801", "'http:GET:http://127.0.0.1:24801/*'"},
      {"http:GET:[::1]:8000/a", "'http:GET:http://[::1]:8000/a'"},
      {"http:GET:h.org", "'http:GET:https://h.org/*'"},
      {"http:GET:https://h.org", "'http:GET:https://h.org/*'"},
      {"http:h.org/v1/*", "'http:GET:https://h.org/v1/*'"},
      {"example.org", "there is no such capability. (write --allow http:example.org"},
      {"example.org:8443", "--allow http:example.org:8443"},
      {"api.example.org/v1/*", "'http:GET:https://api.example.org/v1/*'"},
      {"localhost:8000", "--allow http:localhost:8000"},
      {"127.0.0.1", "--allow http:127.0.0.1"},
      {"GET:https://h.org/*", "'http:GET:https://h.org/*'"},
      {"get,post:h.org", "'http:GET,POST:https://h.org/*'"},
      {"http:GET", "http:GET:https://example.org/*"},
      {"http:GET:*", "whole network"},
      {"http:GET:*", "http:GET:https://example.org/*"},
      {"http:*", "http:GET:https://example.org/*"},
      {"http:*:https://h.org/*", "http:GET,POST:https://h.org/*"},
      {"http:get:https://h.org/*", "'http:GET:https://h.org/*'"},
      {"http:GET,:https://h.org/*", "not a method"},
      {"http:GET,:https://h.org/*", "'http:GET:https://h.org/*'"},
      {"http:GET,GET:https://h.org/*", "repeated"},
      {"fs", "fs:read:./data"},
      {"fs:./data", "the mode is missing"},
      {"fs:./data", "fs:read:./data"},
      {"fs:./data:ro", "fs:read:./data"},
      {"fs:./data:/data:rw", "fs:write:./data:/data"},
      {"fs:rw:./data", "\"rw\" is not a mode: the modes are read, and write (which includes reading)."},
      {"fs:rw:./data", "write --allow fs:write:./data"},
      {"fs:ro:./data", "write --allow fs:read:./data"},
      {"fs:rd:.", "write --allow fs:read:."},
      {"fs:rw:", "fs:write:./data"},
      {"fs:read", "fs:read:./data"},
      {"fs:read,link:./data", "fs:read,links:./data"},
      {"fs:read,links", "fs:read,links:./data"},
      {"fs:links:./data", "fs:read,links:./data"},
      {"fs:read:", "fs:read:./data"},
      {"fs:read:..", "fs:read:..:/work"},
      {"fs:reed:.", "\"reed\" is not a mode"},
      {"fs:reed:.", "--allow fs:read:."},
      {"fs:wirte:./data", "--allow fs:write:./data"},
      {"fs:read:/", "fs:read:/:/work"},
      {"fs:read:a/..", "fs:read:a/..:/work"},
      {"fs:read:./data:/a/../b", "dot component"},
      {"fs:read:./data:/a/../b", "--allow fs:read:./data:/b"},
      {"./data", "--allow fs:read:./data"},
      {"../data:/data:rw", "--allow fs:write:../data:/data"},
      {"/", "--allow fs:read:/:/work"},
      {"rw:./data", "--allow fs:write:./data"},
      {"kv:", "kv:./store.db"},
      {"kv::memory:", "plain path"},
      {"kv::memory:", "--allow kv"},
      {"kv:file:a.db", "--allow kv:a.db"},
      {"sql", "sql:data:./data.db"},
      {"sql:./a.db", "--allow sql:a:./a.db"},
      {"sql:my-papers:./a.db", "--allow sql:my_papers:./a.db"},
      {"sql:a", "sql:a:./data.db"},
      {"ai:x", "takes nothing"},
      {"ai:x", "--allow ai"},
      {"htttp:GET:https://h.org/*", "'http:GET:https://h.org/*'"},
      {"", "known are"},
      {"net", "known are"},
      {"kv.put", "write --allow kv"},
      {"http.get", "write --allow 'http:GET:https://example.org/*'"},
      {"kvs.put", "did you mean kv?"},
  };
  for (const auto& [flag, part] : kCases)
    EXPECT_TRUE(contains(flag_error(flag), part)) << flag << ": " << flag_error(flag);
  EXPECT_NE(flag_error(std::string_view("kv:a\0b", 6)), "accepted");
  EXPECT_NE(flag_error("kv:\xff"), "accepted");
}

// The grants in a hint, without the shell's quotes.
std::vector<std::string> grants_in(std::string_view hint) {
  constexpr std::string_view kFlag = "--allow ";
  std::vector<std::string> grants;
  for (size_t at; (at = hint.find(kFlag)) != std::string_view::npos;) {
    hint.remove_prefix(at + kFlag.size());
    const bool is_quoted = hint.starts_with('\'');
    if (is_quoted) hint.remove_prefix(1);
    grants.emplace_back(hint.substr(0, hint.find_first_of(is_quoted ? "'" : " ")));
    if (grants.back().ends_with(',')) grants.back().pop_back();
  }
  return grants;
}

TEST(Allow, WhatAHintSuggestsIsAccepted) {
  // The kinds of mistakes, in each combination that a person may type.
  std::vector<std::string> wrong = {
      "http", "fs", "sql", "kv:", "fs:read", "http:GET", "kv::memory:", "time:real"};
  for (const char* const place :
       {"example.org", "example.org:8443", "example.org/v1/*", "https://example.org", "https://example.org/",
        "https://example.org/a?b#c", "http://127.0.0.1:24801", "127.0.0.1:24801", "localhost",
        "localhost:80/x", "//example.org/x", "*", "*.org", "https://*/*", "https://u@example.org/x",
        "[::1]:8000", "10.0.0.1"})
    for (const char* const before : {"", "http:", "https:", "http:GET:", "http:get,post:", "http:*:", "GET:",
                                     "HTTP:", "htpt:", "http:FETCH:", "http::", "http:GET,,GET:"})
      wrong.push_back(std::string(before) + place);
  for (const char* const place : {"./data", ".", "..", "/", "/srv/data", "data", "../x/..", "a:/b",
                                  "./data:/a/../b", "./data:ro", "./data:/data:rw", "it's", ""})
    for (const char* const before : {"", "fs:", "fs:rw:", "fs:ro:", "fs:read:", "fs:read,link:", "fs:links:",
                                     "fs:wirte:", "fs:x:", "rw:", "f:"})
      wrong.push_back(std::string(before) + place);
  for (const char* const place :
       {"./a.db", "a", "my-papers:./a.db", "1:a.db", ":a.db", "a:", "a:file:b.db", ":memory:"})
    for (const char* const before : {"sql:", "kv:file:", "sqll:"})
      wrong.push_back(std::string(before) + place);
  for (const std::string& flag : wrong) {
    Policy policy;
    const auto refused = allow(policy, flag);
    if (refused) continue;
    const std::string& hint = refused.error().hint;
    constexpr std::string_view kCapabilities[] = {"http", "fs:", "sql", "kv"};
    const bool is_of_one =
        std::ranges::any_of(kCapabilities, [&](auto each) { return flag.starts_with(each); });
    EXPECT_TRUE(!is_of_one || contains(hint, "--allow ")) << flag << ": " << refused.error().to_string();
    for (const std::string& grant : grants_in(hint)) {
      const auto accepted = allow(policy, grant);
      EXPECT_TRUE(accepted) << flag << ": " << hint << "\n" << accepted.error().to_string();
    }
  }
}

TEST(Allow, WhatIsGrantedAlreadyIsNotGrantedAgain) {
  Policy policy;
  for (const char* flag : {"http:GET,POST:https://h.org/*", "fs:write:./data", "sql:a:./a.db", "fs:read:."})
    ASSERT_TRUE(allow(policy, flag));
  policy.http.at(0).timeout_ms = 1;
  const Policy before = policy;
  for (const char* flag : {"http:GET:https://h.org:443/*", "fs:read:data/", "fs:write:./data:/data",
                           "sql:a:./a.db", "fs:read:./:/"}) {
    const auto status = allow(policy, flag);
    EXPECT_TRUE(status) << flag << " " << status.error().to_string();
    EXPECT_EQ(policy, before) << flag;
  }
  EXPECT_TRUE(allow_directory(policy, "data"));
  EXPECT_EQ(policy, before);
  EXPECT_TRUE(allow_directory(policy, ".:/"));
  EXPECT_EQ(policy.fs.at(1).mode, FsMode::kWrite) << "what is read may be granted for writing, too";
  EXPECT_TRUE(allow(policy, "http:GET,PUT:https://h.org/*"));
  EXPECT_EQ(policy.http.at(1).methods, std::vector<std::string>{"PUT"});
}

// After a link, ".." is not the parent of the directory before it.
TEST(Allow, PathsThatLeadUpAreNotTakenForOneAnother) {
  Policy policy;
  ASSERT_TRUE(allow(policy, "fs:read:b:/b"));
  EXPECT_FALSE(allow(policy, "fs:write:a/../b:/b")) << "two directories at one place";
  ASSERT_EQ(policy.fs.size(), 1u);
  EXPECT_EQ(policy.fs[0].mode, FsMode::kRead);
}

TEST(Allow, LocalhostIsThisMachine) {
  Policy policy;
  ASSERT_TRUE(allow(policy, "http:GET:http://localhost:8000/*"));
  EXPECT_EQ(policy.http.at(0).addresses, (std::vector<std::string>{"127.0.0.1", "::1"}));
  ASSERT_TRUE(allow(policy, "http:GET:http://localhost.example.org/*"));
  EXPECT_TRUE(policy.http.at(1).addresses.empty());
}

TEST(Allow, RefusesAnotherThingInTheSamePlaceAndLeavesThePolicyAsItWas) {
  Policy policy;
  ASSERT_TRUE(allow(policy, "http:GET:https://h.org/*"));
  ASSERT_TRUE(allow(policy, "kv:./a.db"));
  ASSERT_TRUE(allow(policy, "fs:read:./data"));
  const Policy before = policy;
  EXPECT_FALSE(allow(policy, "kv:./b.db"));
  EXPECT_FALSE(allow(policy, "fs:write:./other/data"));
  EXPECT_EQ(policy, before);
  EXPECT_TRUE(allow(policy, "http:POST:https://h.org/*"));
  EXPECT_TRUE(allow(policy, "kv:./a.db"));
  EXPECT_TRUE(allow(policy, "ask"));
  EXPECT_TRUE(allow(policy, "ask"));
}

TEST(SetLimit, TakesTheNamesOfTheTable) {
  Limits limits;
  EXPECT_TRUE(set_limit(limits, "fuel", "2e9"));
  EXPECT_TRUE(set_limit(limits, "memory", "64MiB"));
  EXPECT_TRUE(set_limit(limits, "wall", "10s"));
  EXPECT_EQ(limits.fuel, 2'000'000'000u);
  EXPECT_EQ(limits.memory_bytes, 64u << 20);
  EXPECT_EQ(limits.wall_ms, 10'000u);
  const Limits before = limits;
  EXPECT_EQ(set_limit(limits, "call_depth", "0", "--call-depth").error().message,
            "--call-depth: 0 is out of range.");
  EXPECT_EQ(set_limit(limits, "wall", "1h1", "--wall").error().message.substr(0, 8), "--wall: ");
  EXPECT_EQ(set_limit(limits, "fuell", "1").error().hint, "did you mean fuel?");
  EXPECT_FALSE(set_limit(limits, "fuel", "lots"));
  EXPECT_FALSE(set_limit(limits, "wall", "10"));
  EXPECT_FALSE(set_limit(limits, "memory", "8 GiB"));
  const Error no_unit = set_limit(limits, "memory", "64").error();
  EXPECT_TRUE(contains(no_unit.message, "less than a page of 64 KiB")) << no_unit.message;
  EXPECT_TRUE(contains(no_unit.hint, "64MiB")) << no_unit.hint;
  EXPECT_FALSE(set_limit(limits, "memory", "65535"));
  EXPECT_EQ(limits, before);
  EXPECT_TRUE(set_limit(limits, "memory", "65536"));
  EXPECT_TRUE(set_limit(limits, "memory", "0"));
}

TEST(Allow, IsQuotedForTheShellWhereThatIsNeeded) {
  EXPECT_EQ(allow_flag("kv"), "--allow kv");
  EXPECT_EQ(allow_flag("fs:read:./data:/data"), "--allow fs:read:./data:/data");
  EXPECT_EQ(allow_flag("http:GET:https://example.org/*"), "--allow 'http:GET:https://example.org/*'");
  EXPECT_EQ(allow_flag("sql:x; rm -rf ~"), "--allow 'sql:x; rm -rf ~'");
  EXPECT_EQ(allow_flag("fs:read:it's"), R"(--allow 'fs:read:it'\''s')");
}

TEST(Explain, SaysWhatIsGrantedAndWhatIsNot) {
  const std::string none = explain(Policy{});
  for (const char* part : {"cannot reach the network", "cannot see any file", "has no key-value store",
                           "cannot query any database", "cannot ask a model", "cannot ask the person",
                           "virtual clock that starts at 2000-01-01T00:00:00Z", "from the seed 0",
                           "1,000,000,000 instructions", "64 MiB of linear memory"})
    EXPECT_TRUE(contains(none, part)) << part << "\n" << none;
  const std::string all = explain(parse(kFull));
  for (const char* part :
       {"GET and POST requests to https://api.example.org, at paths that begin with /v1/.",
        "secret EXAMPLE_KEY, which the program never sees", "but for 10.0.0.0/8 and fd00::/8",
        "Redirects are not followed", "read files below /data, which is ./data on the host",
        "read, create, replace, append to and remove files below /out",
        "follow symbolic links that stay below that directory, and make symbolic and hard links there",
        "only for keys that begin with \"run:\"", "SQLite database \"papers\"",
        "Programs in Python can import rich==13.7.1 and httpx", "Programs in JavaScript can import lodash"})
    EXPECT_TRUE(contains(all, part)) << part << "\n" << all;
  EXPECT_FALSE(contains(all, "\n\n"));
}

TEST(Explain, IsBriefForAModel) {
  EXPECT_EQ(explain_briefly(Policy{}),
            "Not granted: http, fs, kv, sql, ai, agent.ask.\n"
            "The clock is virtual and starts at 2000-01-01T00:00:00Z.\n"
            "A run has 1,000,000,000 fuel (instructions), 64 MiB of memory, 1 MiB of output, 10 s, 1,000 "
            "host calls.\n");
  const std::string all = explain_briefly(parse(kFull));
  for (const char* part :
       {"http: GET and POST to https://api.example.org, at paths that begin with /v1/; the header ",
        "\nfs: reading files below /data.\n", "\nfs: reading and writing files below /out.\n",
        "\nkv: a key-value store, only for keys that begin with \"run:\"",
        "\nsql: the database \"papers\", not to be changed.\n", "\nai: at most ",
        "Programs in Python can import rich==13.7.1 and httpx"})
    EXPECT_TRUE(contains(all, part)) << part << "\n" << all;
  EXPECT_FALSE(contains(all, "EXAMPLE_KEY")) << all;
  EXPECT_FALSE(contains(all, "Not granted") && contains(all, "\n\n")) << all;
}

// Reading a policy costs nothing that its grants do not need: without http grants libcurl is not even loaded. Runs
// in a process of its own, since other tests load it.
bool reads_without_libcurl() {
  Policy policy;
  if (!parse_policy("[[fs]]\nguest=\"/a\"\nhost=\".\"\nmode=\"read\"\n[kv]\n", "p.toml")) return false;
  if (!allow(policy, "kv") || explain(policy).empty()) return false;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (contains(line, "libcurl")) return false;
  return true;
}

TEST(PolicyDeathTest, WithoutHttpGrantsLibcurlIsNotLoaded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a fresh process
  EXPECT_EXIT(_exit(reads_without_libcurl() ? 0 : 1), testing::ExitedWithCode(0), "");
}

// -- what only Linux sandboxes enforce

TEST(Policy, HasLimitsOfLinuxSandboxes) {
  const auto policy =
      parse_policy("platform = \"trap\"\n[limits]\ndisk = \"8 MiB\"\ntasks = 20\ncpu = \"3 s\"\n", "p.toml");
  ASSERT_TRUE(policy) << policy.error().message;
  EXPECT_EQ(policy->limits.disk_bytes, 8u << 20);
  EXPECT_EQ(policy->limits.tasks, 20u);
  EXPECT_EQ(policy->limits.cpu_ms, 3'000u);
  EXPECT_EQ(*parse_policy(to_json(*policy), "p.json"), *policy);
  const std::string text = explain_for_linux(*policy);
  for (const char* part : {"8 MiB of disk, 20 processes and threads, 3 s of CPU time, and runs on the "
                           "platform trap or not at all",
                           "Its clock and its random numbers are this machine's"})
    EXPECT_TRUE(contains(text, part)) << text;
  for (const char* part : {"instructions", "value stack", "table elements", "tokens"})
    EXPECT_FALSE(contains(text, part)) << text;
  EXPECT_EQ(check_for_wasm(*policy).error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(parse_policy("platform = \"vmware\"\n", "p.toml"));
  EXPECT_FALSE(parse_policy("[limits]\ntasks = 0\n", "p.toml"));
}

TEST(Policy, UnitsAreThoseOfOtherTools) {
  Limits limits;
  for (const auto& [text, ms] : std::initializer_list<std::pair<const char*, uint64_t>>{
           {"10m", 600'000}, {"1h30m", 5'400'000}, {"1d", 86'400'000}, {"1m30s500ms", 90'500}}) {
    EXPECT_TRUE(set_limit(limits, "wall", text)) << text;
    EXPECT_EQ(limits.wall_ms, ms) << text;
  }
  for (const char* text : {"1h30", "h", "", "1h-30m", "1.5x", "99999999999999999999h"})
    EXPECT_FALSE(set_limit(limits, "wall", text)) << text;
  for (const auto& [text, bytes] : std::initializer_list<std::pair<const char*, uint64_t>>{
           {"512m", 512u << 20}, {"512mib", 512u << 20}, {"512mb", 512'000'000}, {"2g", 2ull << 30}}) {
    EXPECT_TRUE(set_limit(limits, "memory", text)) << text;
    EXPECT_EQ(limits.memory_bytes, bytes) << text;
  }
  EXPECT_EQ(parse_policy(to_json(Policy{}), "p.json")->limits.wall_ms, 10'000u);
}

TEST(Policy, OfALinuxSandboxIsShownAsFarAsItHeedsIt) {
  Policy policy;
  policy.limits.tasks = 20;
  const std::string json = to_json_for_linux(policy);
  for (const char* part : {"fuel", "stack", "random", "time\":"}) EXPECT_FALSE(contains(json, part)) << json;
  for (const char* part : {R"("tasks":20)", R"("disk":"1 GiB")", R"("memory":"64 MiB")"})
    EXPECT_TRUE(contains(json, part)) << json;
  EXPECT_EQ(*parse_policy(json, "p.json"), policy);
}

TEST(Policy, UnsetLimitsOfLinuxSandboxesAreNotInItsJson) {
  const Policy policy;
  EXPECT_FALSE(to_json(policy).contains("tasks"));
  EXPECT_FALSE(to_json(policy).contains("platform"));
  EXPECT_TRUE(check_for_wasm(policy));
}

}  // namespace
}  // namespace membrane::policy
