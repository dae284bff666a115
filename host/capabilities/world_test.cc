// http, kv, fs, ai, sql, time and random: the requests that reach the broker, and their answers.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "host/world/machine_testing.h"

namespace membrane::host {
namespace {

// --- http --------------------------------------------------------------------------------

TEST(Http, SeveralRequestsAreAnsweredInTheirOrderEachByItself) {
  Machine machine;
  machine.world.pages["http://h/a"] = {.status = 404, .headers = {{"x", "1"}}, .body = "é", .final_url = ""};
  machine.world.pages["http://h/b"] = {
      .status = 200, .headers = {}, .body = "\xFF", .final_url = "http://h/c"};
  const std::string whole = R"({"url":"http://h/b","method":"put","headers":{"X-A":"b"},"body":"c"})";
  EXPECT_EQ(machine.text("http.get_many", {R"(["http://h/a","http://denied/",)" + whole + "]"}),
            R"([{"status":404,"url":"http://h/a","headers":{"x":"1"},"body":"é"},)"
            R"({"errno":"EACCES","message":"no grant allows http://denied/",)"
            R"("grant":"--allow http:GET:http://denied/"},)"
            R"({"status":200,"url":"http://h/c","headers":{},"body_base64":"/w=="}])");
  EXPECT_EQ(machine.world.requests.back().method, "PUT");
  EXPECT_EQ(machine.world.requests.back().headers, (Headers{{"X-A", "b"}}));
  EXPECT_EQ(machine.world.requests.back().body, "c");
  const auto& records = machine.dispatcher.records();
  ASSERT_EQ(records.size(), 3u) << "each is reported by itself";
  EXPECT_EQ(records[0].arguments, "GET, http://h/a");
  EXPECT_EQ(records[0].bytes_in, 2u);
  EXPECT_EQ(records[1].code, Errno::kAccess);
  EXPECT_EQ(records[1].bytes_out, 0u);
  EXPECT_EQ(records[2].bytes_out, 11u);
  ASSERT_NE(machine.dispatcher.last_denial(), nullptr);
  EXPECT_EQ(machine.number("http.status"), 0);
  EXPECT_EQ(machine.text("http.get_many", {"[]"}), "[]");
}

TEST(Http, LinesOfTheReportHideCredentials) {
  Machine machine;
  const std::string url = "http://h/?api_key=secret", headers = R"({"authorization":"Bearer secret"})";
  machine.world.pages[url] = {.status = 200, .headers = {}, .body = "", .final_url = ""};
  machine.call("http.get", {url});
  machine.call("http.exchange", {"GET", url, R"({"A":"b","Authorization":"Bearer secret"})", ""});
  machine.call("http.get_many", {R"([{"url":")" + url + R"(","headers":)" + headers + "}]"});
  machine.call("http.get_many", {R"([{"url":5,"headers":)" + headers + "}]"});
  const auto& records = machine.dispatcher.records();
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].arguments, "http://h/?api_key=***");
  EXPECT_EQ(records[1].arguments, R"(GET, http://h/?api_key=***, {"A":"b","Authorization":"***"}, )");
  EXPECT_EQ(records[2].arguments, "GET, http://h/?api_key=***");
  EXPECT_EQ(records[3].arguments, R"([{"url":5,"headers":{"authorization":"***"}}])");
  EXPECT_EQ(machine.world.requests.back().headers[0].second, "Bearer secret") << "the request is as it was";
}

TEST(Http, SeveralRequestsCostWhatEachOfThemDoes) {
  Machine machine;
  machine.world.pages["http://h/"] = {.status = 200, .headers = {}, .body = "", .final_url = ""};
  const auto cost_of = [&](const std::string& requests) {
    const uint64_t before = machine.guest.fuel_left();
    machine.text("http.get_many", {requests});
    return before - machine.guest.fuel_left();
  };
  const uint64_t of_one = cost_of(R"(["http://h/"])");
  EXPECT_GE(cost_of(R"(["http://h/","http://h/","http://h/"])"), of_one + 2'000);
}

TEST(Http, AMalformedListOfRequestsIsRefused) {
  Machine machine;
  for (const char* const wrong :
       {"", "{}", "[1]", "[[]]", R"([{"method":"GET"}])", R"([{"url":5}])", R"([{"url":"u","x":"y"}])",
        R"([{"url":"u","method":"a b"}])", R"([{"url":"u","headers":"a"}])",
        R"([{"url":"u","headers":{"a b":"c"}}])", R"([{"url":"u","body_base64":"*"}])"})
    EXPECT_EQ(machine.fails("http.get_many", {wrong}), Errno::kInvalid) << wrong;
  std::string many = "[\"u\"";
  for (int i = 0; i < 64; ++i) many += ",\"u\"";
  EXPECT_EQ(machine.fails("http.get_many", {many + "]"}), Errno::kTooBig);
  EXPECT_TRUE(machine.world.requests.empty()) << "nothing is asked for";
}

HttpResponse page(int status, std::string body) {
  return {.status = status,
          .headers = {{"content-type", "text/html"}, {"x-n", "1"}, {"x-n", "2"}},
          .body = std::move(body),
          .final_url = ""};
}

TEST(Http, GetGivesTheBodyAndKeepsStatusAndHeaders) {
  Machine machine;
  machine.world.pages["http://h/"] = page(404, "not here");
  EXPECT_EQ(machine.number("http.status"), 0);
  EXPECT_EQ(machine.fails("http.header", {"content-type"}), Errno::kNotFound);
  EXPECT_EQ(machine.text("http.get", {"http://h/"}), "not here") << "a status is no error";
  EXPECT_EQ(machine.number("http.status"), 404);
  EXPECT_EQ(machine.text("http.header", {"Content-TYPE"}), "text/html");
  EXPECT_EQ(machine.text("http.header", {"x-n"}), "1") << "the first of two";
  EXPECT_EQ(machine.fails("http.header", {"x-none"}), Errno::kNotFound);
  EXPECT_EQ(machine.world.requests.at(0).method, "GET");
}

TEST(Http, ARequestThatFailsForgetsTheAnswerBefore) {
  Machine machine;
  machine.world.pages["http://h/"] = page(200, "x");
  machine.text("http.get", {"http://h/"});
  EXPECT_EQ(machine.fails("http.get", {"http://elsewhere/"}), Errno::kAccess);
  EXPECT_EQ(machine.number("http.status"), 0);
  EXPECT_EQ(machine.fails("http.header", {"content-type"}), Errno::kNotFound);
}

TEST(Http, BodiesAreAnyBytes) {
  Machine machine;
  const std::string bytes("\0\xFF\x80", 3);
  machine.world.pages["http://h/"] = page(200, bytes);
  EXPECT_EQ(machine.text("http.get", {"http://h/"}), bytes);
  EXPECT_EQ(machine.text("http.post", {"http://h/", "application/octet-stream", bytes}), bytes);
  EXPECT_EQ(machine.world.requests.back().body, bytes);
  EXPECT_EQ(machine.world.requests.back().method, "POST");
  EXPECT_EQ(machine.world.requests.back().headers, (Headers{{"Content-Type", "application/octet-stream"}}));
}

TEST(Http, RequestTakesMethodAndHeaders) {
  Machine machine;
  machine.world.pages["http://h/"] = page(200, "ok");
  EXPECT_EQ(machine.text("http.request", {"delete", "http://h/", R"({"Accept":"text/plain","X-A":"é"})", ""}),
            "ok");
  EXPECT_EQ(machine.world.requests.at(0).method, "DELETE");
  EXPECT_EQ(machine.world.requests.at(0).headers, (Headers{{"Accept", "text/plain"}, {"X-A", "é"}}));
  EXPECT_EQ(machine.text("http.request", {"GET", "http://h/", "", ""}), "ok");
}

TEST(Http, ExchangeGivesTheWholeAnswer) {
  Machine machine;
  machine.world.pages["http://h/"] = page(404, "not é");
  machine.world.pages["http://h/"].final_url = "http://h/there";
  const std::string answer = machine.text("http.exchange", {"put", "http://h/", R"({"X-A":"b"})", "\xFF"});
  EXPECT_EQ(
      answer,
      R"({"status":404,"url":"http://h/there","headers":{"content-type":"text/html","x-n":"1, 2"},"body":"not é"})");
  EXPECT_EQ(machine.world.requests.at(0).method, "PUT");
  EXPECT_EQ(machine.world.requests.at(0).headers, (Headers{{"X-A", "b"}}));
  EXPECT_EQ(machine.world.requests.at(0).body, "\xFF");
  EXPECT_EQ(machine.number("http.status"), 404) << "as http.request leaves it";
  EXPECT_EQ(machine.text("http.header", {"x-n"}), "1");
}

TEST(Http, ExchangeGivesBytesAsBase64) {
  Machine machine;
  machine.world.pages["http://h/"] = page(200, std::string("\xFF\0", 2));
  machine.world.pages["http://h/"].headers = {{"x", "\xFF"}};
  EXPECT_EQ(machine.text("http.exchange", {"GET", "http://h/", "", ""}),
            R"({"status":200,"url":"http://h/","headers":{"x":"�"},"body_base64":"/wA="})");
  EXPECT_EQ(machine.fails("http.exchange", {"GET", "http://elsewhere/", "", ""}), Errno::kAccess);
  EXPECT_EQ(machine.number("http.status"), 0);
}

TEST(Http, AHeaderCannotBeSmuggledIn) {
  Machine machine;
  machine.world.pages["http://h/"] = page(200, "ok");
  for (const char* headers :
       {R"({"A":"x\r\nB: y"})", R"({"A":"x\ny"})", R"({"A\r\nB":"x"})", R"({"A B":"x"})", R"({"A:":"x"})",
        R"({"":"x"})", R"({"A":"x\u0000"})", R"({"A":1})", R"(["A"])", "{", "x", "null"})
    for (const char* name : {"http.request", "http.exchange"})
      EXPECT_EQ(machine.fails(name, {"GET", "http://h/", headers, ""}), Errno::kInvalid) << headers;
  for (const char* method : {"", "GET /", "GET\r\n", "G\xC3\xA9T"})
    EXPECT_EQ(machine.fails("http.request", {method, "http://h/", "", ""}), Errno::kInvalid) << method;
  EXPECT_EQ(machine.fails("http.post", {"http://h/", "text/plain\r\nX: y", ""}), Errno::kInvalid);
  EXPECT_TRUE(machine.world.requests.empty());
}

// --- kv ----------------------------------------------------------------------------------

TEST(Kv, KeepsAndForgets) {
  Machine machine;
  EXPECT_EQ(machine.fails("kv.get", {"a"}), Errno::kNotFound);
  EXPECT_EQ(machine.number("kv.exists", {"a"}), 0);
  machine.call("kv.set", {"a", std::string("1\0", 2)});
  EXPECT_EQ(machine.text("kv.get", {"a"}), std::string("1\0", 2));
  EXPECT_EQ(machine.number("kv.exists", {"a"}), 1);
  EXPECT_EQ(machine.fails("kv.set", {"", "x"}), Errno::kInvalid);
  EXPECT_EQ(machine.fails("kv.exists", {""}), Errno::kInvalid);
  machine.call("kv.set", {"b\"", ""});
  EXPECT_EQ(machine.text("kv.keys", {""}), R"(["a","b\""])");
  EXPECT_EQ(machine.call("kv.delete", {"a"}).code, Errno::kOk);
  EXPECT_EQ(machine.fails("kv.delete", {"a"}), Errno::kNotFound);
  EXPECT_EQ(machine.text("kv.keys", {"zz"}), "[]");
}

// A key of one byte in the host may take six in a list.
TEST(Kv, AListOfKeysHasTheMemoryThatIsLeft) {
  Machine machine;
  for (char c = 'a'; c < 'k'; ++c) machine.call("kv.set", {c + std::string(1'000, '\x01'), ""});
  HostMemory& memory = machine.guest.host_memory();
  {
    const HostMemory::Use use(memory, memory.left_for_call() - 60'000);
    EXPECT_EQ(machine.fails("kv.keys", {""}), Errno::kNoMemory);
    EXPECT_EQ(machine.text("kv.keys", {"a"}).size(), 6'005u);
  }
  EXPECT_EQ(machine.text("kv.keys", {""}).size(), 60'041u);
}

// --- fs ----------------------------------------------------------------------------------

TEST(Fs, AListOfFilesHasTheMemoryThatIsLeft) {
  Machine machine;
  for (char c = 'a'; c < 'k'; ++c) machine.call("fs.write", {"/data/" + (c + std::string(200, 'x')), "1"});
  HostMemory& memory = machine.guest.host_memory();
  const size_t whole = machine.text("fs.list", {"/data"}).size();
  EXPECT_GT(whole, 2'000u);
  const HostMemory::Use use(memory, memory.left_for_call() - whole);
  EXPECT_EQ(machine.fails("fs.list", {"/data"}), Errno::kNoMemory);
}

TEST(Fs, ReadsAndWrites) {
  Machine machine;
  EXPECT_EQ(machine.fails("fs.read", {"/data/a"}), Errno::kNotFound);
  EXPECT_EQ(machine.call("fs.write", {"/data/a", "one"}).code, Errno::kOk);
  EXPECT_EQ(machine.call("fs.append", {"/data/a", std::string("\xFF", 1)}).code, Errno::kOk);
  EXPECT_EQ(machine.text("fs.read", {"/data/a"}), "one\xFF");
  EXPECT_EQ(machine.number("fs.size", {"/data/a"}), 4);
  EXPECT_EQ(machine.text("fs.list", {"/data"}), R"([{"name":"a","directory":false,"size":4}])");
  EXPECT_EQ(machine.number("fs.exists", {"/data/a"}), 1);
  EXPECT_EQ(machine.number("fs.exists", {"/data"}), 2);
  EXPECT_EQ(machine.number("fs.exists", {"/data/b"}), 0);
  EXPECT_EQ(machine.call("fs.remove", {"/data/a"}).code, Errno::kOk);
  EXPECT_EQ(machine.fails("fs.size", {"/data/a"}), Errno::kNotFound);
}

TEST(Fs, ANameThatIsNotUtf8IsListedAllTheSame) {
  Machine machine;
  machine.world.files["/data/\xFF"] = "";
  EXPECT_EQ(machine.text("fs.list", {"/data"}),
            "[{\"name\":\"\xEF\xBF\xBD\",\"directory\":false,\"size\":0}]");
}

// --- ai ----------------------------------------------------------------------------------

TEST(Ai, CompletesWithAndWithoutASystemPrompt) {
  Machine machine;
  EXPECT_EQ(machine.text("ai.complete", {"hi"}), "you said: hi");
  EXPECT_EQ(machine.text("ai.complete_with", {"be brief", "hi", 7}), "you said: hi");
  EXPECT_EQ(machine.world.prompts.at(0).system, "");
  EXPECT_EQ(machine.world.prompts.at(0).max_tokens, 0u);
  EXPECT_EQ(machine.world.prompts.at(1).system, "be brief");
  EXPECT_EQ(machine.world.prompts.at(1).max_tokens, 7u);
  EXPECT_EQ(machine.fails("ai.complete_with", {"", "hi", -1}), Errno::kInvalid);
}

TEST(Ai, EmbedsAndCompares) {
  Machine machine;
  machine.world.embeddings = {
      {"x", {1, 0}}, {"y", {0, 2}}, {"-x", {-3, 0}}, {"0", {0, 0}}, {"long", {1, 0, 0}}};
  EXPECT_EQ(machine.text("ai.embed", {"y"}), "[0.0,2.0]");
  EXPECT_EQ(machine.real("ai.similarity", {"x", "x"}), 1);
  EXPECT_EQ(machine.real("ai.similarity", {"x", "y"}), 0);
  EXPECT_EQ(machine.real("ai.similarity", {"x", "-x"}), -1);
  EXPECT_EQ(machine.real("ai.similarity", {"x", "0"}), 0);
  EXPECT_EQ(machine.fails("ai.similarity", {"x", "long"}), Errno::kProtocol);
  EXPECT_EQ(machine.fails("ai.embed", {"unknown"}), Errno::kUnsupported);
}

// --- sql ---------------------------------------------------------------------------------

TEST(SqlCapability, HandsOverTheQuestionAndPicksTheFirstValue) {
  Machine machine;
  machine.world.rows = R"([{"z":"text","a":1},{"z":"more","a":2}])";
  EXPECT_EQ(machine.text("sql.query", {"db", "SELECT ?1", "[1]"}), machine.world.rows);
  EXPECT_EQ(machine.world.queries.at(0), "db|SELECT ?1|[1]");
  EXPECT_EQ(machine.text("sql.value", {"db", "q", ""}), "text") << "the first column, not the first name";
  machine.world.rows = R"([{"n":null}])";
  EXPECT_EQ(machine.text("sql.value", {"db", "q", ""}), "null");
  machine.world.rows = "[]";
  EXPECT_EQ(machine.fails("sql.value", {"db", "q", ""}), Errno::kNotFound);
  machine.world.rows = R"json([{"sql":"CREATE TABLE t(x)"},{"sql":"CREATE VIEW v AS SELECT 1"}])json";
  EXPECT_EQ(machine.text("sql.schema", {"db"}), "CREATE TABLE t(x);\nCREATE VIEW v AS SELECT 1;\n");
}

TEST(SqlCapability, AnAnswerOfTheWrongShapeIsAnErrorNotACrash) {
  Machine machine;
  for (const char* rows : {"", "{}", "[1]", "[[1]]", "[{}]", "null", "[{"}) {
    machine.world.rows = rows;
    EXPECT_EQ(machine.fails("sql.value", {"db", "q", ""}), Errno::kHost) << rows;
    EXPECT_EQ(machine.fails("sql.schema", {"db"}), Errno::kHost) << rows;
  }
}

// --- time --------------------------------------------------------------------------------

TEST(Time, TheVirtualClockMovesAtEachReading) {
  Machine machine;
  const int64_t first = machine.number("time.now_ms");
  EXPECT_EQ(machine.number("time.now_ms"), first + 1);
}

TEST(Time, FormatsInUtc) {
  Machine machine;
  EXPECT_EQ(machine.text("time.format", {int64_t{0}}), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(machine.text("time.format", {int64_t{-1}}), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(machine.text("time.format", {int64_t{1709209800123}}), "2024-02-29T12:30:00.123Z");
  EXPECT_EQ(machine.text("time.format", {int64_t{-62167219200000}}), "0000-01-01T00:00:00.000Z");
  EXPECT_EQ(machine.text("time.format", {int64_t{253402300799999}}), "9999-12-31T23:59:59.999Z");
  for (const int64_t outside : {int64_t{-62167219200001}, int64_t{253402300800000}, INT64_MIN, INT64_MAX})
    EXPECT_EQ(machine.fails("time.format", {outside}), Errno::kInvalid) << outside;
}

TEST(Time, ParsesDatesAndTimes) {
  Machine machine;
  const std::pair<const char*, int64_t> texts[] = {{"1970-01-02", 86'400'000},
                                                   {" 2024-02-29T12:30:00Z\n", 1'709'209'800'000},
                                                   {"2024-02-29 12:30", 1'709'209'800'000},
                                                   {"2024-02-29T14:30:00+02:00", 1'709'209'800'000},
                                                   {"2024-02-29T07:00-0530", 1'709'209'800'000},
                                                   {"2024-02-29T12:30:00.1239Z", 1'709'209'800'123},
                                                   {"2024-02-29t12:30:00,5z", 1'709'209'800'500},
                                                   {"0000-01-01", -62'167'219'200'000}};
  for (const auto& [text, ms] : texts) EXPECT_EQ(machine.number("time.parse", {text}), ms) << text;
  for (const char* bad : {"",
                          "2024",
                          "2024-2-3",
                          "2023-02-29",
                          "2024-13-01",
                          "2024-00-10",
                          "2024-01-00",
                          "2024-01-01T",
                          "2024-01-01T24:00",
                          "2024-01-01T10:60",
                          "2024-01-01T10",
                          "2024-01-01T10:00:60",
                          "2024-01-01T10:00:00.",
                          "2024-01-01x",
                          "2024-01-01T10:00+",
                          "2024-01-01T10:00Zx",
                          "-024-01-01",
                          "+2024-01-01",
                          "20240101",
                          "tomorrow",
                          "2024-01-01T-1:00"})
    EXPECT_EQ(machine.fails("time.parse", {bad}), Errno::kInvalid) << bad;
}

// --- random ------------------------------------------------------------------------------

TEST(Random, DrawsTheSameInEveryRunAndAsksTheWorldOnce) {
  Machine one, two;
  std::set<int64_t> seen;
  for (int i = 0; i < 100; ++i) {
    const int64_t value = one.number("random.i64");
    EXPECT_EQ(value, two.number("random.i64"));
    seen.insert(value);
  }
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(one.text("random.uuid"), two.text("random.uuid"));
  EXPECT_TRUE(one.dispatcher.records().empty());
}

TEST(Random, RangeTakesBothEndsInEitherOrder) {
  Machine machine;
  std::set<int64_t> seen;
  for (int i = 0; i < 200; ++i) seen.insert(machine.number("random.range", {3, 1}));
  EXPECT_EQ(seen, (std::set<int64_t>{1, 2, 3}));
  EXPECT_EQ(machine.number("random.range", {-5, -5}), -5);
  for (int i = 0; i < 100; ++i) machine.number("random.range", {INT32_MIN, INT32_MAX});
}

TEST(Random, NumbersAreInTheirIntervals) {
  Machine machine;
  double sum = 0;
  for (int i = 0; i < 1'000; ++i) {
    const double value = machine.real("random.f64");
    EXPECT_TRUE(value >= 0 && value < 1);
    sum += value;
  }
  EXPECT_NEAR(sum / 1'000, 0.5, 0.05);
}

TEST(Random, BytesAndUuids) {
  Machine machine;
  EXPECT_EQ(machine.text("random.bytes", {0}), "");
  EXPECT_EQ(machine.text("random.bytes", {33}).size(), 33u);
  EXPECT_EQ(machine.fails("random.bytes", {-1}), Errno::kInvalid);
  EXPECT_EQ(machine.fails("random.bytes", {(1 << 20) + 1}), Errno::kTooBig);
  const std::string uuid = machine.text("random.uuid");
  ASSERT_EQ(uuid.size(), 36u);
  EXPECT_EQ(uuid[14], '4');
  EXPECT_TRUE(std::string("89ab").find(uuid[19]) != std::string::npos) << uuid;
  EXPECT_NE(machine.text("random.uuid"), uuid);
}

}  // namespace
}  // namespace membrane::host
