#include "host/journal.h"

#include <algorithm>

#include "base/json.h"
#include "base/sha256.h"
#include "base/utf8.h"

namespace membrane::host {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kHeader = "{\"membrane_journal\":1}";
static_assert(kJournalVersion == 1);

// A journal is as large as what the world answered: its limits are those on the answers. Null when it is none.
ordered_json read_result(std::string_view text) {
  constexpr JsonLimits kLimits{.bytes = 4ull << 30, .values = 100'000'000, .memory_bytes = 16ull << 30};
  return read_ordered_json(text, "the result", kLimits).value_or(nullptr);
}

// Everything but the chain, which is computed from this.
ordered_json fields_of(const JournalEntry& entry) {
  ordered_json fields = {{"sequence", entry.sequence},
                         {"function", entry.function},
                         {"arguments_sha256", entry.arguments_sha256},
                         {"decision", entry.decision()},
                         {"errno", static_cast<int32_t>(entry.code)},
                         {"reason", entry.reason},
                         {"grant", entry.grant},
                         {"result", read_result(entry.result)},
                         {"latency_us", entry.latency_us}};
  if (entry.fuel != 0) fields["fuel"] = entry.fuel;
  return fields;
}

std::string line_of(const JournalEntry& entry) {
  ordered_json fields = fields_of(entry);
  fields["chain"] = entry.chain;
  return fields.dump();
}

std::unexpected<Error> wrong(size_t line, std::string_view what) {
  return fail(ErrorCode::kInvalidInput,
              "the journal's line " + std::to_string(line) + " " + std::string(what),
              "a journal can only be used as Membrane wrote it");
}

bool read_text(const ordered_json& object, const char* name, std::string& value) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return false;
  value = found->get<std::string>();
  return true;
}

bool read_number(const ordered_json& object, const char* name, uint64_t& value) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) return false;
  value = found->get<uint64_t>();
  return true;
}

// The fields, as far as they have the right types; whether they are all and canonical shows when
// the entry is written again.
bool read_entry(const ordered_json& object, JournalEntry& entry) {
  uint64_t code = 0;
  if (!object.is_object() || !read_number(object, "sequence", entry.sequence) ||
      !read_text(object, "function", entry.function) ||
      !read_text(object, "arguments_sha256", entry.arguments_sha256) || !read_number(object, "errno", code) ||
      !read_text(object, "reason", entry.reason) || !read_text(object, "grant", entry.grant) ||
      !read_number(object, "latency_us", entry.latency_us) || !read_text(object, "chain", entry.chain) ||
      !object.contains("result"))
    return false;
  if (object.contains("fuel") && !read_number(object, "fuel", entry.fuel)) return false;
  if (code > INT32_MAX || name_of(static_cast<Errno>(code)) == "EUNKNOWN") return false;
  entry.code = static_cast<Errno>(code);
  entry.result = object["result"].dump();
  return true;
}

}  // namespace

std::string_view JournalEntry::decision() const {
  return code == Errno::kOk ? "allowed" : code == Errno::kAccess ? "denied" : "failed";
}

std::string_view Journal::head() const {
  return entries_.empty() ? std::string_view() : entries_.back().chain;
}

Status Journal::append(JournalEntry entry) {
  entry.sequence = entries_.size() + 1;
  // A reason may quote what is not UTF-8, and JSON cannot carry that.
  entry.reason = utf8_repair(entry.reason);
  entry.grant = utf8_repair(entry.grant);
  MEMBRANE_ASSIGN(entry.chain, sha256_hex({head(), fields_of(entry).dump()}));
  entries_.push_back(std::move(entry));
  return {};
}

std::string Journal::to_text() const {
  std::string text(kHeader);
  text += '\n';
  for (const JournalEntry& entry : entries_) text += line_of(entry) + '\n';
  return text;
}

Result<Journal> Journal::parse(std::string_view text) {
  Journal journal;
  for (size_t number = 1; number == 1 || !text.empty(); ++number) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return wrong(number, "does not end");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (number == 1) {
      if (line != kHeader) return wrong(1, "is not " + std::string(kHeader));
      continue;
    }
    JournalEntry entry;
    if (!read_entry(read_result(line), entry)) return wrong(number, "is not an entry");
    if (line_of(entry) != line) return wrong(number, "is not in the canonical form");
    if (entry.sequence != number - 1) return wrong(number, "is out of sequence");
    const std::string chain = entry.chain;
    MEMBRANE_TRY(journal.append(std::move(entry)));
    if (journal.head() != chain) return wrong(number, "has been changed: its chain does not hold");
  }
  return journal;
}

}  // namespace membrane::host
