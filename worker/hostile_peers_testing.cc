#include "worker/hostile_peers_testing.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>

#include "base/terminal.h"
#include "worker/broker_calls.h"
#include "worker/link.h"
#include "worker/messages.h"
#include "worker/worker.h"

namespace membrane::worker {
namespace {

using sandbox::Outcome;
using sandbox::Report;

constexpr const char* kAdds = R"((func (export "run") (result i32) (i32.add (i32.const 40) (i32.const 2))))";
constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

// Shared by the worker and its supervisor: whether the worker achieved its aim, which it reports.
struct Seen {
  std::atomic<int> refused = 0, given = 0;
  std::atomic<bool> is_stuck = false;  // its supervisor waits for it to read
};

// The supervisor's side of a peer.
struct Stage {
  sandbox::RunOptions options;
  host::Journal journal;
  std::atomic<bool> cancel = false;
  std::string directory;  // has "granted", with a file and a link that leads out, and "secret" beside it
  Seen* seen = nullptr;
};

Stage* stage = nullptr;  // of this process, which meets one peer

// -- what a worker can say ---------------------------------------------------------------------------------------

[[noreturn]] void wait_for_the_end() {
  while (true) pause();
}

struct Header {
  uint32_t bytes = 0;
  uint16_t kind = 0, descriptors = 0;
  uint32_t subject = 0;
};
std::string header(uint32_t bytes, Kind kind, uint32_t subject, uint16_t descriptors = 0) {
  const Header made{bytes, static_cast<uint16_t>(kind), descriptors, subject};
  return {reinterpret_cast<const char*>(&made), sizeof made};
}
void send_raw(Link& link, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(link.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) _exit(1);
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}
// A message with descriptors of this process's standard input.
void send_descriptors(Link& link, std::string_view bytes, size_t count) {
  constexpr size_t kMany = 8;
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMany * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(count * sizeof(int));
  cmsghdr* const with = CMSG_FIRSTHDR(&message);
  with->cmsg_level = SOL_SOCKET;
  with->cmsg_type = SCM_RIGHTS;
  with->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memset(CMSG_DATA(with), 0, count * sizeof(int));
  if (sendmsg(link.descriptor(), &message, MSG_NOSIGNAL) < 0) _exit(1);
}

// A valid report with this change.
void report(Link& link, uint32_t subject, const std::function<void(Report&)>& change = {}) {
  Report good;
  if (change) change(good);
  link.send(Kind::kDone, subject, bytes_of(good));
  wait_for_the_end();
}

template <typename T, typename... Arguments>
host::HostResult<T> call(Link& link, uint32_t subject, BrokerCall what, const Arguments&... arguments) {
  const std::string answer = link.ask(subject, bytes_of(Question::kBroker, what, kMost, arguments...));
  Reader in(answer);
  auto result = in.get<host::HostResult<T>>();
  if (!in.is_done()) _exit(9);
  ++(result ? stage->seen->given : stage->seen->refused);
  return result;
}

// -- functions of the embedder

std::string ask_for(Link& link, uint32_t subject, const std::vector<sandbox::FunctionCall>& calls) {
  return link.ask(subject, bytes_of(Question::kFunctions, calls));
}
void function_that_nobody_gave(Link& link, uint32_t subject) {
  ask_for(link, subject, {{"price", "[]", "{}", ""}});
  report(link, subject);
}
void function_whose_arguments_are_nothing(Link& link, uint32_t subject) {
  ask_for(link, subject, {{"price", "", "", ""}});
  report(link, subject);
}
void function_whose_arguments_are_no_list(Link& link, uint32_t subject) {
  ask_for(link, subject, {{"price", "{}", "{}", ""}});
  report(link, subject);
}
void function_whose_arguments_have_no_bottom(Link& link, uint32_t subject) {
  constexpr size_t kDeep = 1'000'000;
  ask_for(link, subject, {{"price", std::string(kDeep, '[') + std::string(kDeep, ']'), "{}", ""}});
  report(link, subject);
}
void function_of_an_object_that_is_none(Link& link, uint32_t subject) {
  ask_for(link, subject, {{"Account.deposit", "[]", "{}", "{\"id\":1}"}});
  report(link, subject);
}
void functions_by_the_thousand(Link& link, uint32_t subject) {
  ask_for(link, subject, std::vector<sandbox::FunctionCall>(1001, {"price", "[]", "{}", ""}));
  report(link, subject);
}
void functions_without_end(Link& link, uint32_t subject) {
  for (int i = 0; i < 100; ++i)
    ask_for(link, subject, std::vector<sandbox::FunctionCall>(1000, {"price", "[]", "{}", ""}));
  report(link, subject);
}
void sleep_that_nobody_lets_pass(Link& link, uint32_t subject) {
  link.ask(subject, bytes_of(Question::kSleep, kMost));
  report(link, subject);
}

// -- malformed messages

void message_of_four_gigabytes(Link& link, uint32_t subject) {
  send_raw(link, header(UINT32_MAX, Kind::kDone, subject));
  wait_for_the_end();
}
void message_that_is_a_byte_too_long(Link& link, uint32_t subject) {
  const policy::Limits& limits = stage->options.policy.limits;
  const uint64_t most = limits.memory_bytes + 8 * limits.output_bytes + (64u << 20);
  send_raw(link, header(static_cast<uint32_t>(most + 1), Kind::kDone, subject));
  wait_for_the_end();
}
void message_of_an_unknown_kind(Link& link, uint32_t subject) {
  link.send(static_cast<Kind>(0xffff), subject, "x");
  wait_for_the_end();
}
void command_to_its_supervisor(Link& link, uint32_t subject) {
  link.send(Kind::kSpawn, subject, "");
  wait_for_the_end();
}
void answer_that_nobody_asked_for(Link& link, uint32_t subject) {
  link.send(Kind::kAnswer, subject, bytes_of(true));
  wait_for_the_end();
}
void end_of_a_command_of_another(Link& link, uint32_t subject) {
  link.send(Kind::kDone, subject + 1, bytes_of(Report()));
  wait_for_the_end();
}
void question_of_another_session(Link& link, uint32_t subject) {
  link.send(Kind::kRequest, subject + 1, bytes_of(Question::kPosition));
  wait_for_the_end();
}
void ask(Link& link, uint32_t subject, const std::string& question) {
  link.send(Kind::kRequest, subject, question);
  wait_for_the_end();
}
void question_that_there_is_not(Link& link, uint32_t subject) { ask(link, subject, "\x7f"); }
void question_that_is_cut_off(Link& link, uint32_t subject) {
  ask(link, subject, bytes_of(Question::kBroker, BrokerCall::file_read));
}
void question_with_more_after_its_end(Link& link, uint32_t subject) {
  ask(link, subject, bytes_of(Question::kHasStore, kMost));
}
void call_that_there_is_not(Link& link, uint32_t subject) {
  ask(link, subject, bytes_of(Question::kBroker, uint8_t{0xfe}, kMost));
}
void list_of_a_quintillion(Link& link, uint32_t subject) {
  ask(link, subject, bytes_of(Question::kDirectories, uint64_t{1} << 60));
}
void text_that_is_longer_than_its_message(Link& link, uint32_t subject) {
  ask(link, subject, bytes_of(Question::kBroker, BrokerCall::kv_get, kMost, uint64_t{1} << 63));
}
void truth_value_of_two(Link& link, uint32_t subject) {
  ask(link, subject,
      bytes_of(Question::kBroker, BrokerCall::file_open, kMost, "/x") + std::string("\2\2\2\2"));
}
void output_without_text(Link& link, uint32_t subject) {
  link.send(Kind::kOutput, subject, bytes_of(false, ""));
  wait_for_the_end();
}
void output_with_garbage(Link& link, uint32_t subject) {
  link.send(Kind::kOutput, subject, std::string(100, '\xff'));
  wait_for_the_end();
}
void file_that_nobody_wants(Link& link, uint32_t subject) {
  link.send(Kind::kFile, subject, bytes_of("/etc/passwd", "x"));
  wait_for_the_end();
}
void done(Link& link, uint32_t subject, const std::string& payload) {
  link.send(Kind::kDone, subject, payload);
  wait_for_the_end();
}
void report_of_garbage(Link& link, uint32_t subject) {
  std::string garbage;
  for (uint32_t word = 1; garbage.size() < 10'000; word = word * 1664525 + 1013904223)
    garbage += static_cast<char>(word >> 24);
  done(link, subject, garbage);
}
void report_of_nothing(Link& link, uint32_t subject) { done(link, subject, ""); }
void report_with_more_after_its_end(Link& link, uint32_t subject) {
  done(link, subject, bytes_of(Report(), true));
}
void report_of_an_outcome_that_there_is_not(Link& link, uint32_t subject) {
  std::string bytes = bytes_of(Report());
  bytes[0] = '\x7f';
  done(link, subject, bytes);
}
void report_that_claims_two_gigabytes(Link& link, uint32_t subject) {
  // The outcome, no errors, no results, and a result of 2 GiB.
  done(link, subject, bytes_of(Outcome::kOk, uint64_t{0}, uint64_t{0}, uint64_t{2} << 30));
}
// Each takes a few bytes of the message, and more in memory.
void report_of_millions_of_empty_things(Link& link, uint32_t subject) {
  Report bad;
  bad.kept.resize(4'000'000);
  bad.displays.resize(4'000'000);
  done(link, subject, bytes_of(bad, true));
}
void list_of_missing_walls_that_is_garbage(Link& link, uint32_t) { done(link, 0, "\xff\xff\xff"); }

// -- descriptors

void five_descriptors_at_once(Link& link, uint32_t subject) {
  send_descriptors(link, header(0, Kind::kDone, subject, 5), 5);
  wait_for_the_end();
}
void descriptor_that_is_not_announced(Link& link, uint32_t subject) {
  send_descriptors(link, header(0, Kind::kDone, subject, 0), 1);
  wait_for_the_end();
}
void descriptor_that_is_announced_and_missing(Link& link, uint32_t subject) {
  send_raw(link, header(0, Kind::kDone, subject, 1));
  wait_for_the_end();
}
void descriptors_with_every_message(Link& link, uint32_t subject) {
  const std::string output = bytes_of(false, "x");
  for (int count = 0; count < 2'000; ++count)
    send_descriptors(link, header(static_cast<uint32_t>(output.size()), Kind::kOutput, subject, 4) + output,
                     4);
  report(link, subject);
}
void credentials_of_another_process(Link& link, uint32_t subject) {
  const std::string bytes = header(0, Kind::kAnswer, subject);
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  const ucred forged{1, 0, 0};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof forged)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const with = CMSG_FIRSTHDR(&message);
  with->cmsg_level = SOL_SOCKET;
  with->cmsg_type = SCM_CREDENTIALS;
  with->cmsg_len = CMSG_LEN(sizeof forged);
  std::memcpy(CMSG_DATA(with), &forged, sizeof forged);
  if (sendmsg(link.descriptor(), &message, MSG_NOSIGNAL) < 0) _exit(7);
  wait_for_the_end();
}

// -- ends

void half_a_header_and_the_end(Link& link, uint32_t subject) {
  send_raw(link, header(0, Kind::kDone, subject).substr(0, 6));
  _exit(7);
}
void half_a_message_and_the_end(Link& link, uint32_t subject) {
  send_raw(link, header(1000, Kind::kDone, subject) + std::string(500, 'x'));
  _exit(7);
}
void end_in_the_middle(Link&, uint32_t) { _exit(7); }
void crash_in_the_middle(Link&, uint32_t) {
  signal(SIGABRT, SIG_DFL);
  const rlimit none{};
  setrlimit(RLIMIT_CORE, &none);
  abort();
}

// -- silence

void half_a_header_and_silence(Link& link, uint32_t subject) {
  send_raw(link, header(0, Kind::kDone, subject).substr(0, 6));
  wait_for_the_end();
}
void half_a_message_and_silence(Link& link, uint32_t subject) {
  send_raw(link, header(1000, Kind::kDone, subject) + std::string(500, 'x'));
  wait_for_the_end();
}
void silence(Link&, uint32_t) { wait_for_the_end(); }
void stopping_itself(Link&, uint32_t) {
  raise(SIGSTOP);
  wait_for_the_end();
}
void spinning_without_end(Link&, uint32_t) {
  volatile uint64_t turns = 0;
  while (true) turns = turns + 1;
}
void a_byte_at_a_time_without_end(Link& link, uint32_t subject) {
  send_raw(link, header(100u << 20, Kind::kDone, subject));
  while (true) {
    send_raw(link, "x");
    usleep(1000);
  }
}
void questions_without_end(Link& link, uint32_t subject) {
  while (true) link.ask(subject, bytes_of(Question::kHasStore));
}
void questions_whose_answers_are_not_read(Link& link, uint32_t subject) {
  while (true) link.send(Kind::kRequest, subject, bytes_of(Question::kLeft));
}
// While an answer finds no reader, only the sender can notice a cancellation.
void deafness_to_answers_and_then_to_cancelling(Link& link, uint32_t subject) {
  signal(SIGUSR1, SIG_IGN);
  const std::string question = bytes_of(Question::kLeft);
  const std::string message =
      header(static_cast<uint32_t>(question.size()), Kind::kRequest, subject) + question;
  constexpr int kLongMs = 200;
  while (true) {
    pollfd room{link.descriptor(), POLLOUT, 0};
    if (poll(&room, 1, kLongMs) == 0) stage->seen->is_stuck = true;
    else send_raw(link, message);
  }
}
void deaf_to_cancelling(Link& link, uint32_t subject) {
  signal(SIGUSR1, SIG_IGN);
  link.send(Kind::kOutput, subject, bytes_of(false, "x"));  // now it is cancelled
}
void deafness_to_cancelling(Link& link, uint32_t subject) {
  deaf_to_cancelling(link, subject);
  wait_for_the_end();
}
void deafness_to_cancelling_and_to_answers(Link& link, uint32_t subject) {
  deaf_to_cancelling(link, subject);
  questions_whose_answers_are_not_read(link, subject);
}
void waiting_for_input_for_ever(Link& link, uint32_t subject) {
  while (true) link.ask(subject, bytes_of(Question::kInput, kMost));
}

// -- floods and lies

void output_without_end(Link& link, uint32_t subject) {
  const std::string text(10'000, 'x');
  while (true) link.send(Kind::kOutput, subject, bytes_of(false, text));
}
void files_without_end(Link& link, uint32_t subject) {
  for (uint64_t count = 0; true; ++count)
    link.send(Kind::kFile, subject, bytes_of("/tmp/" + std::to_string(count), "x"));
}
void host_calls_without_end(Link& link, uint32_t subject) {
  for (int count = 0; count < 20'000; ++count)
    static_cast<void>(call<std::string>(link, subject, BrokerCall::random_bytes, uint32_t{4096}));
  report(link, subject);
}
void calls_for_nothing_in_the_journal(Link& link, uint32_t subject) {
  const std::vector<std::string> granted = {std::string(1u << 20, 'x')};
  for (int count = 0; count < 2'000; ++count) link.ask(subject, bytes_of(Question::kDirectories, granted));
  report(link, subject);
}
void directories_without_end(Link& link, uint32_t subject) {
  for (int count = 0; count < 5'000; ++count)
    link.ask(subject, bytes_of(Question::kDirectories, std::vector<std::string>{"read:/data"}));
  report(link, subject);
}
void fuel_beyond_all_numbers(Link& link, uint32_t subject) {
  report(link, subject, [](Report& lie) { lie.fuel_used = kMost; });
}
void amounts_beyond_all_numbers(Link& link, uint32_t subject) {
  link.ask(subject, bytes_of(Question::kTakeAfter, host::World::Amounts{kMost, kMost, kMost, kMost}));
  static_cast<void>(call<std::string>(link, subject, BrokerCall::random_bytes, uint32_t{1}));
  report(link, subject);
}
void position_beyond_all_numbers(Link& link, uint32_t subject) {
  link.ask(subject, bytes_of(Question::kGoTo, host::World::Position{kMost, kMost}));
  static_cast<void>(call<std::string>(link, subject, BrokerCall::random_bytes, uint32_t{64}));
  static_cast<void>(call<int64_t>(link, subject, BrokerCall::clock_ms));
  static_cast<void>(call<int64_t>(link, subject, BrokerCall::clock_ns));
  report(link, subject);
}
void random_bytes_by_the_gigabyte(Link& link, uint32_t subject) {
  static_cast<void>(call<std::string>(link, subject, BrokerCall::random_bytes, UINT32_MAX));
  report(link, subject);
}

// -- what the policy does not grant

void read_file(Link& link, uint32_t subject, const std::string& path) {
  static_cast<void>(call<std::string>(link, subject, BrokerCall::file_read, path, kMost));
  report(link, subject);
}
void file_outside_of_the_policy(Link& link, uint32_t subject) { read_file(link, subject, "/etc/passwd"); }
void file_above_the_granted_directory(Link& link, uint32_t subject) {
  read_file(link, subject, "/data/../secret");
}
void file_by_an_absolute_path(Link& link, uint32_t subject) {
  read_file(link, subject, stage->directory + "/secret");
}
void file_by_a_link_that_leads_out(Link& link, uint32_t subject) { read_file(link, subject, "/data/link"); }
void write_where_reading_is_granted(Link& link, uint32_t subject) {
  static_cast<void>(
      call<void>(link, subject, BrokerCall::file_write, "/data/file", "changed", host::FileMode::kAppend));
  static_cast<void>(call<void>(link, subject, BrokerCall::path_unlink, "/data/file"));
  static_cast<void>(call<void>(link, subject, BrokerCall::path_rename, "/data/file", "/data/other"));
  static_cast<void>(call<void>(link, subject, BrokerCall::directory_make, "/data/made"));
  report(link, subject);
}
void link_that_leads_out(Link& link, uint32_t subject) {
  static_cast<void>(call<void>(link, subject, BrokerCall::link_make_symbolic, "../secret", "/data/out"));
  static_cast<void>(call<void>(link, subject, BrokerCall::link_make_hard, "/data/../secret", "/data/hard"));
  report(link, subject);
}
void handle_of_a_file_that_was_not_opened(Link& link, uint32_t subject) {
  for (const uint64_t handle : {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{50}, kMost})
    static_cast<void>(call<std::string>(link, subject, BrokerCall::file_read_at,
                                        static_cast<host::FileHandle>(handle), uint64_t{0}, uint32_t{100}));
  report(link, subject);
}
void ask_for_url(Link& link, uint32_t subject, const std::string& url) {
  static_cast<void>(
      call<host::HttpResponse>(link, subject, BrokerCall::http, host::HttpRequest{"GET", url, {}, {}}));
  report(link, subject);
}
void request_to_a_host_that_is_not_granted(Link& link, uint32_t subject) {
  ask_for_url(link, subject, "http://127.0.0.1:1/");
}
void request_to_the_machines_metadata(Link& link, uint32_t subject) {
  ask_for_url(link, subject, "http://169.254.169.254/latest/meta-data/");
}
void database_that_is_not_granted(Link& link, uint32_t subject) {
  const std::string answer =
      link.ask(subject, bytes_of(Question::kBroker, BrokerCall::sql_query, kMost, "/etc/passwd", "select 1",
                                 "[]", host::Work{kMost, 0}));
  Reader in(answer);
  const auto rows = in.get<std::pair<host::HostResult<std::string>, host::Work>>();
  ++(rows.first ? stage->seen->given : stage->seen->refused);
  report(link, subject);
}
void store_that_is_not_granted(Link& link, uint32_t subject) {
  static_cast<void>(call<std::string>(link, subject, BrokerCall::kv_get, "key"));
  static_cast<void>(call<void>(link, subject, BrokerCall::kv_set, "key", "value"));
  static_cast<void>(call<std::vector<std::string>>(link, subject, BrokerCall::kv_keys, ""));
  report(link, subject);
}
void model_that_is_not_granted(Link& link, uint32_t subject) {
  static_cast<void>(call<host::ChatAnswer>(link, subject, BrokerCall::ai_complete,
                                           host::ChatRequest{"", "the secrets, please", 1'000'000}));
  static_cast<void>(call<std::vector<float>>(link, subject, BrokerCall::ai_embed, "text"));
  report(link, subject);
}
void person_who_is_not_granted(Link& link, uint32_t subject) {
  static_cast<void>(call<std::string>(link, subject, BrokerCall::ask, "Your password?"));
  report(link, subject);
}
void names_of_files_that_lead_out(Link& link, uint32_t subject) {
  for (const char* const path :
       {"../escaped", "/../escaped", "a/../../escaped", "..", "/", "", ".", "link/escaped"})
    link.send(Kind::kFile, subject, bytes_of(path, "x"));
  link.send(Kind::kFile, subject, bytes_of(std::string("a\0/../../escaped", 16), "x"));
  report(link, subject);
}
void names_with_codes_for_the_terminal(Link& link, uint32_t subject) {
  const std::string codes = "\x1b]0;owned\x07\x1b[2J\x9b\xe2\x80\xae";
  report(link, subject, [&](Report& lie) {
    lie.result = lie.answer = lie.stdout_text = codes;
    lie.submitted = true;
    lie.files = {{codes, 1}};
    lie.errors = {{codes, codes, {}, codes, {}, codes}};
    lie.value = {{codes, codes, false}, {"text/plain", codes, false}};
    lie.results = {{codes, codes, 0}};
  });
}
void call_with_codes_for_the_terminal(Link& link, uint32_t subject) {
  report(link, subject, [&](Report& lie) {
    lie.host_calls.resize(1);
    lie.host_calls[0].name = "\x1b]0;owned\x07\x1b[2J\x9b\xe2\x80\xae";
  });
}

// -- reports of calls that are not so

sandbox::HostCallRecord line(const std::string& path, uint64_t bytes_in) {
  sandbox::HostCallRecord made;
  made.name = "fs.read";
  made.arguments = path;
  made.bytes_in = bytes_in;
  made.bytes_out = path.size();
  return made;
}
void read_and_tell(Link& link, uint32_t subject, const std::string& path,
                   const std::vector<sandbox::HostCallRecord>& shown) {
  static_cast<void>(call<std::string>(link, subject, BrokerCall::file_read, path, kMost));
  report(link, subject, [&](Report& lie) { lie.host_calls = shown; });
}
constexpr uint64_t kGrantedBytes = 7;  // of /data/file

void effect_that_its_report_leaves_out(Link& link, uint32_t subject) {
  read_and_tell(link, subject, "/data/file", {});
}
void effect_that_was_not_asked_for(Link& link, uint32_t subject) {
  report(link, subject, [](Report& lie) { lie.host_calls = {line("/data/file", kGrantedBytes)}; });
}
void refusal_that_is_told_as_a_success(Link& link, uint32_t subject) {
  read_and_tell(link, subject, "/secret", {line("/secret", kGrantedBytes)});
}
void success_that_is_told_as_a_refusal(Link& link, uint32_t subject) {
  auto lie = line("/data/file", 0);
  lie.allowed = false;
  lie.error = "EACCES";
  lie.bytes_out = 0;
  read_and_tell(link, subject, "/data/file", {lie});
}
void success_that_is_told_as_an_absence(Link& link, uint32_t subject) {
  auto lie = line("/data/file", 0);
  lie.error = "ENOENT";
  read_and_tell(link, subject, "/data/file", {lie});
}
void effect_that_is_told_of_another_target(Link& link, uint32_t subject) {
  read_and_tell(link, subject, "/data/file", {line("/data/other", kGrantedBytes)});
}
void effect_that_is_told_with_fewer_bytes(Link& link, uint32_t subject) {
  read_and_tell(link, subject, "/data/file", {line("/data/file", kGrantedBytes - 1)});
}
void effect_that_is_told_twice(Link& link, uint32_t subject) {
  read_and_tell(link, subject, "/data/file",
                {line("/data/file", kGrantedBytes), line("/data/file", kGrantedBytes)});
}
void effects_behind_a_list_that_is_full(Link& link, uint32_t subject) {
  static_cast<void>(call<std::string>(link, subject, BrokerCall::file_read, "/data/file", kMost));
  report(link, subject, [](Report& lie) {
    auto failed = line("/data/other", 0);
    failed.error = "ENOMEM";
    failed.reason = host::kNoMemoryForCall;
    lie.host_calls.assign(host::Dispatcher::kMaxRecords, failed);
    lie.host_calls_dropped = 1;
  });
}
void effect_that_is_told_with_a_shorter_path(Link& link, uint32_t subject) {
  read_and_tell(link, subject, "/data/file", {line("/data/fil…", kGrantedBytes)});
}
void effect_that_is_told_with_a_reason(Link& link, uint32_t subject) {
  auto lie = line("/data/file", kGrantedBytes);
  lie.reason = "it is a gift";
  read_and_tell(link, subject, "/data/file", {lie});
}
void effect_that_is_told_with_a_time_beyond_all_numbers(Link& link, uint32_t subject) {
  auto lie = line("/data/file", kGrantedBytes);
  lie.latency_us = kMost;
  read_and_tell(link, subject, "/data/file", {lie});
}
void effect_before_a_worker_is_lost(Link& link, uint32_t subject) {
  static_cast<void>(call<std::string>(link, subject, BrokerCall::file_read, "/data/file", kMost));
  message_of_an_unknown_kind(link, subject);
}

struct Peer {
  std::string_view name, wall, outcome, says;
  void (*behaves)(Link&, uint32_t subject);
};
constexpr Peer kPeers[] = {
#define PEER(name, wall, outcome, says) {#name, wall, outcome, says, &name},
#include "worker/hostile_peers.def"
#undef PEER
};

// -- the supervisor's side -------------------------------------------------------------------------------------------

// A process that does what it likes with the socket, after it has raised its walls or claimed to.
std::shared_ptr<Worker> begin(const Peer& peer) {
  auto ends = Channel::make_pair();
  Walls walls;
  const auto made = new_process(walls);
  if (!ends || !made) std::exit(3);
  if (made->pid == 0) {
    {
      const Descriptor others = std::move(ends->first);
    }
    Link link(Channel(std::move(ends->second), UINT32_MAX));
    const uint32_t subject = link.receive().subject;
    if (peer.name == "list_of_missing_walls_that_is_garbage") peer.behaves(link, subject);
    link.send(Kind::kDone, 0, bytes_of(uint64_t{0}));
    peer.behaves(link, link.receive().subject);
    _exit(7);
  }
  return Worker::adopt(std::move(ends->first), Descriptor(made->process_file), made->pid);
}

sandbox::Program program() {
  sandbox::Program made;
  made.source = kAdds;
  return made;
}

void write_file(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void set_up(Stage& at, const Peer& peer) {
  const bool is = true;
  const auto named = [&](std::string_view name) { return peer.name == name; };
  sandbox::RunOptions& options = at.options;
  options.policy.limits.output_bytes = 1u << 20;
  options.policy.limits.wall_ms = peer.wall == "deadlines" ? 1 : 600'000;
  options.budget = std::make_shared<policy::Budget>(options.policy.limits);
  options.cancel = &at.cancel;
  options.policy.fs.push_back(
      {.guest = "/data", .host = at.directory + "/granted", .mode = policy::FsMode::kRead});
  if (named("link_that_leads_out")) {
    options.policy.fs[0].mode = policy::FsMode::kWrite;
    options.policy.fs[0].links = is;
  }
  if (peer.outcome == "cancelled") {
    options.policy.limits.wall_ms = 3'600'000;
    options.on_stdout = [&at](std::string_view) { at.cancel = true; };
  }
  if (peer.outcome == "cancelled" || peer.wall == "deadlines")
    options.budget = std::make_shared<policy::Budget>(options.policy.limits);
  if (peer.name.starts_with("function") && !named("function_that_nobody_gave")) {
    auto functions = std::make_shared<sandbox::GuestFunctions>();
    functions->call = [&at](std::span<const sandbox::FunctionCall> calls, const sandbox::MustStop&) {
      at.seen->given += static_cast<int>(calls.size());
      return std::vector<sandbox::FunctionAnswer>(calls.size());
    };
    options.guest_functions = std::move(functions);
  }
  if (named("waiting_for_input_for_ever"))
    options.read_input = [](std::chrono::milliseconds patience) {
      usleep(static_cast<useconds_t>(std::min<int64_t>(patience.count(), 10) * 1000));
      return sandbox::InputPiece{};
    };
  if (peer.wall == "budgets") options.record = &at.journal;
  if (named("files_without_end")) options.on_file = [](std::string_view, std::string_view) {};
}

// The largest size that this process has had, in MiB.
uint64_t peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) >> 10;
}
int64_t open_descriptors() { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); }

// Control characters except newlines, and characters that reverse the reading direction.
bool has_codes(std::string_view text) {
  return text.find("\xe2\x80\xae") != std::string_view::npos || std::ranges::any_of(text, [](char c) {
           return (c >= 0 && c < ' ' && c != '\n' && c != '\t') || c == '\x7f';
         });
}

}  // namespace

std::vector<std::string_view> names_of_peers() {
  std::vector<std::string_view> names;
  for (const Peer& peer : kPeers) names.push_back(peer.name);
  return names;
}

std::optional<nlohmann::ordered_json> meet_peer(const std::string& name, const std::string& directory,
                                                const std::function<KeepFile(const std::string&)>& keep_in) {
  const auto* const peer = std::ranges::find(kPeers, std::string_view(name), &Peer::name);
  if (peer == std::end(kPeers)) return std::nullopt;
  Stage at;
  stage = &at;
  at.directory = directory;
  at.seen =
      static_cast<Seen*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::filesystem::create_directories(directory + "/granted");
  std::filesystem::create_directories(directory + "/out");
  write_file(directory + "/secret", "secret");
  write_file(directory + "/granted/file", "granted");
  std::filesystem::create_symlink("../secret", directory + "/granted/link");
  std::filesystem::create_symlink("..", directory + "/out/link");
  set_up(at, *peer);
  if (name == "names_of_files_that_lead_out") at.options.on_file = keep_in(directory + "/out");
  const uint64_t memory_before = peak_mib();
  const int64_t open_before = open_descriptors();
  Report report;
  bool is_alive = false;
  {
    const auto worker = begin(*peer);
    std::thread owner;  // who stops the run once its worker reads nothing
    if (name == "deafness_to_answers_and_then_to_cancelling")
      owner = std::thread([&at] {
        while (!at.seen->is_stuck) usleep(1000);
        at.cancel = true;
      });
    report = worker->run(program(), at.options);
    if (owner.joinable()) owner.join();
    is_alive = worker->is_alive();
  }
  const int64_t open_after = open_descriptors();
  const uint64_t memory_after = peak_mib();
  at.cancel = false;
  const auto good = Worker::start();
  const Report then = good ? (*good)->run(program(), {}) : sandbox::refusal(good.error());
  auto calls = nlohmann::ordered_json::array();
  for (const sandbox::HostCallRecord& each : report.host_calls)
    calls.push_back(each.name + " " + (each.error.empty() ? "OK" : each.error) + " " + each.arguments);
  return nlohmann::ordered_json{
      {"name", peer->name},
      {"calls", std::move(calls)},
      {"code", report.errors.empty() ? "" : report.errors[0].code},
      {"wall", peer->wall},
      {"outcome", sandbox::name_of(report.outcome)},
      {"error", report.errors.empty() || has_codes(report.errors[0].message) ? "" : report.errors[0].message},
      {"is_alive", is_alive},
      {"memory_mib", memory_after - memory_before},
      {"descriptors", open_after - open_before},
      {"given", at.seen->given.load()},
      {"refused", at.seen->refused.load()},
      {"journal", at.journal.size()},
      {"fuel_left", at.options.budget->left(policy::Resource::kFuel)},
      {"host_calls_left", at.options.budget->left(policy::Resource::kHostCalls)},
      {"has_codes",
       has_codes(render_text(report, false)) || has_codes(printable_json(render_json(report, true)))},
      {"secret", read_file(directory + "/secret")},
      {"granted", read_file(directory + "/granted/file")},
      {"has_escaped",
       std::filesystem::exists(directory + "/escaped") || std::filesystem::exists(directory + "/../escaped")},
      {"then", sandbox::name_of(then.outcome)}};
}

}  // namespace membrane::worker
