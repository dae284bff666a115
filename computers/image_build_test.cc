// What distinguishes one build from another; for whole builds see cli/image_build_test.py.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "computers/build_network.h"
#include "computers/build_run.h"
#include "computers/fake_computer_testing.h"
#include "computers/file_copy.h"
#include "computers/settings.h"
#include "computers/source_files.h"
#include "computers/url_fetch.h"
#include "computers/users.h"
#include "host/egress/raw_server_testing.h"

namespace membrane::computers {
namespace {

namespace fs = std::filesystem;

TEST(IgnoredFilesTest, PatternsMatchPathsAndAllBelowThem) {
  const IgnoredFiles ignored("# comment\n/a\n*.o\n**/deep\nd?r/[xy]\n!a/keep\r\n\n");
  for (const char* const path : {"a", "a/b/c", "x.o", "deep", "1/2/deep/3", "dir/x", "dir/y/z"})
    EXPECT_TRUE(ignored.has(path)) << path;
  for (const char* const path : {"b/a", "a/keep", "a/keep/in", "sub/x.o", "dir/z", "dr/x", "x.oo"})
    EXPECT_FALSE(ignored.has(path)) << path;
  EXPECT_TRUE(ignored.takes_back());
  EXPECT_FALSE(IgnoredFiles("").has("a"));
}

TEST(IgnoredFilesTest, ManyStarsCostLittle) {
  std::string pattern, path;
  for (int i = 0; i < 300; ++i) pattern += "**/a/", path += "a/";
  EXPECT_FALSE(IgnoredFiles(pattern + "b").has(path));
}

class DirectoryFilesTest : public ::testing::Test {
 protected:
  DirectoryFilesTest() {
    directory_ = ::testing::TempDir() + "source-XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    write("a.txt", "a");
    write("b.txt", "b");
    write("sub/deep/c.txt", "c");
    fs::create_symlink("/etc", directory_ + "/etc");
    fs::create_symlink("a.txt", directory_ + "/link");
    files_ = files_of_directory(directory_, "sub/deep/hidden\n").value();
  }
  ~DirectoryFilesTest() override { fs::remove_all(directory_); }
  void write(const std::string& name, std::string_view text) const {
    fs::create_directories(fs::path(directory_ + "/" + name).parent_path());
    std::ofstream(directory_ + "/" + name) << text;
    fs::permissions(directory_ + "/" + name, fs::perms(0644));
  }
  std::string expanded(const std::string& pattern) {
    const auto found = expand_sources(*files_, pattern);
    if (!found) return std::string(name_of(found.error().code));
    std::string text;
    for (const std::string& each : *found) text += (text.empty() ? "" : " ") + each;
    return text;
  }
  std::string digest(std::vector<std::string> sources) {
    return digest_of_copy(*files_, {.sources = std::move(sources), .to = "/", .owner = {}}).value();
  }
  std::string directory_;
  std::unique_ptr<SourceFiles> files_;
};

TEST_F(DirectoryFilesTest, PatternsStandForWhatIsThere) {
  EXPECT_EQ(expanded("*.txt"), "a.txt b.txt");
  EXPECT_EQ(expanded("./[b]*"), "b.txt");
  EXPECT_EQ(expanded("/s*/d*/c.txt"), "sub/deep/c.txt");
  EXPECT_EQ(expanded("nosuch"), "not_found");
  EXPECT_EQ(expanded("sub/../.."), "invalid_input");
}

TEST_F(DirectoryFilesTest, NothingLeadsOut) {
  EXPECT_FALSE(files_->read("etc/passwd", 0, 10));
  EXPECT_FALSE(files_->list("etc"));
  EXPECT_FALSE(files_->read("../" + directory_.substr(directory_.rfind('/') + 1) + "/a.txt", 0, 10));
  EXPECT_EQ(files_->stat("etc")->target, "/etc");
  EXPECT_FALSE(digest_of_copy(*files_, {.sources = {"etc"}, .to = "/", .owner = {}}));
}

TEST_F(DirectoryFilesTest, ADigestIsOfNamesModesAndBytes) {
  const std::string before = digest({"a.txt", "sub"});
  EXPECT_EQ(digest({"a.txt", "sub"}), before);
  EXPECT_NE(digest({"b.txt", "sub"}), before);
  write("sub/deep/hidden", "ignored");
  EXPECT_EQ(digest({"a.txt", "sub"}), before);
  fs::permissions(directory_ + "/a.txt", fs::perms(0600));
  EXPECT_NE(digest({"a.txt", "sub"}), before);
  fs::permissions(directory_ + "/a.txt", fs::perms(0644));
  write("sub/deep/c.txt", "d");
  EXPECT_NE(digest({"a.txt", "sub"}), before);
}

TEST_F(DirectoryFilesTest, FilesGoWhereDockerPutsThem) {
  FakeComputer computer(FakeComputer::Files{{"/there/", ""}});
  const auto copy = [&](std::vector<std::string> sources, const std::string& to) {
    return copy_files(*files_, {.sources = std::move(sources), .to = to, .owner = {}}, computer);
  };
  EXPECT_TRUE(copy({"a.txt"}, "/new/name"));
  EXPECT_TRUE(copy({"a.txt"}, "/there"));
  EXPECT_TRUE(copy({"link"}, "/made/"));
  EXPECT_TRUE(copy({"sub"}, "/tree"));
  for (const char* const path : {"/new/name", "/there/a.txt", "/made/link", "/tree/deep/c.txt"})
    EXPECT_TRUE(computer.stat(path, true)) << path;
}

constexpr std::string_view kPasswd =
    "root:x:0:0:root:/root:/bin/sh\nann:x:1000:100:Ann:/home/ann:/bin/sh\n7:x:8:9::/:\nbroken\n:::\n";
constexpr std::string_view kGroup = "root:x:0:\nstaff:x:50:ann\n";

TEST(UsersTest, NamesAndNumbers) {
  const auto found = [](std::string_view who) {
    const auto user = find_user(who, kPasswd, kGroup);
    return user ? std::to_string(user->user) + ":" + std::to_string(user->group) + " " + user->home : "none";
  };
  EXPECT_EQ(found(""), "0:0 /root");
  EXPECT_EQ(found("ann"), "1000:100 /home/ann");
  EXPECT_EQ(found("1000"), "1000:100 /home/ann");
  EXPECT_EQ(found("ann:staff"), "1000:50 /home/ann");
  EXPECT_EQ(found("7"), "8:9 /");  // a name that is a number
  EXPECT_EQ(found("1234"), "1234:0 ");
  EXPECT_EQ(found("1234:5"), "1234:5 ");
  EXPECT_EQ(found("bob"), "none");
  EXPECT_EQ(found("ann:nosuch"), "none");
  EXPECT_EQ(found("99999999999"), "none");
}

sandbox::HostCallRecord call(std::vector<std::string> decided_by, uint64_t bytes_in,
                             const std::string& grant = "") {
  sandbox::HostCallRecord record;
  record.allowed = grant.empty();
  record.grant = grant;
  record.bytes_in = bytes_in;
  record.bytes_out = 1;
  record.decided_by = std::move(decided_by);
  return record;
}

TEST(BuildNetworkTest, CallsAreCountedByHost) {
  const auto hosts = contacted_hosts(
      {call({"GET", "http://b.org:81/x"}, 5), call({"https://a.org/"}, 7), call({"GET", "http://a.org/y"}, 2),
       call({"c.org"}, 0, "--allow http:c.org"), call({"192.0.2.1:80"}, 0, "--allow http:192.0.2.1:80")});
  std::string text;
  for (const ContactedHost& each : hosts)
    text += each.host + " " + std::to_string(each.calls) + " " + std::to_string(each.refused) + " " +
            std::to_string(each.bytes_in) + " " + std::to_string(each.bytes_out) + "\n";
  EXPECT_EQ(text, "192.0.2.1:80 1 1 0 1\na.org 2 0 9 2\nb.org:81 1 0 5 1\nc.org 1 1 0 1\n");
}

TEST(BuildNetworkTest, FlagsThatWouldAllowItAreNamedOnce) {
  EXPECT_EQ(how_to_allow({call({"a.org"}, 0)}), "");
  std::vector<sandbox::HostCallRecord> calls = {call({"a.org"}, 0, "--allow http:a.org"),
                                                call({"b.org"}, 0, "--allow http:b.org"),
                                                call({"a.org"}, 0, "--allow http:a.org")};
  EXPECT_EQ(how_to_allow(calls), "To allow what it tried to reach: --allow http:a.org --allow http:b.org");
  for (int i = 0; i < 100; ++i)
    calls.push_back(call({"x"}, 0, "--allow http:x" + std::to_string(i) + ".org"));
  EXPECT_TRUE(how_to_allow(calls).ends_with("--allow http:x5.org, and 94 more"));
}

TEST(BuildNetworkTest, TheOrderOfGrantsDoesNotCount) {
  policy::Policy one, other;
  for (const char* const flag :
       {"http:a.org", "http:127.0.0.1:80", "http:localhost", "http:GET:http://[::1]/x"})
    ASSERT_TRUE(policy::allow(one, flag));
  for (const char* const flag :
       {"http:GET:http://[::1]/x", "http:localhost", "http:127.0.0.1:80", "http:a.org"})
    ASSERT_TRUE(policy::allow(other, flag));
  EXPECT_EQ(words_of(one.http), words_of(other.http));
  EXPECT_EQ(words_of(one.http).size(), 7u);
  EXPECT_EQ(loopback_grants(one.http).size(), 5u);
  other.http.pop_back();
  EXPECT_NE(words_of(one.http), words_of(other.http));
}

std::string flags_of(std::vector<std::pair<std::string, std::string>> flags) {
  const auto read = read_run_flags({.name = "RUN", .flags = std::move(flags)});
  if (!read) return std::string(name_of(read.error().code));
  std::string text = read->has_no_network ? "alone" : "";
  for (const SecretMount& each : read->secrets)
    text += "[" + each.id + " " + each.path + " " + each.variable + " " + std::to_string(each.mode) + " " +
            std::to_string(each.user) + (each.is_required ? " required" : "") + "]";
  return text;
}

TEST(RunFlagsTest, OnesThatAreKnown) {
  EXPECT_EQ(flags_of({}), "");
  EXPECT_EQ(flags_of({{"network", "default"}, {"mount", "type=cache,target=/c"}}), "");
  EXPECT_EQ(flags_of({{"network", "none"}}), "alone");
  EXPECT_EQ(flags_of({{"network", "host"}}), "unsupported");
  EXPECT_EQ(flags_of({{"security", "insecure"}}), "unsupported");
  EXPECT_EQ(flags_of({{"mount", "type=bind,source=secret"}}), "unsupported");
  EXPECT_EQ(flags_of({{"mount", ""}}), "unsupported");
}

TEST(RunFlagsTest, SecretsHaveDockersWords) {
  EXPECT_EQ(flags_of({{"mount", "type=secret,id=a/b"}}), "[a/b /run/secrets/b  256 0]");
  EXPECT_EQ(flags_of({{"mount", "type=secret,id=a,dst=x,uid=7,mode=0444"},
                      {"mount", "id=b,type=secret,env=B,required"}}),
            "[a /run/secrets/x  292 7][b  B 256 0 required]");
  EXPECT_EQ(flags_of({{"mount", "type=secret,target=/root/.netrc,env=N,required=false"}}),
            "[.netrc /root/.netrc N 256 0]");
  for (const char* const wrong :
       {"type=secret", "type=secret,id=", "type=secret,id=a,mode=8", "type=secret,id=a,mode=10000",
        "type=secret,id=a,uid=-1", "type=secret,id=a,uid=99999999999", "type=secret,id=a,what=b",
        "type=secret,id=a,,"})
    EXPECT_EQ(flags_of({{"mount", wrong}}), "invalid_input") << wrong;
}

TEST(UrlFetchTest, FilesAreCalledAsTheUrlEnds) {
  EXPECT_EQ(file_name_of("https://a.org/x/y.tar.gz?z=/1#f").value_or(""), "y.tar.gz");
  EXPECT_EQ(file_name_of("https://a.org/x%20y%2bz").value_or(""), "x y+z");
  for (const char* const url : {"https://a.org", "https://a.org/x/", "https://a.org/%2e%2e",
                                "https://a.org/a%2Fb", "https://a.org/%00", "none"})
    EXPECT_FALSE(file_name_of(url)) << url;
}

TEST(UrlFetchTest, ASecretOfTheGrantIsSentAndItsAnswerIsWhole) {
  const host::RawServer server([](host::RawConnection& connection, const std::string&) {
    connection.send(host::http_response("200 OK", "", "hello"));
  });
  policy::HttpGrant grant;
  grant.methods = {"GET"};
  grant.url = server.url("/*");
  grant.headers = {{"Authorization", {.text = "Bearer ", .secret = "KEY"}}};
  const linux::HostFile file = linux::memory_to_keep_in().value();
  UrlFetch fetch{.url = server.url("/a"), .grants = {grant}, .limits = usual_limits(), .most_bytes = 5};
  fetch.secrets = [](const std::string&) -> std::optional<std::string> { return "secret-secret"; };
  const auto fetched = fetch_url(fetch, file.number());
  ASSERT_TRUE(fetched) << fetched.error().to_string();
  EXPECT_EQ(fetched->bytes, 5u);
  EXPECT_EQ(fetched->digest, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
  EXPECT_TRUE(server.requests().front().contains("Authorization: Bearer secret-secret"));
  fetch.most_bytes = 4;
  EXPECT_EQ(fetch_url(fetch, file.number()).error().code, ErrorCode::kExhausted);
  fetch.is_cancelled = [] { return true; };
  EXPECT_EQ(fetch_url(fetch, file.number()).error().code, ErrorCode::kCancelled);
}

TEST(UrlFetchTest, APartIsNoFile) {
  const host::RawServer server([](host::RawConnection& connection, const std::string&) {
    connection.send(host::http_response("206 Partial Content", "Content-Range: bytes 0-3/9\r\n", "part"));
  });
  policy::HttpGrant grant;
  grant.methods = {"GET"};
  grant.url = server.url("/*");
  const linux::HostFile file = linux::memory_to_keep_in().value();
  const auto fetched =
      fetch_url({.url = server.url("/a"), .grants = {grant}, .limits = usual_limits(), .most_bytes = 50},
                file.number());
  ASSERT_FALSE(fetched);
  EXPECT_TRUE(fetched.error().message.contains("status 206")) << fetched.error().to_string();
}

TEST(ArgumentsTest, AnEntrypointStandsBeforeWords) {
  linux::ImageConfig config;
  EXPECT_FALSE(arguments_of(config, {}));
  EXPECT_EQ(arguments_of(config, {"a"}), (std::vector<std::string>{"a"}));
  config.command = {"c"};
  EXPECT_EQ(arguments_of(config, {}), (std::vector<std::string>{"c"}));
  config.entrypoint = {"e"};
  EXPECT_EQ(arguments_of(config, {}), (std::vector<std::string>{"e", "c"}));
  EXPECT_EQ(arguments_of(config, {"a", "b"}), (std::vector<std::string>{"e", "a", "b"}));
}

}  // namespace
}  // namespace membrane::computers
