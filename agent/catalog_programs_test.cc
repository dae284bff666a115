// The programs of catalog/, each actually run: in a sandbox, under a policy that grants what its front matter
// demands, against a loopback server, a directory, a database.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "agent/catalog.h"
#include "base/sqlite.h"
#include "host/egress/raw_server_testing.h"
#include "sandbox/sandbox.h"

namespace membrane::agent {
namespace {

namespace fs = std::filesystem;
using sandbox::Outcome;

const Catalog& catalog() {
  static const Catalog kCatalog = [] {
    auto loaded = Catalog::load(std::string(MEMBRANE_SOURCE_DIR) + "/catalog");
    EXPECT_TRUE(loaded);
    return loaded ? std::move(*loaded) : Catalog();
  }();
  return kCatalog;
}

// A directory that is removed with the test.
class Directory {
 public:
  Directory() {
    std::string name = (fs::temp_directory_path() / "membrane-catalog-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Directory() { fs::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  [[nodiscard]] std::string file(std::string_view name) const { return (path_ / name).string(); }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class CatalogPrograms : public ::testing::Test {
 protected:
  sandbox::Report run(std::string_view name, std::vector<std::string> arguments = {},
                      std::string input = {}) {
    sandbox::Report report;
    const auto entry = catalog().find(name);
    EXPECT_TRUE(entry) << name;
    if (!entry) return report;
    sandbox::Program program;
    program.source = (*entry)->source;
    program.name = (*entry)->file_name;
    program.entry = (*entry)->entry;
    program.arguments = std::move(arguments);
    program.input = std::move(input);
    sandbox::RunOptions options;
    options.policy = policy_;
    options.policy.limits.wall_ms = 600'000;
    options.model = model_;
    return sandbox::run(program, options);
  }
  // What it prints; its report when it does not run to its end.
  std::string prints(std::string_view name, std::vector<std::string> arguments = {}, std::string input = {}) {
    const sandbox::Report report = run(name, std::move(arguments), std::move(input));
    return report.outcome == Outcome::kOk ? report.stdout_text : sandbox::render_text(report, false);
  }

  void grant_http(const host::RawServer& server) {
    policy::HttpGrant grant;
    grant.methods = {"GET"};
    grant.url = server.url("/*");
    grant.addresses = {"127.0.0.1/32"};
    grant.timeout_ms = 600'000;
    policy_.http.push_back(std::move(grant));
  }
  void grant_files(const Directory& directory) {
    policy_.fs.push_back({.guest = "/data", .host = directory.path(), .mode = policy::FsMode::kWrite});
  }

  policy::Policy policy_;
  host::Model* model_ = nullptr;
};

// A page, JSON, or 404.
void serve(host::RawConnection& connection, const std::string& request) {
  if (request.starts_with("GET /page ")) {
    connection.send(host::http_response(
        "200 OK", "Content-Type: text/html\r\n",
        "<title>T</title><h1>Hi</h1><a href=\"/a\">First</a> <a href=\"/b\">Second &amp; last</a>"));
  } else if (request.starts_with("GET /json ")) {
    connection.send(host::http_response("200 OK", "Content-Type: application/json\r\n",
                                        R"({"items":[{"title":"One"},{"title":"Two"}]})"));
  } else {
    connection.send(host::http_response("404 Not Found", "", "nothing here"));
  }
}

TEST_F(CatalogPrograms, AreAllWellFormed) {
  EXPECT_GE(catalog().entries().size(), 14u);
  for (const Error& problem : catalog().problems()) ADD_FAILURE() << problem.to_string();
}

TEST_F(CatalogPrograms, Add) {
  const auto report = run("add", {"2", "40"});
  ASSERT_EQ(report.outcome, Outcome::kOk);
  ASSERT_EQ(report.results.size(), 1u);
  EXPECT_EQ(report.results[0].value, "42");
}

TEST_F(CatalogPrograms, Echo) { EXPECT_EQ(prints("echo", {}, "héllo"), "héllo"); }

TEST_F(CatalogPrograms, Fetch) {
  host::RawServer server(serve);
  grant_http(server);
  const auto found = run("fetch", {server.url("/json")});
  EXPECT_EQ(found.stdout_text, R"({"items":[{"title":"One"},{"title":"Two"}]})");
  ASSERT_EQ(found.results.size(), 1u) << sandbox::render_text(found, false);
  EXPECT_EQ(found.results[0].value, "200");
  const auto missing = run("fetch", {server.url("/none")});
  EXPECT_EQ(missing.stdout_text, "nothing here");
  EXPECT_EQ(missing.stderr_text, "HTTP 404\n");
}

TEST_F(CatalogPrograms, FetchIsDeniedWithoutAGrant) {
  host::RawServer server(serve);
  const auto report = run("fetch", {server.url("/page")});
  EXPECT_EQ(report.outcome, Outcome::kDenied);
  ASSERT_FALSE(report.errors.empty());
  EXPECT_EQ(report.errors[0].code, "EACCES");
  EXPECT_EQ(report.errors[0].place.line, 9u);  // of the call, in the file
  EXPECT_NE(report.errors[0].message.find("http.get"), std::string::npos);
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(CatalogPrograms, FetchJson) {
  host::RawServer server(serve);
  grant_http(server);
  EXPECT_EQ(prints("fetch-json", {server.url("/json"), "items[1].title"}), "Two\n");
}

TEST_F(CatalogPrograms, FetchSave) {
  host::RawServer server(serve);
  Directory directory;
  grant_http(server);
  grant_files(directory);
  const auto report = run("fetch-save", {server.url("/json"), "/data/out.json"});
  ASSERT_EQ(report.outcome, Outcome::kOk) << sandbox::render_text(report, false);
  EXPECT_EQ(report.results[0].value, "43");
  EXPECT_EQ(read(directory.file("out.json")).size(), 43u);
}

TEST_F(CatalogPrograms, Links) {
  host::RawServer server(serve);
  grant_http(server);
  EXPECT_EQ(prints("links", {server.url("/page")}), "/a\tFirst\n/b\tSecond & last\n");
}

TEST_F(CatalogPrograms, PageText) {
  host::RawServer server(serve);
  grant_http(server);
  const std::string text = prints("page-text", {server.url("/page")});
  EXPECT_NE(text.find("First Second & last"), std::string::npos) << text;
  EXPECT_EQ(text.find('<'), std::string::npos) << text;
}

TEST_F(CatalogPrograms, HtmlText) {
  EXPECT_EQ(prints("html-text", {}, "<p>Hello <b>there</b></p>"), "Hello there\n");
}

// A model that says what it was asked.
class EchoModel : public host::Model {
 public:
  host::HostResult<host::ChatAnswer> complete(const host::ChatRequest& request, uint64_t) override {
    prompts.push_back(request.prompt);
    return host::ChatAnswer{"It is about links.", 10, 5};
  }
  host::HostResult<std::vector<float>> embed(std::string_view, uint64_t) override {
    return std::vector<float>{1.0f};
  }
  std::vector<std::string> prompts;
};

TEST_F(CatalogPrograms, Summarise) {
  host::RawServer server(serve);
  grant_http(server);
  policy_.ai.emplace();
  EchoModel model;
  model_ = &model;
  EXPECT_EQ(prints("summarise", {server.url("/page")}), "It is about links.\n");
  ASSERT_EQ(model.prompts.size(), 1u);
  EXPECT_NE(model.prompts[0].find("First Second & last"), std::string::npos);
}

TEST_F(CatalogPrograms, AskModel) {
  policy_.ai.emplace();
  EchoModel model;
  model_ = &model;
  EXPECT_EQ(prints("ask-model", {"Which language is this?"}, "Guten Tag"), "It is about links.\n");
  ASSERT_EQ(model.prompts.size(), 1u);
  EXPECT_EQ(model.prompts[0], "Which language is this?\n\nGuten Tag");
}

TEST_F(CatalogPrograms, JsonGet) {
  EXPECT_EQ(prints("json-get", {"authors[0].name"}, R"({"authors":[{"name":"Ada"}]})"), "Ada\n");
}

TEST_F(CatalogPrograms, JsonList) {
  EXPECT_EQ(
      prints("json-list", {"papers", "title"}, R"({"papers":[{"title":"A"},{"year":1},{"title":"B"}]})"),
      "A\nB\n");
  EXPECT_EQ(prints("json-list", {"", "n"}, R"([{"n":1},{"n":2}])"), "1\n2\n");
}

TEST_F(CatalogPrograms, WordCount) {
  EXPECT_EQ(prints("word-count", {}, "to be or\nnot to be"), "2 6 18\n");
  EXPECT_EQ(prints("word-count", {}, ""), "0 0 0\n");
}

TEST_F(CatalogPrograms, Grep) {
  const auto report = run("grep", {"error"}, "ok\nerror 7\nok\nan error\n");
  EXPECT_EQ(report.stdout_text, "error 7\nan error\n");
  ASSERT_EQ(report.results.size(), 1u);
  EXPECT_EQ(report.results[0].value, "2");
}

TEST_F(CatalogPrograms, Head) {
  EXPECT_EQ(prints("head", {"2"}, "a\nb\nc"), "a\nb\n");
  EXPECT_EQ(prints("head", {"9"}, "a\nb\nc"), "a\nb\nc\n");
  EXPECT_EQ(prints("head", {"-1"}, "a"), "");
}

TEST_F(CatalogPrograms, SortLines) {
  EXPECT_EQ(prints("sort-lines", {}, "b\na\nc\nab\na\n"), "a\na\nab\nb\nc\n");
  EXPECT_EQ(prints("sort-lines", {}, ""), "");
  std::string input;
  std::multiset<std::string> lines;
  for (uint32_t i = 0, x = 1; i < 500; ++i, x = x * 1103515245 + 12345) {
    lines.insert(std::to_string(x));
    input += std::to_string(x) + "\n";
  }
  std::string sorted;
  for (const std::string& line : lines) sorted += line + "\n";
  EXPECT_EQ(prints("sort-lines", {}, input), sorted);
}

TEST_F(CatalogPrograms, UniqueLines) {
  EXPECT_EQ(prints("unique-lines", {}, "a\na\nb\na\n\n\n"), "a\nb\na\n\n");
}

TEST_F(CatalogPrograms, ColumnSum) {
  EXPECT_EQ(prints("column-sum", {"price"}, "item, price\nink,2.5\npen, 4\nfree,\n"), "6.5\n");
  const auto report = run("column-sum", {"weight"}, "item,price\nink,2.5\n");
  EXPECT_EQ(report.outcome, Outcome::kTrapped);
  EXPECT_EQ(report.stderr_text, "no column is called weight: item,price\n");
}

TEST_F(CatalogPrograms, CsvJson) {
  EXPECT_EQ(prints("csv-json", {}, "item,price\nink,2.5\n\"x\"\n"),
            R"([{"item":"ink","price":"2.5"},{"item":"\"x\"","price":""}])"
            "\n");
}

TEST_F(CatalogPrograms, Statistics) {
  EXPECT_EQ(prints("statistics", {}, "1\n2\nx\n6"), R"({"count":3,"sum":9,"mean":3,"min":1,"max":6})"
                                                    "\n");
  EXPECT_EQ(prints("statistics", {}, ""), "{\"count\":0}\n");
}

TEST_F(CatalogPrograms, Calculate) {
  EXPECT_EQ(prints("calculate", {"2 * (3 + 4.5) - 1"}), "14\n");
  EXPECT_EQ(prints("calculate", {"-(1 - 2) / 4"}), "0.25\n");
  EXPECT_EQ(prints("calculate", {"1 - 2 - 3 * 2"}), "-7\n");
  const auto report = run("calculate", {"1 + * 2"});
  EXPECT_EQ(report.outcome, Outcome::kTrapped);
  EXPECT_EQ(report.stderr_text, "not understood from here on: * 2\n");
}

TEST_F(CatalogPrograms, RememberAndRecall) {
  Directory directory;
  policy_.kv.emplace();
  policy_.kv->path = directory.file("store.db");
  EXPECT_EQ(prints("recall", {"favourite"}), "");
  EXPECT_EQ(prints("remember", {"favourite", "paper 3"}), "");
  const auto report = run("recall", {"favourite"});
  EXPECT_EQ(report.stdout_text, "paper 3\n");
  ASSERT_EQ(report.results.size(), 1u);
  EXPECT_EQ(report.results[0].value, "1");
}

TEST_F(CatalogPrograms, Files) {
  Directory directory;
  grant_files(directory);
  fs::create_directory(directory.file("sub"));
  EXPECT_EQ(prints("write-file", {"/data/notes.txt"}, "first line"), "");
  EXPECT_EQ(read(directory.file("notes.txt")), "first line");
  EXPECT_EQ(prints("read-file", {"/data/notes.txt"}), "first line");
  const std::string listed = prints("list-files", {"/data"});
  EXPECT_NE(listed.find("10\tnotes.txt\n"), std::string::npos) << listed;
  EXPECT_NE(listed.find("\tsub/\n"), std::string::npos) << listed;
  EXPECT_EQ(run("read-file", {"/data/none.txt"}).errors.front().code, "ENOENT");
}

TEST_F(CatalogPrograms, SqlQuery) {
  Directory directory;
  const auto api = sqlite::api();
  ASSERT_TRUE(api);
  sqlite3* database = nullptr;
  ASSERT_EQ((*api)->open_v2(directory.file("papers.db").c_str(), &database,
                            SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr),
            SQLITE_OK);
  ASSERT_EQ(
      (*api)->exec(database,
                   "CREATE TABLE papers(title, year); INSERT INTO papers VALUES('A', 2001), ('B', 2003)",
                   nullptr, nullptr, nullptr),
      SQLITE_OK);
  (*api)->close_v2(database);
  policy_.sql.push_back({.name = "papers", .path = directory.file("papers.db")});
  EXPECT_EQ(prints("sql-query", {"papers", "SELECT title, year FROM papers ORDER BY year DESC"}),
            R"([{"title":"B","year":2003},{"title":"A","year":2001}])"
            "\n");
}

TEST_F(CatalogPrograms, Base64) {
  EXPECT_EQ(prints("base64-encode", {}, "hello"), "aGVsbG8=\n");
  EXPECT_EQ(prints("base64-decode", {}, "aGVsbG8=\n"), "hello");
}

TEST_F(CatalogPrograms, Today) { EXPECT_EQ(prints("today"), "2000-01-01\n"); }

TEST_F(CatalogPrograms, DaysBetween) {
  const auto days = [&](std::string from, std::string to) {
    const auto report = run("days-between", {std::move(from), std::move(to)});
    return report.results.size() == 1 ? report.results[0].value : sandbox::render_text(report, false);
  };
  EXPECT_EQ(days("2024-02-28", "2024-03-01"), "2");
  EXPECT_EQ(days("2024-03-01", "2024-02-28"), "-2");
  EXPECT_EQ(days("2024-03-01T12:00:00Z", "2024-03-01"), "-1");
}

TEST_F(CatalogPrograms, RandomId) {
  const std::string id = prints("random-id");
  EXPECT_EQ(id.size(), 37u) << id;
  EXPECT_EQ(id, prints("random-id"));
}

TEST_F(CatalogPrograms, Answer) {
  const auto report = run("answer", {"Paper 3."});
  EXPECT_TRUE(report.submitted);
  EXPECT_EQ(report.answer, "Paper 3.");
}

// FIPS 180-4, and the lengths around the end of a block.
TEST_F(CatalogPrograms, Sha256) {
  EXPECT_EQ(prints("sha256", {}, "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n");
  EXPECT_EQ(prints("sha256", {}, ""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n");
  EXPECT_EQ(prints("sha256", {}, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1\n");
  EXPECT_EQ(prints("sha256", {}, std::string(1000, 'a')),
            "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3\n");
}

// Each program has a test here.
TEST_F(CatalogPrograms, AreAllTested) {
  const std::string source = read(std::string(MEMBRANE_SOURCE_DIR) + "/agent/catalog_programs_test.cc");
  for (const CatalogEntry& entry : catalog().entries())
    EXPECT_NE(source.find("\"" + entry.name + "\""), std::string::npos) << entry.name << " is run by no test";
}

}  // namespace
}  // namespace membrane::agent
