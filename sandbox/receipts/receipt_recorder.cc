#include "sandbox/receipts/receipt_recorder.h"

#include <algorithm>

#include "base/ed25519.h"
#include "base/hex.h"
#include "base/sha256.h"
#include "base/text.h"
#include "engine/code/fuel.h"
#include "sandbox/run/report_building.h"

namespace membrane::sandbox {
namespace {

constexpr uint64_t kMostInputBytes = kMaxPrivateBytes / 4;
constexpr uint64_t kMostActBytes = 128u << 20;
constexpr uint64_t kBytesOfFile = 128;  // per file, in addition to its path
constexpr size_t kSessionBytes = 16;

Result<Facts> hash_fact(std::string_view text) {
  MEMBRANE_ASSIGN(std::string hash, sha256_hex(text));
  return Facts{{"sha256", std::move(hash)}};
}

Status add_policy(ReceiptSheet& sheet, const policy::Policy& policy) {
  const std::string json = sealed_policy(policy);
  MEMBRANE_ASSIGN(const Facts facts, hash_fact(json));
  return sheet.add("policy", facts, json);
}

}  // namespace

void ReceiptRecorder::listen(std::function<InputPiece(std::chrono::milliseconds)>& read_input) {
  if (!read_input) return;
  read_input = [this, read = std::move(read_input)](std::chrono::milliseconds patience) {
    InputPiece piece = read(patience);
    input_bytes_ += piece.bytes.size();
    if (input_bytes_ > kMostInputBytes || held_bytes() > most_bytes_)
      failed_ = fail(ErrorCode::kExhausted, "the run has read more of its input than a receipt keeps: " +
                                                count_of(std::min(kMostInputBytes, most_bytes_), "byte"));
    else if (!piece.bytes.empty()) input_.push_back(piece.bytes);
    return piece;
  };
}

void ReceiptRecorder::attach(Turn& turn) {
  is_live_ = turn.read_input != nullptr;
  listen(turn.read_input);
}

void ReceiptRecorder::attach(RunOptions& options) {
  options.record = this;
  is_ambient_ = options.input_is_ambient;
  has_input_ = options.read_input != nullptr;
  listen(options.read_input);
  options.on_file = [this, keep = std::move(options.on_file)](std::string_view path, std::string_view bytes) {
    auto hash = sha256_hex(bytes);
    file_bytes_ += path.size() + kBytesOfFile;
    if (held_bytes() > most_bytes_)
      failed_ = fail(ErrorCode::kExhausted, "the run has made more files than its receipt has room for");
    else if (hash) files_.push_back({std::string(path), bytes.size(), *std::move(hash)});
    else failed_ = std::unexpected(hash.error());
    if (keep) keep(path, bytes);
  };
}

// The call was made nevertheless; its program gets an error and can continue, but a receipt of that would not be
// true.
Status ReceiptRecorder::check_calls() {
  if (calls_.bytes() > kMaxPrivateBytes / 2 || held_bytes() > most_bytes_)
    failed_ = fail(ErrorCode::kExhausted, "a receipt has no room for more host calls");
  return failed_;
}

Status ReceiptRecorder::append(host::JournalEntry entry, const WriteResult& result) {
  MEMBRANE_TRY(check_calls());
  entry.sequence = ++sequence_;
  host::repair_texts(entry);
  std::string answer;  // which may be written only once
  {
    host::JsonWriter out([&](std::string_view piece) { answer += piece; });
    result(out);
  }
  const auto write_result = [&](host::JsonWriter& out) { out.raw(answer); };
  std::string line;
  chain_before_ = chain_;
  MEMBRANE_ASSIGN(chain_, host::write_journal_line(chain_before_, entry, write_result,
                                                   [&](std::string_view piece) { line += piece; }));
  line.pop_back();  // the newline
  const Facts facts = {{"function", entry.function},
                       {"decision", std::string(entry.decision())},
                       {"errno", std::string(host::name_of(entry.code))}};
  MEMBRANE_TRY(calls_.add("call", facts, json_of_call(line, entry.decided_by)));
  MEMBRANE_TRY(check_calls());
  return also_ == nullptr ? Status() : also_->append(std::move(entry), write_result);
}

// For a Linux sandbox, whose calls are known only from its report.
Status ReceiptRecorder::add_calls(const Report& report) {
  if (report.host_calls_dropped != 0)
    return fail(ErrorCode::kExhausted,
                "the command made " + std::to_string(report.host_calls_dropped) +
                    " more host calls than are kept, so that no receipt has them all",
                "Seal commands that make fewer: at most 10,000 each.");
  for (const HostCallRecord& record : report.host_calls) {
    std::string arguments;
    for (const std::string& each : record.decided_by) arguments += std::to_string(each.size()) + ":" + each;
    host::JournalEntry entry;
    entry.function = record.name;
    MEMBRANE_ASSIGN(entry.arguments_sha256, sha256_hex(arguments));
    entry.code = call_of(record).code;
    entry.reason = record.reason;
    entry.grant = record.grant;
    entry.latency_us = record.latency_us;
    entry.decided_by = record.decided_by;
    MEMBRANE_TRY(append(std::move(entry), [](host::JsonWriter& out) { out.raw("null"); }));
  }
  return {};
}

// A turn that was sealed keeps its entry in its receipt: the next one has another entry with its number.
void ReceiptRecorder::drop_last() {
  --sequence_;
  chain_ = chain_before_;
  calls_.drop_last();
  if (also_ != nullptr) also_->drop_last();
}

Status ReceiptRecorder::has_room_for(uint64_t bytes) const {
  const uint64_t most = std::min(kMostActBytes, most_bytes_), held = std::max(act_bytes_, held_bytes());
  if (held <= most && bytes <= most - held) return {};
  return fail(ErrorCode::kExhausted,
              "the next receipt has no room for more: it keeps at most " + count_of(most, "byte") +
                  " of what is put into a session before a turn",
              "Run something in the session: that seals what has been put so far.");
}

Status ReceiptRecorder::has_room_for(const policy::Policy& policy) const {
  return has_room_for(sealed_policy(policy).size() + kBytesOfFile);
}

void ReceiptRecorder::note(OwnerAct act) {
  for (const std::string& word : act) act_bytes_ += word.size();
  acts_.push_back(std::move(act));
  files_.clear();  // only the turn reports those
  file_bytes_ = 0;
}

void ReceiptRecorder::note_policy(const policy::Policy& policy) {
  note({"policy", sealed_policy(policy), std::to_string(sequence_)});
}

void ReceiptRecorder::break_chain(const std::string& why) {
  forget();
  failed_ = fail(ErrorCode::kUnavailable,
                 "a turn of the session ran and was not sealed, so that no later one is: " + why,
                 "Begin a new session.");
}

std::string ReceiptRecorder::keep() const {
  return host::json_of([&](host::JsonWriter& out) {
    out.raw("{\"session\":");
    out.text(session_);
    out.raw(",\"turn\":");
    out.number(turn_);
    out.raw(",\"previous\":");
    out.text(previous_);
    out.raw(",\"sequence\":");
    out.number(sequence_);
    out.raw(",\"chain\":");
    out.text(chain_);
    out.raw(",\"failed\":");
    out.bytes(failed_ ? "" : failed_.error().message);
    out.raw(",\"items\":");
    out.bytes(calls_.items());
    out.raw(",\"lines\":");
    out.bytes(calls_.lines());
    out.raw(",\"acts\":");
    out.raw(json_of_acts(acts_));
    out.raw("}");
  });
}

Status ReceiptRecorder::restore(std::string_view kept) {
  host::JsonReader in(kept);
  std::string failed, items, lines;
  const bool is_whole = in.skip("{\"session\":") && in.text(session_) && in.skip(",\"turn\":") &&
                        in.number(turn_) && in.skip(",\"previous\":") && in.text(previous_) &&
                        in.skip(",\"sequence\":") && in.number(sequence_) && in.skip(",\"chain\":") &&
                        in.text(chain_) && in.skip(",\"failed\":") && in.bytes(failed) &&
                        in.skip(",\"items\":") && in.bytes(items) && in.skip(",\"lines\":") &&
                        in.bytes(lines) && in.skip(",\"acts\":") && in.left().ends_with('}');
  auto acts = is_whole ? read_acts(in.left().substr(0, in.left().size() - 1)) : std::nullopt;
  if (!acts) return fail(ErrorCode::kInvalidInput, "what was kept of the session's receipts is damaged");
  if (!failed.empty()) failed_ = fail(ErrorCode::kUnavailable, failed);
  chain_before_ = chain_;
  calls_.assign(std::move(items), std::move(lines));
  acts_.clear();
  act_bytes_ = 0;
  for (OwnerAct& act : *acts) note(std::move(act));
  return {};
}

void ReceiptRecorder::forget() {
  acts_.clear();
  act_bytes_ = 0;
  calls_.clear();
  input_.clear();
  input_bytes_ = 0;
  files_.clear();
  file_bytes_ = 0;
  failed_ = {};
}

Status ReceiptRecorder::add_made_of(ReceiptSheet& sheet, MadeOf& made_of) {
  MEMBRANE_ASSIGN(Facts program, hash_fact(made_of.source));
  program.emplace_back("bytes", std::to_string(made_of.source.size()));
  MEMBRANE_TRY(sheet.add("program", program, json_of_bytes(made_of.source)));
  const bool is_linux = !made_of.computer.empty();
  if (is_linux) {
    description_ = made_of.computer;
  } else if (description_.empty()) {
    MEMBRANE_ASSIGN(description_, describe_template(made_of.language));
  }
  MEMBRANE_ASSIGN(Facts language, hash_fact(description_));
  language.emplace_back("language", is_linux                      ? std::string(kLinuxLanguage)
                                    : made_of.language == nullptr ? "wasm"
                                                                  : made_of.language->package().name);
  MEMBRANE_TRY(sheet.add("template", language, description_));
  MEMBRANE_TRY(add_policy(sheet, *made_of.policy));
  made_of.invocation.has_input = has_input_ || is_live_;
  made_of.invocation.input_is_live = is_live_;
  made_of.invocation.input_is_ambient = is_ambient_;
  MEMBRANE_TRY(sheet.add("invocation", {}, made_of.invocation.to_json()));
  if (!acts_.empty()) MEMBRANE_TRY(sheet.add("between", {}, json_of_acts(acts_)));
  return sheet.add("input", {}, json_of_pieces(input_));
}

Result<SealedReceipt> ReceiptRecorder::seal_run(MadeOf made_of, const Report& report) {
  return seal({}, std::move(made_of), report);
}

Result<SealedReceipt> ReceiptRecorder::seal_turn(MadeOf made_of, const Report& report) {
  MEMBRANE_TRY(failed_);
  if (session_.empty()) {
    MEMBRANE_ASSIGN(const std::string bytes, system_random(kSessionBytes));
    session_ = hex_of(bytes);
  }
  ReceiptHead head;
  head.kind = ReceiptKind::kTurn;
  head.session = session_;
  head.turn = ++turn_;
  head.previous = previous_;
  auto sealed = seal(std::move(head), std::move(made_of), report);
  if (!sealed) {
    break_chain(sealed.error().message);
    return sealed;
  }
  previous_ = sealed->digest;
  return sealed;
}

Result<SealedReceipt> ReceiptRecorder::seal(ReceiptHead head, MadeOf made_of, const Report& report) {
  MEMBRANE_TRY(failed_);
  head.membrane = membrane_version();
  head.made_at = receipt_time_now();
  ReceiptSheet sheet;
  const bool is_linux = !made_of.computer.empty();
  MEMBRANE_TRY(add_made_of(sheet, made_of));
  if (is_linux) MEMBRANE_TRY(add_calls(report));
  sheet.append(calls_);
  for (const auto& [name, content] : output_of(report, files_)) MEMBRANE_TRY(sheet.add(name, {}, content));
  ReceiptEnd end{std::string(name_of(report.outcome)), std::nullopt, report.fuel_used, engine::kCostVersion};
  if (report.exit_code) end.exit_code = *report.exit_code;
  MEMBRANE_ASSIGN(SealedReceipt sealed, sandbox::seal(head, sheet, end, key_));
  forget();
  return sealed;
}

Result<SealedReceipt> seal_task(const SealedTask& task, const ReceiptKey& key) {
  ReceiptHead head;
  head.kind = ReceiptKind::kTask;
  head.membrane = membrane_version();
  head.made_at = receipt_time_now();
  ReceiptSheet sheet;
  MEMBRANE_TRY(sheet.add("task", {}, json_of_bytes(task.text)));
  MEMBRANE_TRY(sheet.add("model", {{"name", task.model}}, "null"));
  MEMBRANE_TRY(add_policy(sheet, *task.policy));
  for (const auto& [digest, file] : task.turns)
    MEMBRANE_TRY(sheet.add("turn", {{"receipt", digest}}, json_of_bytes(file)));
  MEMBRANE_TRY(sheet.add("answer", {}, json_of_bytes(task.answer)));
  return seal(head, sheet, {task.stop, std::nullopt, task.fuel, engine::kCostVersion}, key);
}

}  // namespace membrane::sandbox
