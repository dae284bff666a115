;; The smallest program with a result: 2 + 2. What a process, a parse and a call cost, and nothing else.
(module
  (func (export "run") (result i32)
    (i32.add (i32.const 2) (i32.const 2))))
