import numpy as np
from scipy import integrate, interpolate, optimize

# Minimum of the Rosenbrock function
result = optimize.minimize(optimize.rosen, x0=[-1.2, 1.0], method="BFGS")
print("minimum at", np.round(result.x, 3), "success:", result.success)

# Root
root = optimize.brentq(lambda x: np.cos(x) - x, 0, 1)
print("cos(x) = x at", round(root, 9))

# Curve fit
x = np.linspace(0, 4, 30)
y = 2.5 * np.exp(-1.3 * x) + 0.5 + 0.01 * np.sin(40 * x)
params, cov = optimize.curve_fit(lambda t, a, b, c: a * np.exp(-b * t) + c, x, y, p0=(1, 1, 0))
print("fit:", np.round(params, 2))

# Integral
area, error = integrate.quad(lambda t: np.exp(-t**2), -np.inf, np.inf)
print("gauss integral squared:", round(area**2, 8))

# ODE: predator and prey
def lotka_volterra(t, s, a=1.1, b=0.4, c=0.4, d=0.1):
    prey, predator = s
    return [a * prey - b * prey * predator, d * prey * predator - c * predator]

sol = integrate.solve_ivp(lotka_volterra, (0, 20), [10, 5], t_eval=np.linspace(0, 20, 5), rtol=1e-8)
for t, prey, predator in zip(sol.t, *sol.y):
    print(f"t={t:5.1f} prey={prey:7.3f} predator={predator:7.3f}")

# Linear programme: maximise 3x + 5y
lp = optimize.linprog(c=[-3, -5], A_ub=[[1, 0], [0, 2], [3, 2]], b_ub=[4, 12, 18])
print("optimum:", -lp.fun, "at", lp.x.tolist())

spline = interpolate.CubicSpline([0, 1, 2, 3], [0, 1, 8, 27])
print("spline at 1.5:", float(spline(1.5)))
