import ast
import io
import tokenize
from pathlib import Path

for path in sorted(Path("data/project").rglob("*.py")):
    source = path.read_text()
    tree = ast.parse(source, filename=str(path))
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    classes = [n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    imports = sorted({a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
                     | {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)})
    comments = [t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT]
    print(path.name)
    for f in functions:
        arguments = ", ".join(a.arg for a in f.args.args)
        print(f"  {f.name}({arguments}) line {f.lineno}, doc: {ast.get_docstring(f) or '-'}")
    print("  classes:", classes, "imports:", imports, "comments:", comments)


class Rename(ast.NodeTransformer):
    def visit_Name(self, node):
        return ast.copy_location(ast.Name(id={"x": "value"}.get(node.id, node.id), ctx=node.ctx), node)


tree = Rename().visit(ast.parse("y = x + f(x) if x > 2 else [x for x in range(3)]"))
print(ast.unparse(ast.fix_missing_locations(tree)))
print(ast.dump(ast.parse("1 + a", mode="eval").body))
print(ast.literal_eval("{'a': [1, 2.5, None], 'b': (True,)}"))
scope = {}
exec(compile("def twice(n):\n    return 2 * n", "<made>", "exec"), scope)
print(scope["twice"](21), eval("sum(i * i for i in range(10))"))
