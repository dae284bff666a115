from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import Pipeline

train = [
    ("the parcel never arrived and nobody answers", "complaint"),
    ("my order is broken, I want my money back", "complaint"),
    ("the ink leaked over everything", "complaint"),
    ("wonderful paper, I will order again", "praise"),
    ("fast delivery and a lovely pen", "praise"),
    ("thank you, the notebook is beautiful", "praise"),
    ("do you ship to Norway and how long does it take", "question"),
    ("which ink fits the heron pen", "question"),
    ("can I change the address of my order", "question"),
]
texts, labels = zip(*train)
model = Pipeline([("tfidf", TfidfVectorizer(ngram_range=(1, 2), stop_words="english")), ("nb", MultinomialNB(alpha=0.3))])
model.fit(texts, labels)

for message in ["the pen is broken and the box leaked", "how long does delivery take", "a beautiful and lovely notebook"]:
    p = dict(zip(model.classes_, model.predict_proba([message])[0]))
    print(f"{model.predict([message])[0]:<10} {max(p.values()):.2f}  {message}")

with open("data/story.txt") as f:
    paragraphs = f.read().split("\n\n")
vectorizer = TfidfVectorizer(stop_words="english")
matrix = vectorizer.fit_transform(paragraphs)
print(matrix.shape, matrix.nnz)
names = vectorizer.get_feature_names_out()
for row in matrix.toarray():
    top = sorted(zip(row, names), reverse=True)[:3]
    print([name for _, name in top])
print(cosine_similarity(matrix).round(2))
