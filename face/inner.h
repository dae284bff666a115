// What this project's own programs use besides the public face. They open a language with packages, a tier and their own words of progress,
// and share it with code that does not use the face; have workers of a zygote that was forked before they had threads; and have one flag
// that Ctrl-C sets. The types of these belong to the floors below, which are not an interface; an embedder has
// Language::open(), SessionOptions::isolated, Session::cancel() and Sandbox::cancel().
//
// Threads: functions without state.
#pragma once

#include <atomic>
#include <memory>

#include "base/result.h"
#include "membrane/session.hpp"
#include "policy/budget.h"
#include "policy/policy.h"
#include "sandbox/receipts/receipt_files.h"
#include "sandbox/run/sandbox.h"
#include "sandbox/session/template.h"
#include "worker/guests.h"

namespace membrane::face {

// Where sessions and programs run.
struct Place {
  worker::Guests guests{};
  // Stops turns and runs, like cancel(). Borrowed by the session and its forks; may be null.
  const std::atomic<bool>* cancel = nullptr;
  sandbox::PackagesBy packages_by = sandbox::PackagesBy::kPolicy;  // for the hint of an import that fails
};

// As Session::create(); SessionOptions::isolated is ignored.
Expected<Session> create_session(const Language& language, SessionOptions options, const Place& place);
// As Sandbox::run().
Report run_program(const Sandbox& sandbox, const Program& program, const Place& place);

Language language_of(std::shared_ptr<const sandbox::Template> opened);
Policy policy_of(policy::Policy policy);
Budget budget_of(std::shared_ptr<policy::Budget> budget);
Receipts receipts_of(sandbox::ReceiptBook& borrowed);
Error error_of(const Failure& failure);

}  // namespace membrane::face
