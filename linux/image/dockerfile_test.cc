#include "linux/image/dockerfile.h"

#include <gtest/gtest.h>

#include <map>

namespace membrane::linux {
namespace {

using Words = std::vector<std::string>;

std::vector<DockerInstruction> parse(std::string_view text) {
  auto file = parse_dockerfile(text);
  EXPECT_TRUE(file) << file.error().message;
  return file ? std::move(file->instructions) : std::vector<DockerInstruction>();
}
std::string error_of(std::string_view text) {
  const auto file = parse_dockerfile(text);
  return file ? "none" : file.error().message;
}

const std::map<std::string, std::string, std::less<>> kVariables = {
    {"A", "one"}, {"EMPTY", ""}, {"SPACED", "a b"}, {"DOLLAR", "$A"}};

std::optional<std::string_view> variable(std::string_view name) {
  const auto found = kVariables.find(name);
  return found == kVariables.end() ? std::nullopt : std::optional<std::string_view>(found->second);
}
std::string expand(std::string_view word) {
  const auto expanded = expand_docker_word(word, variable, '\\');
  return expanded ? *expanded : "error: " + expanded.error().message;
}

TEST(Dockerfile, HasInstructions) {
  const auto all = parse(
      "# a comment\n"
      "ARG V=1\n"
      "from --platform=linux/amd64 debian:$V AS base\n"
      "\n"
      "  RUN apt-get update && \\\n"
      "   # in between\n"
      "\n"
      "   apt-get install x\r\n"
      "COPY --from=base --chown=1:2 [\"a b\", \"/c\"]\n"
      "CMD [\"sh\", \"-c\", \"x\"]\n"
      "ENTRYPOINT [not json]");
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[1].name, "FROM");
  EXPECT_EQ(all[1].flags, (std::vector<std::pair<std::string, std::string>>{{"platform", "linux/amd64"}}));
  EXPECT_EQ(all[1].text, "debian:$V AS base");
  EXPECT_EQ(all[2].text, "apt-get update &&    apt-get install x");
  EXPECT_EQ(all[2].line, 5u);
  EXPECT_EQ(all[3].exec, (Words{"a b", "/c"}));
  EXPECT_EQ(all[3].flags[1].second, "1:2");
  EXPECT_EQ(all[4].exec, (Words{"sh", "-c", "x"}));
  EXPECT_FALSE(all[5].exec);
  EXPECT_EQ(all[5].line, 11u);
}

TEST(Dockerfile, DirectivesComeFirst) {
  const auto file = parse_dockerfile("# syntax=docker/dockerfile:1\n# escape=`\nFROM a\nRUN x `\n y\\\n");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->escape, '`');
  EXPECT_EQ(file->instructions[1].text, "x  y\\");
  EXPECT_EQ(parse_dockerfile("# a comment\n# escape=`\nFROM a\n")->escape, '\\');
  EXPECT_EQ(error_of("# escape=x\nFROM a"), "line 1 of the Dockerfile: escape is \\ or `");
}

TEST(Dockerfile, HasDocuments) {
  const auto all = parse(
      "FROM a\nRUN <<EOF cat <<-\"TWO\"\necho $A\nEOF\n\ttext\n\tTWO\nCOPY <<x.txt /\n# no "
      "comment\nx.txt\nRUN cat <<<word\n");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[1].documents,
            (std::vector<HereDocument>{{"EOF", "echo $A\n", true}, {"TWO", "text\n", false}}));
  EXPECT_EQ(all[2].documents, (std::vector<HereDocument>{{"x.txt", "# no comment\n", true}}));
  EXPECT_TRUE(all[3].documents.empty());
  EXPECT_EQ(error_of("FROM a\nRUN <<EOF\necho"),
            "line 2 of the Dockerfile: the document <<EOF is not closed");
}

