"""Is variant B better than A? Two tests and a confidence interval."""
import numpy as np
from scipy import stats

visitors = {"A": 2380, "B": 2411}
conversions = {"A": 191, "B": 242}

rates = {k: conversions[k] / visitors[k] for k in visitors}
for k in rates:
    print(f"{k}: {conversions[k]}/{visitors[k]} = {rates[k]:.4f}")

pooled = sum(conversions.values()) / sum(visitors.values())
se = np.sqrt(pooled * (1 - pooled) * (1 / visitors["A"] + 1 / visitors["B"]))
z = (rates["B"] - rates["A"]) / se
p = 2 * stats.norm.sf(abs(z))
print(f"z = {z:.4f}, p = {p:.5f}")

table = [[conversions[k], visitors[k] - conversions[k]] for k in ("A", "B")]
chi2, p_chi, dof, expected = stats.chi2_contingency(table, correction=False)
print(f"chi2 = {chi2:.4f}, p = {p_chi:.5f}, dof = {dof}")
print("expected:", np.round(expected, 2).tolist())

diff_se = np.sqrt(sum(rates[k] * (1 - rates[k]) / visitors[k] for k in rates))
low, high = (rates["B"] - rates["A"]) + np.array([-1, 1]) * stats.norm.ppf(0.975) * diff_se
print(f"95% CI of the difference: [{low:.4f}, {high:.4f}]")
print("Verdict:", "B is better" if p < 0.05 and z > 0 else "no clear difference")

rng = np.random.default_rng(7)
times_a = rng.normal(31.0, 6.0, 80)
times_b = rng.normal(28.5, 6.0, 75)
t = stats.ttest_ind(times_a, times_b, equal_var=False)
print(f"Welch t = {t.statistic:.3f}, p = {t.pvalue:.4f}")
u = stats.mannwhitneyu(times_a, times_b)
print(f"Mann-Whitney U = {u.statistic:.0f}, p = {u.pvalue:.4f}")
