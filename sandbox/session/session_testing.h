// Fixtures for tests of sessions: the same test in Python and JavaScript, and tests of one language. Skipped if
// the language is not installed (tools/get-languages); Python also in builds with sanitizers, where compiling it
// takes minutes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "sandbox/session/session.h"
#include "sandbox/session/template_testing.h"

namespace membrane::sandbox {

inline RunOptions session_options() {
  RunOptions options;
  options.policy.limits = policy::language_limits();
  options.policy.limits.memory_bytes = 64u << 20;
  options.policy.limits.fuel = 2'000'000'000;
  options.policy.limits.wall_ms = 600'000;
  return options;
}

// A turn that was given input, under a policy that closes egress afterwards.
inline RunOptions held_back(RunOptions run_options) {
  run_options.policy.trifecta = policy::Trifecta{
      .egress = policy::Egress::kClose, .input_is_private = true, .input_is_untrusted = true};
  policy::HttpGrant grant;
  grant.methods = {"GET"};
  grant.url = "https://example.org/*";
  run_options.policy.http.push_back(std::move(grant));
  return run_options;
}

// The differences between the languages, in code that does the same.
struct Dialect {
  const char* name;
  const char* set_x;   // to 20
  const char* loop;    // infinite
  const char* hog;     // allocates memory
  const char* raise;   // raises an error "no such luck"
  const char* raised;  // its name
  const char* print;   // prints "hello"
  const char* random;  // a string that differs in each fork
  const char* fetch;   // of http://127.0.0.1:1/page
  const char* denied;  // what that raises
  // An infinite loop in lines 3 and 4, in f, which g calls in line 6, and line 7 calls g.
  const char* loop_in_f;
  const char* talks;  // makes host requests in line 2, forever
};
inline void PrintTo(const Dialect& dialect, std::ostream* out) { *out << dialect.name; }

// session_test.cc has the languages.
class InALanguage : public ::testing::TestWithParam<Dialect> {
 protected:
  void SetUp() override {
    template_ = open_template(dialect().name);
    if (template_ == nullptr) GTEST_SKIP() << dialect().name << " is not installed, or not for this build";
    session_ = make();
  }
  static const Dialect& dialect() { return GetParam(); }
  std::unique_ptr<Session> make(RunOptions run_options = session_options()) {
    auto made = Session::create(template_, std::move(run_options));
    EXPECT_TRUE(made) << made.error().message;
    return made ? std::move(*made) : nullptr;
  }
  Report exec(const std::string& code) { return session_->exec({.code = code}); }

  std::shared_ptr<const Template> template_;
  std::unique_ptr<Session> session_;
};

class OneLanguage : public ::testing::Test {
 protected:
  explicit OneLanguage(const char* language) : language_(language) {}
  void SetUp() override {
    template_ = open_template(language_);
    if (template_ == nullptr) GTEST_SKIP() << language_ << " is not installed, or not for this build";
    begin(session_options());
  }
  void begin(RunOptions run_options) {
    auto made = Session::create(template_, std::move(run_options));
    ASSERT_TRUE(made) << made.error().message;
    session_ = std::move(*made);
  }
  Report exec(const std::string& code) { return session_->exec({.code = code}); }

  const char* language_;
  std::shared_ptr<const Template> template_;
  std::unique_ptr<Session> session_;
};

}  // namespace membrane::sandbox
