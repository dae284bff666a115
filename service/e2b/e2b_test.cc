// The parsers for requests of E2B's clients.
#include <gtest/gtest.h>

#include "service/e2b/call.h"
#include "service/e2b/cell.h"
#include "service/e2b/connect.h"
#include "service/e2b/multipart.h"
#include "service/e2b/shell_words.h"

namespace membrane::service::e2b {
namespace {

using Words = std::vector<std::string>;

TEST(E2bConnect, FramesAreReadAsTheyAreWritten) {
  const std::string written = frame("{}") + frame(R"({"a":1})");
  const auto frames = read_frames(written);
  ASSERT_TRUE(frames);
  EXPECT_EQ(*frames, (std::vector<std::string_view>{"{}", R"({"a":1})"}));
  EXPECT_TRUE(read_frames("")->empty());
}

TEST(E2bConnect, WhatIsNoFrameIsRefused) {
  const std::string whole = frame("{}");
  for (size_t size = 1; size < whole.size(); ++size) EXPECT_FALSE(read_frames(whole.substr(0, size))) << size;
  EXPECT_EQ(read_frames(std::string("\x01\0\0\0\0", 5)).error().code, RpcCode::kUnimplemented);
  EXPECT_EQ(read_frames(std::string("\x02\0\0\0\0", 5)).error().code, RpcCode::kInvalidArgument);
  EXPECT_FALSE(read_frames(std::string("\0\xff\xff\xff\xff", 5)));
  std::string many;
  for (size_t i = 0; i <= kMostFrames; ++i) many += frame("");
  EXPECT_FALSE(read_frames(many));
}

TEST(E2bConnect, TheEndSaysWhatWentWrong) {
  EXPECT_EQ(end_frame().substr(5), "{}");
  EXPECT_EQ(end_frame(RpcError{RpcCode::kNotFound, "no"}).substr(5),
            R"({"error":{"code":"not_found","message":"no"}})");
  EXPECT_EQ(end_frame()[0], 2);
  EXPECT_EQ(rpc_response(RpcError{RpcCode::kAlreadyExists, "yes"}).status, 409);
  EXPECT_EQ(rpc_error({ApiCode::kUnsupported, "it cannot", "ask another"}).message, "it cannot. ask another");
}

TEST(E2bShellWords, QuotesAndBackslashes) {
  EXPECT_EQ(*shell_words(R"(  python -c 'print("a  b")' "c \"d\" \\ \x" e\ f ''  )"),
            (Words{"python", "-c", R"(print("a  b"))", R"(c "d" \ \x)", "e f", ""}));
  EXPECT_EQ(*shell_words("a'b'\"c\"d"), (Words{"abcd"}));
  EXPECT_EQ(*shell_words("echo 'a\nb' a#b a~"), (Words{"echo", "a\nb", "a#b", "a~"}));
  EXPECT_TRUE(shell_words(" \n")->empty());
}

TEST(E2bShellWords, WhatAShellWouldDoMoreWithIsNamed) {
  for (const char* line : {"a|b", "a&",  "a;b", "a\nb", "a>b", "a<b", "(a)", "a $b",   "`a`",     "a*", "a?",
                           "[a]", "{a}", "~/a", "a #b", "!a",  "'a",  "\"a", "\"$a\"", "\"`a`\"", "a\\"})
    EXPECT_FALSE(shell_words(line)) << line;
  EXPECT_EQ(shell_words("ls | wc").error(), "a pipe (|)");
  EXPECT_EQ(shell_words("echo \"$HOME\"").error(), "a variable ($)");
}

TEST(E2bForm, FilesAndTheirNames) {
  const std::string body =
      "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a \\\"b%22.txt\"\r\nContent-Type: "
      "text/plain\r\n\r\n"
      "one\r\n--\r\ntwo\r\n--b\r\ncontent-disposition: form-data; name=file; filename=c\r\n\r\n\r\n--b--\r\n";
  const auto parts = read_form("multipart/form-data; boundary=b", body);
  ASSERT_TRUE(parts) << parts.error().message;
  ASSERT_EQ(parts->size(), 2U);
  EXPECT_EQ((*parts)[0].name, "file");
  EXPECT_EQ((*parts)[0].file_name, "a \"b\".txt");
  EXPECT_EQ((*parts)[0].bytes, "one\r\n--\r\ntwo");
  EXPECT_EQ((*parts)[1].file_name, "c");
  EXPECT_EQ((*parts)[1].bytes, "");
}

TEST(E2bForm, WhatIsCutOffIsRefused) {
  const std::string type = "multipart/form-data; boundary=\"b\"";
  const std::string whole = "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--b--";
  ASSERT_TRUE(read_form(type, whole));
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(read_form(type, whole.substr(0, size))) << size;
  EXPECT_FALSE(read_form("multipart/form-data", whole));
  EXPECT_FALSE(read_form("multipart/form-data; boundary=", whole));
  EXPECT_FALSE(read_form("multipart/form-data; boundary=\"b", whole));
  EXPECT_FALSE(read_form(type, "--b\r\nContent-Type: a/b\r\n\r\nx\r\n--b--"));
  EXPECT_FALSE(read_form(type, "--b\r\nContent-Disposition: form-data; name=\"\xff\"\r\n\r\nx\r\n--b--"));
}

TEST(E2bCell, TheFirstLinesIndentationIsTakenFromAll) {
  EXPECT_EQ(without_indentation("\n    x=1\n    x"), "\nx=1\nx");
  EXPECT_EQ(without_indentation("  if a:\n    b\n c\n"), "if a:\n  b\n c\n");
  EXPECT_EQ(without_indentation("\t# a\n\t'''\n b\n\t\tc'''"), "# a\n'''\n b\n\tc'''");
  EXPECT_EQ(without_indentation("a\n  b\r\n"), "a\n  b\n");
  for (const char* same : {"", "\n", "  \n \n", "a", "if a:\n  b"})
    EXPECT_EQ(without_indentation(same), same);
}

TEST(E2bCell, CommandsOfIpythonAreCalls) {
  const auto call = [](const std::string& line) {
    return "__import__('sys').ipython_command(\"" + line + "\")";
  };
  EXPECT_EQ(python_cell("!pip install a").code, call("!pip install a"));
  EXPECT_EQ(python_cell("try:\n  import a\nexcept:\n  %pip install a\na").code,
            "try:\n  import a\nexcept:\n  " + call("%pip install a") + "\na");
  EXPECT_EQ(python_cell("x, y.z = !ls\nx").code, "x, y.z = " + call("!ls") + "\nx");
  EXPECT_EQ(python_cell("!pip install \\\n  a\nb").code, call("!pip install    a") + "\n\nb");
  EXPECT_EQ(python_cell("\n  %%bash\n  ls \"a\"\n").code, "\n" + call("%%bash"));
  EXPECT_EQ(python_cell(R"(!echo "a\b")").code, call(R"(!echo \"a\\b\")"));
  EXPECT_EQ(python_cell("'''\n'''\n!it's\n'b'").code, "'''\n'''\n" + call("!it's") + "\n'b'");
  EXPECT_TRUE(python_cell("1\n!ls").has_commands);
}

TEST(E2bCell, WhatPythonUnderstandsStays) {
  for (const char* code : {"a \\\n % b", "(a\n % b)", "'''\n!ls\n'''", "f(\"\"\"\n%x\n\"\"\")", "'a\\\n!b'",
                           "# '\na = b != c\na %= 2", "r'\\'\nb", "'''a\\'''\n!ls'''",
                           "x == 1\nx = [\n '#'\n % 2]", "\"'\" # \"\n", ")\nb", "'a", "'''a\n!ls", "\\"}) {
    EXPECT_EQ(python_cell(code).code, code);
    EXPECT_FALSE(python_cell(code).has_commands) << code;
  }
}

TEST(E2bCall, MembersHaveTheirTypes) {
  const Json json = {{"text", "a"}, {"number", 3U}, {"flag", true}, {"map", {{"a", "b"}}}, {"none", nullptr}};
  Fields right(json);
  EXPECT_EQ(right.text("text") + right.text("none", "c"), "ac");
  EXPECT_EQ(right.number("number"), 3U);
  EXPECT_TRUE(right.flag("flag"));
  EXPECT_EQ(right.texts("map"), (std::map<std::string, std::string>{{"a", "b"}}));
  EXPECT_TRUE(right.checked());
  Fields wrong(json);
  wrong.number("text");
  EXPECT_EQ(wrong.checked().error().message, "\"text\" is not a whole number in range");
  EXPECT_FALSE(read_object("[]"));
  EXPECT_FALSE(read_object("{"));
  EXPECT_TRUE(read_object(""));
}

TEST(E2bCall, PathsBeginAtTheUsersHome) {
  EXPECT_EQ(absolute_path("a/b"), "/home/user/a/b");
  EXPECT_EQ(absolute_path(""), "/home/user");
  EXPECT_EQ(absolute_path("~/a"), "/home/user/a");
  EXPECT_EQ(absolute_path("/a//"), "/a");
  EXPECT_EQ(absolute_path("/"), "/");
  EXPECT_EQ(absolute_path("."), "/home/user");
  EXPECT_EQ(absolute_path("./a/../b/./c"), "/home/user/b/c");
  EXPECT_EQ(absolute_path("../x//y/"), "/home/x/y");
  EXPECT_EQ(absolute_path("/a/../../.."), "/");
  EXPECT_EQ(absolute_path("~/../other"), "/home/other");
}

}  // namespace
}  // namespace membrane::service::e2b
