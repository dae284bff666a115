#include "sandbox/session/warm_lists.h"

#include <gtest/gtest.h>

namespace membrane::sandbox {
namespace {

using Names = std::vector<std::string_view>;
using Lists = std::vector<std::vector<std::string>>;

TEST(WarmLists, ImportsAreFoundWhereverAStatementMayBegin) {
  EXPECT_EQ(imported_packages("import pandas as pd; pd.Series([3, 4]).sum()"), Names{"pandas"});
  EXPECT_EQ(imported_packages("import os, numpy as np, scipy.stats\nfrom sklearn.svm import SVC\n"),
            (Names{"os", "numpy", "scipy", "sklearn"}));
  EXPECT_EQ(imported_packages("def f():\n    import sympy\nif x: import bs4\ntry:\n\tfrom lxml import html"),
            (Names{"sympy", "bs4", "lxml"}));
  EXPECT_EQ(imported_packages("import numpy\nimport numpy.linalg"), Names{"numpy"}) << "each once";
  EXPECT_EQ(imported_packages("important = 1\nx = 'import y'\nimport"), Names{});
  EXPECT_EQ(imported_packages("from . import sibling\nfrom .. import other"), Names{});
}

TEST(WarmLists, AProgramBeginsWhereMostOfItsImportsAre) {
  const Lists lists = {
      {"numpy", "pandas", "scipy.stats", "matplotlib.pyplot"}, {"numpy", "pandas"}, {"sympy"}};
  EXPECT_EQ(best_warm_list(lists, {"pandas"}), &lists[1]) << "of several the shortest";
  EXPECT_EQ(best_warm_list(lists, {"json", "numpy", "pandas", "matplotlib"}), &lists[0]);
  EXPECT_EQ(best_warm_list(lists, {"sympy", "re"}), &lists[2]);
  EXPECT_EQ(best_warm_list(lists, {"json", "re"}), nullptr);
  EXPECT_EQ(best_warm_list(lists, {}), nullptr);
  EXPECT_EQ(best_warm_list({}, {"pandas"}), nullptr);
  EXPECT_EQ(largest_warm_list(lists), &lists[0]);
  EXPECT_EQ(largest_warm_list({}), nullptr);
}

}  // namespace
}  // namespace membrane::sandbox
