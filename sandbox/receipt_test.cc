#include "sandbox/receipt.h"

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "sandbox/receipt_recorder.h"
#include "sandbox/receipt_replay.h"
#include "sandbox/sandbox.h"
#include "sandbox/template_testing.h"

namespace membrane::sandbox {
namespace {

constexpr const char* kProgram = R"((func (export "run")
  (call $kv.set (string "colour") (string "blue"))
  (drop)
  (call $io.println (string "done"))))";

KeyRing new_keys(const std::string& created = "2020-01-01T00:00:00Z") {
  KeyRing keys;
  EXPECT_TRUE(keys.rotate(created));
  return keys;
}

policy::Policy with_kv() {
  policy::Policy policy;
  EXPECT_TRUE(policy::allow(policy, "kv"));
  return policy;
}

struct Sealed {
  Report report;
  SealedReceipt receipt;
};

Sealed seal_program(const KeyRing& keys, const std::string& source, const policy::Policy& policy,
                    const std::string& input = "") {
  ReceiptRecorder recorder(*keys.signing());
  Program program;
  program.source = source;
  program.input = input;
  RunOptions options;
  options.policy = policy;
  recorder.attach(options);
  Sealed sealed;
  sealed.report = run(program, options);
  MadeOf made_of{source, {}, nullptr, &policy};
  made_of.invocation.name = program.name;
  made_of.invocation.given_input = input;
  auto receipt = recorder.seal_run(std::move(made_of), sealed.report);
  EXPECT_TRUE(receipt) << receipt.error().to_string();
  sealed.receipt = *std::move(receipt);
  return sealed;
}

SealedRun opened(const SealedReceipt& sealed) {
  auto receipt = Receipt::parse(sealed.text);
  EXPECT_TRUE(receipt) << receipt.error().to_string();
  auto content = PrivatePart::parse(sealed.private_text, *receipt);
  EXPECT_TRUE(content) << content.error().to_string();
  return {*std::move(receipt), *std::move(content)};
}

TEST(Receipt, SaysWhatARunWasMadeOfAndEndedIn) {
  const KeyRing keys = new_keys();
  const Sealed sealed = seal_program(keys, kProgram, with_kv());
  ASSERT_EQ(sealed.report.outcome, Outcome::kOk) << render_text(sealed.report, false);
  const SealedRun run = opened(sealed.receipt);
  EXPECT_TRUE(verify(run.receipt, keys));
  EXPECT_EQ(run.receipt.end.outcome, "ok");
  EXPECT_EQ(run.receipt.end.fuel, sealed.report.fuel_used);
  EXPECT_EQ(run.receipt.digest, sealed.receipt.digest);
  EXPECT_EQ(run.receipt.head.membrane, membrane_version());
  EXPECT_EQ(run.receipt.find("program")->fact("sha256"), sha256_hex(std::string_view(kProgram)).value());
  EXPECT_EQ(run.receipt.find("policy")->fact("sha256"), sha256_hex(sealed_policy(with_kv())).value());
  EXPECT_EQ(run.receipt.find("call")->fact("function"), "kv.set");
  EXPECT_EQ(run.receipt.find("call")->fact("decision"), "allowed");
  EXPECT_EQ(run.content.content(run.receipt, "stdout"), "\"done\\n\"");
  EXPECT_EQ(run.content.missing(), 0u);
}

TEST(Receipt, ItsPublicPartHasNothingOfTheContent) {
  const KeyRing keys = new_keys();
  const Sealed first = seal_program(keys, kProgram, with_kv(), "a word");
  const Sealed second = seal_program(keys, kProgram, with_kv(), "a word");
  for (const char* const word : {"colour", "blue", "done", "a word"})
    EXPECT_FALSE(first.receipt.text.contains(word)) << word;
  // Nor can guesses be verified by hashing: the same run has other hashes.
  const Receipt a = Receipt::parse(first.receipt.text).value(),
                b = Receipt::parse(second.receipt.text).value();
  ASSERT_EQ(a.items.size(), b.items.size());
  for (size_t i = 0; i < a.items.size(); ++i)
    EXPECT_NE(a.items[i].sealed, b.items[i].sealed) << a.items[i].name;
}

