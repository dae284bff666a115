#include "agent/catalog.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "base/diagnostic.h"
#include "base/text.h"

namespace membrane::agent {

namespace {

struct Line {
  std::string key;  // empty: continues the previous one
  std::string value;
  size_t number = 0;  // 1-based
};

bool is_key(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

// The front matter's lines; a line that is not "key: value" has the key "?".
std::vector<Line> front_lines(std::string_view source) {
  std::vector<Line> lines;
  for (size_t number = 1; source.starts_with(";;"); ++number) {
    const size_t end = std::min(source.find('\n'), source.size());
    const std::string_view text = source.substr(2, end - 2);
    source.remove_prefix(std::min(end + 1, source.size()));
    if (trimmed(text).empty()) break;
    const size_t colon = text.find(':');
    const std::string key(colon == std::string_view::npos ? "" : trimmed(text.substr(0, colon)));
    if (text.starts_with("   ") && !lines.empty()) {
      lines.push_back({"", std::string(trimmed(text)), number});
    } else if (is_key(key)) {
      lines.push_back({key, std::string(trimmed(text.substr(colon + 1))), number});
    } else {
      lines.push_back({"?", std::string(trimmed(text)), number});
    }
  }
  return lines;
}

bool is_name(std::string_view name) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return !name.empty() && name.size() <= 64 && letter(name.front()) && std::ranges::all_of(name, [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    if (const auto item = trimmed(text.substr(0, comma)); !item.empty()) items.emplace_back(item);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return items;
}

struct Field {
  std::string_view key;
  std::string CatalogEntry::* member;
};
constexpr std::array kFields{
    Field{"name", &CatalogEntry::name},           Field{"does", &CatalogEntry::does},
    Field{"arguments", &CatalogEntry::arguments}, Field{"input", &CatalogEntry::input},
    Field{"result", &CatalogEntry::result},       Field{"example", &CatalogEntry::example},
    Field{"entry", &CatalogEntry::entry},
};

std::unexpected<Error> malformed(const std::string& file, size_t line, std::string what, std::string hint) {
  return fail(ErrorCode::kInvalidInput, file + ":" + std::to_string(line) + ": " + std::move(what),
              std::move(hint));
}

// The member for the value of `key`; "needs" is collected separately. Null: no such key.
std::string* slot_of(CatalogEntry& entry, std::string& needs, std::string_view key) {
  if (key == "needs") return &needs;
  for (const Field& field : kFields)
    if (field.key == key) return &(entry.*field.member);
  return nullptr;
}

Result<CatalogEntry> parse_entry(std::string source, std::string file_name) {
  CatalogEntry entry;
  std::string needs;
  std::string* slot = nullptr;
  std::set<std::string> seen;
  for (const Line& line : front_lines(source)) {
    if (line.key.empty() && slot != nullptr) {
      *slot += " " + line.value;
      continue;
    }
    slot = slot_of(entry, needs, line.key);
    if (slot == nullptr) {
      const std::vector<std::string_view> keys{"name",   "does",    "arguments", "input",
                                               "result", "example", "needs",     "entry"};
      const std::string_view near = nearest(line.key, keys);
      return malformed(file_name, line.number,
                       line.key == "?" ? "this line of the front matter is not \";; key: value\""
                                       : "the front matter has no key \"" + line.key + "\"",
                       near.empty() ? "Keys: name, does, arguments, input, result, example, needs, entry; a "
                                      "bare \";;\" ends the front matter."
                                    : "Did you mean \"" + std::string(near) + "\"?");
    }
    if (!seen.insert(line.key).second)
      return malformed(file_name, line.number, "\"" + line.key + "\" stands here a second time",
                       "Keep one of the two.");
    if (line.value.empty())
      return malformed(file_name, line.number, "\"" + line.key + "\" has no value",
                       "Write one, or leave the line out.");
    *slot = line.value;
  }
  entry.needs = split_list(needs);
  entry.source = std::move(source);
  entry.file_name = std::move(file_name);
  return entry;
}

}  // namespace

Status Catalog::add(std::string source, std::string file_name) {
  if (source.size() > kMaxProgramBytes)
    return malformed(file_name, 1,
                     "the program is longer than " + std::to_string(kMaxProgramBytes) + " bytes",
                     "Split it.");
  if (entries_.size() == kMaxEntries)
    return fail(ErrorCode::kExhausted,
                "The catalog holds " + std::to_string(kMaxEntries) + " programs and no more.");
  MEMBRANE_ASSIGN(CatalogEntry entry, parse_entry(std::move(source), std::move(file_name)));
  if (!is_name(entry.name))
    return malformed(entry.file_name, 1,
                     entry.name.empty() ? "the front matter has no name"
                                        : "\"" + entry.name + "\" is no name for a program",
                     "Begin the file with \";; name: NAME\"; letters a-z, digits, - and _.");
  if (entry.name == kReservedName)
    return malformed(
        entry.file_name, 1,
        "a program cannot be called \"" + entry.name + "\", by which models ask about host functions",
        "Give it another name.");
  if (entry.does.empty())
    return malformed(entry.file_name, 1, "the front matter does not say what the program does",
                     "Add a line \";; does: …\".");
  if (std::filesystem::path(entry.file_name).stem() != entry.name)
    return malformed(entry.file_name, 1,
                     "the program's name is \"" + entry.name + "\", and its file has another",
                     "Call the file " + entry.name + ".wat.");
  const auto at = std::ranges::lower_bound(entries_, entry.name, {}, &CatalogEntry::name);
  if (at != entries_.end() && at->name == entry.name)
    return malformed(entry.file_name, 1, "there is a program \"" + entry.name + "\" already",
                     "Give one of them another name.");
  entries_.insert(at, std::move(entry));
  return {};
}

Result<Catalog> Catalog::load(const std::string& directory) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error))
    if (at->path().extension() == ".wat") files.push_back(at->path());
  if (error)
    return fail(ErrorCode::kNotFound,
                "The catalog " + directory + " cannot be read: " + error.message() + ".",
                "Name a directory of *.wat files.");
  std::ranges::sort(files);
  Catalog catalog;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    std::string text(kMaxProgramBytes + 1, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(in.gcount()));
    if (auto added = catalog.add(std::move(text), file.filename().string()); !added)
      catalog.problems_.push_back(added.error());
  }
  return catalog;
}

