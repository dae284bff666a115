#include "computers/network/client_hello.h"

#include <gtest/gtest.h>

#include "computers/network/client_hello_testing.h"

namespace membrane::computers {
namespace {

std::string name_of(std::string_view bytes) {
  const auto name = server_name_of(bytes);
  if (!name) return "refused: " + name.error().message;
  return *name ? **name : "more";
}
bool is_refused(std::string_view bytes) { return name_of(bytes).starts_with("refused"); }

TEST(ClientHello, TellsItsServersName) {
  EXPECT_EQ(name_of(client_hello("example.org")), "example.org");
  EXPECT_EQ(name_of(client_hello("EXAMPLE.org")), "example.org");
  EXPECT_EQ(name_of(client_hello("example.org") + "what follows"), "example.org");
  EXPECT_EQ(name_of(client_hello(std::nullopt)), "");
}

TEST(ClientHello, WantsMoreUntilItIsThere) {
  const std::string whole = client_hello("example.org");
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(name_of(whole.substr(0, size)), "more") << size;
}

TEST(ClientHello, ReadsWhatIsCutIntoRecords) {
  EXPECT_EQ(name_of(in_records(hello_message("example.org"), 7)), "example.org");
}

TEST(ClientHello, RefusesWhatIsNone) {
  EXPECT_TRUE(is_refused("GET / HTTP/1.1\r\n"));
  EXPECT_TRUE(is_refused(in_records(std::string("\x02\x00\x00\x00", 4), 4)));          // of a server
  EXPECT_TRUE(is_refused(in_records(std::string("\x01\xff\xff\xff", 4), 4)));          // of 16 MiB
  EXPECT_TRUE(is_refused(std::string("\x16\x03\x01\x00\x00", 5)));                     // a record of nothing
  EXPECT_TRUE(is_refused(in_records(std::string("\x01\x00\x00\x02\x03\x03", 6), 6)));  // cut off
  EXPECT_TRUE(is_refused(client_hello("a b")));
  EXPECT_TRUE(is_refused(client_hello("")));
  EXPECT_TRUE(is_refused(client_hello(std::string(254, 'a'))));
  EXPECT_TRUE(is_refused(client_hello("example.org", 2)));
}

// The server would go by the name that only it can read.
TEST(ClientHello, RefusesAnEncryptedOne) {
  const std::string extension = "\xfe\x0d" + sized(2, std::string(20, 'x'));
  const auto name = server_name_of(in_records(hello_message("example.org", 1, extension), 16384));
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().code, ErrorCode::kDenied);
}

TEST(ClientHello, RefusesASecondNameOfAnyKind) {
  const std::string host = server_name_entry('\0', "example.org"),
                    other = server_name_entry('\1', "evil.org");
  for (const std::string& names : {host + other, other + host, host + host, other}) {
    const std::string extension = std::string(2, '\0') + sized(2, sized(2, names));
    EXPECT_TRUE(is_refused(in_records(hello_message(std::nullopt, 1, extension), 16384)));
  }
}

// Whether all of it may go to example.org, in whatever pieces it comes.
bool passes(const std::string& bytes) {
  bool is_alike = true, passes = false;
  for (const size_t piece : {bytes.size(), size_t{1}, size_t{7}}) {
    HelloWatch watch("example.org");
    bool all = true;
    for (size_t at = 0; all && at < bytes.size(); at += piece)
      all = watch.take(std::string_view(bytes).substr(at, piece)).has_value();
    is_alike = is_alike && (piece == bytes.size() || all == passes);
    passes = all;
  }
  EXPECT_TRUE(is_alike);
  return passes;
}

TEST(HelloWatch, HoldsASecondHelloToTheFirstOnesName) {
  const std::string first = client_hello("example.org"), other = client_hello("evil.org");
  const std::string change("\x14\x03\x03\0\1\1", 6), data("\x17\x03\x03\0\2hi", 7);
  EXPECT_TRUE(passes(first));
  EXPECT_TRUE(passes(first + change + first + data + other));  // what comes after it is the server's data
  EXPECT_FALSE(passes(first + change + other));
  EXPECT_FALSE(passes(first + first + first));
  EXPECT_FALSE(passes(in_records(hello_message("example.org") + hello_message("evil.org"), 100)));
  // In TLS 1.2 another message follows, and then encrypted data.
  const std::string alert("\x15\x03\x03\0\2\1\x5a", 7), finished("\x16\x03\x03\0\5\1\xff\xff\xff\xff", 10);
  EXPECT_FALSE(passes(first + alert + other));
  EXPECT_FALSE(passes(first + finished));
  EXPECT_TRUE(passes(first + change + finished + other));  // of TLS 1.2: encrypted
  EXPECT_TRUE(passes(first + in_records(std::string("\x10\0\0\1x", 5), 5) + change + other));
}

TEST(ClientHello, RefusesARecordThatNeverEnds) {
  std::string message = hello_message("example.org");
  message[1] = 0, message[2] = 0x7f;  // longer than it is, within the bound
  EXPECT_EQ(name_of(in_records(message, 100)), "more");
  EXPECT_TRUE(
      is_refused(in_records(message + std::string(kMostHelloBytes, 'x'), 1).substr(0, kMostHelloBytes)));
}

TEST(ClientHello, SurvivesEachByteChanged) {
  const std::string whole = client_hello("example.org");
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char changed : {'\x00', '\x01', '\x7f', '\xff'}) {
      std::string bytes = whole;
      bytes[at] = changed;
      static_cast<void>(server_name_of(bytes));
    }
  }
}

}  // namespace
}  // namespace membrane::computers
