#include "lang/foreign_source.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/utf8.h"

namespace membrane::lang {
namespace {

struct Sign {
  std::string_view text;
  std::string_view language;
};

// How sources of a language begin. The first match wins.
constexpr Sign kBeginnings[] = {
    {"```", "Markdown"},
    {"#!/usr/bin/env python", "Python"},
    {"#!/usr/bin/python", "Python"},
    {"#!/usr/bin/env node", "JavaScript"},
    {"#!", "a shell script"},
    {"#include", "C"},
    {"#define", "C"},
    {"int main", "C"},
    {"void ", "C"},
    {"package ", "Go"},
    {"fn ", "Rust"},
    {"use ", "Rust"},
    {"pub ", "Rust"},
    {"<?php", "PHP"},
    {"<", "HTML"},
    {"def ", "Python"},
    {"from ", "Python"},
    {"print(", "Python"},
    {"class ", "Python"},
    {"async def ", "Python"},
    {"const ", "JavaScript"},
    {"let ", "JavaScript"},
    {"var ", "JavaScript"},
    {"function ", "JavaScript"},
    {"async ", "JavaScript"},
    {"export ", "JavaScript"},
    {"console.", "JavaScript"},
    {"//", "JavaScript or C"},
    {"/*", "JavaScript or C"},
    {"'use strict'", "JavaScript"},
    {"\"use strict\"", "JavaScript"},
    {"{", "JSON"},
    {"[", "JSON"},
    {"SELECT ", "SQL"},
    {"curl ", "a shell script"},
    {"echo ", "a shell script"},
};

constexpr Sign kEndings[] = {
    {".py", "Python"},         {".js", "JavaScript"}, {".mjs", "JavaScript"},
    {".ts", "TypeScript"},     {".c", "C"},           {".cc", "C++"},
    {".cpp", "C++"},           {".rs", "Rust"},       {".go", "Go"},
    {".sh", "a shell script"},
};

// `import` begins Python and JavaScript: only in the latter do quotes or braces follow it.
std::string_view language_of(std::string_view text, std::string_view name) {
  for (const Sign& sign : kEndings)
    if (name.ends_with(sign.text)) return sign.language;
  if (text.starts_with("import ")) {
    const std::string_view line = text.substr(0, text.find('\n'));
    return line.find_first_of("\"'{") == std::string_view::npos ? "Python" : "JavaScript";
  }
  for (const Sign& sign : kBeginnings)
    if (text.starts_with(sign.text)) return sign.language;
  if (text.starts_with('#')) return "Python or a shell script";
  return {};
}

// Binary file formats, by their first bytes.
constexpr Sign kFormats[] = {
    {"\x7F"
     "ELF",
     "an ELF program"},
    {"MZ", "a Windows program"},
    {"\x89PNG", "a PNG image"},
    {"%PDF", "a PDF document"},
    {"PK\x03\x04", "a ZIP archive"},
    {"\x1F\x8B", "a gzip archive"},
    {"!<arch>", "a library archive"},
    {"SQLite format 3", "a SQLite database"},
    {"BC\xC0\xDE", "a file of LLVM bitcode"},
    {"\xCA\xFE\xBA\xBE", "a Java class or a program of macOS"},
    {"\xCF\xFA\xED\xFE", "a program of macOS"},
    {"\x28\xB5\x2F\xFD", "a zstd archive"},
    {"\xFD"
     "7zXZ",
     "an xz archive"},
    {"BZh", "a bzip2 archive"},
};

// Text has none of these bytes, in any accepted encoding.
bool has_control_bytes(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f';
  });
}

// Without a place: there is no line to show.
Diagnostic not_a_program(std::string found, std::string message, std::string hint) {
  Diagnostic d;
  d.code = DiagnosticCode::kUnsupportedLanguage;
  d.found = std::move(found);
  d.expected = "WAT or a Wasm binary";
  d.message = std::move(message);
  d.hint = std::move(hint);
  return d;
}

// For an empty file, or a binary file other than Wasm.
std::optional<Diagnostic> no_text(std::string_view source, size_t begin) {
  constexpr size_t kLookedAt = 512;
  if (begin == std::string_view::npos)
    return not_a_program(source.empty() ? "an empty file" : "nothing but white space", "the program is empty",
                         "Write one: (func (export \"run\") …).");
  if (source[begin] == '(' || source.substr(begin).starts_with(";;")) return std::nullopt;
  const Sign* const format =
      std::ranges::find_if(kFormats, [&](const Sign& sign) { return source.starts_with(sign.text); });
  const bool is_format = format != std::end(kFormats);
  if (!is_format && !has_control_bytes(source.substr(0, kLookedAt))) return std::nullopt;
  const std::string found(is_format ? format->language : "a file of bytes");
  return not_a_program(found, "this is " + found + ", neither a WebAssembly binary nor WAT",
                       std::string(found.ends_with("archive") ? "Unpack it first. " : "") +
                           "Give a .wasm file (it begins with the bytes 00 61 73 6D), or WAT as text.");
}

}  // namespace

std::optional<Diagnostic> foreign_source(std::string_view source, std::string_view name) {
  const size_t begin = source.find_first_not_of(" \t\r\n", byte_order_mark_bytes(source));
  if (auto nothing = no_text(source, begin)) return nothing;
  if (source[begin] == '(' || source.substr(begin).starts_with(";;")) return std::nullopt;
  const std::string_view language = language_of(source.substr(begin), name);
  if (language.empty()) return std::nullopt;
  Diagnostic d;
  d.code = DiagnosticCode::kUnsupportedLanguage;
  d.place = locate(source, static_cast<uint32_t>(begin), static_cast<uint32_t>(begin + 1));
  d.found = language;
  d.expected = "WAT or a Wasm binary";
  if (language == "Markdown") {
    d.message = "the program is in a Markdown fence";
    d.hint = "Give only the program, without the ``` lines.";
  } else {
    d.message = "this looks like " + std::string(language) + ", but it is read as WAT or Wasm here";
    if (language == "Python") d.hint = "Run it with --lang python, or name the file .py.";
    if (language == "JavaScript") d.hint = "Run it with --lang js, or name the file .js.";
  }
  return d;
}

}  // namespace membrane::lang