TEST(Receipt, VerifiesWithoutAnyOfItsPrivateLines) {
  const KeyRing keys = new_keys();
  const Sealed sealed = seal_program(keys, kProgram, with_kv());
  const Receipt receipt = Receipt::parse(sealed.receipt.text).value();
  EXPECT_TRUE(verify(receipt, keys));
  for (size_t taken = 1; taken <= receipt.items.size(); ++taken) {
    std::string text = sealed.receipt.private_text;
    size_t begin = 0;
    for (size_t line = 0; line < taken; ++line) begin = text.find('\n', begin) + 1;
    text.erase(begin, text.find('\n', begin) - begin);
    const auto part = PrivatePart::parse(text, receipt);
    ASSERT_TRUE(part) << part.error().to_string();
    EXPECT_EQ(part->missing(), 1u);
    EXPECT_FALSE(part->content(taken - 1));
  }
}

TEST(Receipt, EveryChangedByteIsRefused) {
  const KeyRing keys = new_keys();
  const Sealed sealed = seal_program(keys, kProgram, with_kv());
  const Receipt receipt = Receipt::parse(sealed.receipt.text).value();
  const auto is_refused = [&](const std::string& text) {
    const auto read = Receipt::parse(text);
    return !read || !verify(*read, keys);
  };
  for (size_t i = 0; i < sealed.receipt.text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = sealed.receipt.text;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      ASSERT_TRUE(is_refused(changed)) << "byte " << i << ", bit " << bit;
    }
  for (size_t i = 0; i < sealed.receipt.private_text.size(); ++i) {
    std::string changed = sealed.receipt.private_text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    ASSERT_FALSE(PrivatePart::parse(changed, receipt)) << "byte " << i;
  }
  for (size_t size = 0; size < sealed.receipt.text.size(); ++size)
    ASSERT_TRUE(is_refused(sealed.receipt.text.substr(0, size))) << size;
  for (size_t size = 0; size < sealed.receipt.private_text.size(); ++size)
    ASSERT_FALSE(PrivatePart::parse(sealed.receipt.private_text.substr(0, size), receipt)) << size;
  EXPECT_TRUE(is_refused(sealed.receipt.text + "\n"));
  EXPECT_FALSE(PrivatePart::parse(sealed.receipt.private_text + "\n", receipt));
}

TEST(Receipt, KeysAreKnownRotatedAndRevoked) {
  KeyRing keys = new_keys();
  const std::string first = keys.signing()->id;
  const Sealed sealed = seal_program(keys, kProgram, with_kv());
  const Receipt receipt = Receipt::parse(sealed.receipt.text).value();
  ASSERT_TRUE(verify(receipt, keys));

  ASSERT_TRUE(keys.rotate("2999-01-01T00:00:00Z"));
  EXPECT_NE(keys.signing()->id, first);
  EXPECT_TRUE(keys.find(first)->private_key.empty());
  EXPECT_EQ(keys.find(first)->state(), "retired");
  EXPECT_TRUE(verify(receipt, keys));
  const KeyRing published = KeyRing::parse(keys.to_json(false), "keys.json").value();
  EXPECT_TRUE(verify(receipt, published));
  EXPECT_EQ(published.signing(), nullptr);
  EXPECT_FALSE(keys.to_json(false).contains("private"));

  const auto unknown = verify(receipt, new_keys());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(unknown.error().message.contains(first)) << unknown.error().message;
  ASSERT_TRUE(keys.revoke(first, "2999-01-02T00:00:00Z"));
  const auto revoked = verify(receipt, keys);
  EXPECT_TRUE(revoked.error().message.contains(first + " was revoked")) << revoked.error().message;
}

