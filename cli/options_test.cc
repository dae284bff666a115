// Every option of every command, enumerated from the parser itself: a new one cannot escape these rules.
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/arguments.h"
#include "cli/cli.h"

namespace membrane::cli {
namespace {

using Words = std::vector<std::string>;

// A command and its words: {"languages", "add"}.
struct Command {
  CLI::App* app;
  Words path;
};

class Options : public ::testing::Test {
 protected:
  Options() {
    commands_.push_back({app_.get(), {}});
    for (size_t i = 0; i < commands_.size(); ++i) {
      const Command above = commands_[i];
      for (CLI::App* const sub : above.app->get_subcommands([](CLI::App*) { return true; })) {
        Words path = above.path;
        path.push_back(sub->get_name());
        commands_.push_back({sub, std::move(path)});
      }
    }
    // Only parses: the commands' own callbacks stay, since they own the storage of the options.
    for (const Command& command : commands_)
      if (command.app != app_.get()) command.app->parse_complete_callback([] { throw CLI::Success(); });
  }

  static std::vector<CLI::Option*> options_of(const Command& command) {
    return command.app->get_options([](CLI::Option* option) { return !option->get_positional(); });
  }
  static std::vector<CLI::Option*> positionals_of(const Command& command) {
    return command.app->get_options([](CLI::Option* option) { return option->get_positional(); });
  }
  static std::string name_of(const CLI::Option& option) {
    return option.get_lnames().empty() ? "-" + option.get_snames().front()
                                       : "--" + option.get_lnames().front();
  }
  static bool is_help(const CLI::Option& option) {
    return name_of(option) == "--help" || name_of(option) == "--version";
  }

  // Parses like the command line. Returns the error, or "".
  std::string parse(Words words) {
    auto ordered = order_arguments(*app_, std::move(words));
    if (!ordered) return ordered.error().message;
    words = *std::move(ordered);
    std::ranges::reverse(words);
    app_->clear();
    try {
      app_->parse(std::move(words));
    } catch (const CLI::Success&) {
      return "";
    } catch (const CLI::ParseError& error) {
      return error.what();
    }
    return "";
  }

  int exit_code_ = 0;
  std::unique_ptr<CLI::App> app_ = make_app(exit_code_);
  std::vector<Command> commands_;
};

TEST_F(Options, TakeOneValueAtATime) {
  EXPECT_GT(commands_.size(), 10u);
  for (const Command& command : commands_)
    for (const CLI::Option* const option : options_of(command)) {
      SCOPED_TRACE(command.app->get_name() + " " + name_of(*option));
      EXPECT_FALSE(option->get_allow_extra_args());
      EXPECT_LE(option->get_expected_max(), 1);
    }
}

TEST_F(Options, AreAllowedBeforeAndAfterNames) {
  for (const Command& command : commands_) {
    Words named;
    named.resize(positionals_of(command).size(), "word");
    if (named.empty()) continue;
    for (const CLI::Option* const option : options_of(command)) {
      if (is_help(*option) || !option->get_excludes().empty() || !option->get_needs().empty()) continue;
      SCOPED_TRACE(command.app->get_name() + " " + name_of(*option));
      Words given = {name_of(*option)};
      if (option->get_expected_max() > 0) given.push_back("1");
      if (name_of(*option) == "--evaluate") continue;  // in place of what is named
      for (const bool is_first : {true, false}) {
        Words words = command.path;
        for (const CLI::Option* const other : options_of(command))
          if (other != option && other->get_required())
            words.insert(words.end(), {name_of(*other), std::string("1")});
        words.insert(words.end(), is_first ? given.begin() : named.begin(),
                     is_first ? given.end() : named.end());
        words.insert(words.end(), is_first ? named.begin() : given.begin(),
                     is_first ? named.end() : given.end());
        EXPECT_EQ(parse(words), "");
        for (const CLI::Option* const positional : positionals_of(command))
          EXPECT_EQ(positional->results(), Words{"word"});
        EXPECT_EQ(option->count(), 1u);
      }
    }
  }
}

class Arguments : public Options {
 protected:
  // The words that belong to the program; the error's message when there is one.
  Words programs(Words words) { return positionals("run", {"file", "arguments"}, std::move(words)); }
  // The sandbox, too.
  Words of_exec(Words words) { return positionals("exec", {"id", "words"}, std::move(words)); }

