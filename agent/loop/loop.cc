#include "agent/loop/loop.h"

#include <algorithm>
#include <chrono>

#include "agent/actions/computer_actions.h"
#include "base/text.h"
#include "base/utf8.h"

namespace membrane::agent {

using policy::Resource;
using std::chrono::steady_clock;

namespace {

constexpr uint32_t kSayRepeated = 3;  // repetitions of a program with the same end before a note to the model
constexpr uint32_t kStopRepeated = 5;  // and before it is stopped
constexpr uint32_t kMaxNudges = 2;     // replies in a row that neither run nor answer
constexpr size_t kMaxDigestLines = 40;
constexpr size_t kDigestLineBytes = 160;
constexpr std::string_view kObservationMark = "Observation:\n";

// The beginning of `text`, its lines joined by "; ", cut between characters.
std::string one_line(std::string_view text, size_t max_bytes) {
  const size_t end = utf8_cut(text, max_bytes);
  std::string line;
  for (const char c : text.substr(0, end)) line += c == '\n' ? "; " : std::string(1, c);
  return end < text.size() ? line + "…" : line;
}

}  // namespace

std::string_view name_of(Stop stop) {
  switch (stop) {
#define X(id, name, sentence) \
  case Stop::id: return name;
    MEMBRANE_STOPS(X)
#undef X
  }
  return "model_failed";
}

std::string_view describe(Stop stop) {
  switch (stop) {
#define X(id, name, sentence)     \
  case Stop::id: return sentence;
    MEMBRANE_STOPS(X)
#undef X
  }
  return "The model gave no answer.";
}

struct Loop::Run {
  std::atomic<bool>& cancel;
  TaskResult result;
  bool ended = false;
  uint32_t repairs_in_row = 0;
  uint32_t nudges_in_row = 0;
  std::map<std::string, uint32_t> seen;  // count of each program with its observation
  uint32_t most_repeated = 0;
  steady_clock::time_point start = steady_clock::now();