TEST(Receipt, AKeySignsOnlyInItsTime) {
  KeyRing early = new_keys("2020-01-01T00:00:00Z");
  const Sealed sealed = seal_program(early, kProgram, with_kv());
  ASSERT_TRUE(early.rotate("2021-01-01T00:00:00Z"));  // before the time in the receipt
  EXPECT_EQ(verify(Receipt::parse(sealed.receipt.text).value(), early).error().code, ErrorCode::kDenied);
  const KeyRing late = new_keys("2999-01-01T00:00:00Z");
  EXPECT_EQ(
      verify(Receipt::parse(seal_program(late, kProgram, with_kv()).receipt.text).value(), late).error().code,
      ErrorCode::kDenied);
}

TEST(ReceiptReplay, ComesToTheSameBytesAndFuel) {
  const KeyRing keys = new_keys();
  policy::Policy real = with_kv();
  real.random.real = real.time.real = true;
  constexpr const char* kChance = R"((func (export "run") (result i64 i64)
    (call $random.i64) (call $time.now_ms!)))";
  const std::pair<const char*, Outcome> programs[] = {
      {kProgram, Outcome::kOk},
      {kChance, Outcome::kOk},
      {R"((func (export "run") (unreachable)))", Outcome::kTrapped},
      {R"((func (export "run") (loop (br 0))))", Outcome::kOutOfFuel}};
  for (const auto& [source, outcome] : programs) {
    const Sealed sealed = seal_program(keys, source, real);
    ASSERT_EQ(sealed.report.outcome, outcome) << render_text(sealed.report, false);
    const SealedRun run = opened(sealed.receipt);
    const auto again = replay({&run, 1}, {});
    ASSERT_TRUE(again) << again.error().to_string();
    EXPECT_EQ(again->differences, std::vector<std::string>()) << source;
    EXPECT_EQ(again->report.fuel_used, sealed.report.fuel_used);
    EXPECT_EQ(again->report.outcome, sealed.report.outcome);
  }
}

// Signed by its owner, but not what happened.
TEST(ReceiptReplay, NamesTheFirstDifference) {
  const KeyRing keys = new_keys();
  const policy::Policy policy = with_kv();
  ReceiptRecorder recorder(*keys.signing());
  Program program;
  program.source = kProgram;
  RunOptions options;
  options.policy = policy;
  recorder.attach(options);
  Report report = run(program, options);
  report.stdout_text = "dome\n";
  report.fuel_used += 1;
  MadeOf made_of{kProgram, {}, nullptr, &policy};
  const SealedRun sealed = opened(recorder.seal_run(std::move(made_of), report).value());
  const auto again = replay({&sealed, 1}, {}).value();
  ASSERT_EQ(again.differences.size(), 2u);
  EXPECT_TRUE(again.differences[0].starts_with("the fuel was ")) << again.differences[0];
  EXPECT_EQ(again.differences[1],
            "stdout differs from byte 3 of its JSON on: it was me\\n\", and is ne\\n\"");
}

