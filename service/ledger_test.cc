#include "service/ledger.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace membrane::service {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kDayMs = 24ll * 3'600'000;

class LedgerTest : public ::testing::Test {
 protected:
  LedgerTest() : directory_(::testing::TempDir() + "ledger-" + std::to_string(getpid())) {
    fs::remove_all(directory_);
    fs::create_directory(directory_);
    state_ = State::open(directory_).value();
    tokens_ = Tokens::open(*state_).value();
    quotas(10);
    open();
  }
  ~LedgerTest() override {
    ledger_.reset();
    state_.reset();
    fs::remove_all(directory_);
  }

  void open() {
    ledger_ =
        Ledger::open({*state_, *tokens_, metrics_, nullptr, log_, [this] { return now_ms_; }}, {}).value();
  }
  void quotas(uint64_t fuel_a_day) {
    for (const TokenInfo& each : tokens_->list()) EXPECT_TRUE(tokens_->remove(each.id));
    TokenInfo wanted{.id = "", .tenant = "t", .name = "n", .scopes = {"exec"}};
    wanted.quotas.fuel_a_day = fuel_a_day;
    EXPECT_TRUE(tokens_->make(std::move(wanted), now_ms_));
  }
  void use(uint64_t fuel, uint64_t held_fuel = 0) {
    sandbox::Report report;
    report.fuel_used = fuel;
    ledger_->exec_ended(
        {.actor = {"t"}, .sandbox = "s", .template_name = "wat", .exec = "e", .held_fuel = held_fuel},
        report);
  }

  const std::string directory_;
  int64_t now_ms_ = 20'000 * kDayMs + kDayMs / 2;  // noon
  Log log_{stderr, Level::kSilent};
  Metrics metrics_;
  std::unique_ptr<State> state_;
  std::unique_ptr<Tokens> tokens_;
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(LedgerTest, AQuotaIsGivenAgainOnTheNextDay) {
  use(10);
  const auto refused = ledger_->may_exec("t");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().retry_after_s, kDayMs / 2 / 1'000);
  now_ms_ += kDayMs / 2 - 1;
  EXPECT_EQ(ledger_->may_exec("t").error().retry_after_s, 1u);
  now_ms_ += 1;
  EXPECT_TRUE(ledger_->may_exec("t"));
  EXPECT_EQ(ledger_->used_today("t").fuel, 0u);
}

TEST_F(LedgerTest, ExecsHoldAPartOfTheQuotaUntilTheirEnd) {
  quotas(1'600);
  const auto hold = [&](uint64_t wanted) { return ledger_->hold_fuel("t", wanted).value().value(); };
  EXPECT_EQ(hold(UINT64_MAX), 800u);  // half of what is left
  EXPECT_EQ(hold(30), 30u);
  EXPECT_EQ(hold(UINT64_MAX), 385u);
  EXPECT_EQ(hold(UINT64_MAX), 193u);
  EXPECT_EQ(hold(UINT64_MAX), 100u);  // a sixteenth of the quota
  EXPECT_EQ(hold(UINT64_MAX), 92u);   // what is left
  EXPECT_EQ(ledger_->hold_fuel("t", 1).error().code, ApiCode::kTooManyRequests);
  EXPECT_EQ(ledger_->may_exec("t").error().code, ApiCode::kTooManyRequests);
  use(10, 800);
  EXPECT_TRUE(ledger_->may_exec("t"));
  EXPECT_EQ(hold(UINT64_MAX), 395u);
  EXPECT_FALSE(ledger_->hold_fuel("other", 7).value());  // it has no quota
}

TEST_F(LedgerTest, AClockThatIsSetBackGivesNoQuotaAgain) {
  use(4);
  ledger_->flush();
  use(6);  // not in the database yet
  now_ms_ += kDayMs;
  EXPECT_TRUE(ledger_->may_exec("t"));
  use(3);
  now_ms_ -= kDayMs;
  EXPECT_FALSE(ledger_->may_exec("t"));
  EXPECT_EQ(ledger_->used_today("t").fuel, 10u);
  EXPECT_EQ(ledger_->used_today("t").execs, 2u);
  ledger_->flush();
  open();  // the next service
  EXPECT_EQ(ledger_->used_today("t").fuel, 10u);
  now_ms_ += kDayMs;
  EXPECT_EQ(ledger_->used_today("t").fuel, 3u);
}

}  // namespace
}  // namespace membrane::service