  explicit Run(std::atomic<bool>& c) : cancel(c) {}
  void end(Stop stop, std::optional<Error> error = {}) {
    ended = true;
    result.stop = stop;
    result.error = std::move(error);
  }
  void answer(std::string text) {
    result.answer = std::move(text);
    end(Stop::kAnswered);
  }
  bool cancelled() const { return cancel.load(std::memory_order_relaxed); }
};

Loop::Loop(ChatModel& model, Executor executor, std::shared_ptr<policy::Budget> budget,
           const Catalog& catalog, std::string system_prompt, LoopOptions options)
    : model_(model),
      executor_(std::move(executor)),
      budget_(std::move(budget)),
      catalog_(catalog),
      system_prompt_(std::move(system_prompt)),
      options_(std::move(options)) {}

template <typename F>
void Loop::tell(const F& f) {
  for (Observer* observer : observers_) f(*observer);
}

std::vector<Message> Loop::messages() const {
  std::vector<Message> messages;
  for (const Entry& entry : history_) messages.push_back(entry.message);
  return messages;
}

void Loop::say(Part part, Message message) { history_.push_back({part, std::move(message)}); }

// -- the conversation's size ---------------------------------------------------------

// A line that remains of a cut step: its outcome, or the question or answer.
std::string Loop::digest_of(const Entry& entry) {
  std::string_view text = entry.message.content;
  if (text.starts_with(kObservationMark)) text.remove_prefix(kObservationMark.size());
  const std::string line = one_line(text, kDigestLineBytes);
  if (entry.part == Part::kTask) return "asked: " + line;
  return (entry.part == Part::kReply ? "replied: " : "ran a program: ") + line;
}

// Cuts the oldest steps until the conversation is a quarter below its limit, so that not every step must cut.
// What stays: the system message, the current task, and the last reply with what followed. A reply is cut
// together with its observations, since servers refuse a tool's answer without its call.
void Loop::cut_history() {
  if (estimate_tokens(messages()) <= options_.history_tokens) return;
  size_t cut = 0;
  const auto is_reply = [](const Entry& entry) { return entry.part == Part::kReply; };
  std::erase_if(history_, [](const Entry& entry) { return entry.part == Part::kDigest; });
  while (estimate_tokens(messages()) > options_.history_tokens * 3 / 4) {
    const auto last_task = std::find_if(history_.rbegin(), history_.rend(),
                                        [](const Entry& e) { return e.part == Part::kTask; });
    const auto old_task = std::find_if(history_.begin(), last_task.base(),
                                       [](const Entry& e) { return e.part == Part::kTask; });
    const bool task_is_old = old_task + 1 != last_task.base();
    auto first = task_is_old ? old_task : std::find_if(history_.begin(), history_.end(), is_reply);
    if (first == history_.end()) break;
    auto next = std::find_if(first + 1, history_.end(),
                             [&](const Entry& e) { return is_reply(e) || e.part == Part::kTask; });
    if (next == history_.end()) break;  // the last one stays
    digest_.push_back(digest_of(task_is_old ? *first : *(next - 1)));
    history_.erase(first, next);
    ++cut;
  }
  if (digest_.size() > kMaxDigestLines) digest_.erase(digest_.begin(), digest_.end() - kMaxDigestLines);
  if (digest_.empty()) return;
  std::string text = "[Earlier steps were cut to save room; in short:\n";
  for (const std::string& line : digest_) text += "- " + line + "\n";
  text += "]";
  const auto task =
      std::find_if(history_.begin(), history_.end(), [](const Entry& e) { return e.part == Part::kTask; });
  history_.insert(task, {Part::kDigest, {Role::kUser, std::move(text), {}, {}}});
  if (cut != 0)
    tell([&](Observer& o) {
      o.on_note("The conversation grew long: its " + count_of(cut, "oldest step") +
                (cut == 1 ? " was" : " were") + " cut.");
    });
}

// -- asking ------------------------------------------------------------------------------

std::optional<Stop> Loop::used_up(const Run& run) const {
  if (run.most_repeated >= kStopRepeated) return Stop::kStuck;
  if (run.repairs_in_row > options_.max_repairs) return Stop::kOutOfRepairs;
  if (run.result.totals.steps >= options_.max_steps) return Stop::kOutOfSteps;
  if (budget_->left(Resource::kFuel) == 0) return Stop::kOutOfFuel;
  return {};
}

// The next query of the conversation so far. `last`: no more programs, only the answer.
Result<ChatQuery> Loop::next_query(bool last) {
  cut_history();
  ChatQuery query;
  query.messages = messages();
  if (options_.tools) query.tools = tools_for(catalog_, options_.languages);
  if (last) std::erase_if(query.tools, [](const ToolSpec& tool) { return tool.name != "submit"; });
  const uint64_t prompt = estimate_tokens(query.messages);
  const uint64_t left = budget_->left(Resource::kTokens);
  if (left <= prompt)
    return fail(ErrorCode::kExhausted,
                "The token budget has " + count_of(left, "token") +
                    " left, and the conversation alone is about " + std::to_string(prompt) + ".",
                "Raise --tokens.");
  query.max_tokens = static_cast<uint32_t>(std::min<uint64_t>(options_.reply_tokens, left - prompt));
  return query;
}

Result<Completion> Loop::ask(Run& run, bool last) {
  if (budget_->wall_left_ms() == 0)
    return fail(ErrorCode::kTimedOut, "The wall-clock budget is used up.", "Raise --wall.");
  auto query = next_query(last);
  if (!query) return std::unexpected(query.error());
  ChatControl control;
  control.on_text = [this](std::string_view text) { tell([&](Observer& o) { o.on_text(text); }); };
  control.on_thought = [this](std::string_view text) { tell([&](Observer& o) { o.on_thought(text); }); };
  control.on_retry = [this](std::string_view why, uint64_t ms) {
    tell([&](Observer& o) { o.on_retry(why, ms); });
  };
  control.cancel = &run.cancel;
  control.deadline = budget_->deadline();
  auto completion = model_.complete(*query, control);
  // A refusal reveals a window smaller than history_tokens: less is sent, as long as there is less.
  while (!completion && completion.error().code == ErrorCode::kTooLong) {
    const uint64_t sent = estimate_tokens(query->messages);
    options_.history_tokens = sent * 2 / 3;
    query = next_query(last);
    if (!query) return std::unexpected(query.error());
    if (estimate_tokens(query->messages) >= sent) return completion;
    completion = model_.complete(*query, control);
  }
  if (!completion) return completion;
  Totals& totals = run.result.totals;
  ++totals.model_calls;
  totals.tokens_in += completion->usage.tokens_in;
  totals.tokens_out += completion->usage.tokens_out;
  totals.tokens_estimated |= completion->usage.estimated;
  budget_->take_after(Resource::kTokens, completion->usage.total());
  tell([&](Observer& o) { o.on_reply(*query, *completion); });
  say(Part::kReply, {Role::kAssistant, completion->content, completion->tool_calls, {}});
  if (completion->content.empty() && completion->tool_calls.empty())
    history_.back().message.content = "(an empty reply)";
  return completion;
}

// -- acting ----------------------------------------------------------------------------------

void Loop::observe(const Action& action, std::string text) {
  tell([&](Observer& o) { o.on_observation(text); });
  if (action.call_id.empty()) {
    say(Part::kObservation, {Role::kUser, std::string(kObservationMark) + text, {}, {}});
  } else {
    say(Part::kObservation, {Role::kTool, std::move(text), {}, action.call_id});
  }
}

// Runs the program, accounts for its cost, and returns what the model is told about it.
std::string Loop::execute(Run& run, const Action& action) {
  Totals& totals = run.result.totals;
  const Program& program = action.program;
  tell([&](Observer& o) { o.on_program(program); });
  StepContext context{conversation_, &run.cancel,
                      [this](std::string_view text) { tell([&](Observer& o) { o.on_stdout(text); }); }};
  const sandbox::Report report = executor_(program, context);
  tell([&](Observer& o) { o.on_report(program, report); });
  if (report.outcome == sandbox::Outcome::kInvalid) {
    ++totals.repairs;
    ++run.repairs_in_row;
  } else {
    ++totals.steps;
    run.repairs_in_row = 0;
  }
  totals.fuel += report.fuel_used;
  totals.tokens_of_programs += report.tokens_used;
  for (const sandbox::HostCallRecord& call : report.host_calls) {
    ++(call.allowed ? totals.host_calls_allowed : totals.host_calls_denied);
    totals.bytes_in += call.bytes_in;
    totals.bytes_out += call.bytes_out;
  }
  if (report.submitted) run.answer(report.answer);
  std::string text = sandbox::render_observation(report, options_.observation_bytes);
  const uint32_t times = ++run.seen[program.written_in + '\0' + program.source + '\0' + program.entry + '\0' +
                                    program.input + '\0' + text];
  run.most_repeated = std::max(run.most_repeated, times);
  if (times >= kSayRepeated)
    text += "\nThis same program has now ended this same way " + count_of(times, "time") +
            ". Running it again changes nothing: do it another way, or answer.";
  return text;
}

void Loop::act_on(Run& run, const Action& action, const std::string& note) {
  if (action.kind == Action::Kind::kSubmit) {
    observe(action, "The answer was taken.");
    run.answer(action.answer);
    return;
  }
  if (action.kind == Action::Kind::kUnclear) {
    ++run.result.totals.repairs;
    ++run.repairs_in_row;
    observe(action, action.problem);
    return;
  }
  if (action.kind == Action::Kind::kAsk) {
    ++run.result.totals.steps;
    const size_t end = utf8_cut(action.description, options_.observation_bytes);
    std::string text = action.description.substr(0, end);
    if (end < action.description.size()) text += "…\nThe rest was cut: ask about single functions.";
    observe(action, note.empty() ? text : text + "\n" + note);
    return;
  }
  std::string text = execute(run, action);
  if (!note.empty()) text += "\n" + note;
  observe(action, std::move(text));
}

// Every tool call must be answered, even skipped ones: servers refuse a conversation otherwise.
void Loop::act(Run& run, const Reply& reply) {
  bool ran = false;
  for (size_t i = 0; i < reply.actions.size(); ++i) {
    const Action& action = reply.actions[i];
    if (run.ended || run.cancelled() || (ran && used_up(run))) {
      observe(action, run.ended         ? "Not done: the task has ended."
                      : run.cancelled() ? "Not done: the person stopped this step."
                                        : "Not done: a budget is used up.");
    } else if (action.kind == Action::Kind::kSubmit && ran) {
      observe(action, "Not taken: a program ran in the same reply. Look at what it did, then submit.");
    } else {
      ran |= action.kind == Action::Kind::kRun;
      act_on(run, action, reply.note);
    }
  }
}

// A reply that neither runs nor answers. The model is told once what is expected; if that does not help, its
// text is the answer.
void Loop::nudge(Run& run, const Completion& completion) {
  ++run.nudges_in_row;
  if (completion.finish == Finish::kFiltered) {
    run.end(Stop::kModelFailed,
            Error{ErrorCode::kUnavailable, "The model server's content filter withheld the reply.",
                  "Put the task in other words."});
    return;
  }
  const bool cut = completion.finish == Finish::kLength || completion.finish == Finish::kCut;
  if (run.nudges_in_row >= kMaxNudges && !completion.content.empty() && !cut) {
    run.answer(completion.content);
    return;
  }
  if (run.nudges_in_row > kMaxNudges) {
    run.end(Stop::kStuck);
    return;
  }
  observe({}, cut ? "Your reply was cut off before it ran a program or gave an answer. Be shorter."
                  : "Nothing was run and nothing was answered. Write " +
                        std::string(acts_in_computer(options_.languages) ? "a command" : "a program") +
                        " in a fenced block in " + list_of(options_.languages) +
                        ", or the final answer after ANSWER: at the start of a line.");
}

// The model may still answer, but not run anything.
void Loop::last_turn(Run& run, Stop stop) {
  tell([&](Observer& o) { o.on_note(std::string(describe(stop)) + " The model is asked for its answer."); });
  say(Part::kObservation,
      {Role::kUser,
       std::string(describe(stop)) +
           " No more programs can run. Give the best answer you can from what you have seen: ANSWER: …",
       {},
       {}});
  const auto completion = ask(run, /*last=*/true);
  if (!completion) {
    run.end(run.cancelled() ? Stop::kCancelled : stop, completion.error());
    return;
  }
  const Reply reply = read_reply(*completion, catalog_, options_.languages);
  for (const Action& action : reply.actions) {
    const bool answers = action.kind == Action::Kind::kSubmit && !run.ended;
    observe(action, answers ? "The answer was taken." : "Not done: the task has ended.");
    if (answers) run.answer(action.answer);
  }
  if (reply.actions.empty() && !completion->content.empty()) run.answer(completion->content);
  if (!run.ended) run.end(stop);
}

bool Loop::go_on_after_cancel(Run& run) {
  const std::optional<std::string> guidance = on_cancelled_ ? on_cancelled_() : std::nullopt;
  if (!guidance) {
    run.end(Stop::kCancelled);
    return false;
  }
  run.cancel = false;
  run.ended = false;
  say(Part::kObservation, {Role::kUser, "The person stopped this step and says: " + *guidance, {}, {}});
  return true;
}

TaskResult Loop::run(std::string_view task, std::atomic<bool>& cancel) {
  Run run(cancel);
  if (options_.task_wall_ms != 0)
    budget_->set_deadline(run.start + std::chrono::milliseconds(options_.task_wall_ms));
  tell([&](Observer& o) { o.on_task(task); });
  if (history_.empty()) {
    digest_.clear();
    say(Part::kSystem, {Role::kSystem, system_prompt_, {}, {}});
  }
  say(Part::kTask, {Role::kUser, std::string(task), {}, {}});
  for (uint32_t turn = 1; !run.ended; ++turn) {
    if (const auto stop = used_up(run)) {
      last_turn(run, *stop);
      break;
    }
    tell([&](Observer& o) { o.on_step(turn); });
    const auto completion = ask(run, /*last=*/false);
    if (!completion && completion.error().code == ErrorCode::kCancelled) {
      if (!go_on_after_cancel(run)) break;
      continue;
    }
    if (!completion) {
      const ErrorCode code = completion.error().code;
      const bool out_of_tokens =
          code == ErrorCode::kExhausted && budget_->left(Resource::kTokens) <= estimate_tokens(messages());
      const bool late = code == ErrorCode::kTimedOut && budget_->wall_left_ms() == 0;
      run.end(late            ? Stop::kTimedOut
              : out_of_tokens ? Stop::kOutOfTokens
                              : Stop::kModelFailed,
              completion.error());
      break;
    }
    const Reply reply = read_reply(*completion, catalog_, options_.languages);
    if (reply.actions.empty()) {
      nudge(run, *completion);
    } else {
      run.nudges_in_row = 0;
      act(run, reply);
    }
    if (!run.ended && run.cancelled() && !go_on_after_cancel(run)) break;
  }
  const auto wall = steady_clock::now() - run.start;
  run.result.totals.wall_ms =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(wall).count());
  tell([&](Observer& o) { o.on_end(run.result); });
  return run.result;
}

