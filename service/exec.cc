#include "service/exec.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "base/base64.h"
#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"
#include "service/times.h"

namespace membrane::service {
namespace {

constexpr size_t kMostTextOfEvent = 16u << 10;
constexpr size_t kEventBytes = 64;  // of one without its text
constexpr std::string_view kExecStates[] = {"queued", "running", "done"};
constexpr std::string_view kKinds[] = {"stdout", "stderr", "display", "approval", "report"};

}  // namespace

std::string_view name_of(ExecState state) { return kExecStates[static_cast<size_t>(state)]; }

void Exec::begin() {
  const std::lock_guard lock(mutex_);
  state_ = ExecState::kRunning;
}

void Exec::keep(Event event) {
  const bool is_output = event.kind == Kind::kStdout || event.kind == Kind::kStderr;
  if (is_output && events_.size() > read_ && events_.back().kind == event.kind &&
      events_.back().text.size() < kMostTextOfEvent) {
    held_.grow(event.text.size());
    events_.back().text += event.text;
  } else {
    held_.grow(event.text.size() + kEventBytes);
    events_.push_back(std::move(event));
  }
}

void Exec::add(Event event) {
  std::vector<std::function<void()>> wakes;
  {
    const std::lock_guard lock(mutex_);
    keep(std::move(event));
    wakes.swap(wakes_);
  }
  for (const auto& wake : wakes) wake();
}

void Exec::add_output(bool is_error, std::string_view bytes) {
  add({is_error ? Kind::kStderr : Kind::kStdout, std::string(bytes)});
}

nlohmann::ordered_json to_json(const PendingApproval& pending) {
  const auto reads = [](const host::FlowReads& of) {
    auto list = nlohmann::ordered_json::array();
    for (const host::FlowRead& read : of.first)
      list.push_back({{"call", read.call}, {"function", read.function}, {"target", read.target}});
    return list;
  };
  const host::EgressQuestion& question = pending.question;
  return {{"id", pending.id},
          {"exec_id", pending.exec},
          {"asked_at", iso_time(pending.asked_at_ms)},
          {"function", question.function},
          {"target", question.target},
          {"bytes", question.bytes},
          {"private_reads", reads(question.reads.private_reads)},
          {"untrusted_reads", reads(question.reads.untrusted_reads)}};
}

host::Approval Exec::ask(const host::EgressQuestion& question, int64_t now_ms) {
  constexpr std::chrono::milliseconds kLookAtCancel(20);
  PendingApproval pending{.id = "", .exec = id, .asked_at_ms = now_ms, .question = question};
  {
    const std::lock_guard lock(mutex_);
    pending.id = "apr_" + id + "_" + std::to_string(++approvals_);
    pending_ = pending;
    decision_.reset();
  }
  auto shown = to_json(pending);
  shown["state"] = "waiting";
  add({Kind::kApproval, json_text(shown)});
  std::optional<bool> decision;
  {
    std::unique_lock lock(mutex_);
    while (!decision_ && std::chrono::steady_clock::now() < question.until &&
           (question.cancel == nullptr || !*question.cancel))
      decided_.wait_for(lock, kLookAtCancel);
    decision = std::exchange(decision_, std::nullopt);
    pending_.reset();
  }
  shown["state"] = !decision ? "unanswered" : *decision ? "approved" : "refused";
  add({Kind::kApproval, json_text(shown)});
  return !decision ? host::Approval::kNobody : *decision ? host::Approval::kYes : host::Approval::kNo;
}

std::optional<PendingApproval> Exec::pending() const {
  const std::lock_guard lock(mutex_);
  return decision_ ? std::nullopt : pending_;
}

std::optional<PendingApproval> Exec::decide(std::string_view approval, bool allow) {
  const std::lock_guard lock(mutex_);
  if (!pending_ || decision_ || pending_->id != approval) return std::nullopt;
  decision_ = allow;
  decided_.notify_all();
  return pending_;
}

Answer<void> Exec::open_input(std::string first) {
  const std::lock_guard lock(mutex_);
  if (auto held = held_.try_grow(first.size()); !held) return held;
  input_ = std::move(first);
  has_input_ = takes_input_ = true;
  return {};
}

size_t Exec::unread_input() const {
  const std::lock_guard lock(mutex_);
  return input_.size();
}

Answer<void> Exec::write_input(std::string_view bytes, bool is_end) {
  const std::lock_guard lock(mutex_);
  if (!has_input_)
    return refuse(ApiCode::kConflict, "the exec " + id + " takes no input while it runs",
                  "Begin it with \"open_stdin\": true.");
  if (state_ == ExecState::kDone) return refuse(ApiCode::kConflict, "the exec " + id + " is over");
  if (!takes_input_) return refuse(ApiCode::kConflict, "the input of the exec " + id + " has ended");
  if (!bytes.empty() && input_.size() + bytes.size() > kMostInputBytes)
    return refuse(ApiCode::kTooManyRequests,
                  "the exec has " + count_of(input_.size(), "byte") +
                      " of input that it has not read, and takes " + std::to_string(kMostInputBytes),
                  "Send it again when the program has read, in smaller pieces.");
  if (auto held = held_.try_grow(bytes.size()); !held) return held;
  input_ += bytes;
  takes_input_ = !is_end;
  input_came_.notify_one();
  return {};
}

sandbox::InputPiece Exec::read_input(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  input_came_.wait_for(lock, patience, [&] { return !input_.empty() || !takes_input_ || !is_read_; });
  held_.shrink(input_.size());
  return {.bytes = std::exchange(input_, {}), .is_end = !takes_input_};
}

void Exec::stop_reading() {
  const std::lock_guard lock(mutex_);
  is_read_ = false;
  input_came_.notify_all();
}

void Exec::set_command(std::shared_ptr<linux::Command> command) {
  const std::lock_guard lock(mutex_);
  command_ = std::move(command);
}

Answer<std::shared_ptr<linux::Command>> Exec::running_command() const {
  const std::lock_guard lock(mutex_);
  if (state_ == ExecState::kDone) return refuse(ApiCode::kConflict, "the exec " + id + " is over");
  if (command_ != nullptr) return command_;
  return refuse(
      ApiCode::kConflict, "the exec " + id + " is no program of a Linux sandbox that runs",
      "Cancel it instead; it can be sent signals once it has begun, in a sandbox of the template linux.");
}

Answer<void> Exec::signal(int number) {
  const auto command = running_command();
  if (!command) return std::unexpected(command.error());
  (*command)->signal(number);
  return {};
}

Answer<void> Exec::resize(linux::TerminalSize size) {
  const auto command = running_command();
  if (!command) return std::unexpected(command.error());
  (*command)->resize(size);
  return {};
}

void Exec::hang_up() {
  static_cast<void>(write_input("", true));
  if (const auto command = running_command()) {
    (*command)->signal(SIGHUP);
    (*command)->signal(SIGCONT);  // a stopped one gets it too
  }
}

void Exec::set_receipt(std::string digest) {
  const std::lock_guard lock(mutex_);
  receipt_ = std::move(digest);
}

void Exec::finish(sandbox::Report report) {
  for (const sandbox::RichValue& display : report.displays) {
    nlohmann::ordered_json forms = nlohmann::ordered_json::object();
    for (const sandbox::MimePart& part : display) {
      if (part.is_base64) forms[part.type] = {{"base64", part.data}};
      else forms[part.type] = part.data;
    }
    add({Kind::kDisplay, json_text(forms)});
  }
  std::string head = "{\"exec_id\":\"" + id + "\",";
  {
    const std::lock_guard lock(mutex_);
    if (!receipt_.empty()) head += "\"receipt\":\"" + receipt_ + "\",";
  }
  const auto render = [&] { return head + sandbox::render_json(report, false).substr(1); };
  std::string whole = render();
  report.stdout_text.clear();
  report.stderr_text.clear();
  std::string json = render();
  std::vector<std::function<void()>> wakes, done;
  std::shared_ptr<linux::Command> command;  // ends outside of the lock
  {
    const std::lock_guard lock(mutex_);
    command.swap(command_);
    state_ = ExecState::kDone;
    outcome_ = sandbox::name_of(report.outcome);
    held_.shrink(asked_bytes_ + input_.size());
    std::string().swap(input_);
    held_.grow(whole.size());
    report_ = std::move(whole);
    keep({Kind::kReport, std::move(json)});
    wakes.swap(wakes_);
    done.swap(when_done_);
  }
  for (const auto& wake : wakes) wake();
  for (const auto& then : done) then();
}

ExecState Exec::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

uint64_t Exec::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_.bytes();
}