Result<const CatalogEntry*> Catalog::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(entries_, name, {}, &CatalogEntry::name);
  if (at != entries_.end() && at->name == name) return &*at;
  std::vector<std::string_view> names;
  for (const CatalogEntry& entry : entries_) names.push_back(entry.name);
  const std::string_view near = nearest(name, names);
  return fail(ErrorCode::kNotFound, "The catalog has no program \"" + std::string(name.substr(0, 64)) + "\".",
              near.empty() ? "The system message lists the programs that there are."
                           : "Did you mean \"" + std::string(near) + "\"?");
}

namespace {

void append_short(std::string& out, const CatalogEntry& entry) {
  out += (out.empty() ? "" : ", ") + entry.name;
  if (!entry.arguments.empty()) out += "(" + entry.arguments + ")";
}

void append_whole(std::string& out, const CatalogEntry& entry) {
  out += "- " + entry.name;
  if (!entry.arguments.empty()) out += "(" + entry.arguments + ")";
  out += ": " + entry.does;
  if (!entry.input.empty()) out += " Input: " + entry.input;
  if (!entry.result.empty()) out += " Gives: " + entry.result;
  for (size_t i = 0; i < entry.needs.size(); ++i) out += (i == 0 ? " Needs " : ", ") + entry.needs[i];
  if (!entry.needs.empty()) out += ".";
  if (!entry.example.empty()) out += " Example: " + entry.example;
  out += "\n";
}

std::string render(const Catalog& catalog, std::span<const std::string_view> ungranted,
                   void (*append)(std::string&, const CatalogEntry&)) {
  const auto is_ungranted = [&](const std::string& need) {
    return std::ranges::find(ungranted, need) != ungranted.end();
  };
  std::string out;
  size_t left_out = 0;
  std::set<std::string> missing;
  for (const CatalogEntry& entry : catalog.entries()) {
    if (std::ranges::any_of(entry.needs, is_ungranted)) {
      ++left_out;
      std::ranges::copy_if(entry.needs, std::inserter(missing, missing.end()), is_ungranted);
      continue;
    }
    append(out, entry);
  }
  if (!out.empty() && !out.ends_with('\n')) out += "\n";
  if (left_out == 0) return out;
  out += std::to_string(left_out) + (left_out == 1 ? " more needs" : " more need") + " what is not granted: ";
  for (const std::string& need : missing) out += (need == *missing.begin() ? "" : ", ") + need;
  return out + ".\n";
}

}  // namespace

std::string render_list(const Catalog& catalog, std::span<const std::string_view> ungranted) {
  return render(catalog, ungranted, append_whole);
}

std::string render_short_list(const Catalog& catalog, std::span<const std::string_view> ungranted) {
  return render(catalog, ungranted, append_short);
}

std::string front_matter(std::string_view source, std::string_view key) {
  for (const Line& line : front_lines(source))
    if (line.key == key) return line.value;
  return {};
}

Result<std::vector<std::string>> split_arguments(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (quote != 0 ? c == quote : (c == '"' || c == '\'')) {
      quote = quote != 0 ? 0 : c;
      if (!in_word) words.emplace_back();
      in_word = true;
    } else if (blank && quote == 0) {
      in_word = false;
    } else {
      if (!in_word) words.emplace_back();
      in_word = true;
      words.back() += c;
    }
  }
  if (quote != 0)
    return fail(ErrorCode::kInvalidInput,
                std::string("The quote ") + quote + " is not closed in the arguments.", "Close it.");
  return words;
}

}  // namespace membrane::agent