// -- the table ----------------------------------------------------------------------------------

static std::string counted(uint64_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string render_totals(const TaskResult& result) {
  const Totals& t = result.totals;
  const std::string about = t.tokens_estimated ? "about " : "";
  std::string tokens = about + std::to_string(t.tokens_in + t.tokens_out + t.tokens_of_programs) + " (" +
                       std::to_string(t.tokens_in) + " in, " + std::to_string(t.tokens_out) + " out";
  if (t.tokens_of_programs != 0) tokens += ", " + std::to_string(t.tokens_of_programs) + " by programs";
  const std::pair<const char*, std::string> rows[] = {
      {"ended", std::string(name_of(result.stop))},
      {"work", counted(t.steps, "step") + (t.repairs != 0 ? ", " + counted(t.repairs, "repair") : "")},
      {"fuel", std::to_string(t.fuel)},
      {"host calls",
       std::to_string(t.host_calls_allowed) + " allowed, " + std::to_string(t.host_calls_denied) + " denied"},
      {"bytes", std::to_string(t.bytes_in) + " in, " + std::to_string(t.bytes_out) + " out"},
      {"tokens", tokens + ")"},
      {"time", std::to_string(t.wall_ms) + " ms"},
  };
  std::string out;
  for (const auto& [name, value] : rows)
    out += std::string(name) + std::string(12 - std::string_view(name).size(), ' ') + value + "\n";
  return out;
}

}  // namespace membrane::agent