std::string Exec::outcome() const {
  const std::lock_guard lock(mutex_);
  return outcome_;
}

std::string Exec::report_json() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

void Exec::when_done(std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != ExecState::kDone) {
      when_done_.push_back(std::move(then));
      return;
    }
  }
  then();
}

namespace {

std::string output_json(const std::string& bytes, Exec::Form form) {
  if (form == Exec::Form::kBytes) return "{\"base64\":\"" + base64_encode(bytes) + "\"}";
  nlohmann::ordered_json out = {{"text", bytes}};
  if (!is_utf8(bytes)) out["base64"] = base64_encode(bytes);
  return json_text(out);
}

}  // namespace

// One line for each piece of data.
std::string Exec::render(const Event& event, uint64_t number, Form form) const {
  const bool is_output = event.kind == Kind::kStdout || event.kind == Kind::kStderr;
  const std::string data = is_output ? output_json(event.text, form)
                           : event.kind == Kind::kReport && form == Form::kText ? report_json()
                                                                                : event.text;
  return "id: " + std::to_string(number) +
         "\nevent: " + std::string(kKinds[static_cast<size_t>(event.kind)]) + "\ndata: " + data + "\n\n";
}

Exec::Events Exec::take(uint64_t first, size_t most_bytes, std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  Events taken;
  size_t bytes = 0;
  uint64_t next = first;
  for (; next < events_.size() && bytes < most_bytes; ++next) {
    bytes += events_[next].text.size() + kEventBytes;
    taken.events.push_back(events_[next]);
  }
  read_ = std::max(read_, std::min<uint64_t>(next, events_.size()));
  taken.is_end = next >= events_.size() && !events_.empty() && events_.back().kind == Kind::kReport;
  if (taken.events.empty() && !taken.is_end) wakes_.push_back(std::move(wake));
  return taken;
}

// One client's reader of an exec's events.
class ExecEvents final : public BodySource {
 public:
  ExecEvents(std::shared_ptr<Exec> exec, uint64_t first, Exec::Telling how)
      : exec_(std::move(exec)), next_(first), how_(how) {}
  ~ExecEvents() override {
    if (how_.hangs_up) exec_->hang_up();
  }

  Piece next(size_t most_bytes, std::function<void()> wake) override {
    const Exec::Events taken = exec_->take(next_, most_bytes, std::move(wake));
    Piece piece{.bytes = {}, .is_end = taken.is_end};
    if (taken.is_end) how_.hangs_up = false;
    for (const Exec::Event& event : taken.events) piece.bytes += exec_->render(event, next_++, how_.form);
    return piece;
  }
  [[nodiscard]] std::string keep_alive() const override { return ": nothing yet\n\n"; }

 private:
  std::shared_ptr<Exec> exec_;
  uint64_t next_;
  Exec::Telling how_;
};

std::shared_ptr<BodySource> Exec::events(uint64_t first, Telling how) {
  return std::make_shared<ExecEvents>(shared_from_this(), first, how);
}

}  // namespace membrane::service