 private:
  Words positionals(const char* command, const Words& names, Words words) {
    words.insert(words.begin(), command);
    if (const std::string wrong = parse(std::move(words)); !wrong.empty()) return {"error: " + wrong};
    Words all;
    for (const std::string& name : names)
      for (const std::string& word : app_->get_subcommand(command)->get_option(name)->results())
        all.push_back(word);
    return all;
  }
};

TEST_F(Arguments, OfMembraneAreFoundAnywhere) {
  const Words expected = {"p", "a", "b"};
  EXPECT_EQ(programs({"p", "a", "b"}), expected);
  EXPECT_EQ(programs({"--allow", "kv", "p", "a", "b"}), expected);
  EXPECT_EQ(programs({"p", "--allow", "kv", "a", "--fuel", "2e9", "b"}), expected);
  EXPECT_EQ(programs({"p", "--allow=kv", "a", "--json", "b"}), expected);
  EXPECT_EQ(programs({"p", "a", "b", "--dir", ".", "--dir", "x"}), expected);
  EXPECT_EQ(programs({"--", "p", "a", "b"}), expected);
}

TEST_F(Arguments, OfTheProgramMayBeOptionsOfItsOwn) {
  EXPECT_EQ(programs({"p", "-v", "--depth", "3", "--json"}), (Words{"p", "-v", "--depth", "3"}));
  EXPECT_EQ(programs({"p", "--", "--json", "--fuel", "--"}), (Words{"p", "--json", "--fuel", "--"}));
  EXPECT_EQ(programs({"p", "-1", "-.5", "-inf", "-"}), (Words{"p", "-1", "-.5", "-inf", "-"}));
  EXPECT_EQ(programs({"p", "check", "run"}), (Words{"p", "check", "run"}));
  EXPECT_EQ(programs({"-", "a"}), (Words{"-", "a"}));
  EXPECT_EQ(programs({"-e", "text", "a", "-v"}), (Words{"a", "-v"}));
  EXPECT_EQ(programs({"-etext", "a"}), Words{"a"});
}

TEST_F(Arguments, OfExecFollowItsSandbox) {
  EXPECT_EQ(of_exec({"s", "p", "-x", "--depth", "3", "--json"}), (Words{"s", "p", "-x", "--depth", "3"}));
  EXPECT_EQ(of_exec({"--timeout", "1s", "s", "p", "-x"}), (Words{"s", "p", "-x"}));
  EXPECT_EQ(of_exec({"s", "p", "--", "--json", "-e"}), (Words{"s", "p", "--json", "-e"}));
  EXPECT_EQ(of_exec({"s", "-e", "text", "-x", "a"}), (Words{"s", "-x", "a"}));
  EXPECT_EQ(of_exec({"-e", "text", "s", "-x"}), (Words{"s", "-x"}));
  EXPECT_NE(of_exec({"s", "-x"}), (Words{"s", "-x"})) << "there is no program yet";
  EXPECT_EQ(of_exec({"s", "p", "--timout", "3"}), Words{"error: unknown option --timout"});
  EXPECT_EQ(of_exec({"s", "p", "-e", "text"}),
            Words{"error: -e gives a program's text, and the program is p already"});
}

TEST_F(Arguments, OfExecAreNoLimits) {
  for (const char* const limit :
       {"--wall", "--fuel", "--memory", "--output", "--allow", "--policy", "--dir"}) {
    const Words refused = {std::string("error: exec has no ") + limit +
                           ": the sandbox's policy holds for all that it runs"};
    EXPECT_EQ(of_exec({"s", "p", limit, "1"}), refused);
    EXPECT_EQ(of_exec({"s", limit, "1", "p"}), refused);
    EXPECT_EQ(of_exec({"s", "p", "--", limit, "1"}), (Words{"s", "p", limit, "1"}));
  }
}

TEST_F(Arguments, ThatAreMisspeltAreReported) {
  EXPECT_EQ(programs({"--alow", "kv", "-e", "text"}), Words{"error: unknown option --alow"});
  EXPECT_EQ(programs({"--language", "js", "-e", "1"}), Words{"error: unknown option --language"});
  EXPECT_EQ(programs({"p", "--fule", "3"}), Words{"error: unknown option --fule"});
  EXPECT_EQ(programs({"p", "--memry=3"}), Words{"error: unknown option --memry"});
  EXPECT_EQ(programs({"p", "--fuell", "3"}), Words{"error: unknown option --fuell"});
  EXPECT_EQ(programs({"p", "--polcy", "3"}), Words{"error: unknown option --polcy"});
  EXPECT_EQ(programs({"p", "--", "--fule", "3"}), (Words{"p", "--fule", "3"}));
  EXPECT_EQ(programs({"p", "-e", "text"}),
            Words{"error: -e gives a program's text, and the program is p already"});
}

TEST_F(Arguments, ThatMerelyResembleMembranesAreTheProgram) {
  for (const char* const option :
       {"--file", "--flag", "--port", "--path", "--seed", "--mode", "--model", "--tail", "--time", "--inputs",
        "--name", "--data", "--limit", "--format", "--all", "--full", "--width", "--task", "--token"})
    EXPECT_EQ(programs({"p", option, "x"}), (Words{"p", option, "x"}));
}

TEST_F(Arguments, ThatAreRefusedComeWithTheWayToPassThem) {
  const auto hint = [&](Words words) {
    const auto ordered = order_arguments(*app_, std::move(words));
    return ordered ? "" : ordered.error().hint;
  };
  EXPECT_EQ(hint({"run", "x.py", "--fule", "3"}),
            "Did you mean --fuel? Write -- before options of the program's own: membrane run x.py -- --fule");
  EXPECT_EQ(hint({"run", "-e", "1", "a", "--fule=3"}),
            "Did you mean --fuel? Write -- before options of the program's own: membrane run -e … -- --fule");
  EXPECT_TRUE(hint({"exec", "s", "x.py", "--out"}).empty());
  EXPECT_TRUE(hint({"run", "x.py", "--out"}).ends_with(": membrane run x.py -- --out"));
  EXPECT_TRUE(hint({"exec", "s", "x.py", "--timout"}).ends_with(": membrane exec s x.py -- --timout"));
}

}  // namespace
}  // namespace membrane::cli
