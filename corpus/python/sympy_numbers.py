import sympy as sp

print(sp.factorint(2**67 - 1))
print(list(sp.primerange(90, 130)), sp.nextprime(10**12), sp.primepi(10_000))
print(sp.totient(2024), sp.divisors(360), sp.isprime(2**89 - 1))
a, b = sp.symbols("a b", positive=True)
print(sp.simplify(sp.log(a**2 * b) - 2 * sp.log(a)))
t = sp.symbols("t")
height = 20 + 12 * t - sp.Rational(981, 200) * t**2
print("top at", sp.solve(sp.diff(height, t), t), "lands at", [sp.N(s, 6) for s in sp.solve(height, t) if s > 0])
f = sp.lambdify(t, height)
print([round(f(s), 3) for s in (0, 1, 2, 3)])
print(sp.Poly(t**3 - 6 * t**2 + 11 * t - 6).all_roots())
print(sp.gcd(t**4 - 1, t**3 - t), sp.binomial(40, 20), sp.fibonacci(90), sp.bernoulli(10))
print(sp.pretty(sp.Integral(sp.exp(-t**2), (t, 0, sp.oo))))
