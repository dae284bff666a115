import networkx as nx

G = nx.Graph()
with open("data/roads.txt") as f:
    for line in f:
        if not line.startswith("#"):
            a, b, km = line.split()
            G.add_edge(a, b, weight=int(km))

print(G.number_of_nodes(), "places,", G.number_of_edges(), "roads, connected:", nx.is_connected(G))
print("degrees:", sorted(G.degree, key=lambda kv: (-kv[1], kv[0]))[:4])
path = nx.shortest_path(G, "harbour", "museum", weight="weight")
print("harbour to museum:", path, nx.path_weight(G, path, "weight"))
tree = nx.minimum_spanning_tree(G)
print("spanning tree:", int(tree.size(weight="weight")))
centrality = nx.betweenness_centrality(G, weight="weight")
for place, value in sorted(centrality.items(), key=lambda kv: (-kv[1], kv[0]))[:3]:
    print(f"  {place}: {value:.4f}")
print("pagerank sum:", round(sum(nx.pagerank(G).values()), 6))
print("articulation points:", sorted(nx.articulation_points(G)))
print("diameter:", nx.diameter(G))

tasks = nx.DiGraph([("shop", "cook"), ("cook", "eat"), ("lay table", "eat"), ("eat", "wash up")])
print(list(nx.lexicographical_topological_sort(tasks)))
print("critical path:", len(nx.dag_longest_path(tasks)))
tasks.add_edge("wash up", "cook")
print("cycle:", sorted(nx.find_cycle(tasks)))
