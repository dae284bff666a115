import numpy as np
from scipy import fft, ndimage, signal, sparse
from scipy.spatial import KDTree, ConvexHull
from scipy.spatial.distance import cdist

rate = 500
t = np.arange(0, 2, 1 / rate)
clean = np.sin(2 * np.pi * 7 * t) + 0.5 * np.sin(2 * np.pi * 40 * t)
noisy = clean + np.random.default_rng(3).normal(0, 0.4, t.size)

spectrum = np.abs(fft.rfft(noisy))
frequencies = fft.rfftfreq(t.size, 1 / rate)
peaks, _ = signal.find_peaks(spectrum, height=100)
print("peaks at", frequencies[peaks].tolist(), "Hz")

b, a = signal.butter(4, 20, fs=rate)
low = signal.filtfilt(b, a, noisy)
print("error before %.3f, after %.3f" % (np.std(noisy - np.sin(2 * np.pi * 7 * t)), np.std(low - np.sin(2 * np.pi * 7 * t))))
print("crossings:", int(np.count_nonzero(np.diff(np.sign(low)))))

image = np.zeros((20, 20), dtype=int)
image[2:6, 2:6] = image[10:15, 8:18] = image[1:3, 15:19] = 1
labels, n = ndimage.label(image)
print(n, "regions of sizes", [int(s) for s in ndimage.sum_labels(image, labels, range(1, n + 1))])

points = np.random.default_rng(1).random((200, 2))
distance, index = KDTree(points).query([0.5, 0.5], k=3)
print("nearest:", index.tolist(), distance.round(4).tolist())
print("hull:", len(ConvexHull(points).vertices), "farthest pair: %.4f" % cdist(points, points).max())
m = sparse.diags([-1, 2, -1], [-1, 0, 1], shape=(100, 100), format="csr")
print("solved:", np.allclose(m @ sparse.linalg.spsolve(m.tocsc(), np.ones(100)), 1))
