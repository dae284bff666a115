import numpy as np
import pandas as pd
from statsmodels.tsa.holtwinters import ExponentialSmoothing
from statsmodels.tsa.seasonal import seasonal_decompose

rng = np.random.default_rng(5)
index = pd.date_range("2020-01-01", periods=48, freq="MS")
season = np.tile([5, 3, 0, -2, -4, -5, -4, -2, 1, 3, 4, 5], 4)
series = pd.Series(100 + np.arange(48) * 0.8 + season * 3 + rng.normal(0, 1.5, 48), index=index)

parts = seasonal_decompose(series, model="additive", period=12)
print(parts.seasonal.head(12).round(1).to_string())
print("trend per month: %.2f" % parts.trend.dropna().diff().mean())

train, test = series[:-6], series[-6:]
fit = ExponentialSmoothing(train, trend="add", seasonal="add", seasonal_periods=12).fit()
forecast = fit.forecast(6)
mape = ((forecast - test).abs() / test).mean() * 100
print("MAPE below 5 %:", bool(mape < 5))
naive = train.iloc[-12:-6].to_numpy()
naive_mape = np.mean(np.abs(naive - test.to_numpy()) / test.to_numpy()) * 100
print(f"naive MAPE: {naive_mape:.2f} %")
print("autocorrelation at 12: %.3f" % series.autocorr(12))
