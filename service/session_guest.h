// A guest whose contexts are sessions of a language, wherever those run.
//
// Threads: as for Guest.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sandbox/session.h"
#include "service/guest.h"

namespace membrane::service {

// Creates the sessions of one language.
class SessionSource {
 public:
  virtual ~SessionSource() = default;

  // "python", "js", …
  [[nodiscard]] virtual std::string language() const = 0;
  // The template from which its sessions start.
  [[nodiscard]] virtual const sandbox::Template& of() const = 0;
  // Like Session::create() and Session::restore().
  virtual Result<std::unique_ptr<sandbox::Session>> create(sandbox::RunOptions options) = 0;
  virtual Result<std::unique_ptr<sandbox::Session>> restore(std::span<const uint8_t> kept,
                                                            sandbox::RunOptions options) = 0;
};

// The source for the contexts of one guest: the same place (a worker, this process) for all of them. Errors:
// those of Guests::create().
using MakeSource = std::function<Answer<std::shared_ptr<SessionSource>>(const std::string& template_name,
                                                                        const policy::Policy& policy)>;

Answer<std::unique_ptr<Guest>> make_session_guest(const GuestSpec& spec, MakeSource make_source);
Answer<std::unique_ptr<Guest>> restore_session_guest(const GuestSpec& spec, MakeSource make_source,
                                                     const std::vector<KeptContext>& contexts);

// The turn ran and has no receipt: adds the error `unsealed` to the report. Its outcome stays.
void tell_unsealed(const ApiError& why, sandbox::Report& report);

// Shared by all guests: the budget of each turn, and the flag that ends it.
class TurnBounds {
 public:
  explicit TurnBounds(const policy::Limits& limits)
      : limits_(limits), budget_(std::make_shared<policy::Budget>()) {}

  void set_limits(const policy::Limits& limits) { limits_ = limits; }
  // Observes the http requests of the next turn; may be null.
  void watch(host::EgressWatch* of_turn) { watch_.of_turn = of_turn; }
  void stop() { stop_ = true; }
  void allow() { stop_ = false; }
  // Sets what a turn may use.
  void begin_turn(const GuestTurn& turn);
  // Options that use these bounds, which they borrow.
  [[nodiscard]] sandbox::RunOptions options(const policy::Policy& policy, const host::Secrets& secrets);

 private:
  // Sessions outlive the turns whose requests are observed.
  struct Watch final : host::EgressWatch {
    uint64_t leaves(std::string_view method, std::string_view host, std::string& traceparent) override {
      return of_turn != nullptr ? of_turn->leaves(method, host, traceparent) : 0;
    }
    void is_over(uint64_t number, int status) override {
      if (of_turn != nullptr) of_turn->is_over(number, status);
    }
    host::EgressWatch* of_turn = nullptr;
  };

  policy::Limits limits_;
  std::shared_ptr<policy::Budget> budget_;
  std::atomic<bool> stop_ = false;
  Watch watch_;
};

}  // namespace membrane::service
