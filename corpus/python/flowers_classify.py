import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, classification_report, confusion_matrix
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

df = pd.read_csv("data/flowers.csv")
X, y = df.drop(columns="species"), df["species"]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
print("train", X_train.shape, "test", X_test.shape)

models = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
    "knn": make_pipeline(StandardScaler(), KNeighborsClassifier(5)),
    "forest": RandomForestClassifier(n_estimators=50, random_state=0),
}
for name, model in models.items():
    model.fit(X_train, y_train)
    print(f"{name:<10} accuracy {accuracy_score(y_test, model.predict(X_test)):.3f}")

prediction = models["knn"].predict(X_test)
print(confusion_matrix(y_test, prediction, labels=["aster", "lupin", "poppy"]))
print(classification_report(y_test, prediction))
