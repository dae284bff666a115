#include "host/gate/flows.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/utf8.h"
#include "policy/credentials.h"

namespace membrane::host {
namespace {

using policy::ReadMarks;

constexpr size_t kMostTargetBytes = 200;

std::string cut(std::string_view text) {
  const size_t size = utf8_cut(text, kMostTargetBytes);
  return utf8_repair(text.substr(0, size)) + (size < text.size() ? "…" : "");
}

std::string shown(std::string_view method, std::string_view url) {
  return cut(std::string(method) + " " + policy::without_credentials(url));
}

bool leaves(std::string_view function) {
  return function == "http.request" || function == "ai.complete" || function == "ai.embed";
}

// Method and URL; nothing for a model, since its text is what leaves.
std::string target_of(std::string_view function, std::span<const std::string_view> arguments) {
  if (function == "http.request") return shown(arguments[0], arguments[1]);
  return leaves(function) || arguments.empty() ? "" : cut(arguments[0]);
}

// Which of a request's arguments are paths that it reads or changes, as digits.
std::string_view paths_of(std::string_view function) {
  if (function == "fs.rename" || function == "fs.link") return "01";
  if (function == "fs.symlink") return "1";
  constexpr std::string_view kOfOne[] = {
      "fs.read",     "fs.write",  "fs.append",    "fs.list",   "fs.stat",           "fs.remove",
      "fs.open",     "fs.status", "fs.find_link", "fs.unlink", "fs.make_directory", "fs.remove_directory",
      "fs.set_times"};
  return std::ranges::find(kOfOne, function) != std::end(kOfOne) ? "0" : "";
}

bool only_looks(std::string_view function, std::span<const std::string_view> arguments) {
  return function == "fs.read" || function == "fs.list" || function == "fs.stat" || function == "fs.status" ||
         function == "fs.find_link" ||
         (function == "fs.open" && (arguments.size() < 2 || arguments[1].empty()));
}

uint64_t bytes_of(std::string_view function, std::span<const std::string_view> arguments) {
  uint64_t bytes = 0;
  for (size_t i = function == "http.request" ? 1 : 0; i < arguments.size(); ++i) bytes += arguments[i].size();
  return bytes;
}

// "fs.read of /inbox/a.txt (call 2) and 3 more"
std::string described(const FlowReads& reads) {
  if (reads.first.empty()) return "nothing";
  const FlowRead& first = reads.first.front();
  std::string text = first.function + (first.target.empty() ? "" : " of " + first.target);
  if (first.call != 0) text += " (call " + std::to_string(first.call) + ")";
  const uint64_t more = reads.first.size() - 1 + reads.more;
  return text + (more == 0 ? "" : " and " + std::to_string(more) + " more");
}

bool is_same(const FlowRead& one, const FlowRead& other) {
  return one.function == other.function && one.target == other.target;
}

void add(FlowReads& reads, FlowRead read) {
  if (std::ranges::any_of(reads.first, [&](const FlowRead& there) { return is_same(there, read); })) return;
  if (reads.first.size() < FlowReads::kMost) reads.first.push_back(std::move(read));
  else ++reads.more;
}

// Joining the same reads again changes nothing.
void join(FlowReads& reads, const FlowReads& others) {
  uint64_t without_room = 0;
  for (const FlowRead& read : others.first) {
    if (std::ranges::any_of(reads.first, [&](const FlowRead& there) { return is_same(there, read); }))
      continue;
    if (reads.first.size() < FlowReads::kMost) reads.first.push_back(read);
    else ++without_room;
  }
  reads.more = std::max(reads.more, others.more + without_room);
}

}  // namespace

std::string_view name_of(Leaving decision) {
  constexpr std::string_view kNames[] = {"closed", "approved", "refused", "unanswered", "unanswered"};
  return kNames[static_cast<size_t>(decision)];
}

FlowState carried(FlowState state) {
  state.calls = 0;
  for (FlowReads* const reads : {&state.private_reads, &state.untrusted_reads})
    for (FlowRead& read : reads->first) read.call = 0;
  return state;
}

FlowState Flows::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void Flows::add(const FlowState& state) {
  std::vector<std::shared_ptr<Flows>> others;
  {
    const std::lock_guard lock(mutex_);
    state_.calls = std::max(state_.calls, state.calls);
    join(state_.private_reads, state.private_reads);
    join(state_.untrusted_reads, state.untrusted_reads);
    others = heard_by_;
  }
  for (const auto& other : others) other->add(carried(state));
}

void Flows::add(ReadMarks marks, const FlowRead& read) {
  std::vector<std::shared_ptr<Flows>> others;
  {
    const std::lock_guard lock(mutex_);
    if (marks.is_private) host::add(state_.private_reads, read);
    if (marks.is_untrusted) host::add(state_.untrusted_reads, read);
    others = heard_by_;
  }
  for (const auto& other : others) other->add(marks, {0, read.function, read.target});
}

FlowsShared::FlowsShared(std::shared_ptr<Flows> own, std::shared_ptr<Flows> other)
    : own_(std::move(own)), other_(std::move(other)) {
  if (other_ == nullptr) return;
  {
    const std::lock_guard lock(own_->mutex_);
    own_->heard_by_.push_back(other_);
  }
  other_->add(carried(own_->state()));
  own_->add(carried(other_->state()));
}

FlowsShared::~FlowsShared() {
  if (other_ == nullptr) return;
  const std::lock_guard lock(own_->mutex_);
  const auto found = std::ranges::find(own_->heard_by_, other_);
  if (found != own_->heard_by_.end()) own_->heard_by_.erase(found);
}

FlowGuard::FlowGuard(const policy::Policy& policy, std::shared_ptr<Flows> flows, Approve approve)
    : policy_(policy), flows_(std::move(flows)), approve_(std::move(approve)) {
  // A URL that cannot be parsed grants nothing (local_broker.h).
  for (const policy::HttpGrant& grant : policy_.http)
    if (auto url = policy::UrlGrant::parse(grant.url))
      http_.push_back({grant, *std::move(url), policy::marks_of(policy_, grant)});
  for (const policy::FsGrant& grant : policy_.fs)
    if (auto guest = parse_guest_path(grant.guest))
      fs_.push_back({grant, *std::move(guest), policy::marks_of(policy_, grant)});
}

void FlowGuard::bound(std::chrono::steady_clock::time_point end, const std::atomic<bool>* cancel) {
  end_ = end;
  cancel_ = cancel;
}

void FlowGuard::begin_turn() {
  egress_.clear();
  more_egress_ = 0;
  asked_ = 0;
  unanswered_.clear();
}

void FlowGuard::note_input() {
  if (policy_.trifecta)
    add({policy_.trifecta->input_is_private, policy_.trifecta->input_is_untrusted}, {0, "input", ""});
}

void FlowGuard::begin_call() {
  was_approved_ = false;
  heard_.clear();
  const std::lock_guard lock(flows_->mutex_);
  call_ = ++flows_->state_.calls;
}

// -- what leaves -----------------------------------------------------------------------------------------------------

bool FlowGuard::is_granted(std::string_view function, std::span<const std::string_view> arguments) const {
  if (function == "ai.complete") return check_ai(policy_).has_value();
  if (function == "ai.embed") return policy_.ai && check_embedding(*policy_.ai).has_value();
  const auto url = policy::parse_url(arguments[1]);
  return url && find_rule(http_, arguments[0], *url, false).has_value();
}

HostError FlowGuard::refusal(const FlowState& state, Leaving decision) const {
  std::string why(kTrifectaRule);
  why += decision == Leaving::kClosed ? " closes egress" : " lets nothing leave without a person's yes";
  if (decision == Leaving::kRefused) why += ", who said no";
  if (decision == Leaving::kUnanswered) why += ", and nobody answered";
  if (decision == Leaving::kUnasked)
    why += ", and nobody is asked more than " + std::to_string(kMostQuestions) + " times in a run";
  why += ": what was read is private (" + described(state.private_reads) + ") and of untrusted origin (" +
         described(state.untrusted_reads) + ").";
  return {Errno::kAccess, std::move(why), {}};
}

void FlowGuard::tell(std::string_view function, std::string target, Leaving decision) {
  if (egress_.size() < FlowReport::kMostEgress)
    egress_.push_back({call_, std::string(function), std::move(target), decision});
  else ++more_egress_;
}

HostResult<void> FlowGuard::may_leave(std::string_view function,
                                      std::span<const std::string_view> arguments) {
  if (!leaves(function) || !is_granted(function, arguments)) return {};
  const FlowState state = flows_->state();
  if (!state.is_closed()) return {};
  Leaving decision = Leaving::kClosed;
  if (policy_.trifecta->egress == policy::Egress::kAsk && asked_ == kMostQuestions) {
    decision = Leaving::kUnasked;
  } else if (policy_.trifecta->egress == policy::Egress::kAsk) {
    ++asked_;
    const Approval approval = approve_ ? approve_({.function = std::string(function),
                                                   .target = target_of(function, arguments),
                                                   .bytes = bytes_of(function, arguments),
                                                   .reads = state,
                                                   .until = end_,
                                                   .cancel = cancel_})
                                       : Approval::kNobody;
    decision = approval == Approval::kYes  ? Leaving::kApproved
               : approval == Approval::kNo ? Leaving::kRefused
                                           : Leaving::kUnanswered;
    if (decision == Leaving::kUnanswered && std::chrono::steady_clock::now() >= end_) {
      unanswered_ = target_of(function, arguments);
      if (unanswered_.empty()) unanswered_ = function;
    }
  }
  tell(function, target_of(function, arguments), decision);
  was_approved_ = decision == Leaving::kApproved;
  if (was_approved_) return {};
  return std::unexpected(refusal(state, decision));
}

void FlowGuard::note_decided(std::string_view function, std::span<const std::string_view> arguments,
                             const HostError* error, bool was_approved) {
  if (!leaves(function)) return;
  was_approved_ = was_approved;
  if (was_approved) return tell(function, target_of(function, arguments), Leaving::kApproved);
  if (error == nullptr || error->code != Errno::kAccess) return;
  const FlowState state = flows_->state();
  for (const Leaving decision :
       {Leaving::kClosed, Leaving::kRefused, Leaving::kUnanswered, Leaving::kUnasked})
    if (error->reason == refusal(state, decision).reason)
      return tell(function, target_of(function, arguments), decision);
}

std::optional<HostError> FlowGuard::would_stop(std::string_view function,
                                               std::span<const std::string_view> /*arguments*/) const {
  if (!leaves(function)) return std::nullopt;
  const FlowState state = flows_->state();
  if (!state.is_closed()) return std::nullopt;
  const bool asks = policy_.trifecta->egress == policy::Egress::kAsk;
  HostError error = refusal(state, Leaving::kClosed);
  if (asks) error.reason = refusal(state, Leaving::kUnanswered).reason;
  return error;
}

// -- what is read ----------------------------------------------------------------------------------------------------

ReadMarks FlowGuard::marks_of_http(std::string_view method, std::string_view text) const {
  const auto url = policy::parse_url(text);
  if (!url) return {};
  const auto rule = find_rule(http_, method, *url, false);
  return rule ? (*rule)->marks : ReadMarks{};
}

// The hop was granted. If a secret was hidden in its URL, it may have been by any grant.
ReadMarks FlowGuard::marks_of_hop(const HttpHop& hop) const {
  constexpr std::string_view kHidden = "********";  // as long as the shortest secret
  if (hop.url.find(kHidden) == std::string::npos) {
    const auto url = policy::parse_url(hop.url);
    if (url)
      if (const auto rule = find_rule(http_, hop.method, *url, false)) return (*rule)->marks;
  }
  ReadMarks all;
  for (const MarkedHttp& rule : http_) all = all | rule.marks;
  return all;
}

bool FlowGuard::hear(const HttpHop& hop) {
  if (heard_.size() < kMaxHttpHops) heard_.push_back(hop);
  add(marks_of_hop(hop), {call_, "http.request", shown(hop.method, hop.url)});
  return flows_->state().private_reads.first.empty();
}

std::vector<HttpHop> FlowGuard::heard_besides(std::span<const std::string_view> arguments) const {
  const bool is_usual =
      heard_.size() == 1 && heard_[0].method == arguments[0] && heard_[0].url == arguments[1];
  return is_usual ? std::vector<HttpHop>() : heard_;
}

// Null: no grant covers the path.
const FlowGuard::MarkedFs* FlowGuard::rule_of(const Components& path) const {
  const MarkedFs* best = nullptr;
  for (const MarkedFs& rule : fs_)
    if (begins_with(path, rule.guest) && (best == nullptr || rule.guest.size() > best->guest.size()))
      best = &rule;
  return best;
}

// The existence of a grant's own directory reveals nothing; the size of its own file does.
ReadMarks FlowGuard::marks_of_path(std::string_view text, bool is_look_at_directory) const {
  const auto path = parse_guest_path(text);
  const MarkedFs* const rule = path ? rule_of(*path) : nullptr;
  if (rule == nullptr) return {};
  const bool is_root = path->size() == rule->guest.size();
  return is_look_at_directory && is_root ? ReadMarks{} : rule->marks;
}

// A change that fails reveals what is at its paths, like reading their status; and so does a failed status request,
// except for an absence. A refusal by the policy or a budget reveals nothing.
ReadMarks FlowGuard::marks_of_failure(std::string_view function, std::span<const std::string_view> arguments,
                                      Errno code) const {
  if (code == Errno::kNotFound || code == Errno::kBudget || code == Errno::kUnsupported) return {};
  ReadMarks marks;
  for (const char digit : paths_of(function)) {
    const auto at = static_cast<size_t>(digit - '0');
    const std::string_view text =
        at < arguments.size() ? arguments[at] : "";  // a journal may contain anything
    const auto path = parse_guest_path(text);
    const MarkedFs* const rule = path ? rule_of(*path) : nullptr;
    if (rule == nullptr) continue;
    // With links, they are followed before it is known which grant applies.
    const bool may = only_looks(function, arguments) || rule->grant.mode == policy::FsMode::kWrite;
    if (may || rule->grant.links || code != Errno::kAccess) marks = marks | marks_of_path(text, true);
  }
  return marks;
}

ReadMarks FlowGuard::marks_read(std::string_view function, std::span<const std::string_view> arguments,
                                const Answer& answer) {
  const bool is_ok = answer.error == nullptr;
  if (function == "http.request") {
    if (!heard_.empty()) return {};  // hear() has counted it
    // How a request failed is information from a server, unless it never got that far.
    const Errno code = is_ok ? Errno::kOk : answer.error->code;
    if (code == Errno::kConnection || code == Errno::kInvalid) return {};
    if (!is_ok && answer.error->reason.starts_with(kTrifectaRule)) return {};
    ReadMarks marks = marks_of_http(arguments[0], arguments[1]);
    if (answer.final_url.empty() || answer.final_url == arguments[1]) return marks;
    // A redirect may have changed it to a GET.
    return marks | marks_of_http(arguments[0], answer.final_url) | marks_of_http("GET", answer.final_url);
  }
  if (function == "sql.query") {
    // An error can depend on the content of the database, too.
    const auto grant = std::ranges::find(policy_.sql, arguments[0], &policy::SqlGrant::name);
    return grant == policy_.sql.end() ? ReadMarks{} : policy::marks_of(policy_, *grant);
  }
  // The size of a file is, too: a worker itself says how much it has room for.
  if (function == "fs.read" && !is_ok &&
      (answer.error->code == Errno::kTooBig || answer.error->code == Errno::kNoMemory))
    return marks_of_path(arguments[0], false);
  if (!is_ok) return marks_of_failure(function, arguments, answer.error->code);
  // The existence of a key or a file is information, even if it is empty.
  if (!answer.has_content && function != "kv.get" && function != "fs.read") return {};
  if (function == "kv.get" || function == "kv.keys")
    return policy_.kv ? policy::marks_of(policy_, *policy_.kv) : ReadMarks{};
  if (function == "fs.read" || function == "fs.list" || function == "fs.stat" || function == "fs.status" ||
      function == "fs.find_link")
    return marks_of_path(arguments[0], answer.is_directory && function != "fs.read" && function != "fs.list");
  if (function == "fs.open") {
    const ReadMarks marks = marks_of_path(arguments[0], false);
    const auto has = [&](char flag) { return arguments[1].find(flag) != std::string_view::npos; };
    const bool is_new = has('t') || (has('x') && has('c'));  // only exclusive creation guarantees a new file
    if (!is_new) return marks;
    // It was empty; others may write to it before it is read.
    if (answer.handle) new_files_[*answer.handle] = marks;
    return {};
  }
  if (!arguments.empty() && (function == "fs.read_at" || function == "fs.close")) {
    uint64_t handle = 0;
    std::from_chars(arguments[0].data(), arguments[0].data() + arguments[0].size(), handle);
    const auto found = new_files_.find(handle);
    if (found == new_files_.end()) return {};
    const ReadMarks marks = found->second;
    if (function == "fs.read_at") return marks;
    new_files_.erase(found);
  }
  return {};
}

void FlowGuard::add(ReadMarks marks, const FlowRead& read) {
  if (marks.is_private || marks.is_untrusted) flows_->add(marks, read);
}

void FlowGuard::note(std::string_view function, std::span<const std::string_view> arguments,
                     const Answer& answer) {
  const ReadMarks marks = marks_read(function, arguments, answer);
  add(marks, {call_, std::string(function), target_of(function, arguments)});
}

FlowReport FlowGuard::report() const { return {flows_->state(), egress_, more_egress_, unanswered_}; }

}  // namespace membrane::host