// Files, variables, another policy, and another place: these are not turns, and a replay includes them.
TEST(ReceiptReplay, DoesAgainWhatTheOwnerDid) {
  const auto python = open_template("python");
  if (!python) GTEST_SKIP() << "python is not installed";
  const KeyRing keys = new_keys();
  policy::Policy policy;
  policy.limits = policy::language_limits();
  policy.random.real = policy.time.real = true;
  RunOptions options;
  options.policy = policy;
  auto recorder = std::make_unique<ReceiptRecorder>(*keys.signing());
  recorder->attach(options);
  auto session = Session::create(python, options).value();
  std::vector<SealedRun> turns;
  const auto turn = [&](const std::string& code) {
    Report report = session->exec({.code = code});
    EXPECT_EQ(report.outcome, Outcome::kOk) << render_text(report, false);
    turns.push_back(opened(recorder->seal_turn({code, {}, python.get(), &policy}, report).value()));
    return report.result;
  };
  turn("import os, random\nseen = [os.urandom(2)]");
  constexpr uint64_t kIn2023 = 1'700'000'000'000'000'000;
  ASSERT_TRUE(session->act_on_files({.act = wasi::FileAct::kTellTime, .path = {}, .time_ns = kIn2023}));
  recorder->note({"time", std::to_string(kIn2023)});
  ASSERT_TRUE(session->put_file("/tmp/a", "put"));
  recorder->note({"put", "/tmp/a", "put"});
  ASSERT_TRUE(session->act_on_files({wasi::FileAct::kMove, "/tmp/a", "/tmp/b", false}));
  recorder->note({"move", "/tmp/a", "/tmp/b"});
  ASSERT_FALSE(session->act_on_files({wasi::FileAct::kRemove, "/tmp/none", "", false}));
  recorder->note({"remove", "/tmp/none"});
  session->exec({.code = "hidden = os.urandom(3)", .name = "<environment>"});
  recorder->note({"run", "<environment>", "hidden = os.urandom(3)"});
  // It continues in another place, with what was recorded but not sealed yet.
  auto other = std::make_unique<ReceiptRecorder>(*keys.signing());
  ASSERT_TRUE(other->restore(recorder->keep()));
  EXPECT_FALSE(other->restore(recorder->keep() + " "));
  ASSERT_TRUE(other->restore(recorder->keep()));
  const auto kept = session->keep().value();
  session = nullptr;
  recorder = std::move(other);
  policy.random.real = false;
  policy.random.seed = 7;
  RunOptions narrowed;
  narrowed.policy = policy;
  recorder->attach(narrowed);
  session = Session::restore(python, kept, narrowed).value();
  recorder->note_policy(policy);
  EXPECT_EQ(turn("seen += [open('/tmp/b').read(), len(hidden), int(os.stat('/tmp/b').st_mtime)]\nseen[1:]"),
            "['put', 3, 1700000000]");
  turn("os.urandom(4)");

  ReplayOptions replay_options;
  replay_options.open = [&](const TemplateRequest&) { return python; };
  const auto again = replay(turns, replay_options);
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(again->differences, std::vector<std::string>());
}

TEST(ReceiptReplay, AnotherPolicyRefusesWhatItDoesNotGrant) {
  const KeyRing keys = new_keys();
  const SealedRun run = opened(seal_program(keys, kProgram, with_kv()).receipt);
  const auto refused_by = [&](const policy::Policy& policy) {
    auto judge = host::CallJudge::create(policy).value();
    return refused_calls(run, judge, policy).value();
  };
  EXPECT_TRUE(refused_by(with_kv()).empty());
  const auto refused = refused_by({});
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].number, 1u);
  EXPECT_EQ(refused[0].function, "kv.set");
  EXPECT_EQ(refused[0].about, "colour");
  EXPECT_EQ(refused[0].decision, "allowed");
  EXPECT_EQ(refused[0].error.grant, "--allow kv");
  policy::Policy frugal = with_kv();
  frugal.limits.fuel = 1;
  ASSERT_EQ(refused_by(frugal).size(), 1u);
  EXPECT_EQ(refused_by(frugal)[0].number, 0u);
}

TEST(Receipt, KeepsNoHeaderOfThePolicy) {
  policy::Policy policy;
  policy::HttpGrant grant;
  grant.methods = {"GET"};
  grant.url = "https://example.org/*";
  grant.headers = {{"X-Api-Key", {"hush-hush", ""}}, {"Authorization", {"Bearer ", "TOKEN"}}};
  policy.http.push_back(grant);
  const std::string sealed = sealed_policy(policy);
  EXPECT_FALSE(sealed.contains("hush-hush"));
  EXPECT_TRUE(policy::parse_policy(sealed, "policy.json")) << sealed;
}

}  // namespace
}  // namespace membrane::sandbox