TEST(Dockerfile, SaysWhatIsWrongWhere) {
  EXPECT_EQ(error_of(""), "line 1 of the Dockerfile: there is no FROM");
  EXPECT_EQ(error_of("RUN x\nFROM a"), "line 1 of the Dockerfile: RUN comes before FROM");
  EXPECT_EQ(error_of("FROM a\nRUNN x"), "line 2 of the Dockerfile: \"RUNN\" is not an instruction");
  EXPECT_EQ(parse_dockerfile("FROM a\nCOPPY x").error().hint, "Is it COPY?");
  EXPECT_EQ(error_of("FROM a\nRUN"), "line 2 of the Dockerfile: RUN needs an argument");
  EXPECT_EQ(error_of("FROM a\nCOPY --form=x a b"), "line 2 of the Dockerfile: COPY has no flag --form");
  EXPECT_EQ(error_of("FROM a\nSHELL sh"),
            "line 2 of the Dockerfile: SHELL needs the form [\"program\", \"-c\"]");
  EXPECT_EQ(error_of(std::string("FROM a\0", 7)), "line 1 of the Dockerfile: it contains a zero byte");
  EXPECT_EQ(parse_dockerfile(std::string((1u << 20) + 1, 'x')).error().code, ErrorCode::kTooLong);
  std::string many = "FROM a\n";
  for (int i = 0; i < 10'000; ++i) many += "USER x\n";
  EXPECT_EQ(parse_dockerfile(many).error().code, ErrorCode::kTooLong);
}

TEST(DockerWords, ExpandVariables) {
  EXPECT_EQ(expand("$A-${A}-$NONE-${NONE}."), "one-one--.");
  EXPECT_EQ(expand("${A:-x}${NONE:-x}${EMPTY:-x}${EMPTY-x}${NONE-x}"), "onexxx");
  EXPECT_EQ(expand("${A:+x}${NONE:+x}${EMPTY:+y}${EMPTY+z}"), "xz");
  EXPECT_EQ(expand("${NONE:-${NONE:-$A}}"), "one");
  EXPECT_EQ(expand("$DOLLAR"), "$A");
  EXPECT_EQ(expand("\\$A '$A' \"$A\" \"\\$A\" \"\\a\""), "$A $A one $A \\a");
  EXPECT_EQ(expand("$ $1 $-"), "$ $1 $-");
  EXPECT_EQ(expand("end\\"), "end");
  EXPECT_EQ(expand("${A:?why}"), "one");
}

TEST(DockerWords, RefuseWhatHasNoEnd) {
  EXPECT_EQ(expand("'a"), "error: a ' is not closed");
  EXPECT_EQ(expand("\"a"), "error: a \" is not closed");
  EXPECT_EQ(expand("${A"), "error: a ${ has no }");
  EXPECT_EQ(expand("${}"), "error: ${} names no variable");
  EXPECT_EQ(expand("${A%x}"), "error: ${A%x} has an unknown form");
  EXPECT_EQ(expand("${NONE:?why}"), "error: NONE has no value: why");
  std::string deep = "x";
  for (int i = 0; i < 20; ++i) deep = "${NONE:-" + deep + "}";
  EXPECT_EQ(expand(deep), "error: variables are nested too deep");
  const std::string large(1 << 19, 'v');
  const auto value = [&](std::string_view) { return std::optional<std::string_view>(large); };
  EXPECT_EQ(expand_docker_word("$A$A$A", value, '\\').error().code, ErrorCode::kTooLong);
  EXPECT_EQ(expand_docker_words("$A $A $A", value, '\\').error().code, ErrorCode::kTooLong);
}

TEST(DockerWords, ValuesAreNotSplit) {
  EXPECT_EQ(expand_docker_words("  $SPACED \"c d\"e\t'' ", variable, '\\').value(),
            (Words{"a b", "c de", ""}));
}

TEST(DockerWords, Pairs) {
  using Pairs = std::vector<DockerPair>;
  const auto pairs = [](const std::string& name, const std::string& text) {
    return docker_pairs({.name = name, .text = text}, variable, '\\');
  };
  EXPECT_EQ(pairs("ENV", "X=1 Y=\"$A b\" Z=").value(), (Pairs{{"X", "1"}, {"Y", "one b"}, {"Z", ""}}));
  EXPECT_EQ(pairs("ENV", "X  some $A words").value(), (Pairs{{"X", "some one words"}}));
  EXPECT_EQ(pairs("ARG", "X Y=2").value(), (Pairs{{"X", std::nullopt}, {"Y", "2"}}));
  EXPECT_FALSE(pairs("ENV", "X"));
  EXPECT_FALSE(pairs("ENV", "X=1 Y"));
  EXPECT_FALSE(pairs("ARG", "=1"));
}

}  // namespace
}  // namespace membrane::linux
