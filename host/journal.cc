#include "host/journal.h"

#include "base/json_grammar.h"
#include "base/sha256.h"
#include "base/utf8.h"

namespace membrane::host {
namespace {

static_assert(kJournalVersion == 1);

constexpr std::string_view kBeforeHeard = ",\"heard\":", kBeforeLatency = ",\"latency_us\":",
                           kBeforeFuel = ",\"fuel\":", kBeforeChain = ",\"chain\":";

// Everything except the chain, which is computed from it, and the newline.
void write_fields(JsonWriter& out, const JournalEntry& entry, const JournalSink::WriteResult& result) {
  out.raw("{\"sequence\":");
  out.number(entry.sequence);
  out.raw(",\"function\":");
  out.text(entry.function);
  out.raw(",\"arguments_sha256\":");
  out.text(entry.arguments_sha256);
  out.raw(",\"decision\":");
  out.text(entry.decision());
  out.raw(",\"errno\":");
  out.number(static_cast<int64_t>(entry.code));
  out.raw(",\"reason\":");
  out.text(entry.reason);
  out.raw(",\"grant\":");
  out.text(entry.grant);
  if (!entry.heard.empty()) {
    out.raw(kBeforeHeard);
    out.list(entry.heard, [&](const HttpHop& hop) {
      out.raw("[");
      out.text(hop.method);
      out.raw(",");
      out.text(hop.url);
      out.raw("]");
    });
  }
  out.raw(",\"result\":");
  result(out);
  out.raw(kBeforeLatency);
  out.number(entry.latency_us);
  if (entry.fuel == 0) return;
  out.raw(kBeforeFuel);
  out.number(entry.fuel);
}

JournalSink::WriteResult result_of(const JournalEntry& entry) {
  return [&entry](JsonWriter& out) { out.raw(entry.result); };
}

std::unexpected<Error> wrong(uint64_t line, std::string_view what) {
  return fail(ErrorCode::kInvalidInput,
              "the journal's line " + std::to_string(line) + " " + std::string(what),
              "a journal can only be used as Membrane wrote it");
}

// Where the result and the rest of a line begin.
struct LinePlaces {
  size_t result = 0;
  size_t rest = 0;   // after the result
  size_t chain = 0;  // of its field
};

bool read_heard(JsonReader& in, std::vector<HttpHop>& heard) {
  const bool is_list = in.list([&] {
    HttpHop& hop = heard.emplace_back();
    return heard.size() <= kMaxHttpHops && in.skip("[") && in.text(hop.method) && in.skip(",") &&
           in.text(hop.url) && in.skip("]");
  });
  return is_list && !heard.empty();
}

// The fields except the result. False for a line that write_fields() did not write.
bool read_fields(std::string_view line, JournalEntry& entry, LinePlaces& places) {
  JsonReader in(line);
  std::string decision;
  int64_t code = 0;
  if (!in.skip("{\"sequence\":") || !in.number(entry.sequence) || !in.skip(",\"function\":") ||
      !in.text(entry.function) || !in.skip(",\"arguments_sha256\":") || !in.text(entry.arguments_sha256) ||
      !in.skip(",\"decision\":") || !in.text(decision) || !in.skip(",\"errno\":") || !in.number(code) ||
      !in.skip(",\"reason\":") || !in.text(entry.reason) || !in.skip(",\"grant\":") ||
      !in.text(entry.grant) || (in.skip(kBeforeHeard) && !read_heard(in, entry.heard)) ||
      !in.skip(",\"result\":"))
    return false;
  if (code < 0 || code > INT32_MAX || name_of(static_cast<Errno>(code)) == "EUNKNOWN") return false;
  entry.code = static_cast<Errno>(code);
  places.result = line.size() - in.left().size();
  places.rest = line.rfind(kBeforeLatency);
  entry.is_approved = decision == "approved";
  if (decision != entry.decision() || places.rest == std::string_view::npos || places.rest < places.result)
    return false;
  JsonReader rest(line.substr(places.rest + kBeforeLatency.size()));
  if (!rest.number(entry.latency_us)) return false;
  if (rest.skip(kBeforeFuel) && (!rest.number(entry.fuel) || entry.fuel == 0)) return false;
  places.chain = line.size() - rest.left().size();
  return rest.skip(kBeforeChain) && rest.text(entry.chain) && rest.skip("}") && rest.is_at_end() &&
         is_json(line.substr(places.result, places.rest - places.result));
}

}  // namespace

std::string_view JournalEntry::decision() const {
  if (is_approved) return "approved";
  return code == Errno::kOk ? "allowed" : code == Errno::kAccess ? "denied" : "failed";
}

Result<std::string> write_journal_line(std::string_view head, const JournalEntry& entry,
                                       const JournalSink::WriteResult& result,
                                       const std::function<void(std::string_view piece)>& take) {
  MEMBRANE_ASSIGN(Sha256 hash, Sha256::begin());
  hash.add(head);
  {
    JsonWriter out([&](std::string_view piece) {
      hash.add(piece);
      take(piece);
    });
    write_fields(out, entry, result);
  }
  hash.add("}");
  MEMBRANE_ASSIGN(std::string chain, hash.finish());
  take(std::string(kBeforeChain) + "\"" + chain + "\"}\n");
  return chain;
}

Result<JournalEntry> read_journal_line(std::string line, uint64_t number, std::string_view head) {
  JournalEntry entry;
  LinePlaces places;
  if (!read_fields(line, entry, places)) return wrong(number, "is not an entry");
  if (entry.sequence != number - 1) return wrong(number, "is out of sequence");
  MEMBRANE_ASSIGN(const std::string chain,
                  sha256_hex({head, std::string_view(line).substr(0, places.chain), "}"}));
  if (entry.chain != chain) return wrong(number, "has been changed: its chain does not hold");
  line.resize(places.rest);
  line.erase(0, places.result);
  entry.result = std::move(line);
  return entry;
}

Result<JournalEntry> read_unchained_line(std::string line) {
  JournalEntry entry;
  LinePlaces places;
  if (!read_fields(line, entry, places)) return wrong(1, "is not an entry");
  line.resize(places.rest);
  line.erase(0, places.result);
  entry.result = std::move(line);
  return entry;
}

void repair_texts(JournalEntry& entry) {
  entry.reason = utf8_repair(entry.reason);
  entry.grant = utf8_repair(entry.grant);
  for (HttpHop& hop : entry.heard) {
    hop.method = utf8_repair(hop.method);
    hop.url = utf8_repair(hop.url);
  }
}

Status check_journal_header(std::string_view line) {
  if (line == kJournalHeader) return {};
  return wrong(1, "is not " + std::string(kJournalHeader));
}

std::string_view Journal::head() const {
  return entries_.empty() ? std::string_view() : entries_.back().chain;
}

Status Journal::append(JournalEntry entry, const WriteResult& result) {
  entry.result.clear();
  {
    JsonWriter out([&](std::string_view piece) { entry.result += piece; });
    result(out);
  }
  return append(std::move(entry));
}

Status Journal::append(JournalEntry entry) {
  entry.sequence = entries_.size() + 1;
  repair_texts(entry);
  MEMBRANE_ASSIGN(entry.chain, write_journal_line(head(), entry, result_of(entry), [](std::string_view) {}));
  entries_.push_back(std::move(entry));
  return {};
}

std::string Journal::to_text() const {
  std::string text(kJournalHeader);
  text += '\n';
  for (const JournalEntry& entry : entries_) {
    {
      JsonWriter out([&](std::string_view piece) { text += piece; });
      write_fields(out, entry, result_of(entry));
    }
    text.append(kBeforeChain).append("\"").append(entry.chain).append("\"}\n");
  }
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
      MEMBRANE_TRY(check_journal_header(line));
      continue;
    }
    MEMBRANE_ASSIGN(JournalEntry entry, read_journal_line(std::string(line), number, journal.head()));
    journal.entries_.push_back(std::move(entry));
  }
  return journal;
}

}  // namespace membrane::host
