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
