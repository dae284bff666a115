#include "policy/url.h"

#include <gtest/gtest.h>

#include "policy/url_grant.h"

namespace membrane::policy {
namespace {

std::string reading_of(std::string_view path) { return read_path(path).path; }

std::string normal(std::string_view text) {
  const auto url = parse_url(text);
  return url ? url->text() : "refused: " + url.error().message;
}

bool refused(std::string_view text) { return !parse_url(text); }

bool allows(std::string_view grant, std::string_view url) {
  const auto parsed = UrlGrant::parse(grant);
  EXPECT_TRUE(parsed) << grant << ": " << parsed.error().to_string();
  const auto target = parse_url(url);
  return parsed && target && parsed->allows(*target);
}

TEST(Url, TakesTheUsualFormsApart) {
  const Url url = parse_url("HTTPS://API.Example.org:8443/v1/a%20b?x=1&y=%0A#part").value();
  EXPECT_EQ(url.scheme, "https");
  EXPECT_EQ(url.host, "api.example.org");
  EXPECT_EQ(url.port, 8443);
  EXPECT_EQ(url.path, "/v1/a%20b");
  EXPECT_EQ(url.query, "x=1&y=%0A");
  EXPECT_EQ(url.text(), "https://api.example.org:8443/v1/a%20b?x=1&y=%0A");
  EXPECT_EQ(url.origin(), "https://api.example.org:8443");
}

TEST(Url, HasOneNormalForm) {
  EXPECT_EQ(normal("http://example.org"), "http://example.org/");
  EXPECT_EQ(normal("http://example.org:80/"), "http://example.org/");
  EXPECT_EQ(normal("https://example.org:0443/"), "https://example.org/");
  EXPECT_EQ(normal("http://example.org./"), "http://example.org/");
  EXPECT_EQ(normal("http://ex%61mple.org/"), "http://example.org/");
  EXPECT_EQ(normal("http://example.org?q"), "http://example.org/?q");
  EXPECT_EQ(normal("http://example.org/a#b?c"), "http://example.org/a");
  EXPECT_EQ(normal("http://[0:0::1]:8000/"), "http://[::1]:8000/");
}

TEST(Url, ResolvesDotSegmentsInEverySpelling) {
  EXPECT_EQ(normal("http://h.org/a/../b"), "http://h.org/b");
  EXPECT_EQ(normal("http://h.org/a/%2e%2E/b"), "http://h.org/b");
  EXPECT_EQ(normal("http://h.org/a/.%2e"), "http://h.org/");
  EXPECT_EQ(normal("http://h.org/../../a/./b/."), "http://h.org/a/b/");
  EXPECT_EQ(normal("http://h.org/a//b"), "http://h.org/a//b");
  EXPECT_EQ(normal("http://h.org/..."), "http://h.org/...");
}

TEST(Url, ReadsNumericHostsAsTheAddressesTheyAre) {
  for (const char* text : {"http://0x7f.1/", "http://2130706433/", "http://017700000001/", "http://127.1/",
                           "http://0x7f000001/", "http://127.0.0.1./", "http://127.0.0.01/"}) {
    const auto url = parse_url(text);
    ASSERT_TRUE(url) << text << " " << url.error().message;
    EXPECT_EQ(url->host, "127.0.0.1") << text;
    EXPECT_TRUE(url->address) << text;
  }
}

TEST(Url, RefusesHostsThatResolversReadDifferently) {
  for (const char* text : {"http://1.2.3.4.5/",
                           "http://0x7f000001./",
                           "http://256.1.1.1/",
                           "http://127.0.0.1../",
                           "http://example.org../",
                           "http://.example.org/",
                           "http://a..b/",
                           "http://a_b.1/",
                           "http://[fe80::1%25eth0]/",
                           "http://[fe80::1%eth0]/",
                           "http://[::1/",
                           "http://[]/",
                           "http://example.org:0/",
                           "http://example.org:65536/",
                           "http://example.org:80:80/",
                           "http:///",
                           "http://",
                           "http://?x",
                           "http://#x",
                           "http://:80/",
                           "http://%00/",
                           "http://a%2fb/",
                           "http://a%40b/",
                           "http://a,b/",
                           "http://0x/"})
    EXPECT_TRUE(refused(text)) << text << " → " << normal(text);
}

TEST(Url, RefusesUserInformation) {
  for (const char* text :
       {"http://user@h.org/", "http://user:pw@h.org/", "http://@h.org/", "http://:@h.org/",
        "http://granted.org@evil.org/", "http://a@b@c/", "http://granted.org%40evil.org@x/"})
    EXPECT_TRUE(refused(text)) << text;
}

TEST(Url, RefusesCharactersThatParsersReadDifferently) {
  for (const char* text :
       {"http://h.org\\@evil.org/", "http://h.org/a\\b", "http://h.org/a b", "http://h.org/a\tb",
        "http://h.org/a\r\nHost: evil", "\nhttp://h.org/", "http://h.org/\x7f", " http://h.org/",
        "http://h.org/%", "http://h.org/%zz", "http://h.org/%4", "http://h.org/?%zz", "http://h.org/%00",
        "http://h.org/a%0d%0ab", "http://h.org/\xc3\xa4", "http://\xc3\xa4.org/",
        "http://\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.0.0.1/", "http://h.org/a%7f"})
    EXPECT_TRUE(refused(text)) << text;
  EXPECT_TRUE(refused(std::string_view("http://h.org/\0x", 15)));
}

TEST(Url, RefusesOtherSchemesAndNone) {
  for (const char* text :
       {"file:///etc/passwd", "ftp://h.org/", "gopher://h.org/", "javascript:alert(1)", "h.org/x",
        "//h.org/x", "/x", "", "dict://h.org:11211/", "data:text/plain,x", "https:", "http:h.org"})
    EXPECT_TRUE(refused(text)) << text;
  EXPECT_EQ(parse_url("h.org/x").error().hint, "begin it with https:// or http://");
}

TEST(Url, RefusesVeryLongText) {
  const auto url = parse_url("http://h.org/" + std::string(Url::kMaxBytes, 'a'));
  ASSERT_FALSE(url);
  EXPECT_EQ(url.error().code, ErrorCode::kExhausted);
}

TEST(Url, ResolvesReferencesAgainstABase) {
  const Url base = parse_url("https://h.org/a/b?q").value();
  EXPECT_EQ(parse_url("c", base)->text(), "https://h.org/a/c");
  EXPECT_EQ(parse_url("/c#f", base)->text(), "https://h.org/c");
  EXPECT_EQ(parse_url("../../../c", base)->text(), "https://h.org/c");
  EXPECT_EQ(parse_url("//evil.org/x", base)->text(), "https://evil.org/x");
  EXPECT_EQ(parse_url("http://169.254.169.254/", base)->text(), "http://169.254.169.254/");
  for (const char* text : {"", "file:///etc/passwd", "http://u@h.org/", "/a\\b", "/a\r\nb", "\xc3\xa4"})
    EXPECT_FALSE(parse_url(text, base)) << text;
}

TEST(Url, ReadsPathsLeniently) {
  EXPECT_EQ(reading_of("/a/b"), "/a/b");
  EXPECT_EQ(reading_of("/a/%2e%2e%2fb"), "/b");
  EXPECT_EQ(reading_of("/a/%252e%252e/b"), "/b");
  EXPECT_EQ(reading_of("/a/..;x=1/b"), "/b");
  EXPECT_EQ(reading_of("/a//b///"), "/a/b/");
  EXPECT_EQ(reading_of("/a/%5c..%5cb"), "/b");
  EXPECT_EQ(reading_of("/.."), "/");
}

TEST(UrlGrant, AllowsWhatItSaysAndNothingElse) {
  EXPECT_TRUE(allows("https://h.org/v1/*", "https://h.org/v1/a?b=c"));
  EXPECT_TRUE(allows("https://h.org/v1/*", "https://h.org/v1/"));
  EXPECT_FALSE(allows("https://h.org/v1/*", "https://h.org/v1"));
  EXPECT_FALSE(allows("https://h.org/v1/*", "https://h.org/v2/a"));
  EXPECT_FALSE(allows("https://h.org/v1/*", "https://h.org/V1/a"));
  EXPECT_FALSE(allows("https://h.org/v1/*", "http://h.org/v1/a"));
  EXPECT_FALSE(allows("https://h.org/v1/*", "https://h.org:444/v1/a"));
  EXPECT_FALSE(allows("https://h.org/v1/*", "https://x.h.org/v1/a"));
  EXPECT_FALSE(allows("https://h.org/v1/*", "https://h.org.evil.org/v1/a"));
  EXPECT_TRUE(allows("https://h.org/v1*", "https://h.org/v10"));
  EXPECT_TRUE(allows("https://h.org:443/*", "https://h.org/"));
}

TEST(UrlGrant, AnExactPathHasNoQueryUnlessItSaysSo) {
  EXPECT_TRUE(allows("https://h.org/s", "https://h.org/s#top"));
  EXPECT_FALSE(allows("https://h.org/s", "https://h.org/s?q=1"));
  EXPECT_FALSE(allows("https://h.org/s", "https://h.org/s/"));
  EXPECT_TRUE(allows("https://h.org/s?*", "https://h.org/s?q=1"));
  EXPECT_FALSE(allows("https://h.org/s?*", "https://h.org/s"));
  EXPECT_TRUE(allows("https://h.org/s?q=*", "https://h.org/s?q=1"));
  EXPECT_FALSE(allows("https://h.org/s?q=*", "https://h.org/s?r=1"));
  EXPECT_TRUE(allows("https://h.org/s?q=1", "https://h.org/s?q=1"));
  EXPECT_FALSE(allows("https://h.org/s?q=1", "https://h.org/s?q=12"));
}

// Nested escapes are decoded completely, in time linear in their depth.
TEST(Url, EscapesOfEscapesAreReadInOnePass) {
  std::string tower = "%";
  for (int i = 0; i < 1'000'000; ++i) tower += "25";
  tower += "2e";
  EXPECT_EQ(reading_of("/a/" + tower + "."), "/");
  EXPECT_EQ(reading_of("/%%32%35%32e"), "/");
  EXPECT_EQ(reading_of("/%25%32%65%2e/x"), "/x");
  EXPECT_EQ(reading_of("/a%"), "/a%");
  EXPECT_EQ(reading_of("/a%2"), "/a%2");
  EXPECT_EQ(reading_of("/a%zz%2x"), "/a%zz%2x");
  EXPECT_EQ(reading_of("/%25u002e%25u002e%25u002fb"), "/b");
}

TEST(Url, RefusesOverlongUtf8InPaths) {
  for (const char* path :
       {"%c0%ae%c0%ae/x", "%C0%AE.", "%c0%af", "%c1%9c", "%e0%80%ae", "%e0%80%af", "%f0%80%80%ae",
        "%f8%80%80%80%ae", "%fc%80%80%80%80%af", "%c0%2e", "%c0", "%25c0%25ae", "%2525c0%2525af"})
    EXPECT_FALSE(parse_url("https://h.org/v1/" + std::string(path))) << path;
  for (const char* path : {"%c3%a9", "%e9", "%e2%80%9c", "%f0%9f%8e%89", "%e0%a4%85", "%c2%a0"})
    EXPECT_TRUE(parse_url("https://h.org/v1/" + std::string(path))) << path;
}

TEST(UrlGrant, LookalikesOfDotsAndSlashesDoNotClimb) {
  for (const char* path :
       {"%ef%bc%8e%ef%bc%8e/admin", "%e2%80%a4%e2%80%a4/admin", "%e2%80%a5/admin", "..%ef%bc%8fadmin",
        "..%e2%88%95admin", "..%e2%81%84admin", "..%ef%bc%bcadmin", "%ef%bc%852e%ef%bc%852e/admin",
        "..%ef%bc%9bx/admin", "%25u002e%25u002e/admin", "%25uff0e%25uff0e/admin"})
    EXPECT_FALSE(allows("https://h.org/v1/*", std::string("https://h.org/v1/") + path)) << path;
  EXPECT_TRUE(allows("https://h.org/v1/*", "https://h.org/v1/%e6%96%87%ef%bc%8etxt"));
}

TEST(UrlGrant, HostsAreComparedInOneForm) {
  EXPECT_TRUE(allows("https://h.org/*", "https://H.ORG./"));
  EXPECT_TRUE(allows("https://*.h.org/*", "https://a.h.org./"));
  EXPECT_FALSE(allows("https://*.h.org/*", "https://.h.org/"));
  EXPECT_FALSE(allows("https://h.org/*", "https://h.org:8443/"));
  EXPECT_FALSE(allows("https://xn--mnchen-3ya.org/*", "https://munchen.org/"));
  EXPECT_TRUE(allows("https://xn--mnchen-3ya.org/*", "https://XN--mnchen-3YA.org/"));
  for (const char* url :
       {"https://h.org../", "https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/", "https://h.org@evil.org/",
        "https://h.org:80:80/", "https://h.org:+443/", "https://h.org:/x@evil.org:1/",
        "https://m\xc3\xbcnchen.org/", "https://h\xe3\x80\x82org/", "https://h%2eorg/",
        "https://h.org%00.evil.org/", "https://h.org%2f@evil.org/"}) {
    const auto parsed = parse_url(url);
    EXPECT_TRUE(!parsed || (parsed->host == "h.org" && parsed->port == 443)) << url;
  }
}

TEST(UrlGrant, PathsCannotClimbOutInAnyReading) {
  for (const char* path : {"../admin", "%2e%2e/admin", "%2e%2e%2fadmin", "..%2fadmin", "%252e%252e%252fadmin",
                           "..;/admin", "a/..%2f..%2fadmin", "..%5cadmin", "%2e%2e%5cadmin", "a/../../admin",
                           "%25252e%25252e%25252fadmin", ";/../../admin", "./../admin"})
    EXPECT_FALSE(allows("https://h.org/v1/*", std::string("https://h.org/v1/") + path)) << path;
  // Where the most lenient server sees more segments, and so climbs less far, another sees fewer.
  for (const char* path : {"a%252fb%252fc%2f%2e%2e%2f%2e%2e%2fadmin", "a%5cb%5cc%2f..%2f..%2fadmin",
                           "a%255cb%2f..%2f..%2fadmin", "a%2f..%2f..%2fadmin/..;/v1/x", "a/%2e%2e%2fb"})
    EXPECT_FALSE(allows("https://h.org/v1/*", std::string("https://h.org/v1/") + path)) << path;
  EXPECT_TRUE(allows("https://h.org/*", "https://h.org/v1/a%2f..%2fb"));
  // …while an encoded slash that stays below is fine.
  EXPECT_TRUE(allows("https://h.org/v1/*", "https://h.org/v1/group%2Fproject"));
}

TEST(UrlGrant, SubdomainsAtAnyDepthButNotTheDomain) {
  EXPECT_TRUE(allows("https://*.h.org/*", "https://a.h.org/"));
  EXPECT_TRUE(allows("https://*.h.org/*", "https://a.b.h.org/"));
  EXPECT_FALSE(allows("https://*.h.org/*", "https://h.org/"));
  EXPECT_FALSE(allows("https://*.h.org/*", "https://evilh.org/"));
  EXPECT_FALSE(allows("https://*.h.org/*", "https://a.h.org.evil.org/"));
}

TEST(UrlGrant, RefusesWhatWouldGrantMoreThanItSeems) {
  for (const char* text : {"",
                           "*",
                           "https://*/*",
                           "https://*",
                           "https://*:443/*",
                           "https://*.org/*",
                           "h.org/*",
                           "https://h.org",
                           "https://h.org?x",
                           "https://h.*/x",
                           "https://h.org/*/x",
                           "https://h.org/**",
                           "https://h.org/a/../b",
                           "https://h.org/a/..*",
                           "https://h.org/a/..;/b/*",
                           "https://h.org/a%2f..%2fb/*",
                           "https://u@h.org/*",
                           "https://h.org/#x",
                           "ftp://h.org/*",
                           "https://*.127.0.0.1/*",
                           "https://*.*.h.org/*",
                           "https://a.*.h.org/*",
                           "*://h.org/*",
                           "https://h.org:*/x",
                           "https://h.org/%*",
                           "https://h.org/a b*"})
    EXPECT_FALSE(UrlGrant::parse(text)) << text;
}

TEST(UrlGrant, SaysHowToMendTheCommonMistakes) {
  EXPECT_EQ(UrlGrant::parse("h.org/*").error().hint, "write https://h.org/*");
  EXPECT_EQ(UrlGrant::parse("https://h.org").error().hint,
            "write https://h.org/* for every path of the host, or https://h.org/ for its first page only");
}

TEST(UrlGrant, TheMoreExactOfTwoIsTotal) {
  const char* kFromExact[] = {"https://a.h.org/v1/x?q", "https://a.h.org/v1/x", "https://a.h.org/v1/x?*",
                              "https://a.h.org/v1/x*",  "https://a.h.org/v1/*", "https://a.h.org/*",
                              "https://*.a.h.org/*",    "https://*.h.org/v1/*", "https://*.h.org/*"};
  for (size_t i = 0; i < std::size(kFromExact); ++i) {
    for (size_t k = 0; k < std::size(kFromExact); ++k) {
      if (i == k || (i < 3 && k < 3)) continue;  // those three never allow the same URL
      EXPECT_EQ(UrlGrant::parse(kFromExact[i])->more_exact_than(*UrlGrant::parse(kFromExact[k])), i < k)
          << kFromExact[i] << " " << kFromExact[k];
    }
  }
}

TEST(UrlGrant, ItsTextReadsBack) {
  for (const char* text :
       {"https://H.org:443/v1/*", "https://*.h.org/*", "http://[::1]:8000/*", "http://0x7f.1/a?*"}) {
    const std::string once = UrlGrant::parse(text)->text();
    EXPECT_EQ(UrlGrant::parse(once)->text(), once);
  }
  EXPECT_EQ(UrlGrant::parse("https://H.org:443/v1/*")->text(), "https://h.org/v1/*");
  EXPECT_EQ(UrlGrant::parse("http://0x7f.1/a?*")->text(), "http://127.0.0.1/a?*");
}

}  // namespace
}  // namespace membrane::policy
