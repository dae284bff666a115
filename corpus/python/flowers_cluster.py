import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.preprocessing import StandardScaler

df = pd.read_csv("data/flowers.csv")
features = ["petal_length", "petal_width", "stem_height"]
X = StandardScaler().fit_transform(df[features])

print("k  inertia  silhouette")
for k in range(2, 6):
    km = KMeans(n_clusters=k, n_init=10, random_state=1).fit(X)
    print(f"{k}  {km.inertia_:7.2f}  {silhouette_score(X, km.labels_):.3f}")

km = KMeans(n_clusters=3, n_init=10, random_state=1).fit(X)
print("adjusted rand index:", round(adjusted_rand_score(df["species"], km.labels_), 3))

# Cluster numbers are arbitrary: order them by mean petal length
df["cluster"] = km.labels_
order = df.groupby("cluster")["petal_length"].mean().sort_values().index
df["cluster"] = df["cluster"].map({old: new for new, old in enumerate(order)})
print(pd.crosstab(df["cluster"], df["species"]))

pca = PCA(n_components=2).fit(X)
print("explained variance:", np.round(pca.explained_variance_ratio_, 3))
