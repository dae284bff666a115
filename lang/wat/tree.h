// The tokens of a text, read as a tree: a node is an atom (a word, a name, a literal) or a form `( … )`. A node is
// identified by the index of its first token; nothing is built.
//
// Ownership: borrows text and tokens. Threads: immutable.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "wasm/text/lexer.h"

namespace membrane::lang {

class Tree {
 public:
  using Node = uint32_t;

  // `tokens` from wasm::tokenize() for `text`, without an error.
  Tree(std::string_view text, const std::vector<wasm::Token>& tokens) : text_(text), tokens_(tokens) {}

  [[nodiscard]] wasm::TokenKind kind(Node n) const { return tokens_[n].kind; }
  [[nodiscard]] bool is_form(Node n) const { return kind(n) == wasm::TokenKind::kOpen; }
  [[nodiscard]] bool is_id(Node n) const { return kind(n) == wasm::TokenKind::kId; }
  [[nodiscard]] bool is_integer(Node n) const { return kind(n) == wasm::TokenKind::kInteger; }
  [[nodiscard]] bool is_word(Node n) const { return kind(n) == wasm::TokenKind::kKeyword; }
  // The form `(word …)`.
  [[nodiscard]] bool is_form(Node n, std::string_view word) const { return is_form(n) && head(n) == word; }

  // The word that a form begins with; empty if it begins otherwise, and for atoms.
  [[nodiscard]] std::string_view head(Node n) const {
    return is_form(n) && is_word(n + 1) ? word(n + 1) : std::string_view();
  }
  // The token's text.
  [[nodiscard]] std::string_view word(Node n) const { return tokens_[n].in(text_); }

  // The first node of a form after its head word, and the token that closes it.
  [[nodiscard]] Node first(Node form) const { return form + 2; }
  [[nodiscard]] Node close(Node form) const { return tokens_[form].partner; }
  // The form that a token closes.
  [[nodiscard]] Node open_of(Node close) const { return tokens_[close].partner; }
  // The node after this one, or the close of the enclosing form.
  [[nodiscard]] Node next(Node n) const { return is_form(n) ? close(n) + 1 : n + 1; }

  // Byte offsets in the text.
  [[nodiscard]] uint32_t begin(Node n) const { return tokens_[n].begin; }
  [[nodiscard]] uint32_t end(Node n) const { return is_form(n) ? tokens_[close(n)].end : tokens_[n].end; }

  [[nodiscard]] std::string_view text() const { return text_; }
  // Number of tokens, including the final kEnd.
  [[nodiscard]] Node size() const { return static_cast<Node>(tokens_.size()); }

 private:
  std::string_view text_;
  const std::vector<wasm::Token>& tokens_;
};

}  // namespace membrane::lang
